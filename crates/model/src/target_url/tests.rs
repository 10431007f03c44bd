//! Tests of the URL rules against a corpus of spellings and a second parser.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<TargetUrl, TargetUrlError> {
    TargetUrl::parse(text, &AddressPolicy::default())
}

#[test]
fn a_url_is_split_into_the_parts_of_a_request() {
    let target = parse("https://Hooks.Example.com:8443/in/box?a=1&b=%20").unwrap();
    assert_eq!(target.as_str(), "https://hooks.example.com:8443/in/box?a=1&b=%20");
    assert_eq!(target.host(), &Host::Name("hooks.example.com".into()));
    assert_eq!((target.port(), target.authority()), (8443, "hooks.example.com:8443"));
    assert_eq!(target.path_and_query(), "/in/box?a=1&b=%20");
    assert!(target.is_https());

    let bare = parse("http://example.com:80?x").unwrap();
    assert_eq!((bare.authority(), bare.port(), bare.path_and_query()), ("example.com", 80, "/?x"));
    let v6 = parse("https://[2606:4700:0:0::1111]/").unwrap();
    assert_eq!(v6.authority(), "[2606:4700::1111]");
    assert_eq!(parse("https://münchen.example/ä").unwrap().as_str(), "https://xn--mnchen-3ya.example/%C3%A4");
}

/// Every known way to write a forbidden address so that a textual check might miss it.
const FORBIDDEN: &[&str] = &[
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://0/",
    "http://0x/",
    "http://0.0.0.0/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://127｡0｡0｡1/",
    "http://12\u{ad}7.0.0.1/",
    "http://127.0.0.1:80/",
    "HTTP://127.0.0.1/",
    "http://10.0.0.1/",
    "http://0xa000001/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:1234::1]/",
    "http://[fe80::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[2606:4700::5efe:7f00:1]/",
    "http://255.255.255.255/",
    "http://224.0.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
];

#[test]
fn a_forbidden_address_is_refused_in_every_spelling() {
    for text in FORBIDDEN {
        assert_eq!(parse(text), Err(TargetUrlError::Forbidden(ForbiddenAddress)), "{text}");
    }
}

#[test]
fn what_a_url_parser_would_quietly_repair_is_refused() {
    let long_host = format!("https://{}.com/", "a".repeat(64));
    let long_name = format!("https://{}com/", "a.".repeat(130));
    let long_url = format!("https://example.com/{}", "a".repeat(70_000));
    let grows = format!("https://example.com/{}", "ä".repeat(700));
    for (text, error) in [
        ("", TargetUrlError::Scheme),
        ("example.com", TargetUrlError::Scheme),
        ("//example.com/", TargetUrlError::Scheme),
        ("http:example.com", TargetUrlError::Scheme),
        ("http:/example.com", TargetUrlError::Scheme),
        ("http:///example.com", TargetUrlError::Scheme),
        ("http://", TargetUrlError::Scheme),
        ("https://?x", TargetUrlError::Scheme),
        ("file:///etc/passwd", TargetUrlError::Scheme),
        ("gopher://example.com/", TargetUrlError::Scheme),
        ("ftp://example.com/", TargetUrlError::Scheme),
        ("ws://example.com/", TargetUrlError::Scheme),
        ("unix:///run/x.sock", TargetUrlError::Scheme),
        ("javascript://example.com/%0aalert(1)", TargetUrlError::Scheme),
        ("ht\ttp://example.com/", TargetUrlError::Characters),
        (" https://example.com/", TargetUrlError::Characters),
        ("https://example.com/ ", TargetUrlError::Characters),
        ("https://exa\nmple.com/", TargetUrlError::Characters),
        ("https://example.com/a\rb", TargetUrlError::Characters),
        ("https://example.com/a b", TargetUrlError::Characters),
        ("https://example.com\0.evil.com/", TargetUrlError::Characters),
        ("https://example.com\\@127.0.0.1/", TargetUrlError::Characters),
        ("https:\\\\example.com/", TargetUrlError::Characters),
        ("https://example.com/\u{2028}", TargetUrlError::Characters),
        ("https://1.1.1.1#@127.0.0.1/", TargetUrlError::Fragment),
        ("https://example.com/#", TargetUrlError::Fragment),
        ("https://a@127.0.0.1/", TargetUrlError::UserInfo),
        ("https://@example.com/", TargetUrlError::UserInfo),
        ("https://:@example.com/", TargetUrlError::UserInfo),
        ("https://user:secret@example.com/", TargetUrlError::UserInfo),
        ("https://example.com:/", TargetUrlError::Port),
        ("https://example.com:0/", TargetUrlError::Port),
        ("https://example.com:65536/", TargetUrlError::Port),
        ("https://example.com:x/", TargetUrlError::Port),
        ("http://[::1%25lo]/", TargetUrlError::Host),
        ("http://[fe80::1%eth0]/", TargetUrlError::Host),
        ("http://127%2e0.0.1/", TargetUrlError::Host),
        ("http://%31%32%37.0.0.1/", TargetUrlError::Host),
        ("http://[::1/", TargetUrlError::Host),
        ("http://1.2.3.4.5/", TargetUrlError::Host),
        ("http://256.1.1.1/", TargetUrlError::Host),
        ("http://example.com./", TargetUrlError::Host),
        ("http://localhost./", TargetUrlError::Host),
        ("http://example..com/", TargetUrlError::Host),
        ("http://.example.com/", TargetUrlError::Host),
        ("http://exa*mple.com/", TargetUrlError::Host),
        ("http://exa!mple.com/", TargetUrlError::Host),
        ("http://xn--zzzz\u{301}.com/", TargetUrlError::Host),
        ("http://xn--a/", TargetUrlError::Host),
        (long_host.as_str(), TargetUrlError::Host),
        (long_name.as_str(), TargetUrlError::Host),
        (long_url.as_str(), TargetUrlError::TooLong),
        (grows.as_str(), TargetUrlError::TooLong),
        ("http://localhost/", TargetUrlError::SingleLabel),
        ("http://LOCALHOST:8080/", TargetUrlError::SingleLabel),
        ("http://metadata/", TargetUrlError::SingleLabel),
        ("http://backend:8000/", TargetUrlError::SingleLabel),
        ("http://foo.localhost/", TargetUrlError::SingleLabel),
        ("http://ⓛocalhost/", TargetUrlError::SingleLabel),
    ] {
        assert_eq!(parse(text).map(|target| target.to_string()), Err(error), "{text:?}");
    }
}

#[test]
fn dev_takes_single_labels_and_loopback() {
    let dev = AddressPolicy { dev: true, ..AddressPolicy::default() };
    for text in ["http://localhost:8080/", "http://127.0.0.1/", "http://[::1]/", "http://receiver/"] {
        assert!(TargetUrl::parse(text, &dev).is_ok(), "{text}");
    }
    assert!(TargetUrl::parse("http://10.0.0.1/", &dev).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&format!("https://{text}"));
    }
}

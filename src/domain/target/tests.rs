//! Tests of the URL rules against a corpus of spellings and a second parser.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Target, TargetError> {
    Target::parse(text, &AddressPolicy::default())
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
        assert_eq!(parse(text), Err(TargetError::Refused(Refused)), "{text}");
    }
}

#[test]
fn what_a_url_parser_would_quietly_repair_is_refused() {
    let long_host = format!("https://{}.com/", "a".repeat(64));
    let long_name = format!("https://{}com/", "a.".repeat(130));
    let long_url = format!("https://example.com/{}", "a".repeat(70_000));
    let grows = format!("https://example.com/{}", "ä".repeat(700));
    for (text, error) in [
        ("", TargetError::Scheme),
        ("example.com", TargetError::Scheme),
        ("//example.com/", TargetError::Scheme),
        ("http:example.com", TargetError::Scheme),
        ("http:/example.com", TargetError::Scheme),
        ("http:///example.com", TargetError::Scheme),
        ("http://", TargetError::Scheme),
        ("https://?x", TargetError::Scheme),
        ("file:///etc/passwd", TargetError::Scheme),
        ("gopher://example.com/", TargetError::Scheme),
        ("ftp://example.com/", TargetError::Scheme),
        ("ws://example.com/", TargetError::Scheme),
        ("unix:///run/x.sock", TargetError::Scheme),
        ("javascript://example.com/%0aalert(1)", TargetError::Scheme),
        ("ht\ttp://example.com/", TargetError::Characters),
        (" https://example.com/", TargetError::Characters),
        ("https://example.com/ ", TargetError::Characters),
        ("https://exa\nmple.com/", TargetError::Characters),
        ("https://example.com/a\rb", TargetError::Characters),
        ("https://example.com/a b", TargetError::Characters),
        ("https://example.com\0.evil.com/", TargetError::Characters),
        ("https://example.com\\@127.0.0.1/", TargetError::Characters),
        ("https:\\\\example.com/", TargetError::Characters),
        ("https://example.com/\u{2028}", TargetError::Characters),
        ("https://1.1.1.1#@127.0.0.1/", TargetError::Fragment),
        ("https://example.com/#", TargetError::Fragment),
        ("https://a@127.0.0.1/", TargetError::UserInfo),
        ("https://@example.com/", TargetError::UserInfo),
        ("https://:@example.com/", TargetError::UserInfo),
        ("https://user:secret@example.com/", TargetError::UserInfo),
        ("https://example.com:/", TargetError::Port),
        ("https://example.com:0/", TargetError::Port),
        ("https://example.com:65536/", TargetError::Port),
        ("https://example.com:x/", TargetError::Port),
        ("http://[::1%25lo]/", TargetError::Host),
        ("http://[fe80::1%eth0]/", TargetError::Host),
        ("http://127%2e0.0.1/", TargetError::Host),
        ("http://%31%32%37.0.0.1/", TargetError::Host),
        ("http://[::1/", TargetError::Host),
        ("http://1.2.3.4.5/", TargetError::Host),
        ("http://256.1.1.1/", TargetError::Host),
        ("http://example.com./", TargetError::Host),
        ("http://localhost./", TargetError::Host),
        ("http://example..com/", TargetError::Host),
        ("http://.example.com/", TargetError::Host),
        ("http://exa*mple.com/", TargetError::Host),
        ("http://exa!mple.com/", TargetError::Host),
        ("http://xn--zzzz\u{301}.com/", TargetError::Host),
        ("http://xn--a/", TargetError::Host),
        (long_host.as_str(), TargetError::Host),
        (long_name.as_str(), TargetError::Host),
        (long_url.as_str(), TargetError::TooLong),
        (grows.as_str(), TargetError::TooLong),
        ("http://localhost/", TargetError::SingleLabel),
        ("http://LOCALHOST:8080/", TargetError::SingleLabel),
        ("http://metadata/", TargetError::SingleLabel),
        ("http://backend:8000/", TargetError::SingleLabel),
        ("http://foo.localhost/", TargetError::SingleLabel),
        ("http://ⓛocalhost/", TargetError::SingleLabel),
    ] {
        assert_eq!(parse(text).map(|target| target.to_string()), Err(error), "{text:?}");
    }
}

#[test]
fn dev_takes_single_labels_and_loopback() {
    let dev = AddressPolicy { dev: true, ..AddressPolicy::default() };
    for text in ["http://localhost:8080/", "http://127.0.0.1/", "http://[::1]/", "http://receiver/"] {
        assert!(Target::parse(text, &dev).is_ok(), "{text}");
    }
    assert!(Target::parse("http://10.0.0.1/", &dev).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&format!("https://{text}"));
    }
}

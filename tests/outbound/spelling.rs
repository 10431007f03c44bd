//! The parser that checks a URL and the library that writes it into the request must agree.

use posthaste::domain::target_url::{Host, TargetUrl};
use proptest::prelude::*;
use std::net::IpAddr;

/// Generates URLs from the pieces that parsers disagree about: most begin well, so that many are accepted.
fn tricky_url() -> impl Strategy<Value = String> {
    const PIECES: &str = "http https :// : / // @ \\ %2e %00 . .. 127 0x7f 1 0177 [::1] [ ] example.com localhost ① 。 ß xn-- - _ \
                          ? & = a 80 :0 :443 { } | ^ ` ' \" < > ~ ! $ ( ) * + , ; ä \u{202e} \u{200b} \u{ad}";
    const STARTS: &str = "http:// https:// https://example.com https://Ex_1.example:8080/ http://8.8.8.8/ https://[2606::1]:443/? //";
    let pick = |words: &'static str| {
        prop::sample::select(words.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>())
    };
    (pick(STARTS), prop::collection::vec(pick(PIECES), 0..10))
        .prop_map(|(start, pieces)| format!("{start}{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50_000))]

    #[test]
    fn the_canonical_text_reads_back_as_itself(text in tricky_url()) {
        if let Ok(target) = TargetUrl::from_stored(&text) {
            let again = TargetUrl::from_stored(target.as_str()).unwrap();
            prop_assert_eq!(again.as_str(), target.as_str());
            prop_assert_eq!(again.host(), target.host());
            prop_assert_eq!(again.port(), target.port());
        }
    }

    #[test]
    fn the_http_library_sees_the_same_host_port_and_path(text in tricky_url()) {
        if let Ok(target) = TargetUrl::from_stored(&text) {
            let seen: http::Uri = target.as_str().parse().unwrap();
            let default_port = if target.is_https() { 443 } else { 80 };
            let host = match target.host() {
                Host::Name(name) => name.clone(),
                Host::Address(IpAddr::V4(ip)) => ip.to_string(),
                Host::Address(IpAddr::V6(ip)) => format!("[{ip}]"),
            };
            prop_assert_eq!(seen.host(), Some(host.as_str()));
            prop_assert_eq!(seen.port_u16().unwrap_or(default_port), target.port());
            prop_assert_eq!(seen.authority().unwrap().as_str(), target.authority());
            prop_assert_eq!(seen.path_and_query().unwrap().as_str(), target.path_and_query());
        }
    }
}

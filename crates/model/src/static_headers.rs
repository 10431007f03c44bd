//! Headers that an endpoint's owner adds to every request. They can never replace the server's own headers.

use super::{contract::Contract, field_error::FieldError};

const HEADER_COUNT_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 4096;
const TOTAL_BYTES_MAX: usize = 16 * 1024;

/// Names that the request itself needs, or that would change how it is framed, routed or read.
const RESERVED_NAMES: [&str; 16] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Checks one header, independent of the contract. The error never repeats the value, which may be a credential.
pub fn check(name: &str, value: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    if !is_name(&lower) {
        return Err(format!("must have a header name of 1 to {NAME_BYTES_MAX} characters"));
    }
    if is_reserved(&lower) {
        return Err("is a header that the product writes itself".into());
    }
    if is_signature_like(&lower) {
        return Err("is a header that receivers trust as a signature".into());
    }
    let visible = value.bytes().all(|b| (0x20..0x7f).contains(&b)) && value.trim() == value;
    if !visible || value.len() > VALUE_BYTES_MAX {
        return Err(format!(
            "must have a value of at most {VALUE_BYTES_MAX} visible ASCII characters, no space at its ends"
        ));
    }
    Ok(())
}

/// Checks all headers of an endpoint, against its contract and one another.
pub fn check_all<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    contract: &Contract,
) -> Result<(), FieldError> {
    let mut seen: Vec<String> = Vec::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let refuse = |message: &str| Err(FieldError::new(format!("headers.{name}"), message));
        let lower = name.to_ascii_lowercase();
        if let Err(message) = check(name, value) {
            return refuse(&message);
        }
        if contract.headers.contains_key(&lower) || contract.signature.header == lower {
            return refuse("is a header of the endpoint's contract");
        }
        if seen.contains(&lower) {
            return refuse("is given twice; header names ignore case");
        }
        bytes += name.len() + value.len();
        seen.push(lower);
    }
    if seen.len() > HEADER_COUNT_MAX || bytes > TOTAL_BYTES_MAX {
        let message =
            format!("must be at most {HEADER_COUNT_MAX} headers of {TOTAL_BYTES_MAX} bytes together");
        return Err(FieldError::new("headers", message));
    }
    Ok(())
}

/// Whether `name` has the form of a header name in lower case.
pub(super) fn is_name(name: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_token)
}

/// Whether neither a contract nor an endpoint may set the header of this name, in lower case.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name)
}

fn is_signature_like(name: &str) -> bool {
    name.starts_with("webhook-")
        || name == "signature-input"
        || name == "signature"
        || name.ends_with("-signature")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fixtures;
    use proptest::prelude::*;

    #[test]
    fn ordinary_headers_are_accepted() {
        for (name, value) in [("Authorization", "Bearer abc=="), ("X-Team", "a b"), ("x-empty", "")] {
            assert_eq!(check(name, value), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_static_header_cannot_replace_a_header_of_the_server() {
        for name in ["Host", "content-length", "Transfer-Encoding", "TE", "Webhook-Id", "webhook-anything"] {
            assert!(check(name, "x").is_err(), "{name}");
        }
        for contract in fixtures::all() {
            for name in contract.headers.keys().chain([&contract.signature.header]) {
                let shouted = name.to_ascii_uppercase();
                assert!(check_all([(shouted.as_str(), "x")], &contract).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn headers_that_could_break_out_of_their_line_are_refused() {
        for value in ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "a\tb", "\x7f", "ü", " a", "a "] {
            assert!(check("x-a", value).is_err(), "{value:?}");
        }
        for name in ["", "a b", "a:b", "a\r\n", "ü", "(a)", "a\0"] {
            assert!(check(name, "x").is_err(), "{name:?}");
        }
    }

    #[test]
    fn count_and_size_are_limited_and_names_are_given_once() {
        let contract = fixtures::standard();
        let names: Vec<String> = (0..=HEADER_COUNT_MAX).map(|i| format!("x-{i}")).collect();
        let all = |count: usize| names[..count].iter().map(|name| (name.as_str(), "v"));
        assert_eq!(check_all(all(HEADER_COUNT_MAX), &contract), Ok(()));
        assert_eq!(check_all(all(HEADER_COUNT_MAX + 1), &contract).unwrap_err().field, "headers");
        let long = "v".repeat(VALUE_BYTES_MAX);
        assert_eq!(check("x-a", &long), Ok(()));
        assert!(check("x-a", &format!("{long}v")).is_err());
        let large = names[..5].iter().map(|name| (name.as_str(), long.as_str()));
        assert_eq!(check_all(large, &contract).unwrap_err().field, "headers");
        assert_eq!(check_all([("x-a", "1"), ("X-A", "2")], &contract).unwrap_err().field, "headers.X-A");
    }

    proptest! {
        #[test]
        fn an_accepted_header_stays_on_one_line(name in ".{0,20}", value in ".{0,40}") {
            if check(&name, &value).is_ok() {
                prop_assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':'));
                prop_assert!(value.bytes().all(|b| (0x20..0x7f).contains(&b)));
            }
        }
    }
}

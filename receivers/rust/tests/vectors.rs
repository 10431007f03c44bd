//! cd receivers/rust && cargo test

use posthaste_webhooks::{verify, Contract, Options, Reason, VerificationError};
use std::collections::{BTreeMap, BTreeSet};

/// A JSON value of the file of vectors.
#[derive(Debug, PartialEq)]
enum Json {
    Null,
    Number(i64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    fn get(&self, name: &str) -> &Json {
        let Self::Object(members) = self else { panic!("{name} of {self:?}") };
        members.get(name).unwrap_or(&Json::Null)
    }

    fn text(&self) -> &str {
        self.text_or_null().unwrap()
    }

    fn text_or_null(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self {
            Some(u64::try_from(*number).unwrap())
        } else {
            None
        }
    }

    fn list(&self) -> &[Json] {
        let Self::List(items) = self else { panic!("{self:?}") };
        items
    }
}

/// Reads the file of vectors: no fractions, no booleans, and only the escapes that the file contains.
struct Reader<'a>(std::iter::Peekable<std::str::Chars<'a>>);

impl Reader<'_> {
    fn next(&mut self) -> char {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
        self.0.next().unwrap()
    }

    fn peek(&mut self) -> char {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
        *self.0.peek().unwrap()
    }

    fn value(&mut self) -> Json {
        match self.next() {
            '{' => {
                let mut members = BTreeMap::new();
                self.items('}', |reader| {
                    assert_eq!(reader.next(), '"');
                    let name = reader.text();
                    assert_eq!(reader.next(), ':');
                    assert!(members.insert(name, reader.value()).is_none());
                });
                Json::Object(members)
            }
            '[' => {
                let mut items = Vec::new();
                self.items(']', |reader| items.push(reader.value()));
                Json::List(items)
            }
            '"' => Json::Text(self.text()),
            'n' => {
                assert_eq!(self.0.by_ref().take(3).collect::<String>(), "ull");
                Json::Null
            }
            first => {
                let mut digits = String::from(first);
                while let Some(digit) = self.0.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                Json::Number(digits.parse().unwrap())
            }
        }
    }

    fn items(&mut self, end: char, mut item: impl FnMut(&mut Self)) {
        if self.peek() == end {
            self.next();
            return;
        }
        loop {
            item(self);
            match self.next() {
                ',' => {}
                c => return assert_eq!(c, end),
            }
        }
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.0.next().unwrap() {
                '"' => return text,
                '\\' => text.push(match self.0.next().unwrap() {
                    'n' => '\n',
                    'r' => '\r',
                    c @ ('"' | '\\') => c,
                    c => panic!("\\{c}"),
                }),
                c => text.push(c),
            }
        }
    }
}

fn vectors() -> Vec<Json> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors.json");
    let file = std::fs::read_to_string(path).unwrap();
    let Json::Object(mut file) = Reader(file.chars().peekable()).value() else { panic!("no object") };
    let Some(Json::List(cases)) = file.remove("cases") else { panic!("no cases") };
    cases
}

fn base64(text: &str) -> Vec<u8> {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String =
        text.trim_end_matches('=').chars().map(|c| format!("{:06b}", alphabet.find(c).unwrap())).collect();
    bits.as_bytes()
        .chunks_exact(8)
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect()
}

fn reason(error: &VerificationError) -> &'static str {
    assert!(error.to_string().len() > 20, "{error}");
    error.reason.as_str()
}

#[test]
fn every_vector_has_the_expected_result() {
    let vectors = vectors();
    for case in &vectors {
        let name = case.get("name").text();
        let headers =
            case.get("headers").list().iter().map(|pair| (pair.list()[0].text(), pair.list()[1].text()));
        let secrets: Vec<&str> = case.get("secrets").list().iter().map(Json::text).collect();
        let options = Options {
            brand: case.get("brand").text_or_null(),
            now: case.get("now").number(),
            tolerance: case.get("tolerance").number().unwrap(),
        };
        let contract: Contract = case.get("contract").text().parse().unwrap();
        let verdict = verify(contract, headers, &base64(case.get("body").text()), &secrets, &options);
        let expected = case.get("expect").text();
        assert_eq!(verdict.as_ref().map_or_else(reason, |_| "ok"), expected, "{name}");
        if let Ok(verified) = verdict {
            let said = case.get("verified");
            assert_eq!(verified.id.as_deref(), said.get("id").text_or_null(), "{name}");
            assert_eq!(verified.id_field, said.get("id_field").text_or_null(), "{name}");
            assert_eq!(verified.timestamp, said.get("timestamp").number(), "{name}");
        }
    }
    println!("ran {} vectors", vectors.len());
}

#[test]
fn every_reason_has_a_vector() {
    let vectors = vectors();
    let seen: BTreeSet<&str> = vectors.iter().map(|case| case.get("expect").text()).collect();
    for reason in [
        Reason::Misconfigured,
        Reason::MissingHeader,
        Reason::RepeatedHeader,
        Reason::MalformedId,
        Reason::MalformedTimestamp,
        Reason::MalformedSignature,
        Reason::NoUsableSignature,
        Reason::SignatureMismatch,
        Reason::TimestampTooOld,
        Reason::TimestampTooNew,
    ] {
        assert!(seen.contains(reason.as_str()), "{reason:?}");
    }
}

#[test]
fn without_a_time_the_clock_is_used() {
    // The request of a vector is in the past, far from the current time.
    let vectors = vectors();
    let case = vectors.iter().find(|case| case.get("name").text() == "zerofee: genuine").unwrap();
    let headers: Vec<_> = case
        .get("headers")
        .list()
        .iter()
        .map(|pair| (pair.list()[0].text(), pair.list()[1].text()))
        .collect();
    let secret = case.get("secrets").list()[0].text();
    let body = base64(case.get("body").text());
    let stamp = case.get("now").number().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let apart = now.abs_diff(stamp);
    let with = |tolerance| {
        let options = Options { tolerance, ..Options::default() };
        verify(Contract::Zerofee, headers.iter().copied(), &body, &[secret], &options)
    };
    assert!(with(apart + 60).is_ok());
    let refused = with(apart.saturating_sub(60)).unwrap_err().reason;
    assert!(matches!(refused, Reason::TimestampTooOld | Reason::TimestampTooNew), "{refused:?}");
}

#[test]
fn a_wrong_call_is_rejected_with_a_reason() {
    let unknown = "no such contract".parse::<Contract>().unwrap_err();
    assert_eq!(reason(&unknown), "misconfigured");
    let none: [(&str, &str); 0] = [];
    let secrets: [&str; 0] = [];
    let refused = verify(Contract::Standard, none, b"", &secrets, &Options::default()).unwrap_err();
    assert_eq!(refused.reason, Reason::Misconfigured);
    let not_text = [("x-zerofee-signature", &b"t=1,v1=\xff"[..])];
    let refused =
        verify(Contract::Zerofee, not_text, b"", &["a secret of 16 bytes or more"], &Options::default());
    assert_eq!(refused.unwrap_err().reason, Reason::MalformedSignature);
}

#[test]
fn no_message_repeats_a_secret() {
    let none: [(&str, &str); 0] = [];
    let marked = format!("whsec_marker{}", "x".repeat(40));
    for name in ["standard", "sendnomi", "zerofee", "bastionary", "orientedos", "simpaisa"] {
        let refused = verify(name.parse().unwrap(), none, b"", &[&marked], &Options::default()).unwrap_err();
        assert!(!refused.to_string().contains("marker"), "{refused}");
    }
}

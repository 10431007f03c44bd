//! The parts of a certificate that people are shown: subject, expiry and fingerprint.
//!
//! Reads just enough of X.509 for that. Trust is never decided here.

use super::time::Timestamp;
use aws_lc_rs::digest;
use std::fmt::Write;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The tag of the optional version field.
const CONTEXT_0: u8 = 0xa0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// For example `CN=posthaste, O=Example`.
    pub subject: String,
    pub expires_at: Timestamp,
    /// SHA-256 of the whole certificate, in hex.
    pub fingerprint: String,
}

impl Certificate {
    /// `None` if this is no certificate.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut whole = Der(der).expect(SEQUENCE)?;
        let mut body = whole.expect(SEQUENCE)?;
        if body.0.first() == Some(&CONTEXT_0) {
            body.next()?;
        }
        let _serial = body.next()?;
        let _signature = body.expect(SEQUENCE)?;
        let _issuer = body.expect(SEQUENCE)?;
        let mut validity = body.expect(SEQUENCE)?;
        let _not_before = validity.next()?;
        let expires_at = read_time(validity.next()?)?;
        let subject = read_name(body.expect(SEQUENCE)?)?;
        let hash = digest::digest(&digest::SHA256, der);
        let mut fingerprint = String::with_capacity(64);
        for byte in hash.as_ref() {
            write!(fingerprint, "{byte:02x}").ok()?;
        }
        Some(Self { subject, expires_at, fingerprint })
    }
}

/// Elements one after the other: a tag, a length, the content.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], mut rest) = self.0.split_first_chunk::<2>()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let (size, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if size.is_empty() || size.len() > 3 {
                return None;
            }
            length = size.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, wanted: u8) -> Option<Der<'a>> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, content)| Der(content))
    }
}

fn read_name(mut parts: Der<'_>) -> Option<String> {
    let mut name = String::new();
    while !parts.0.is_empty() {
        let mut attribute = parts.expect(SET)?.expect(SEQUENCE)?;
        let kind = attribute.expect(OBJECT_ID)?.0;
        let (_, value) = attribute.next()?;
        let Some(short) = short_name(kind) else { continue };
        let separator = if name.is_empty() { "" } else { ", " };
        let value = String::from_utf8_lossy(value);
        write!(name, "{separator}{short}={}", value.escape_debug()).ok()?;
    }
    Some(name)
}

fn short_name(kind: &[u8]) -> Option<&'static str> {
    let [0x55, 0x04, last] = kind else { return None };
    Some(match last {
        3 => "CN",
        6 => "C",
        7 => "L",
        8 => "ST",
        10 => "O",
        11 => "OU",
        _ => return None,
    })
}

/// `YYMMDDHHMMSSZ` means 1950 to 2049; later years are written with four digits.
fn read_time((tag, content): (u8, &[u8])) -> Option<Timestamp> {
    let text = std::str::from_utf8(content).ok()?;
    let full = match tag {
        GENERALIZED_TIME => text.to_owned(),
        UTC_TIME => format!("{}{text}", if text < "5" { "20" } else { "19" }),
        _ => return None,
    };
    let part = |from, to| full.get(from..to);
    let time = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?
    );
    Timestamp::parse(&time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    fn made(until: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "posthaste\n");
        params.distinguished_name.push(DnType::OrganizationName, "Bäckerei");
        params.not_after = date_time_ymd(until, 2, 3);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_shows_its_subject_and_its_expiry() {
        for (year, expires_at) in [(2049, "2049-02-03T00:00:00.000Z"), (2051, "2051-02-03T00:00:00.000Z")] {
            let read = Certificate::read(&made(year)).unwrap();
            assert!(read.subject.contains("CN=posthaste\\n"), "{}", read.subject);
            assert!(read.subject.contains("O=Bäckerei"), "{}", read.subject);
            assert_eq!(read.expires_at.rfc3339_millis(), expires_at);
            assert_eq!(read.fingerprint.len(), 64);
        }
        assert_eq!(
            Certificate::read(&made(2049)).unwrap().expires_at,
            Certificate::read(&made(2049)).unwrap().expires_at
        );
    }

    proptest! {
        #[test]
        fn reading_a_damaged_certificate_never_panics(cut in 0usize..300, at in 0usize..300, to: u8) {
            let mut der = made(2049);
            let index = at % der.len();
            der[index] = to;
            let _ = Certificate::read(&der[..der.len() - cut % der.len()]);
            let _ = Certificate::read(&der);
        }
    }
}

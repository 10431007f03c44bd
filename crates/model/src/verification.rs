//! Verifies a request that a receiver got under a contract, and explains failures.
//!
//! `verify` decides, by the contract's own templates. `diagnose` finds a likely cause afterwards: it searches for the fewest
//! differences that make the signature right. Messages never contain a secret.

mod body_variants;
mod diagnose;
mod diagnosis;
mod keys;
mod parse;
#[cfg(test)]
mod tests;

pub use body_variants::indent_json;
pub use diagnose::diagnose;
pub use diagnosis::Diagnosis;

use super::{
    contract::{Contract, SignatureEncoding, Variable},
    time::Timestamp,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use keys::VerifyingKey;
use parse::CapturedValues;
use std::time::Duration;

/// A request as received; header names in any case.
#[derive(Clone, Copy, Debug)]
pub struct IncomingRequest<'a> {
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// The receiver's side of a verification: contract, secrets, clock.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    pub contract: &'a Contract,
    /// Any one of them may match. May be public keys, where the contract has ed25519.
    pub secrets: &'a [String],
    pub now: Timestamp,
    pub tolerance: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Unix seconds, where the contract sends them.
    pub signed_at: Option<i64>,
}

/// Why a verification failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("there is no secret to verify with")]
    NoSecret,
    #[error("the secret cannot be one of this contract: it {0}")]
    UnusableSecret(String),
    #[error("the header {0} is missing or empty")]
    MissingHeader(String),
    #[error("the header {0} is there more than once")]
    RepeatedHeader(String),
    #[error("the header {header} is not as the contract writes it: {form}")]
    MalformedHeader { header: String, form: String },
    #[error("the header {header} has no signature that the secret could have made")]
    NoUsableSignature { header: String },
    #[error("the signature is not that of this body under this secret")]
    WrongSignature,
    #[error("the signature is right, but it was made {} ago, and {} are allowed; the clock of one of the two machines is wrong, or this is an old request", describe_duration(*.by), describe_duration(*.tolerance))]
    TooOld { by: Duration, tolerance: Duration },
    #[error("the signature is right, but it was made {} in the future, and {} are allowed; the clock of this machine is behind, or the sender's is ahead", describe_duration(*.by), describe_duration(*.tolerance))]
    TooNew { by: Duration, tolerance: Duration },
}

impl Mismatch {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSecret => "no_secret",
            Self::UnusableSecret(_) => "unusable_secret",
            Self::MissingHeader(_) => "missing_header",
            Self::RepeatedHeader(_) => "repeated_header",
            Self::MalformedHeader { .. } => "malformed_header",
            Self::NoUsableSignature { .. } => "no_usable_signature",
            Self::WrongSignature => "wrong_signature",
            Self::TooOld { .. } => "too_old",
            Self::TooNew { .. } => "too_new",
        }
    }
}

/// Formats a duration for people.
fn describe_duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds @ 7200..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Verifies the signature and the age of a request under the contract.
pub fn verify(terms: &VerifyOptions<'_>, received: &IncomingRequest<'_>) -> Result<Verified, Mismatch> {
    let contract = terms.contract;
    let keys = keys::contract_keys(&contract.secret, terms.secrets)?;
    let known = CapturedValues::read(contract, received)?;
    let encoding = contract.signature.encoding;
    let signatures = known.signatures();
    let read = signatures.iter().map(|signature| {
        let bytes = decode(encoding, signature.text)
            .filter(|bytes| bytes.len() == signature.algorithm.signature_length());
        // Text with the letters of a signature that does not decode is a wrong signature.
        let is_read = bytes.is_some() || looks_like_signature(encoding, signature.text, signature.algorithm);
        is_read.then(|| bytes.unwrap_or_default())
    });
    let read: Option<Vec<Vec<u8>>> = read.collect();
    let read = read.filter(|read| !read.is_empty()).ok_or_else(|| known.malformed_signature())?;
    let mut is_usable = false;
    for (signature, bytes) in signatures.iter().zip(read) {
        let with = known.with_captures(&signature.values);
        let text = with.signed_text(received.body)?;
        for key in keys.iter().filter(|key| key.algorithm() == signature.algorithm) {
            is_usable = true;
            if key.verifies(&text, &bytes) {
                return with.check_age(terms.now, terms.tolerance);
            }
        }
    }
    let header = contract.signature.header.clone();
    Err(if is_usable { Mismatch::WrongSignature } else { Mismatch::NoUsableSignature { header } })
}

impl CapturedValues<'_> {
    /// Checks that the time of a right signature is within the tolerance.
    fn check_age(&self, now: Timestamp, tolerance: Duration) -> Result<Verified, Mismatch> {
        if self.get(Variable::T).is_none() {
            return Ok(Verified { signed_at: None });
        }
        let at = self.time()?;
        let age = now.as_seconds() - at;
        let by = Duration::from_secs(age.unsigned_abs());
        match age {
            _ if by <= tolerance => Ok(Verified { signed_at: Some(at) }),
            0.. => Err(Mismatch::TooOld { by, tolerance }),
            _ => Err(Mismatch::TooNew { by, tolerance }),
        }
    }
}

fn decode(encoding: SignatureEncoding, text: &str) -> Option<Vec<u8>> {
    match encoding {
        SignatureEncoding::Base64 => BASE64_STANDARD.decode(text).ok(),
        SignatureEncoding::Hex => {
            let digit = |byte: u8| match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None,
            };
            let pair = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
            text.as_bytes().chunks(2).map(pair).collect()
        }
    }
}

/// Whether the text has the length and the letters of a signature, even if it does not decode.
fn looks_like_signature(encoding: SignatureEncoding, text: &str, kind: SignatureAlgorithm) -> bool {
    let length = kind.signature_length();
    match encoding {
        SignatureEncoding::Hex => false,
        SignatureEncoding::Base64 => {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
            let bare = text.trim_end_matches('=');
            text.len() == length.div_ceil(3) * 4
                && bare.len() == (length * 8).div_ceil(6)
                && bare.bytes().all(is_letter)
        }
    }
}

/// Algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignatureAlgorithm {
    Hmac,
    Ed25519,
}

impl SignatureAlgorithm {
    /// Length of a signature in bytes.
    fn signature_length(self) -> usize {
        match self {
            Self::Hmac => 32,
            Self::Ed25519 => 64,
        }
    }
}

impl VerifyingKey {
    fn algorithm(&self) -> SignatureAlgorithm {
        match self {
            Self::Hmac(_) => SignatureAlgorithm::Hmac,
            Self::Ed25519(_) => SignatureAlgorithm::Ed25519,
        }
    }
}

//! Verifies webhooks sent by Posthaste. Copy this one file: Rust 1.80 or newer, nothing else.
//!
//! ```text
//! let verified = verify(Contract::Standard, request.headers(), raw_body, &[secret], &Options::default())?;
//! ```
//!
//! `raw_body` is what arrived, byte for byte, before anything parsed it. Several secrets may be given, so that an old and a
//! new one both work while you change over. Whatever is wrong is a `VerificationError`, with a `reason` for programs and a
//! message for people; after `Misconfigured` answer 5xx (the fault is on this side), after every other reason 4xx.
//!
//! Rust's standard library has no cryptography: SHA-256 and HMAC stand at the end of this file. There is no ed25519: `v1a`
//! signatures of the contract `standard` are skipped here, a `v1` one is needed.

use std::{
    fmt,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

/// How requests are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    Standard,
    Sendnomi,
    Zerofee,
    Bastionary,
    OrientedOs,
    Simpaisa,
}

impl FromStr for Contract {
    type Err = VerificationError;

    fn from_str(name: &str) -> Result<Self, VerificationError> {
        Ok(match name {
            "standard" => Self::Standard,
            "sendnomi" => Self::Sendnomi,
            "zerofee" => Self::Zerofee,
            "bastionary" => Self::Bastionary,
            "orientedos" => Self::OrientedOs,
            "simpaisa" => Self::Simpaisa,
            _ => {
                let names = "standard, sendnomi, zerofee, bastionary, orientedos, simpaisa";
                return Err(VerificationError::new(
                    Reason::Misconfigured,
                    format!("The contract must be one of {names}."),
                ));
            }
        })
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Misconfigured,
    MissingHeader,
    RepeatedHeader,
    MalformedId,
    MalformedTimestamp,
    MalformedSignature,
    NoUsableSignature,
    SignatureMismatch,
    TimestampTooOld,
    TimestampTooNew,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Misconfigured => "misconfigured",
            Self::MissingHeader => "missing_header",
            Self::RepeatedHeader => "repeated_header",
            Self::MalformedId => "malformed_id",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::MalformedSignature => "malformed_signature",
            Self::NoUsableSignature => "no_usable_signature",
            Self::SignatureMismatch => "signature_mismatch",
            Self::TimestampTooOld => "timestamp_too_old",
            Self::TimestampTooNew => "timestamp_too_new",
        }
    }
}

/// The request must not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationError {
    pub reason: Reason,
    pub message: String,
}

impl VerificationError {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for VerificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for VerificationError {}

/// What a verified request says about itself. Deduplicate by `id`; where that is `None`, by the body's member `id_field`.
///
/// Not covered by the signature: the `id` of `OrientedOs` and the `timestamp` of `Simpaisa`. Whoever holds an old request of
/// these can send it again under another id or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub id: Option<String>,
    pub id_field: Option<&'static str>,
    /// Unix seconds; `None` where the contract sends no time.
    pub timestamp: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Replaces the contract's own name in `X-{brand}-Signature`.
    pub brand: Option<&'a str>,
    /// Unix seconds; the clock's if `None`.
    pub now: Option<u64>,
    /// Seconds into the past and into the future.
    pub tolerance: u64,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { brand: None, now: None, tolerance: 300 }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `v1,base64 v1,base64`
    List,
    /// `t=1,v1=hex`
    Stamped,
    /// `sha256=hex`
    Plain,
}

struct Rules {
    form: Form,
    /// What follows `whsec_` is decoded; else the whole secret is the key.
    is_base64: bool,
    signature: String,
    timestamp: Option<String>,
    id: Option<String>,
    id_field: Option<&'static str>,
}

/// Tells what the request says about itself, or why it must not be trusted. A `&HeaderMap` can be given as it is.
///
/// `OrientedOs` sends no time at all, so there an old request is as good as a new one: deduplicate.
pub fn verify<N: AsRef<str>, V: AsRef<[u8]>>(
    contract: Contract,
    headers: impl IntoIterator<Item = (N, V)>,
    body: &[u8],
    secrets: &[impl AsRef<str>],
    options: &Options,
) -> Result<Verified, VerificationError> {
    let rules = rules(contract, options.brand)?;
    let keys = keys(&rules, secrets)?;
    let headers: Vec<(String, String)> = headers
        .into_iter()
        .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), text(value.as_ref())))
        .collect();

    let mut signature = header(&headers, &rules.signature)?;
    let id = rules.id.as_deref().map(|name| header(&headers, name)).transpose()?;
    let mut stamp = rules.timestamp.as_deref().map(|name| header(&headers, name)).transpose()?;
    if signature.len() > HEADER_MAX {
        return Err(malformed(&rules, &format!("at most {HEADER_MAX} characters long")));
    }
    if rules.form == Form::Stamped {
        let (time, rest) = take_apart(signature, &rules)?;
        (stamp, signature) = (Some(time), rest);
    }
    if id.is_some_and(|id| id.len() > 256 || !is_printable(id)) {
        let message =
            format!("{} must be 1 to 256 printable ASCII characters.", rules.id.unwrap_or_default());
        return Err(VerificationError::new(Reason::MalformedId, message));
    }
    let timestamp = stamp.map(read_timestamp).transpose()?;

    let given =
        if rules.form == Form::List { listed(signature, &rules)? } else { vec![hex(signature, &rules)?] };
    let prefix = match rules.form {
        Form::List => format!("{}.{}.", id.unwrap_or_default(), stamp.unwrap_or_default()),
        Form::Stamped => format!("{}.", stamp.unwrap_or_default()),
        Form::Plain => String::new(),
    };
    compare(&given, &keys, &[prefix.as_bytes(), body], rules.form)?;
    if let Some(timestamp) = timestamp {
        check_time(timestamp, options.now.unwrap_or_else(unix_now), options.tolerance)?;
    }
    Ok(Verified { id: id.map(str::to_owned), id_field: rules.id_field, timestamp })
}

const HEADER_MAX: usize = 2048;

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn malformed(rules: &Rules, expected: &str) -> VerificationError {
    VerificationError::new(Reason::MalformedSignature, format!("{} must be {expected}.", rules.signature))
}

fn misconfigured(message: &str) -> VerificationError {
    VerificationError::new(Reason::Misconfigured, message)
}

fn rules(contract: Contract, brand: Option<&str>) -> Result<Rules, VerificationError> {
    let branded = |own: &str| {
        let brand = brand.unwrap_or(own);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=64).contains(&brand.len()) || !brand.bytes().all(is_plain) {
            return Err(misconfigured("The brand must be 1 to 64 characters out of A-Z a-z 0-9 _ -."));
        }
        Ok(format!("x-{}-", brand.to_ascii_lowercase()))
    };
    let hex = |form, own: &str, timestamp: Option<&str>, id: Option<&str>, id_field| {
        let start = branded(own)?;
        let name = |end: &str| format!("{start}{end}");
        let (timestamp, id) = (timestamp.map(name), id.map(name));
        Ok(Rules { form, is_base64: false, signature: name("signature"), timestamp, id, id_field })
    };
    match contract {
        Contract::Standard | Contract::Sendnomi if brand.is_some() => {
            Err(misconfigured("The header names of this contract have no brand in them."))
        }
        Contract::Standard | Contract::Sendnomi => Ok(Rules {
            form: Form::List,
            is_base64: contract == Contract::Standard,
            signature: "webhook-signature".to_owned(),
            timestamp: Some("webhook-timestamp".to_owned()),
            id: Some("webhook-id".to_owned()),
            id_field: None,
        }),
        Contract::Zerofee => hex(Form::Stamped, "ZeroFee", None, None, Some("id")),
        Contract::Bastionary => hex(Form::Stamped, "Bastionary", None, None, Some("delivery_id")),
        Contract::OrientedOs => hex(Form::Plain, "OrientedOS", None, Some("delivery-id"), None),
        Contract::Simpaisa => hex(Form::Plain, "Simpaisa", Some("timestamp"), None, Some("event_id")),
    }
}

fn keys(rules: &Rules, secrets: &[impl AsRef<str>]) -> Result<Vec<Vec<u8>>, VerificationError> {
    if secrets.is_empty() {
        return Err(misconfigured("Give at least one secret."));
    }
    let mut keys = Vec::new();
    for secret in secrets {
        let secret = secret.as_ref();
        if rules.is_base64 {
            // Public keys are checked, so that a broken one is noticed here too, and then left out.
            keys.extend(standard_key(secret)?);
        } else if !(16..=512).contains(&secret.len()) || secret.bytes().any(|byte| byte.is_ascii_control()) {
            let message = "A secret must be 16 to 512 bytes without control characters (is there a newline at its end?).";
            return Err(misconfigured(message));
        } else {
            keys.push(secret.as_bytes().to_vec());
        }
    }
    if keys.is_empty() {
        let message = "This file cannot check ed25519 signatures, which is all a whpk_ key is for: give a whsec_ secret.";
        return Err(misconfigured(message));
    }
    Ok(keys)
}

fn standard_key(secret: &str) -> Result<Option<Vec<u8>>, VerificationError> {
    if let Some(key) = secret.strip_prefix("whsec_").and_then(from_base64) {
        if (24..=64).contains(&key.len()) {
            return Ok(Some(key));
        }
    }
    if secret.strip_prefix("whpk_").and_then(from_base64).is_some_and(|key| key.len() == 32) {
        return Ok(None);
    }
    let message = "A secret must be whsec_ and base64 of 24 to 64 bytes, or whpk_ and base64 of a 32-byte ed25519 public key.";
    Err(misconfigured(message))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Result<&'a str, VerificationError> {
    let found: Vec<&str> =
        headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect();
    match found[..] {
        [value] if !value.is_empty() => Ok(value),
        [] | [_] => {
            let message = format!("The header {name} is missing or empty.");
            Err(VerificationError::new(Reason::MissingHeader, message))
        }
        _ => {
            let message = format!("The header {name} came {} times; it must come once.", found.len());
            Err(VerificationError::new(Reason::RepeatedHeader, message))
        }
    }
}

fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn take_apart<'a>(value: &'a str, rules: &Rules) -> Result<(&'a str, &'a str), VerificationError> {
    let parts = value.split_once(',').filter(|(_, rest)| !rest.contains(','));
    let parts = parts.and_then(|(t, v1)| Some((t.strip_prefix("t=")?, v1.strip_prefix("v1=")?)));
    parts.ok_or_else(|| malformed(rules, "t=SECONDS,v1=HEX, each once"))
}

fn read_timestamp(text: &str) -> Result<u64, VerificationError> {
    let is_plain = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse().ok().filter(|_| is_plain);
    let message = "The timestamp must be whole seconds since 1970, in plain digits.";
    seconds.ok_or_else(|| VerificationError::new(Reason::MalformedTimestamp, message))
}

fn hex<'a>(value: &'a str, rules: &Rules) -> Result<&'a str, VerificationError> {
    let digits = match rules.form {
        Form::Plain => value.strip_prefix("sha256="),
        _ => Some(value),
    };
    let digits = digits.ok_or_else(|| malformed(rules, "sha256= and 64 lower-case hex digits"))?;
    if digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(digits);
    }
    Err(malformed(rules, "a signature of 64 lower-case hex digits"))
}

/// The `v1` signatures of the list. Versions that are unknown are left out, but none may be malformed.
fn listed<'a>(value: &'a str, rules: &Rules) -> Result<Vec<&'a str>, VerificationError> {
    let mut usable = Vec::new();
    for entry in value.split(' ') {
        let parts = entry.split_once(',').filter(|(version, _)| !version.is_empty());
        let parts = parts.filter(|(version, text)| match *version {
            "v1" => is_base64_of(text, 43, "="),
            "v1a" => is_base64_of(text, 86, "=="),
            _ => is_printable(text),
        });
        let Some((version, text)) = parts else {
            return Err(malformed(
                rules,
                "VERSION,BASE64, or several of these with single spaces between them",
            ));
        };
        if version == "v1" {
            usable.push(text);
        }
    }
    if usable.is_empty() {
        let message =
            format!("{} has no v1 signature, and this file can check no other kind.", rules.signature);
        return Err(VerificationError::new(Reason::NoUsableSignature, message));
    }
    Ok(usable)
}

fn is_base64_of(text: &str, digits: usize, padding: &str) -> bool {
    let body = text.strip_suffix(padding);
    body.is_some_and(|body| body.len() == digits && body.bytes().all(|byte| BASE64.contains(&byte)))
}

fn compare(given: &[&str], keys: &[Vec<u8>], signed: &[&[u8]], form: Form) -> Result<(), VerificationError> {
    let mut matches = false;
    for key in keys {
        let digest = hmac_sha256(key, signed);
        let expected = if form == Form::List { to_base64(&digest) } else { to_hex(&digest) };
        for signature in given {
            // Every pair is compared, each in constant time: how long it takes says nothing about what would match.
            matches |= is_equal(expected.as_bytes(), signature.as_bytes());
        }
    }
    if matches {
        return Ok(());
    }
    let message = "No signature was made with a secret given here: the secret is another one, the body is not the raw one, \
                   or somebody else sent this.";
    Err(VerificationError::new(Reason::SignatureMismatch, message))
}

/// In constant time for texts of the same length.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    a.len() == b.len() && difference == 0
}

fn check_time(timestamp: u64, now: u64, tolerance: u64) -> Result<(), VerificationError> {
    if now.saturating_sub(timestamp) > tolerance {
        let age = now - timestamp;
        let message = format!(
            "The request is {age} s old, at most {tolerance} s are allowed: sent again, or a clock is wrong."
        );
        return Err(VerificationError::new(Reason::TimestampTooOld, message));
    }
    if timestamp.saturating_sub(now) > tolerance {
        let ahead = timestamp - now;
        let message =
            format!("The request is {ahead} s ahead of this clock, at most {tolerance} s are allowed: a clock is wrong.");
        return Err(VerificationError::new(Reason::TimestampTooNew, message));
    }
    Ok(())
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().enumerate().fold(0u32, |group, (i, byte)| group | u32::from(*byte) << (16 - 8 * i));
        for place in 0..4 {
            let digit = char::from(BASE64[(group >> (18 - 6 * place)) as usize & 63]);
            text.push(if place <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

/// Standard base64 with its padding, and nothing else.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() % 4 != 0 || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bytes, mut group, mut bits) = (Vec::new(), 0u32, 0);
    for digit in digits.bytes() {
        group = group << 6 | BASE64.iter().position(|known| *known == digit)? as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits) as u8);
        }
    }
    Some(bytes)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 2104 with SHA-256, over the parts one after the other.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0u8; 64];
    if key.len() > 64 {
        block[..32].copy_from_slice(&sha256(&[key]));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = sha256(&[&[&block.map(|byte| byte ^ 0x36)[..]], parts].concat());
    sha256(&[&block.map(|byte| byte ^ 0x5c), &inner])
}

/// FIPS 180-4, over the parts one after the other.
fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut state: [u32; 8] = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    let mut block = [0u8; 64];
    let (mut filled, mut length) = (0, 0u64);
    for byte in parts.iter().copied().flatten() {
        block[filled] = *byte;
        filled += 1;
        length += 8;
        if filled == 64 {
            compress(&mut state, &block);
            filled = 0;
        }
    }
    block[filled] = 0x80;
    block[filled + 1..].fill(0);
    if filled >= 56 {
        compress(&mut state, &block);
        block.fill(0);
    }
    block[56..].copy_from_slice(&length.to_be_bytes());
    compress(&mut state, &block);
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut words = [0u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for i in 16..64 {
        let (a, b) = (words[i - 15], words[i - 2]);
        let low = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let high = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        words[i] = words[i - 16].wrapping_add(low).wrapping_add(words[i - 7]).wrapping_add(high);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.into_iter().zip(ROUNDS) {
        let mix = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = h.wrapping_add(mix).wrapping_add(choice).wrapping_add(constant).wrapping_add(word);
        let mix = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = mix.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn sha_256_gives_the_digests_of_fips_180() {
        let million = vec![b'a'; 1_000_000];
        let cases: [(&[u8], &str); 4] = [
            (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
            (&million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ];
        for (text, digest) in cases {
            assert_eq!(to_hex(&sha256(&[text])), digest);
        }
    }

    #[test]
    fn hmac_gives_the_digests_of_rfc_4231() {
        let cases: [(Vec<u8>, Vec<u8>, &str); 6] = [
            (
                vec![0x0b; 20],
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 20],
                vec![0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                bytes("0102030405060708090a0b0c0d0e0f10111213141516171819"),
                vec![0xcd; 50],
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                vec![0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size data. \
                  The key needs to be hashed before being used by the HMAC algorithm."
                    .to_vec(),
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (key, text, digest) in cases {
            assert_eq!(to_hex(&hmac_sha256(&key, &[&text])), digest);
            let (start, end) = text.split_at(text.len() / 3);
            assert_eq!(to_hex(&hmac_sha256(&key, &[start, b"", end])), digest, "in parts");
        }
    }

    #[test]
    fn every_length_is_padded_as_it_should_be() {
        // SHA-256 of the digests of 0, 1, … 130 times 'x', computed with Python's hashlib.
        let all: Vec<u8> = (0..=130).flat_map(|length| sha256(&[&vec![b'x'; length]])).collect();
        assert_eq!(
            to_hex(&sha256(&[&all])),
            "f5a018ad6f7a21c451c8d98b57699f4aeeb1976b88771c339c7ea60cd09c64ef"
        );
    }

    #[test]
    fn base64_goes_there_and_back_and_takes_nothing_else() {
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(to_base64(text.as_bytes()), encoded);
            assert_eq!(from_base64(encoded).unwrap(), text.as_bytes());
        }
        for refused in ["Zg", "Zg=", "Z===", "Zm9v\n", "Zm_v", "=Zm9", "Zm9v===="] {
            assert_eq!(from_base64(refused), None, "{refused:?}");
        }
    }
}

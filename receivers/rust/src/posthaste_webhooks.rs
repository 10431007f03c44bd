//! Verifies webhooks sent by Posthaste. Copy this one file: Rust 1.80 or newer, nothing else.
//!
//! ```text
//! let verified = verify(Contract::Standard, request.headers(), raw_body, &[secret], &Options::default())?;
//! ```
//!
//! `raw_body` is the body as it arrived, byte for byte, before any parser. Several secrets may be given, so that an old and a
//! new one both work while you change over. Every failure is a `VerificationError`, with a `reason` for programs and a
//! message for people. After `Misconfigured` answer 5xx (the error is on this side), after every other reason 4xx.
//!
//! Of the contract `standard`, `v1` signatures are checked with `whsec_` secrets and `v1a` (ed25519) ones with `whpk_` public
//! keys; one that matches is enough. Rust's standard library has no cryptography, so SHA-256, HMAC and the verification of
//! ed25519 are at the end of this file.

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

/// The values of a verified request. Deduplicate by `id`; if it is `None`, by the body's member `id_field`.
///
/// Not covered by the signature: the `id` of `OrientedOs` and the `timestamp` of `Simpaisa`. An attacker with an old request
/// of these can send it again with another id or time.
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
    /// Unix seconds; the current time if `None`.
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
    /// The text after `whsec_` is decoded. Otherwise the whole secret is the key.
    is_base64: bool,
    signature: String,
    timestamp: Option<String>,
    id: Option<String>,
    id_field: Option<&'static str>,
}

/// A key for signatures of the version `v1`, or for those of `v1a`.
enum Key {
    Secret(Vec<u8>),
    Public([u8; 32]),
}

impl Key {
    fn version(&self) -> &'static str {
        match self {
            Self::Secret(_) => "v1",
            Self::Public(_) => "v1a",
        }
    }
}

/// A signature as it was sent.
struct Given<'a> {
    version: &'a str,
    text: &'a str,
}

/// Returns the request's values, or why it must not be trusted. `headers` may be a `&HeaderMap`.
///
/// `OrientedOs` sends no time, so old requests are accepted like new ones: deduplicate.
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

    let given = match rules.form {
        Form::List => listed(signature, &rules, &keys)?,
        _ => vec![Given { version: "v1", text: hex(signature, &rules)? }],
    };
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

fn keys(rules: &Rules, secrets: &[impl AsRef<str>]) -> Result<Vec<Key>, VerificationError> {
    if secrets.is_empty() {
        return Err(misconfigured("Give at least one secret."));
    }
    let key = if rules.is_base64 { standard_key } else { text_key };
    secrets.iter().map(|secret| key(secret.as_ref())).collect()
}

fn text_key(secret: &str) -> Result<Key, VerificationError> {
    if !(16..=512).contains(&secret.len()) || secret.bytes().any(|byte| byte.is_ascii_control()) {
        let message =
            "A secret must be 16 to 512 bytes without control characters (is there a newline at its end?).";
        return Err(misconfigured(message));
    }
    Ok(Key::Secret(secret.as_bytes().to_vec()))
}

fn standard_key(secret: &str) -> Result<Key, VerificationError> {
    if let Some(key) = secret.strip_prefix("whsec_").and_then(from_base64) {
        if (24..=64).contains(&key.len()) {
            return Ok(Key::Secret(key));
        }
    }
    let public = secret.strip_prefix("whpk_").and_then(from_base64).and_then(|key| key.try_into().ok());
    let message = "A secret must be whsec_ and base64 of 24 to 64 bytes, or whpk_ and base64 of a 32-byte ed25519 public key.";
    public.map(Key::Public).ok_or_else(|| misconfigured(message))
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

/// Returns the signatures that a given key can check. Unknown versions are left out. A malformed one is an error.
fn listed<'a>(value: &'a str, rules: &Rules, keys: &[Key]) -> Result<Vec<Given<'a>>, VerificationError> {
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
        if keys.iter().any(|key| key.version() == version) {
            usable.push(Given { version, text });
        }
    }
    if usable.is_empty() {
        let mut versions: Vec<&str> = keys.iter().map(Key::version).collect();
        versions.sort_unstable();
        versions.dedup();
        let message = format!(
            "{} has no signature of the kind that these secrets can check ({}).",
            rules.signature,
            versions.join(", ")
        );
        return Err(VerificationError::new(Reason::NoUsableSignature, message));
    }
    Ok(usable)
}

fn is_base64_of(text: &str, digits: usize, padding: &str) -> bool {
    let body = text.strip_suffix(padding);
    body.is_some_and(|body| body.len() == digits && body.bytes().all(|byte| BASE64.contains(&byte)))
}

fn compare(given: &[Given], keys: &[Key], signed: &[&[u8]], form: Form) -> Result<(), VerificationError> {
    let mut matches = false;
    for key in keys {
        let of_this_kind = given.iter().filter(|given| given.version == key.version());
        match key {
            Key::Secret(key) => {
                let digest = hmac_sha256(key, signed);
                let expected = if form == Form::List { to_base64(&digest) } else { to_hex(&digest) };
                for Given { text, .. } in of_this_kind {
                    // All pairs are compared, each in constant time, so that the duration reveals nothing about a match.
                    matches |= is_equal(expected.as_bytes(), text.as_bytes());
                }
            }
            Key::Public(key) => {
                for Given { text, .. } in of_this_kind {
                    matches |= is_signed_by(key, signed, text);
                }
            }
        }
    }
    if matches {
        return Ok(());
    }
    let message = "No signature was made with a secret given here: the secret is another one, the body is not the raw one, \
                   or somebody else sent this.";
    Err(VerificationError::new(Reason::SignatureMismatch, message))
}

/// Compares in constant time for texts of the same length.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    a.len() == b.len() && difference == 0
}

fn is_signed_by(public: &[u8; 32], signed: &[&[u8]], text: &str) -> bool {
    // Unused bits must be zero, so that a signature has only one encoding.
    let bytes = from_base64(text).filter(|bytes| to_base64(bytes) == text);
    let signature = bytes.and_then(|bytes| bytes.try_into().ok());
    signature.is_some_and(|signature| ed25519::verify(public, signed, &signature))
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
        for position in 0..4 {
            let digit = char::from(BASE64[(group >> (18 - 6 * position)) as usize & 63]);
            text.push(if position <= chunk.len() { digit } else { '=' });
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

/// HMAC (RFC 2104) with SHA-256 of the concatenated parts.
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

/// Ed25519 (RFC 8032), verification only. All inputs are public, so it does not take constant time.
mod ed25519 {
    /// Whether this is the signature of the concatenated parts. Checks without the cofactor, as most libraries do: the bytes of R
    /// must be exactly those of `[s]B - [h]A`.
    pub fn verify(public: &[u8; 32], signed: &[&[u8]], signature: &[u8; 64]) -> bool {
        let (r, s) = signature.split_at(32);
        let s = words(s);
        let Some(key) = Point::decode(public) else { return false };
        let Some(base) = Point::decode(&BASE) else { return false };
        if !is_below_order(&s) {
            return false;
        }
        let h = modulo_order(&sha512(&[&[r, public], signed].concat()));
        let minus_key = key.negated();
        let both = base.plus(&minus_key);
        let mut sum = Point { x: ZERO, y: ONE, z: ONE, t: ZERO };
        for position in (0..256).rev() {
            sum = sum.plus(&sum);
            match (bit(&s, position), bit(&h, position)) {
                (true, true) => sum = sum.plus(&both),
                (true, false) => sum = sum.plus(&base),
                (false, true) => sum = sum.plus(&minus_key),
                (false, false) => {}
            }
        }
        sum.encode() == r
    }

    /// The base point's encoding: y is 4/5, x is even.
    #[rustfmt::skip]
    const BASE: [u8; 32] = [
        0x58, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
        0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
    ];

    /// The base point's order, the lowest word first.
    pub const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];

    fn words(bytes: &[u8]) -> [u64; 4] {
        let mut words = [0; 4];
        for (i, byte) in bytes.iter().enumerate() {
            words[i / 8] |= u64::from(*byte) << (8 * (i % 8));
        }
        words
    }

    fn bit(words: &[u64; 4], position: usize) -> bool {
        words[position / 64] >> (position % 64) & 1 == 1
    }

    fn is_below_order(scalar: &[u64; 4]) -> bool {
        scalar.iter().rev().lt(ORDER.iter().rev())
    }

    /// Long division, bit by bit from the highest: what is left stays below the order, so it can be doubled in four words.
    pub fn modulo_order(bytes: &[u8; 64]) -> [u64; 4] {
        let mut rest = [0u64; 4];
        for position in (0..512).rev() {
            let mut excess = u64::from(bytes[position / 8] >> (position % 8) & 1);
            for word in &mut rest {
                (*word, excess) = (*word << 1 | excess, *word >> 63);
            }
            if !is_below_order(&rest) {
                let mut borrow = false;
                for (word, order) in rest.iter_mut().zip(ORDER) {
                    let (less, first) = word.overflowing_sub(order);
                    let (less, second) = less.overflowing_sub(u64::from(borrow));
                    (*word, borrow) = (less, first | second);
                }
            }
        }
        rest
    }

    /// A number modulo p = 2^255 - 19 in five limbs of 51 bits, the lowest first. Every limb is below 2^52; the number itself may
    /// be p or more until it is encoded.
    #[derive(Clone, Copy)]
    pub struct Field([u64; 5]);

    const LIMB: u64 = (1 << 51) - 1;
    const ZERO: Field = Field([0; 5]);
    const ONE: Field = Field([1, 0, 0, 0, 0]);
    /// The curve's constant d = -121665/121666.
    pub const D: Field = Field([
        0x0003_4dca_1359_78a3,
        0x0001_a828_3b15_6ebd,
        0x0005_e7a2_6001_c029,
        0x0007_39c6_63a0_3cbb,
        0x0005_2036_cee2_b6ff,
    ]);

    impl Field {
        /// Limbs of up to 2^112: what leaves the highest comes back 19-fold in the lowest, as 2^255 is 19.
        fn leased(wide: [u128; 5]) -> Self {
            let (mut limbs, mut excess) = ([0; 5], 0);
            for (limb, wide) in limbs.iter_mut().zip(wide) {
                let sum = wide + excess;
                (*limb, excess) = (sum as u64 & LIMB, sum >> 51);
            }
            let lowest = u128::from(limbs[0]) + 19 * excess;
            limbs[0] = lowest as u64 & LIMB;
            limbs[1] += (lowest >> 51) as u64;
            Self(limbs)
        }

        pub fn small(number: u32) -> Self {
            Self([u64::from(number), 0, 0, 0, 0])
        }

        fn plus(&self, other: &Self) -> Self {
            Self::leased(std::array::from_fn(|i| u128::from(self.0[i]) + u128::from(other.0[i])))
        }

        /// Subtracts. 4p is added first, as each of its limbs is greater than any limb of `other`.
        pub fn minus(&self, other: &Self) -> Self {
            Self::leased(std::array::from_fn(|i| {
                let limb_of_p = if i == 0 { LIMB - 18 } else { LIMB };
                u128::from(self.0[i]) + 4 * u128::from(limb_of_p) - u128::from(other.0[i])
            }))
        }

        pub fn times(&self, other: &Self) -> Self {
            let mut wide = [0u128; 5];
            for (i, a) in self.0.iter().enumerate() {
                for (j, b) in other.0.iter().enumerate() {
                    let product = u128::from(*a) * u128::from(*b);
                    wide[(i + j) % 5] += if i + j < 5 { product } else { 19 * product };
                }
            }
            Self::leased(wide)
        }

        /// To the power of 2^bits - 1 - less, with `less` made of some of these bits: all are set but those of `less`.
        fn power(&self, bits: u32, less: u64) -> Self {
            (0..bits).rev().fold(ONE, |power, position| {
                let square = power.times(&power);
                let is_left_out = position < 64 && less >> position & 1 == 1;
                if is_left_out {
                    square
                } else {
                    square.times(self)
                }
            })
        }

        /// Raises to the power of p - 2.
        fn inverse(&self) -> Self {
            self.power(255, 20)
        }

        /// Reads the 255 low bits and ignores the highest one.
        fn decode(bytes: &[u8; 32]) -> Self {
            let words = words(bytes);
            Self(std::array::from_fn(|i| {
                let (word, shift) = (51 * i / 64, 51 * i % 64);
                let high = words.get(word + 1).copied().unwrap_or(0);
                ((u128::from(high) << 64 | u128::from(words[word])) >> shift) as u64 & LIMB
            }))
        }

        pub fn encode(&self) -> [u8; 32] {
            // After two carries it is below 2p, so p is subtracted once (if adding 19 reaches 2^255) or not at all.
            let Self(mut limbs) = Self::leased(Self::leased(self.0.map(u128::from)).0.map(u128::from));
            let mut excess = limbs.iter().fold(19, |excess, limb| (limb + excess) >> 51) * 19;
            for limb in &mut limbs {
                let sum = *limb + excess;
                (*limb, excess) = (sum & LIMB, sum >> 51);
            }
            let mut bytes = [0; 32];
            for position in 0..255 {
                bytes[position / 8] |=
                    ((limbs[position / 51] >> (position % 51) & 1) as u8) << (position % 8);
            }
            bytes
        }

        pub fn is(&self, other: &Self) -> bool {
            self.encode() == other.encode()
        }
    }

    /// x/z and y/z on the curve -x² + y² = 1 + dx²y², with t = xy/z.
    pub struct Point {
        x: Field,
        y: Field,
        z: Field,
        t: Field,
    }

    impl Point {
        /// Returns `None` if there is no such point, or if its encoding is not canonical.
        pub fn decode(bytes: &[u8; 32]) -> Option<Self> {
            let y = Field::decode(bytes);
            let is_odd = bytes[31] >> 7 == 1;
            let mut canonical = y.encode();
            canonical[31] |= bytes[31] & 0x80;
            if canonical != *bytes {
                return None;
            }
            // x² = u/v; the root, if there is one, is uv³(uv⁷)^((p-5)/8), or that times the root of -1, which is 2^((p-1)/4).
            let yy = y.times(&y);
            let (u, v) = (yy.minus(&ONE), yy.times(&D).plus(&ONE));
            let v3 = v.times(&v).times(&v);
            let v7 = v3.times(&v3).times(&v);
            let mut x = u.times(&v3).times(&u.times(&v7).power(252, 2));
            let check = v.times(&x).times(&x);
            if check.is(&ZERO.minus(&u)) {
                x = x.times(&Field::small(2).power(253, 4));
            } else if !check.is(&u) {
                return None;
            }
            if x.is(&ZERO) && is_odd {
                return None;
            }
            if (x.encode()[0] & 1 == 1) != is_odd {
                x = ZERO.minus(&x);
            }
            Some(Self { t: x.times(&y), x, y, z: ONE })
        }

        pub fn encode(&self) -> [u8; 32] {
            let inverse = self.z.inverse();
            let mut bytes = self.y.times(&inverse).encode();
            bytes[31] |= self.x.times(&inverse).encode()[0] << 7;
            bytes
        }

        fn negated(&self) -> Self {
            Self { x: ZERO.minus(&self.x), y: self.y, z: self.z, t: ZERO.minus(&self.t) }
        }

        /// Adds two points (RFC 8032, 5.1.4). Valid for any two points, also for equal ones.
        fn plus(&self, other: &Self) -> Self {
            let a = self.y.minus(&self.x).times(&other.y.minus(&other.x));
            let b = self.y.plus(&self.x).times(&other.y.plus(&other.x));
            let c = self.t.times(&other.t).times(&D.plus(&D));
            let d = self.z.times(&other.z.plus(&other.z));
            let (e, f, g, h) = (b.minus(&a), d.minus(&c), d.plus(&c), b.plus(&a));
            Self { x: e.times(&f), y: g.times(&h), z: f.times(&g), t: e.times(&h) }
        }
    }

    /// FIPS 180-4, over the parts one after the other.
    pub fn sha512(parts: &[&[u8]]) -> [u8; 64] {
        let mut state: [u64; 8] = [
            0x6a09_e667_f3bc_c908,
            0xbb67_ae85_84ca_a73b,
            0x3c6e_f372_fe94_f82b,
            0xa54f_f53a_5f1d_36f1,
            0x510e_527f_ade6_82d1,
            0x9b05_688c_2b3e_6c1f,
            0x1f83_d9ab_fb41_bd6b,
            0x5be0_cd19_137e_2179,
        ];
        let mut block = [0u8; 128];
        let (mut filled, mut length) = (0, 0u128);
        for byte in parts.iter().copied().flatten() {
            block[filled] = *byte;
            filled += 1;
            length += 8;
            if filled == 128 {
                compress(&mut state, &block);
                filled = 0;
            }
        }
        block[filled] = 0x80;
        block[filled + 1..].fill(0);
        if filled >= 112 {
            compress(&mut state, &block);
            block.fill(0);
        }
        block[112..].copy_from_slice(&length.to_be_bytes());
        compress(&mut state, &block);
        let mut digest = [0; 64];
        for (bytes, word) in digest.chunks_exact_mut(8).zip(state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }

    fn compress(state: &mut [u64; 8], block: &[u8; 128]) {
        let mut words = [0u64; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        for i in 16..80 {
            let (a, b) = (words[i - 15], words[i - 2]);
            let low = a.rotate_right(1) ^ a.rotate_right(8) ^ (a >> 7);
            let high = b.rotate_right(19) ^ b.rotate_right(61) ^ (b >> 6);
            words[i] = words[i - 16].wrapping_add(low).wrapping_add(words[i - 7]).wrapping_add(high);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        for (word, constant) in words.into_iter().zip(ROUNDS) {
            let mix = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
            let choice = (e & f) ^ (!e & g);
            let first = h.wrapping_add(mix).wrapping_add(choice).wrapping_add(constant).wrapping_add(word);
            let mix = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
            let second = mix.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(add);
        }
    }

    #[rustfmt::skip]
    const ROUNDS: [u64; 80] = [
        0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd, 0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc,
        0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019, 0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118,
        0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe, 0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2,
        0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1, 0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694,
        0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3, 0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65,
        0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483, 0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5,
        0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210, 0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4,
        0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725, 0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70,
        0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926, 0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df,
        0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8, 0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b,
        0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001, 0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30,
        0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910, 0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8,
        0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53, 0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8,
        0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb, 0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3,
        0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60, 0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec,
        0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9, 0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b,
        0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207, 0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178,
        0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6, 0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b,
        0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493, 0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c,
        0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a, 0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817,
    ];
}

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
    fn every_length_is_padded_correctly() {
        // SHA-256 of the digests of 0, 1, … 130 times 'x', computed with Python's hashlib.
        let all: Vec<u8> = (0..=130).flat_map(|length| sha256(&[&vec![b'x'; length]])).collect();
        assert_eq!(
            to_hex(&sha256(&[&all])),
            "f5a018ad6f7a21c451c8d98b57699f4aeeb1976b88771c339c7ea60cd09c64ef"
        );
    }

    #[test]
    fn base64_round_trips_and_other_texts_are_rejected() {
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

    #[test]
    fn sha_512_gives_the_digests_of_fips_180() {
        let two_blocks = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn\
                           hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
        let cases: [(&[u8], &str); 3] = [
            (b"", "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"),
            (b"abc", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"),
            (two_blocks, "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909"),
        ];
        for (text, digest) in cases {
            assert_eq!(to_hex(&ed25519::sha512(&[text])), digest);
        }
        // SHA-512 of the digests of 0, 1, … 260 times 'x', computed with Python's hashlib.
        let all: Vec<u8> = (0..=260).flat_map(|length| ed25519::sha512(&[&vec![b'x'; length]])).collect();
        assert_eq!(
            to_hex(&ed25519::sha512(&[&all])),
            "b0b75933f50d7735a1ab5896f687fcfffc3a738099998dd6af6087f782558801d07339f4470184cac8351cdc20b8ca614b96c0aa6ef07d0d822a9cfd92570c11"
        );
    }

    /// TEST 1, 2, 3 and SHA(abc) of RFC 8032, 7.1: public key, message, signature.
    const RFC_8032: [(&str, &str, &str); 4] = [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
        (
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
        ),
    ];

    fn sized<const N: usize>(hex: &str) -> [u8; N] {
        bytes(hex).try_into().unwrap()
    }

    #[test]
    fn ed25519_takes_the_signatures_of_rfc_8032() {
        for (public, text, signature) in RFC_8032 {
            let (public, text, signature) = (sized(public), bytes(text), sized(signature));
            assert!(ed25519::verify(&public, &[&text], &signature));
            let (start, end) = text.split_at(text.len() / 2);
            assert!(ed25519::verify(&public, &[start, b"", end], &signature), "in parts");
        }
    }

    #[test]
    fn a_signature_is_written_in_one_way_only() {
        let (public, text, signature) = RFC_8032[1];
        let (public, text, signature) = (sized(public), bytes(text), to_base64(&bytes(signature)));
        assert!(is_signed_by(&public, &[&text], &signature));
        // 64 bytes leave four bits of the last digit over, which is an A, Q, g or w if they are zero.
        let start = signature.strip_suffix("A==").unwrap();
        for last in ["B==", "C==", "I==", "P=="] {
            assert_eq!(from_base64(&format!("{start}{last}")), from_base64(&signature));
            assert!(!is_signed_by(&public, &[&text], &format!("{start}{last}")));
        }
    }

    #[test]
    fn ed25519_refuses_every_flipped_bit() {
        let (public, text, signature) = RFC_8032[2];
        let (public, text, signature): ([u8; 32], _, [u8; 64]) =
            (sized(public), bytes(text), sized(signature));
        let flipped = |bytes: &[u8], bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        for bit in 0..512 {
            let other = flipped(&signature, bit).try_into().unwrap();
            assert!(!ed25519::verify(&public, &[&text], &other), "bit {bit} of the signature");
        }
        for bit in 0..256 {
            let other = flipped(&public, bit).try_into().unwrap();
            assert!(!ed25519::verify(&other, &[&text], &signature), "bit {bit} of the key");
        }
        for bit in 0..16 {
            assert!(!ed25519::verify(&public, &[&flipped(&text, bit)], &signature), "bit {bit} of the text");
        }
    }

    fn plus_order(scalar: &[u8]) -> Vec<u8> {
        let order = ed25519::ORDER.iter().flat_map(|word| word.to_le_bytes());
        let mut excess = 0;
        let sum = scalar.iter().zip(order).map(|(a, b)| {
            let sum = u16::from(*a) + u16::from(b) + excess;
            excess = sum >> 8;
            sum as u8
        });
        sum.collect()
    }

    #[test]
    fn ed25519_refuses_an_s_of_the_order_or_more() {
        for (public, text, signature) in RFC_8032 {
            let (public, text, mut signature) = (sized(public), bytes(text), sized::<64>(signature));
            // As often as it stays below 2^256.
            for times in 1..=14 {
                let more = plus_order(&signature[32..]);
                signature[32..].copy_from_slice(&more);
                assert!(!ed25519::verify(&public, &[&text], &signature), "s + {times} L");
            }
        }
        // With the neutral point as the key and as R, s = 0 is right for every text, and s = L is the same number.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        assert!(ed25519::verify(&neutral, &[b"any"], &signature));
        let order = plus_order(&[0; 32]);
        signature[32..].copy_from_slice(&order);
        assert!(!ed25519::verify(&neutral, &[b"any"], &signature));
    }

    #[test]
    fn ed25519_refuses_points_that_are_not_canonical() {
        // Little-endian: p + 1 is another way to write y = 1, and so on up to 2^255 - 1 = p + 18.
        let mut p = [0xff; 32];
        (p[0], p[31]) = (0xed, 0x7f);
        for more in 0..19 {
            for sign in [0, 0x80] {
                let mut refused = p;
                refused[0] += more;
                refused[31] |= sign;
                assert!(ed25519::Point::decode(&refused).is_none(), "p + {more}, sign {sign}");
                let mut signature = [0; 64];
                signature[0] = 1;
                assert!(!ed25519::verify(&refused, &[b"any"], &signature));
                let mut neutral = [0; 32];
                neutral[0] = 1;
                signature[..32].copy_from_slice(&refused);
                assert!(!ed25519::verify(&neutral, &[b"any"], &signature), "R is p + {more}, sign {sign}");
            }
        }
        // y = 1 and y = -1 have x = 0, which is not odd.
        let (mut one, mut minus_one) = ([0; 32], p);
        (one[0], minus_one[0]) = (1, 0xec);
        for mut point in [one, minus_one] {
            assert_eq!(ed25519::Point::decode(&point).unwrap().encode(), point);
            point[31] |= 0x80;
            assert!(ed25519::Point::decode(&point).is_none());
        }
        // y = 2 is on no point; y = 3 is on two.
        let small = |y: u8, sign: u8| {
            let mut bytes = [0; 32];
            (bytes[0], bytes[31]) = (y, sign);
            (bytes, ed25519::Point::decode(&bytes))
        };
        for sign in [0, 0x80] {
            assert!(small(2, sign).1.is_none());
            let (encoded, point) = small(3, sign);
            assert_eq!(point.unwrap().encode(), encoded);
        }
    }

    #[test]
    fn the_constants_of_ed25519_are_correct() {
        use ed25519::{Field, D};
        let zero = Field::small(0);
        assert!(D.times(&Field::small(121_666)).is(&zero.minus(&Field::small(121_665))));
        // (2^512 - 1) mod L, computed with Python.
        assert_eq!(
            ed25519::modulo_order(&[0xff; 64]),
            [0xa406_11e3_449c_0f00, 0xd00e_1ba7_6885_9347, 0xceec_73d2_17f5_be65, 0x0399_411b_7c30_9a3d]
        );
    }
}

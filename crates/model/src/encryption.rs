//! Encryption of secrets at rest: AES-256-GCM under a key that has an id, bound to the place where the secret belongs.
//!
//! Encrypted bytes are: format (1), length of the key's id, the id, nonce (12), ciphertext with tag.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    digest,
};
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use std::fmt;

const FORMAT: u8 = 1;
const NONCE_BYTES: usize = 12;
const KEY_BYTES: usize = 32;

/// Error of an encryption or decryption. Never holds a key or a plain text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    #[error("encryption key {0} must be base64 of exactly 32 bytes, optionally after an id and a colon")]
    InvalidKey(usize),
    #[error("the id of encryption key {0} must be 1 to 32 characters out of A-Z a-z 0-9 _ -")]
    InvalidKeyId(usize),
    #[error("encryption key {0} is given twice, or its id is")]
    DuplicateKey(usize),
    #[error("sealed with the encryption key \"{0}\", which is not among the given ones")]
    UnknownKey(String),
    #[error(
        "the sealed bytes are damaged, belong to another place, or were sealed with another key of the same id"
    )]
    Damaged,
}

struct EncryptionKey {
    id: String,
    /// Replaces the id of a key that was given without one, so that it can get one later.
    fingerprint: String,
    key: LessSafeKey,
}

/// Keys that encrypt secrets: the first one encrypts, all of them decrypt.
pub struct Keyring {
    primary: EncryptionKey,
    others: Vec<EncryptionKey>,
}

impl Keyring {
    /// Reads `[id:]base64[,…]`.
    pub fn parse(text: &str) -> Result<Self, EncryptionError> {
        let mut keys: Vec<EncryptionKey> = Vec::new();
        for (i, entry) in text.split(',').enumerate() {
            let key = parse_key(entry.trim(), i + 1)?;
            if keys.iter().any(|other| other.id == key.id || other.fingerprint == key.fingerprint) {
                return Err(EncryptionError::DuplicateKey(i + 1));
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(EncryptionError::InvalidKey(1))?;
        Ok(Self { primary: first, others: keys.collect() })
    }

    /// Encrypts `plain` so that only `decrypt` with the same `bound_to` returns it. The nonce must be fresh random bytes.
    pub fn encrypt(
        &self,
        plain: &[u8],
        bound_to: &str,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Vec<u8>, EncryptionError> {
        let id = self.primary.id.as_bytes();
        let mut encrypted =
            Vec::with_capacity(2 + id.len() + NONCE_BYTES + plain.len() + AES_256_GCM.tag_len());
        encrypted.extend_from_slice(&[FORMAT, id.len() as u8]);
        encrypted.extend_from_slice(id);
        encrypted.extend_from_slice(&nonce);
        let start = encrypted.len();
        encrypted.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .primary
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(bound_to), &mut encrypted[start..])
            .map_err(|_| EncryptionError::Damaged)?;
        encrypted.extend_from_slice(tag.as_ref());
        Ok(encrypted)
    }

    /// The id of the key that encrypts.
    pub fn primary_id(&self) -> &str {
        &self.primary.id
    }

    /// The ids of all keys, the first one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys().map(|key| key.id.as_str())
    }

    /// Returns the present id of the key that `encrypted` was encrypted with.
    pub fn key_id_of(&self, encrypted: &[u8]) -> Result<&str, EncryptionError> {
        let (id, ..) = split_parts(encrypted).ok_or(EncryptionError::Damaged)?;
        self.find(id).map(|key| key.id.as_str())
    }

    fn keys(&self) -> impl Iterator<Item = &EncryptionKey> {
        std::iter::once(&self.primary).chain(&self.others)
    }

    fn find(&self, id: &str) -> Result<&EncryptionKey, EncryptionError> {
        self.keys()
            .find(|key| key.id == id || key.fingerprint == id)
            .ok_or_else(|| EncryptionError::UnknownKey(id.to_owned()))
    }

    pub fn decrypt(&self, encrypted: &[u8], bound_to: &str) -> Result<Vec<u8>, EncryptionError> {
        let (id, nonce, ciphertext) = split_parts(encrypted).ok_or(EncryptionError::Damaged)?;
        let key = self.find(id)?;
        let mut plain = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = key
            .key
            .open_in_place(nonce, Aad::from(bound_to), &mut plain)
            .map_err(|_| EncryptionError::Damaged)?
            .len();
        plain.truncate(length);
        Ok(plain)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

fn parse_key(entry: &str, binding: usize) -> Result<EncryptionKey, EncryptionError> {
    let (id, encoded) = entry.split_once(':').map_or((None, entry), |(id, encoded)| (Some(id), encoded));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if id.is_some_and(|id| !(1..=32).contains(&id.len()) || !id.bytes().all(is_plain)) {
        return Err(EncryptionError::InvalidKeyId(binding));
    }
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&STANDARD, lenient)
        .decode(encoded)
        .map_err(|_| EncryptionError::InvalidKey(binding))?;
    if bytes.len() != KEY_BYTES {
        return Err(EncryptionError::InvalidKey(binding));
    }
    let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| EncryptionError::InvalidKey(binding))?;
    let digest = digest::digest(&digest::SHA256, &bytes);
    let (start, _) = digest.as_ref().split_first_chunk().ok_or(EncryptionError::InvalidKey(binding))?;
    let fingerprint = format!("{:08x}", u32::from_be_bytes(*start));
    let id = id.map_or_else(|| fingerprint.clone(), str::to_owned);
    Ok(EncryptionKey { id, fingerprint, key: LessSafeKey::new(key) })
}

fn split_parts(encrypted: &[u8]) -> Option<(&str, [u8; NONCE_BYTES], &[u8])> {
    let (&[format, id_length], rest) = encrypted.split_first_chunk::<2>()?;
    let (id, rest) = rest.split_at_checked(usize::from(id_length))?;
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>()?;
    (format == FORMAT).then_some((std::str::from_utf8(id).ok()?, *nonce, ciphertext))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::BASE64_STANDARD;
    use proptest::prelude::*;

    fn key(fill: u8) -> String {
        BASE64_STANDARD.encode([fill; 32])
    }

    fn ring(text: &str) -> Keyring {
        Keyring::parse(text).unwrap()
    }

    proptest! {
        #[test]
        fn encrypted_bytes_decrypt_only_in_their_place(
            plain in prop::collection::vec(any::<u8>(), 0..100), binding in "[a-z/]{0,10}", other in "[a-z/]{0,10}",
            nonce: [u8; 12],
        ) {
            let ring = ring(&key(1));
            let encrypted = ring.encrypt(&plain, &binding, nonce).unwrap();
            prop_assert_eq!(ring.decrypt(&encrypted, &binding), Ok(plain));
            if binding != other {
                prop_assert_eq!(ring.decrypt(&encrypted, &other), Err(EncryptionError::Damaged));
            }
        }

        #[test]
        fn no_changed_byte_goes_unnoticed(at in 0usize..44, bit in 0u8..8) {
            let ring = ring(&format!("k1:{}", key(1)));
            let mut encrypted = ring.encrypt(b"twelve bytes", "app/ep", [9; 12]).unwrap();
            prop_assert_eq!(encrypted.len(), 44);
            encrypted[at] ^= 1 << bit;
            prop_assert!(ring.decrypt(&encrypted, "app/ep").is_err());
        }

        #[test]
        fn junk_never_decrypts_and_never_panics(junk in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(ring(&key(1)).decrypt(&junk, "").is_err());
        }
    }

    #[test]
    fn the_first_key_encrypts_and_all_keys_decrypt() {
        let (old, new) = (format!("old:{}", key(1)), format!("new:{}", key(2)));
        let sealed_before = ring(&old).encrypt(b"secret", "ep", [0; 12]).unwrap();
        let rotating = ring(&format!("{new}, {old}"));
        assert_eq!(rotating.decrypt(&sealed_before, "ep").unwrap(), b"secret");
        let sealed_after = rotating.encrypt(b"secret", "ep", [0; 12]).unwrap();
        assert_eq!(ring(&old).decrypt(&sealed_after, "ep"), Err(EncryptionError::UnknownKey("new".into())));
    }

    #[test]
    fn a_key_may_get_its_id_later() {
        let encrypted = ring(&key(1)).encrypt(b"secret", "ep", [0; 12]).unwrap();
        let named = ring(&format!("new:{},named:{}", key(2), key(1)));
        assert_eq!(named.decrypt(&encrypted, "ep").unwrap(), b"secret");
        assert_eq!(named.key_id_of(&encrypted), Ok("named"));
        let unknown = ring(&key(2));
        let fingerprint = ring(&key(1)).primary_id().to_owned();
        assert_eq!(unknown.key_id_of(&encrypted), Err(EncryptionError::UnknownKey(fingerprint)));
    }

    /// The first four bytes of the key's SHA-256, which stand in every value that a key without an id encrypted.
    #[test]
    fn the_id_of_a_key_without_one_is_the_same_in_every_version() {
        assert_eq!(ring(&key(1)).primary_id(), "72cd6e84");
        assert_eq!(ring(&key(1)).encrypt(b"", "ep", [0; 12]).unwrap()[..10], *b"\x01\x0872cd6e84");
    }

    #[test]
    fn bad_keyrings_are_refused_by_place_without_echoing_a_key() {
        let long = BASE64_STANDARD.encode([1; 33]);
        let cases = [
            (String::new(), EncryptionError::InvalidKey(1)),
            ("marker".into(), EncryptionError::InvalidKey(1)),
            (long, EncryptionError::InvalidKey(1)),
            (format!("{},", key(1)), EncryptionError::InvalidKey(2)),
            (format!("{},a:marker!", key(1)), EncryptionError::InvalidKey(2)),
            (format!("a b:{}", key(1)), EncryptionError::InvalidKeyId(1)),
            (format!(":{}", key(1)), EncryptionError::InvalidKeyId(1)),
            (format!("a:{},a:{}", key(1), key(2)), EncryptionError::DuplicateKey(2)),
            (format!("a:{},b:{}", key(1), key(1)), EncryptionError::DuplicateKey(2)),
        ];
        for (text, expected) in cases {
            let refusal = Keyring::parse(&text).unwrap_err();
            assert_eq!(refusal, expected, "{text}");
            assert!(!refusal.to_string().contains("marker"));
        }
        assert!(Keyring::parse(key(1).trim_end_matches('=')).is_ok(), "padding may be left out");
        assert!(!format!("{:?}", ring(&key(1))).contains(&key(1)));
    }
}

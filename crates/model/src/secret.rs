//! Signing secrets: generates and checks them, and keeps them out of every log.

use super::{
    contract::{KeyForm, SecretRule},
    time::Timestamp,
};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use std::fmt;

/// A secret and when it signs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub text: String,
    pub valid_from: Timestamp,
    /// The first instant at which it does not sign any more.
    pub valid_until: Option<Timestamp>,
}

impl Secret {
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.valid_from <= now && self.valid_until.is_none_or(|until| now < until)
    }
}

/// Returns the instant by which the validity of secrets with these starts is judged. Before the first start it is that start:
/// the receiver knows the first secret, and this clock is behind the clock that made it.
pub fn validity_instant(begins: impl IntoIterator<Item = Timestamp>, now: Timestamp) -> Timestamp {
    begins.into_iter().min().map_or(now, |first| first.max(now))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("text", &"…")
            .field("valid_from", &self.valid_from)
            .field("valid_until", &self.valid_until)
            .finish()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(std::mem::take(&mut self.text).into_bytes());
    }
}

/// Bytes of a key, by algorithm.
pub(super) enum KeyBytes {
    Hmac(Vec<u8>),
    /// A seed, or a seed and its public key.
    Ed25519(Vec<u8>),
}

impl Drop for KeyBytes {
    fn drop(&mut self) {
        let (Self::Hmac(bytes) | Self::Ed25519(bytes)) = self;
        wipe(std::mem::take(bytes));
    }
}

fn wipe(mut bytes: Vec<u8>) {
    bytes.fill(0);
    // Keeps the compiler from leaving out a write that is never read.
    std::hint::black_box(&bytes);
}

/// Generates a secret out of random bytes, as many as the rule asks for.
pub fn generate(rule: &SecretRule, random: &[u8]) -> String {
    let encoded = match rule.key {
        KeyForm::Base64 => BASE64_STANDARD.encode(random),
        KeyForm::Text => BASE64_URL_SAFE_NO_PAD.encode(random),
    };
    format!("{}{encoded}", rule.prefix)
}

/// Generates a secret of the kind of `other` out of 32 random bytes.
pub(super) fn generate_like(rule: &SecretRule, other: &str, random: &[u8; 32]) -> String {
    match rule.ed25519_prefix.as_deref().filter(|prefix| other.starts_with(prefix)) {
        Some(prefix) => format!("{prefix}{}", BASE64_STANDARD.encode(random)),
        None => generate(rule, random),
    }
}

/// Checks that a secret can sign under the rule. The error says what is allowed and never repeats the secret.
pub fn check(rule: &SecretRule, text: &str) -> Result<(), String> {
    key_bytes(rule, text).map(|_| ())
}

pub(super) fn key_bytes(rule: &SecretRule, text: &str) -> Result<KeyBytes, String> {
    if let Some(prefix) = &rule.ed25519_prefix
        && let Some(encoded) = text.strip_prefix(prefix.as_str())
    {
        let bytes = BASE64_STANDARD.decode(encoded).ok().filter(|bytes| matches!(bytes.len(), 32 | 64));
        return bytes.map(KeyBytes::Ed25519).ok_or_else(|| {
            format!("must be \"{prefix}\" and base64 of 32 bytes (a seed) or 64 (a seed and its public key)")
        });
    }
    match rule.key {
        KeyForm::Base64 => {
            let bytes = text.strip_prefix(rule.prefix.as_str()).and_then(|e| BASE64_STANDARD.decode(e).ok());
            let bytes = bytes.filter(|bytes| (24..=64).contains(&bytes.len()));
            bytes
                .map(KeyBytes::Hmac)
                .ok_or_else(|| format!("must be \"{}\" and base64 of 24 to 64 bytes", rule.prefix))
        }
        KeyForm::Text => {
            let fits = (16..=512).contains(&text.len()) && !text.chars().any(char::is_control);
            let message = "must be 16 to 512 bytes of text without control characters";
            if fits { Ok(KeyBytes::Hmac(text.as_bytes().to_vec())) } else { Err(message.into()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fixtures;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_generated_secret_passes_its_own_check(random in prop::collection::vec(any::<u8>(), 24..=64)) {
            for contract in fixtures::all() {
                let text = generate(&contract.secret, &random);
                prop_assert_eq!(check(&contract.secret, &text), Ok(()), "{}", contract.name);
                prop_assert!(text.starts_with(&contract.secret.prefix));
            }
        }
    }

    #[test]
    fn a_standard_secret_is_whsec_and_base64_of_24_to_64_bytes() {
        let rule = fixtures::standard().secret;
        let secret = |length: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; length]));
        for length in [24, 32, 64] {
            assert_eq!(check(&rule, &secret(length)), Ok(()));
        }
        let bare = BASE64_STANDARD.encode([7; 32]);
        for bad in [secret(23), secret(65), bare, "whsec_".into(), "whsec_!".into(), String::new()] {
            assert_eq!(check(&rule, &bad).unwrap_err(), "must be \"whsec_\" and base64 of 24 to 64 bytes");
        }
    }

    #[test]
    fn a_standard_ed25519_key_is_a_seed_with_or_without_its_public_key() {
        let rule = fixtures::standard().secret;
        let key = |length: usize| format!("whsk_{}", BASE64_STANDARD.encode(vec![7; length]));
        assert_eq!(check(&rule, &key(32)), Ok(()));
        assert_eq!(check(&rule, &key(64)), Ok(()));
        assert!(check(&rule, &key(33)).is_err());
        assert_eq!(
            check(&fixtures::sendnomi().secret, &key(33)),
            Ok(()),
            "plain text where there is no ed25519"
        );
    }

    #[test]
    fn neither_debug_output_nor_a_refusal_shows_a_secret() {
        let text = "whsec_marker-not-base64-at-all".to_owned();
        assert!(!check(&fixtures::standard().secret, &text).unwrap_err().contains("marker"));
        let secret = Secret { text, valid_from: Timestamp::from_millis(0), valid_until: None };
        assert!(!format!("{secret:?}").contains("marker"));
    }

    #[test]
    fn on_a_clock_behind_all_starts_only_the_first_secret_is_valid() {
        let at = Timestamp::from_millis;
        assert_eq!(validity_instant([at(30), at(20)], at(10)), at(20));
        assert_eq!(validity_instant([at(30), at(20)], at(20)), at(20));
        assert_eq!(validity_instant([at(30), at(20)], at(25)), at(25), "the other one's time will come");
        assert_eq!(validity_instant([], at(10)), at(10));
    }

    #[test]
    fn a_secret_signs_from_its_first_instant_until_before_its_last() {
        let at = Timestamp::from_millis;
        let secret = Secret { text: String::new(), valid_from: at(10), valid_until: Some(at(20)) };
        let valid: Vec<_> = (0..30).filter(|&ms| secret.is_valid_at(at(ms))).collect();
        assert_eq!(valid, (10..20).collect::<Vec<_>>());
    }
}

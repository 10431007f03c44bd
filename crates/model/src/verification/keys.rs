//! Keys made from secrets: as the contract says, and by common mistakes.

use super::Mismatch;
use crate::{
    contract::{KeyForm, SecretRule},
    secret::{KeyBytes, key_bytes},
    signing_keys::PUBLIC_KEY_PREFIX,
};
use aws_lc_rs::{
    hmac,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use base64::{Engine, prelude::BASE64_STANDARD};

pub(super) enum VerifyingKey {
    Hmac(Box<hmac::Key>),
    /// The public key.
    Ed25519(Vec<u8>),
}

impl VerifyingKey {
    fn hmac(bytes: &[u8]) -> Self {
        Self::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    pub(super) fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Hmac(key) => hmac::verify(key, text, signature).is_ok(),
            Self::Ed25519(public) => UnparsedPublicKey::new(&ED25519, public).verify(text, signature).is_ok(),
        }
    }
}

/// Mistake in making a key from a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMistake {
    /// The whole secret as text.
    WholeText,
    /// The text after the prefix.
    TextWithoutPrefix,
    /// The text after the prefix, decoded from base64.
    Decoded,
    /// Decoded from hex.
    FromHex,
    /// With a newline at its end.
    WithNewline,
    /// Without the spaces around it.
    Trimmed,
}

impl KeyMistake {
    /// The likeliest first.
    pub const ALL: [Self; 6] = [
        Self::Trimmed,
        Self::WholeText,
        Self::Decoded,
        Self::TextWithoutPrefix,
        Self::FromHex,
        Self::WithNewline,
    ];
}

/// Makes the keys as the contract says.
pub(super) fn contract_keys(rule: &SecretRule, secrets: &[String]) -> Result<Vec<VerifyingKey>, Mismatch> {
    if secrets.is_empty() {
        return Err(Mismatch::NoSecret);
    }
    secrets.iter().map(|secret| key(rule, secret).map_err(Mismatch::UnusableSecret)).collect()
}

fn key(rule: &SecretRule, secret: &str) -> Result<VerifyingKey, String> {
    if rule.ed25519_prefix.is_some()
        && let Some(encoded) = secret.strip_prefix(PUBLIC_KEY_PREFIX)
    {
        let bytes = BASE64_STANDARD.decode(encoded).ok().filter(|bytes| bytes.len() == 32);
        let message =
            || format!("must be \"{PUBLIC_KEY_PREFIX}\" and base64 of the 32 bytes of a public key");
        return bytes.map(VerifyingKey::Ed25519).ok_or_else(message);
    }
    match &key_bytes(rule, secret)? {
        KeyBytes::Hmac(bytes) => Ok(VerifyingKey::hmac(bytes)),
        KeyBytes::Ed25519(bytes) => {
            let seed = bytes.get(..32).unwrap_or_default();
            let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| "is not an ed25519 key")?;
            Ok(VerifyingKey::Ed25519(pair.public_key().as_ref().to_vec()))
        }
    }
}

/// Makes the key by this mistake; `None` where the mistake is not possible.
pub(super) fn mistaken_key(rule: &SecretRule, secret: &str, by: KeyMistake) -> Option<VerifyingKey> {
    let trimmed = secret.trim();
    let bare = trimmed.strip_prefix("whsec_").or_else(|| trimmed.strip_prefix(rule.prefix.as_str()));
    let bare = bare.unwrap_or(trimmed);
    match by {
        KeyMistake::WholeText if rule.key == KeyForm::Base64 => Some(VerifyingKey::hmac(trimmed.as_bytes())),
        KeyMistake::WholeText => None,
        KeyMistake::TextWithoutPrefix => (bare != trimmed).then(|| VerifyingKey::hmac(bare.as_bytes())),
        KeyMistake::Decoded => {
            let is_new = rule.key == KeyForm::Text || key(rule, secret).is_err();
            let padded = format!(
                "{}{}",
                bare.trim_end_matches('='),
                &"==="[..(4 - bare.trim_end_matches('=').len() % 4) % 4]
            );
            let bytes = BASE64_STANDARD.decode(padded.replace('-', "+").replace('_', "/")).ok();
            bytes.filter(|_| is_new).map(|bytes| VerifyingKey::hmac(&bytes))
        }
        KeyMistake::FromHex => {
            let bytes = super::decode(crate::contract::SignatureEncoding::Hex, &bare.to_lowercase())?;
            (!bytes.is_empty()).then(|| VerifyingKey::hmac(&bytes))
        }
        KeyMistake::WithNewline => Some(VerifyingKey::hmac(format!("{trimmed}\n").as_bytes())),
        KeyMistake::Trimmed => (trimmed != secret).then(|| key(rule, trimmed).ok()).flatten(),
    }
}

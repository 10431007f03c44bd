//! The keys of one endpoint, decoded once, ready to sign every attempt.

use super::{
    contract::{Contract, Rotation, SecretRule},
    secret::{KeyBytes, Secret, key_bytes, validity_instant},
    time::Timestamp,
};
use aws_lc_rs::{
    hmac,
    signature::{Ed25519KeyPair, KeyPair},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{cmp::Reverse, fmt};

/// Prefix of a public key in the Standard Webhooks specification.
pub(super) const PUBLIC_KEY_PREFIX: &str = "whpk_";

/// Why a request cannot be signed. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    #[error("a secret of the endpoint cannot sign under its contract: it {0}")]
    UnusableSecret(String),
    #[error("the endpoint has no secret that is valid now")]
    NoValidSecret,
}

/// A signing key of either algorithm.
pub(super) enum SigningKey {
    Hmac(Box<hmac::Key>),
    Ed25519(Ed25519KeyPair),
}

struct TimedKey {
    key: SigningKey,
    valid_from: Timestamp,
    valid_until: Option<Timestamp>,
}

/// Signs with one endpoint's secrets under one contract; prepare another when either changes.
pub struct SigningKeys {
    /// The newest first.
    keys: Vec<TimedKey>,
    /// Start of the first secret, even if that is not among the keys.
    first_valid_from: Option<Timestamp>,
    rotation: Rotation,
}

impl SigningKeys {
    pub fn prepare(contract: &Contract, secrets: &[Secret]) -> Result<Self, SigningError> {
        let mut keys = secrets
            .iter()
            .map(|secret| {
                let key = signing_key(&contract.secret, secret)?;
                Ok(TimedKey { key, valid_from: secret.valid_from, valid_until: secret.valid_until })
            })
            .collect::<Result<Vec<_>, _>>()?;
        keys.sort_by_key(|timed| Reverse(timed.valid_from));
        let begins = secrets.iter().map(|secret| secret.valid_from).min();
        Ok(Self { keys, first_valid_from: begins, rotation: contract.secret.rotation })
    }

    /// Prepares only the secrets that fit the contract: a new secret repairs an endpoint whose old one has become useless.
    /// Fails if none fits.
    pub fn prepare_usable(contract: &Contract, secrets: &[Secret]) -> Result<Self, SigningError> {
        let fits = |secret: &&Secret| signing_key(&contract.secret, secret).is_ok();
        let fitting: Vec<Secret> = secrets.iter().filter(fits).cloned().collect();
        let signing_keys = Self::prepare(contract, if fitting.is_empty() { secrets } else { &fitting })?;
        Ok(Self { first_valid_from: secrets.iter().map(|secret| secret.valid_from).min(), ..signing_keys })
    }

    /// Returns the keys that sign at `now`: every valid one, or only the newest where the contract says so. The first also
    /// signs on a node whose clock is behind its start.
    pub(super) fn keys_at(&self, now: Timestamp) -> impl Iterator<Item = &SigningKey> {
        let count_max = match self.rotation {
            Rotation::Both => usize::MAX,
            Rotation::Switch => 1,
        };
        let now = validity_instant(self.first_valid_from, now);
        let is_valid =
            move |key: &&TimedKey| key.valid_from <= now && key.valid_until.is_none_or(|until| now < until);
        self.keys.iter().filter(is_valid).map(|timed| &timed.key).take(count_max)
    }
}

/// Returns the public key for receivers, if the secret is an ed25519 key. The public key is not confidential.
pub fn public_key(contract: &Contract, secret: &Secret) -> Option<String> {
    match signing_key(&contract.secret, secret).ok()? {
        SigningKey::Hmac(_) => None,
        SigningKey::Ed25519(pair) => {
            Some(format!("{PUBLIC_KEY_PREFIX}{}", BASE64_STANDARD.encode(pair.public_key().as_ref())))
        }
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

fn signing_key(rule: &SecretRule, secret: &Secret) -> Result<SigningKey, SigningError> {
    let rejected = |_| SigningError::UnusableSecret("is not an ed25519 key".into());
    match &key_bytes(rule, &secret.text).map_err(SigningError::UnusableSecret)? {
        KeyBytes::Hmac(bytes) => Ok(SigningKey::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))),
        KeyBytes::Ed25519(bytes) => match bytes.split_at(32) {
            (seed, []) => Ed25519KeyPair::from_seed_unchecked(seed),
            (seed, public) => Ed25519KeyPair::from_seed_and_public_key(seed, public),
        }
        .map(SigningKey::Ed25519)
        .map_err(rejected),
    }
}

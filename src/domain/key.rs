//! API keys: who may do what. Only a hash is kept; the key itself is shown once.

use super::{
    id::{AppId, KeyId},
    time::Timestamp,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// Keys are long and random, so a plain SHA-256 is enough, and looking one up leaks nothing by its timing.
    pub fn of(key: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes()).as_ref());
        Self(hash)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything, in every app.
    Admin,
    /// Everything in one app.
    App(AppId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: KeyId,
    pub hash: KeyHash,
    /// The first characters, so that people can tell keys apart.
    pub shown: String,
    pub scope: Scope,
    pub name: Option<String>,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

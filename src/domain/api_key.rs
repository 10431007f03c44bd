//! API keys: their scope and their expiry. Only a hash is kept; the key itself is shown once.

use super::{
    id::{AppId, KeyId},
    portal_theme::PortalTheme,
    time::Timestamp,
};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// The id of the admin key from the settings. It has no row, and only the settings can remove it.
pub const SETTINGS_KEY_ID: KeyId = KeyId::from_i64(0);

/// Uses closer together than this count as one, so that not every core writes to a busy key's atomic.
const USE_RESOLUTION: Duration = Duration::from_secs(1);
const NEVER_USED_MS: i64 = i64::MIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// Hashes a key. Keys are long and random, so plain SHA-256 is enough, and a look-up leaks nothing by its timing.
    pub fn of(key: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes()).as_ref());
        Self(hash)
    }
}

/// The permissions of a key. The API admits requests by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything, in every app.
    Admin,
    /// Everything in one app.
    App(AppId),
    /// Only publish, in one app.
    Publish(AppId),
    /// Only read, in one app, and no secrets.
    Read(AppId),
    /// A customer by a portal link: the operations that they need in their own app.
    Portal(AppId),
    /// A customer by a portal link, read only.
    PortalRead(AppId),
}

impl Scope {
    /// The scopes that a key can be created with; portal links are created differently.
    pub const NAMES: [&str; 4] = ["admin", "app", "publish", "read"];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::App(_) => "app",
            Self::Publish(_) => "publish",
            Self::Read(_) => "read",
            Self::Portal(_) => "portal",
            Self::PortalRead(_) => "portal_read",
        }
    }

    /// Returns the app that it is limited to; `None` for an admin key.
    pub const fn app(self) -> Option<AppId> {
        match self {
            Self::Admin => None,
            Self::App(app)
            | Self::Publish(app)
            | Self::Read(app)
            | Self::Portal(app)
            | Self::PortalRead(app) => Some(app),
        }
    }

    /// Whether it belongs to a portal link.
    pub const fn is_portal(self) -> bool {
        matches!(self, Self::Portal(_) | Self::PortalRead(_))
    }

    /// Returns the scope of this name. An admin key takes no app, every other scope takes one.
    pub fn named(name: &str, app: Option<AppId>) -> Option<Self> {
        match (name, app) {
            ("admin", None) => Some(Self::Admin),
            ("app", Some(app)) => Some(Self::App(app)),
            ("publish", Some(app)) => Some(Self::Publish(app)),
            ("read", Some(app)) => Some(Self::Read(app)),
            ("portal", Some(app)) => Some(Self::Portal(app)),
            ("portal_read", Some(app)) => Some(Self::PortalRead(app)),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub hash: KeyHash,
    /// The first characters, so that people can tell keys apart.
    pub display_prefix: String,
    pub scope: Scope,
    pub name: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// The last use that was written; a crash loses newer ones.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The portal's theme, for a portal link.
    pub theme: Option<PortalTheme>,
}

/// A key in the configuration cache. Its last use is collected here and written later, never by the request.
#[derive(Debug)]
pub struct CachedKey {
    key: ApiKey,
    used_ms: AtomicI64,
    written_ms: AtomicI64,
}

impl CachedKey {
    pub fn new(key: ApiKey) -> Self {
        let used = key.last_used_at.map_or(NEVER_USED_MS, Timestamp::as_millis);
        Self { key, used_ms: AtomicI64::new(used), written_ms: AtomicI64::new(used) }
    }

    /// Returns the key as it was loaded; `with_last_use` adds its last use.
    pub fn key(&self) -> &ApiKey {
        &self.key
    }

    pub fn with_last_use(&self) -> ApiKey {
        let last_used_at = used_at(self.used_ms.load(Ordering::Relaxed));
        ApiKey { last_used_at, ..self.key.clone() }
    }

    pub fn record_use(&self, now: Timestamp) {
        let before = self.used_ms.load(Ordering::Relaxed);
        if used_at(before).is_none_or(|before| now.since(before) >= USE_RESOLUTION) {
            self.used_ms.store(now.as_millis(), Ordering::Relaxed);
        }
    }

    /// Returns the last use, if it is not in the store yet.
    pub fn unwritten_use(&self) -> Option<Timestamp> {
        let used = self.used_ms.load(Ordering::Relaxed);
        (self.key.id != SETTINGS_KEY_ID && used > self.written_ms.load(Ordering::Relaxed))
            .then(|| Timestamp::from_millis(used))
    }

    pub fn mark_use_written(&self, used_at: Timestamp) {
        self.written_ms.fetch_max(used_at.as_millis(), Ordering::Relaxed);
    }
}

fn used_at(ms: i64) -> Option<Timestamp> {
    (ms != NEVER_USED_MS).then(|| Timestamp::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(id: i64) -> CachedKey {
        CachedKey::new(ApiKey {
            id: KeyId::from_i64(id),
            hash: KeyHash::of("k"),
            display_prefix: "phk_k".into(),
            scope: Scope::Admin,
            name: None,
            created_at: at(0),
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
            theme: None,
        })
    }

    const fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    /// Another hash would lock every key out.
    #[test]
    fn the_hash_of_a_key_is_the_same_in_every_version() {
        let hash = KeyHash::of("phk_0123456789").0;
        let halves = hash.chunks(16).map(|half| u128::from_be_bytes(half.try_into().unwrap()));
        let expected = [0x254d_d691_22a5_1dbb_a95f_8c98_4053_2d71, 0x9083_e6e1_c717_3a10_cce5_b662_68dc_8bdb];
        assert!(halves.eq(expected));
    }

    #[test]
    fn every_scope_parses_back_and_only_admin_has_no_app() {
        let app = AppId::from_i64(7);
        for name in Scope::NAMES.into_iter().chain(["portal", "portal_read"]) {
            let app = (name != "admin").then_some(app);
            let scope = Scope::named(name, app).unwrap();
            assert_eq!((scope.name(), scope.app()), (name, app));
        }
        assert_eq!(Scope::named("admin", Some(app)), None);
        assert_eq!(Scope::named("read", None), None);
        assert_eq!(Scope::named("root", Some(app)), None);
    }

    #[test]
    fn a_use_is_written_once_until_there_is_a_newer_one() {
        let key = live(5);
        assert_eq!((key.with_last_use().last_used_at, key.unwritten_use()), (None, None));
        key.record_use(at(5_000));
        key.record_use(at(5_999));
        assert_eq!(key.with_last_use().last_used_at, Some(at(5_000)), "a second is fine enough");
        assert_eq!(key.unwritten_use(), Some(at(5_000)));
        key.mark_use_written(at(5_000));
        assert_eq!(key.unwritten_use(), None);
        key.record_use(at(6_000));
        assert_eq!(key.unwritten_use(), Some(at(6_000)));
    }

    #[test]
    fn uses_of_the_settings_key_are_never_written() {
        let key = live(SETTINGS_KEY_ID.as_i64());
        key.record_use(at(1));
        assert_eq!((key.with_last_use().last_used_at, key.unwritten_use()), (Some(at(1)), None));
    }
}

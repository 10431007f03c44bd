//! API keys: their scope and their expiry. Only a hash is kept; the key itself is shown once.

use super::{
    id::{AppId, KeyId},
    portal_theme::PortalTheme,
    time::Timestamp,
};

/// The id of the admin key from the settings. It has no row, and only the settings can remove it.
pub const SETTINGS_KEY_ID: KeyId = KeyId::from_i64(0);

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

#[cfg(test)]
mod tests {
    use super::*;

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
}

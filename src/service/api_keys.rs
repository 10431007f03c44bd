//! API keys: created, listed and revoked by the operator. A key is shown once; only its hash is stored.

use super::{
    Caller, Error, Service,
    apps::check_text,
    paging::{Cursor, Page, page_by_id},
};
use crate::domain::{
    api_key::{ApiKey, KeyHash, SETTINGS_KEY_ID, Scope},
    audit::{AuditAction, AuditDetail, AuditEntry},
    id::{AppId, KeyId},
    time::Timestamp,
};

pub(super) const KEY_PREFIX: &str = "phk_";
/// 5 random bits each: 260 bits.
const KEY_CHARACTERS: usize = 52;
const KEY_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
pub(super) const SHOWN_CHARACTERS: usize = 10;

#[derive(Debug)]
pub struct NewKey {
    pub scope: String,
    /// App of the key; an admin key has none.
    pub app: Option<String>,
    pub name: Option<String>,
    pub expires_at: Option<Timestamp>,
}

/// Why a key is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRejected {
    /// No such key, or a revoked one.
    Unknown,
    Expired(Timestamp),
}

impl Service {
    /// Returns the caller that this key belongs to, if the key exists and has not expired. Records the use in memory.
    pub fn caller(&self, key: &str) -> Result<Caller, KeyRejected> {
        let live = self.config_cache.key(&KeyHash::of(key)).ok_or(KeyRejected::Unknown)?;
        let (key, now) = (live.key(), self.clock.now());
        if let Some(at) = key.expires_at.filter(|at| *at <= now) {
            return Err(KeyRejected::Expired(at));
        }
        live.record_use(now);
        Ok(Caller { scope: key.scope, key: key.id })
    }

    /// Whether the caller's key is still valid. If `app` is given, the app must also still exist.
    pub(super) fn is_still_authorized(&self, caller: Caller, app: Option<AppId>) -> bool {
        let live = self.config_cache.key_by_id(caller.key);
        let works = live.is_some_and(|live| live.key().expires_at.is_none_or(|at| self.clock.now() < at));
        works && app.is_none_or(|app| self.config_cache.app_by_id(app).is_some())
    }

    /// Creates a key. Returns its row and its text, which cannot be read again.
    pub async fn add_key(&self, caller: Caller, new: NewKey) -> Result<(ApiKey, String), Error> {
        Self::require_admin(caller)?;
        if let Some(name) = &new.name {
            check_text("name", name, 200)?;
        }
        let scope = self.new_scope(&new)?;
        let now = self.clock.now();
        if new.expires_at.is_some_and(|at| at <= now) {
            return Err(Error::field("expires_at", "must be in the future"));
        }
        let text = self.random_key(KEY_PREFIX);
        let key = ApiKey {
            id: KeyId::from_i64(self.take_ids(now, 1)),
            hash: KeyHash::of(&text),
            display_prefix: text[..SHOWN_CHARACTERS].to_owned(),
            scope,
            name: new.name,
            created_at: now,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
            theme: None,
        };
        let detail = Some(AuditDetail::of_scope(scope.name()));
        let entry =
            self.audit_entry(caller, scope.app(), AuditAction::KeyCreated, key.id.to_string(), detail);
        self.store.add_key(key.clone(), Some(entry)).await?;
        self.config_cache.put_key(key.clone());
        Ok((key, text))
    }

    fn new_scope(&self, new: &NewKey) -> Result<Scope, Error> {
        if !Scope::NAMES.contains(&new.scope.as_str()) {
            return Err(Error::field("scope", format!("must be one of {}", Scope::NAMES.join(", "))));
        }
        let app = match &new.app {
            None => None,
            Some(uid) => {
                let found = self.config_cache.app(uid);
                Some(found.ok_or_else(|| Error::field("app_id", "there is no such app"))?.app().id)
            }
        };
        Scope::named(&new.scope, app).ok_or_else(|| match app {
            Some(_) => Error::field("app_id", "must be absent: an admin key is for every app"),
            None => Error::field("app_id", "is missing: say which app the key is for"),
        })
    }

    /// Lists valid and expired keys, the settings' key included; with `revoked_too` revoked ones as well.
    pub async fn keys(
        &self,
        caller: Caller,
        revoked_too: bool,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<ApiKey>, Error> {
        Self::require_admin(caller)?;
        let mut keys: Vec<ApiKey> = Vec::new();
        if revoked_too {
            if after.is_none() {
                keys.extend(self.config_cache.key_by_id(SETTINGS_KEY_ID).map(|live| live.with_last_use()));
            }
            let from = after.map_or(SETTINGS_KEY_ID, |cursor| KeyId::from_i64(cursor.id));
            let stored = self.store.keys(from, limit + 1).await?;
            keys.extend(stored.into_iter().map(|key| self.with_last_use(key)));
        } else {
            let all = self.config_cache.keys();
            keys.extend(
                all.iter().filter(|live| !live.key().scope.is_portal()).map(|live| live.with_last_use()),
            );
        }
        Ok(page_by_id(keys, |key| key.id.as_i64(), after, limit))
    }

    /// Returns a key, also a revoked one.
    pub async fn key(&self, caller: Caller, id: &str) -> Result<ApiKey, Error> {
        Self::require_admin(caller)?;
        let id = KeyId::parse(id).ok_or(Error::NotFound("key"))?;
        let found = match self.config_cache.key_by_id(id) {
            Some(live) => Some(live.with_last_use()),
            None => self.store.key(id).await?,
        };
        found.filter(|key| !key.scope.is_portal()).ok_or(Error::NotFound("key"))
    }

    /// Revokes a key. It stops working before this returns.
    pub async fn revoke_key(&self, caller: Caller, id: &str) -> Result<(), Error> {
        Self::require_admin(caller)?;
        let id = KeyId::parse(id).ok_or(Error::NotFound("key"))?;
        if id == SETTINGS_KEY_ID {
            return Err(Error::Conflict("This key is given by the settings; take it away there.".into()));
        }
        let live = self.config_cache.key_by_id(id).filter(|live| !live.key().scope.is_portal());
        let app = live.ok_or(Error::NotFound("key"))?.key().scope.app();
        let entry = self.audit_entry(caller, app, AuditAction::KeyRevoked, id.to_string(), None);
        if self.revoke(id, entry).await? { Ok(()) } else { Err(Error::NotFound("key")) }
    }

    /// Revokes a key or portal link. Returns whether it was still there; afterwards it does not work in either case.
    pub(super) async fn revoke(&self, id: KeyId, entry: AuditEntry) -> Result<bool, Error> {
        let was_there = self.store.revoke_key(id, self.clock.now(), Some(entry)).await?;
        self.config_cache.remove_key(id);
        Ok(was_there)
    }

    /// Returns the public id of the key's app.
    pub fn app_uid_of(&self, key: &ApiKey) -> Option<String> {
        key.scope.app().and_then(|id| self.uid_of(id))
    }

    fn with_last_use(&self, key: ApiKey) -> ApiKey {
        self.config_cache.key_by_id(key.id).map_or(key, |live| live.with_last_use())
    }

    pub(super) fn random_key(&self, prefix: &str) -> String {
        let mut random = [0; KEY_CHARACTERS];
        self.entropy.fill(&mut random);
        let characters = random.iter().map(|byte| char::from(KEY_ALPHABET[usize::from(byte & 31)]));
        prefix.chars().chain(characters).collect()
    }
}

//! API keys: made, listed, revoked, by the operator. A key is shown once; only its hash is kept.

use super::{
    Caller, Error, Service,
    apps::check_text,
    listing::{Cursor, Page, page_by_id},
    start::KEY_OF_SETTINGS,
};
use crate::domain::{
    id::KeyId,
    key::{Key, KeyHash, Scope},
};
use std::sync::Arc;

const PREFIX: &str = "phk_";
/// 5 random bits each: 260 bits.
const CHARACTERS: usize = 52;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SHOWN: usize = 10;

#[derive(Debug)]
pub struct NewKey {
    /// The app it is for; an admin key is for none.
    pub app: Option<String>,
    pub is_admin: bool,
    pub name: Option<String>,
}

impl Service {
    /// The key's row and, this once, the key itself.
    pub async fn add_key(&self, caller: Caller, new: NewKey) -> Result<(Arc<Key>, String), Error> {
        Self::must_be_admin(caller)?;
        if let Some(name) = &new.name {
            check_text("name", name, 200)?;
        }
        let scope = match (new.is_admin, &new.app) {
            (true, None) => Scope::Admin,
            (true, Some(_)) => {
                return Err(Error::field("app_id", "must be absent: an admin key is for every app"));
            }
            (false, None) => return Err(Error::field("app_id", "is missing: say which app the key is for")),
            (false, Some(uid)) => {
                let app =
                    self.directory.app(uid).ok_or_else(|| Error::field("app_id", "there is no such app"))?;
                Scope::App(app.app().id)
            }
        };
        let text = self.random_key();
        let now = self.clock.now();
        let key = Key {
            id: KeyId::from_i64(self.take_ids(now, 1)),
            hash: KeyHash::of(&text),
            shown: text[..SHOWN].to_owned(),
            scope,
            name: new.name,
            created_at: now,
            revoked_at: None,
        };
        self.registry.add_key(key.clone()).await?;
        self.directory.put_key(key.clone());
        Ok((Arc::new(key), text))
    }

    /// Keys that work, those of the settings included.
    pub fn keys(&self, caller: Caller, after: Option<Cursor>, limit: u32) -> Result<Page<Arc<Key>>, Error> {
        Self::must_be_admin(caller)?;
        Ok(page_by_id(self.directory.keys(), |key| key.id.as_i64(), after, limit))
    }

    /// The key stops working before this returns.
    pub async fn revoke_key(&self, caller: Caller, id: &str) -> Result<(), Error> {
        Self::must_be_admin(caller)?;
        let id = KeyId::parse(id).ok_or(Error::NotFound("key"))?;
        if id == KEY_OF_SETTINGS {
            return Err(Error::Conflict("This key is given by the settings; take it away there.".into()));
        }
        let known =
            self.directory.keys().into_iter().find(|key| key.id == id).ok_or(Error::NotFound("key"))?;
        self.registry.revoke_key(id, self.clock.now()).await?;
        self.directory.remove_key(&known.hash);
        Ok(())
    }

    /// How callers know the app that a key is for.
    pub fn app_uid_of(&self, key: &Key) -> Option<String> {
        match key.scope {
            Scope::Admin => None,
            Scope::App(id) => self.directory.app_by_id(id).map(|entry| entry.app().uid.clone()),
        }
    }

    fn random_key(&self) -> String {
        let mut random = [0; CHARACTERS];
        self.entropy.fill(&mut random);
        let characters = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)]));
        PREFIX.chars().chain(characters).collect()
    }
}

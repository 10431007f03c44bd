//! What an operator asks a running process about itself.

use super::{Caller, Error, Service, room::StoreUsage};
use crate::domain::time::Timestamp;

/// What the process was put together with, as far as people may see it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Which store it is, for example `sqlite`.
    pub store: &'static str,
    /// Without credentials.
    pub proxy: Option<String>,
    pub proxy_resolves: bool,
    /// Where people reach the dashboard, without a slash at the end.
    pub public_url: String,
    /// Whose pages may show the portal in a frame.
    pub portal_origins: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct System {
    pub started_at: Timestamp,
    pub surroundings: Surroundings,
    pub store: StoreUsage,
    pub encryption: Encryption,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The key that seals.
    pub key: String,
    /// How many secrets each given key has sealed, the first key first.
    pub sealed: Vec<(String, u64)>,
}

impl Encryption {
    /// Whether some are still sealed with another key than the first.
    pub fn is_rotating(&self) -> bool {
        self.sealed.iter().any(|(key, count)| *count > 0 && *key != self.key)
    }
}

impl Service {
    /// For an admin key.
    pub fn system(&self, caller: Caller) -> Result<System, Error> {
        Self::must_be_admin(caller)?;
        Ok(System {
            started_at: self.started_at,
            surroundings: self.surroundings.clone(),
            store: self.store_usage(),
            encryption: self.encryption(),
        })
    }

    fn encryption(&self) -> Encryption {
        let mut sealed: Vec<(String, u64)> = self.keyring.ids().map(|id| (id.to_owned(), 0)).collect();
        self.each_endpoint(|endpoint| {
            for key in endpoint.record.sealed().filter_map(|sealed| self.keyring.key_of(sealed).ok()) {
                if let Some((_, count)) = sealed.iter_mut().find(|(id, _)| id == key) {
                    *count += 1;
                }
            }
        });
        Encryption { key: self.keyring.first().to_owned(), sealed }
    }
}

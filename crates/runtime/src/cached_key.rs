//! A key in the configuration cache, with its last use.

use model::{
    api_key::{ApiKey, SETTINGS_KEY_ID},
    time::Timestamp,
};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// Uses closer together than this count as one, so that not every core writes to a busy key's atomic.
const USE_RESOLUTION: Duration = Duration::from_secs(1);
const NEVER_USED_MS: i64 = i64::MIN;

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
    use model::{
        api_key::{KeyHash, Scope},
        id::KeyId,
    };

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

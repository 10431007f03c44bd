//! The configuration cache: current apps, endpoints, keys and event types in memory, so that the hot path needs no store.
//!
//! The service updates it after each commit of the registry; all others only read. Locks are held for a look-up,
//! never across a wait.

use super::{CachedKey, SubscriberIndex};
use arc_swap::{ArcSwap, Guard};
use functions::{Catalogue, EventType};
use model::{
    api_key::{ApiKey, KeyHash},
    app::{App, AppRules},
    contract::Retention,
    endpoint::{Endpoint, EndpointRecord},
    id::{AppId, EndpointId, KeyId},
    ports::EndpointLookup,
    quota::{Quota, QuotaBucket, QuotaExceeded},
    retention::{self, RetentionPolicy},
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

/// A cached app with its endpoints; a snapshot of the endpoints costs one reference count.
#[derive(Debug)]
pub struct CachedApp {
    app: ArcSwap<App>,
    /// The rules of its contract.
    rules: ArcSwap<AppRules>,
    endpoints: ArcSwap<SubscriberIndex>,
    quota_bucket: Mutex<QuotaBucket>,
}

impl CachedApp {
    pub fn app(&self) -> Arc<App> {
        self.app.load_full()
    }

    pub fn rules(&self) -> AppRules {
        **self.rules.load()
    }

    /// In order of creation.
    pub fn endpoints(&self) -> Arc<SubscriberIndex> {
        self.endpoints.load_full()
    }

    /// Takes one event of this size from the quota, or returns an error and takes nothing.
    pub fn take_quota(&self, quota: &Quota, bytes: usize, now: Timestamp) -> Result<(), QuotaExceeded> {
        self.quota_bucket.lock().unwrap_or_else(PoisonError::into_inner).take(quota, bytes, now)
    }

    pub fn endpoint(&self, uid: &str) -> Option<Arc<Endpoint>> {
        self.endpoints.load().iter().find(|endpoint| endpoint.record.uid == uid).cloned()
    }
}

#[derive(Debug, Default)]
pub struct ConfigCache {
    apps: RwLock<AppIndex>,
    endpoints: RwLock<HashMap<EndpointId, Arc<Endpoint>>>,
    keys: RwLock<KeyIndex>,
    catalogue: ArcSwap<Catalogue>,
}

#[derive(Debug, Default)]
struct AppIndex {
    by_uid: HashMap<String, Arc<CachedApp>>,
    by_id: HashMap<AppId, Arc<CachedApp>>,
}

#[derive(Debug, Default)]
struct KeyIndex {
    by_hash: HashMap<KeyHash, Arc<CachedKey>>,
    by_id: HashMap<KeyId, Arc<CachedKey>>,
    /// Portal links by app.
    links: HashMap<AppId, BTreeMap<KeyId, Arc<CachedKey>>>,
    /// Removed keys, kept until their last use is written.
    retired: Vec<Arc<CachedKey>>,
}

impl KeyIndex {
    /// Removes a key without scanning the others.
    fn retire_one(&mut self, id: KeyId) {
        let Some(live) = self.by_id.remove(&id) else { return };
        self.by_hash.remove(&live.key().hash);
        if let Some(app) = live.key().scope.app()
            && let Some(links) = self.links.get_mut(&app)
        {
            links.remove(&id);
            if links.is_empty() {
                self.links.remove(&app);
            }
        }
        self.retired.extend(Some(live).filter(|live| live.unwritten_use().is_some()));
    }

    fn retire(&mut self, gone: impl Fn(&ApiKey) -> bool) {
        let leaving: Vec<KeyId> =
            self.by_id.values().filter(|live| gone(live.key())).map(|live| live.key().id).collect();
        for id in leaving {
            self.retire_one(id);
        }
    }
}

impl ConfigCache {
    pub fn app(&self, uid: &str) -> Option<Arc<CachedApp>> {
        read(&self.apps).by_uid.get(uid).cloned()
    }

    pub fn app_by_id(&self, id: AppId) -> Option<Arc<CachedApp>> {
        read(&self.apps).by_id.get(&id).cloned()
    }

    /// Returns the endpoints of an app in order of creation, and none of an app that is gone.
    pub fn endpoints_of(&self, app: AppId) -> Arc<SubscriberIndex> {
        self.app_by_id(app).map(|entry| entry.endpoints()).unwrap_or_default()
    }

    pub fn apps(&self) -> Vec<Arc<App>> {
        let mut apps: Vec<_> = read(&self.apps).by_id.values().map(|entry| entry.app()).collect();
        apps.sort_by_key(|app| app.id);
        apps
    }

    /// Returns `None` for a deleted endpoint.
    pub fn endpoint(&self, id: EndpointId) -> Option<Arc<Endpoint>> {
        read(&self.endpoints).get(&id).cloned()
    }

    pub fn key(&self, hash: &KeyHash) -> Option<Arc<CachedKey>> {
        read(&self.keys).by_hash.get(hash).cloned()
    }

    pub fn key_by_id(&self, id: KeyId) -> Option<Arc<CachedKey>> {
        read(&self.keys).by_id.get(&id).cloned()
    }

    pub fn keys(&self) -> Vec<Arc<CachedKey>> {
        let mut keys: Vec<_> = read(&self.keys).by_id.values().cloned().collect();
        keys.sort_by_key(|live| live.key().id);
        keys
    }

    /// Returns an app's portal links in order of creation, including expired ones that are not purged yet.
    pub fn portal_links(&self, app: AppId) -> Vec<Arc<CachedKey>> {
        read(&self.keys).links.get(&app).into_iter().flat_map(|links| links.values().cloned()).collect()
    }

    /// Returns the keys whose last use is not in the store yet, with the time of that use.
    pub fn unwritten_uses(&self) -> Vec<(KeyId, Timestamp)> {
        let keys = read(&self.keys);
        let all = keys.by_id.values().chain(&keys.retired);
        all.filter_map(|live| Some((live.key().id, live.unwritten_use()?))).collect()
    }

    pub fn mark_uses_written(&self, uses: &[(KeyId, Timestamp)]) {
        let mut keys = write(&self.keys);
        for (id, used_at) in uses {
            let live = keys.by_id.get(id).or_else(|| keys.retired.iter().find(|live| live.key().id == *id));
            if let Some(live) = live {
                live.mark_use_written(*used_at);
            }
        }
        keys.retired.retain(|live| live.unwritten_use().is_some());
    }

    pub fn put_app(&self, app: App, rules: AppRules) {
        let mut apps = write(&self.apps);
        if let Some(entry) = apps.by_id.get(&app.id) {
            entry.app.store(Arc::new(app));
            entry.rules.store(Arc::new(rules));
            return;
        }
        let (id, uid) = (app.id, app.uid.clone());
        let entry = Arc::new(CachedApp {
            app: ArcSwap::from_pointee(app),
            rules: ArcSwap::from_pointee(rules),
            endpoints: ArcSwap::default(),
            quota_bucket: Mutex::default(),
        });
        apps.by_uid.insert(uid, entry.clone());
        apps.by_id.insert(id, entry);
    }

    /// Removes an app with its endpoints and keys; returns the endpoints that were in it.
    pub fn remove_app(&self, id: AppId) -> Vec<Arc<Endpoint>> {
        let mut apps = write(&self.apps);
        let Some(entry) = apps.by_id.remove(&id) else { return Vec::new() };
        let uid = &entry.app().uid;
        // The uid may belong to a newer app already.
        if apps.by_uid.get(uid).is_some_and(|named| Arc::ptr_eq(named, &entry)) {
            apps.by_uid.remove(uid);
        }
        drop(apps);
        let gone = entry.endpoints();
        let mut endpoints = write(&self.endpoints);
        for endpoint in gone.iter() {
            endpoints.remove(&endpoint.id());
        }
        write(&self.keys).retire(|key| key.scope.app() == Some(id));
        gone.to_vec()
    }

    /// Sets all endpoints of an app at once, as loaded at the start.
    pub fn load_endpoints(&self, app: AppId, loaded: Vec<Arc<Endpoint>>) {
        let apps = read(&self.apps);
        let Some(entry) = apps.by_id.get(&app) else { return };
        write(&self.endpoints).extend(loaded.iter().map(|endpoint| (endpoint.id(), endpoint.clone())));
        entry.endpoints.store(Arc::new(SubscriberIndex::new(loaded)));
    }

    /// Adds or replaces an endpoint, unless its app is gone. Returns `false` if a newer revision is here already:
    /// then the store knows more than the caller.
    pub fn put_endpoint(&self, endpoint: Arc<Endpoint>) -> bool {
        self.replace_endpoint(endpoint, |known, new| known.revision <= new.revision)
    }

    /// Adds or replaces an endpoint even by an older revision: the store has gone back to that one.
    pub fn restore_endpoint(&self, endpoint: Arc<Endpoint>) {
        self.replace_endpoint(endpoint, |_, _| true);
    }

    fn replace_endpoint(
        &self,
        endpoint: Arc<Endpoint>,
        may: impl FnOnce(&EndpointRecord, &EndpointRecord) -> bool,
    ) -> bool {
        let apps = read(&self.apps);
        let Some(entry) = apps.by_id.get(&endpoint.record.app) else { return true };
        // The write lock orders concurrent changes; the list itself is replaced as a whole.
        let mut endpoints = write(&self.endpoints);
        let known = endpoints.get(&endpoint.id());
        if known.is_some_and(|known| !may(&known.record, &endpoint.record)) {
            return false;
        }
        let is_known = endpoints.insert(endpoint.id(), endpoint.clone()).is_some();
        let mut list = entry.endpoints.load().to_vec();
        if is_known {
            for slot in list.iter_mut().filter(|slot| slot.id() == endpoint.id()) {
                *slot = endpoint.clone();
            }
        } else {
            list.push(endpoint);
        }
        entry.endpoints.store(Arc::new(SubscriberIndex::new(list)));
        true
    }

    pub fn remove_endpoint(&self, id: EndpointId) {
        let apps = read(&self.apps);
        let mut endpoints = write(&self.endpoints);
        let Some(endpoint) = endpoints.remove(&id) else { return };
        if let Some(entry) = apps.by_id.get(&endpoint.record.app) {
            let list = entry.endpoints.load().iter().filter(|e| e.id() != id).cloned().collect();
            entry.endpoints.store(Arc::new(SubscriberIndex::new(list)));
        }
    }

    /// Returns the ages at which data of an event may be due for deletion under the current contracts.
    pub fn retention_ages(&self) -> BTreeSet<Duration> {
        let of_apps: Vec<_> = read(&self.apps).by_id.values().map(|entry| entry.rules().retention).collect();
        let endpoints = read(&self.endpoints);
        retention::retention_ages(
            of_apps.into_iter().chain(endpoints.values().map(|one| one.contract.retention)),
        )
    }

    /// Returns the current event types, without a lock. Do not hold the guard for long.
    pub fn catalogue(&self) -> Guard<Arc<Catalogue>> {
        self.catalogue.load()
    }

    /// Adds or replaces event types atomically: a reader sees all of them or none.
    pub fn put_event_types(&self, event_types: &[Arc<EventType>]) {
        self.catalogue.rcu(|catalogue| catalogue.with(event_types));
    }

    pub fn remove_event_type(&self, name: &str) {
        self.catalogue.rcu(|catalogue| catalogue.without(name));
    }

    pub fn put_key(&self, key: ApiKey) {
        let live = Arc::new(CachedKey::new(key));
        let mut keys = write(&self.keys);
        keys.by_hash.insert(live.key().hash, live.clone());
        if let (true, Some(app)) = (live.key().scope.is_portal(), live.key().scope.app()) {
            keys.links.entry(app).or_default().insert(live.key().id, live.clone());
        }
        keys.by_id.insert(live.key().id, live);
    }

    /// Removes a key. It stops working before this returns.
    pub fn remove_key(&self, id: KeyId) {
        self.remove_keys(&[id]);
    }

    /// Removes keys. They stop working before this returns.
    pub fn remove_keys(&self, ids: &[KeyId]) {
        let mut keys = write(&self.keys);
        for id in ids {
            keys.retire_one(*id);
        }
    }
}

impl EndpointLookup for ConfigCache {
    fn endpoint(&self, id: EndpointId) -> Option<Arc<Endpoint>> {
        Self::endpoint(self, id)
    }
}

impl RetentionPolicy for ConfigCache {
    fn for_app(&self, app: AppId) -> Option<Retention> {
        read(&self.apps).by_id.get(&app).map(|entry| entry.rules().retention)
    }

    fn for_endpoint(&self, endpoint: EndpointId) -> Option<Retention> {
        read(&self.endpoints).get(&endpoint).map(|endpoint| endpoint.contract.retention)
    }
}

/// A panic elsewhere must not make the cache unusable: its values are replaced whole, never half-written.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

//! Start: reads the configuration store once and fills the configuration cache that the hot path uses.

use super::{Error, Service};
use crate::{
    domain::{
        api_key::{ApiKey, KeyHash, SETTINGS_KEY_ID, Scope},
        endpoint::Endpoint,
        event_type::EventTypeRecord,
        id::AppId,
    },
    functions::EventType,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Number of rows read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedCounts {
    pub apps: usize,
    pub endpoints: usize,
    pub keys: usize,
    pub event_types: usize,
}

impl Service {
    /// Fills the configuration cache. Fails, naming the endpoint, if an endpoint cannot be loaded: starting without it would
    /// lose its deliveries silently. Fails also, naming the keys, if needed encryption keys are missing.
    pub async fn load_config(&self, admin_key: Option<&str>) -> Result<LoadedCounts, Error> {
        // Read first: changes during the load are applied again afterwards.
        let version = self.cluster_store.changes(0).await?.version;
        let everything = self.config_store.config_snapshot().await?;
        let loaded = LoadedCounts {
            apps: everything.apps.len(),
            endpoints: everything.endpoints.len(),
            keys: everything.keys.len(),
            event_types: everything.event_types.len(),
        };
        self.check_encryption_keys(&everything.endpoints)?;
        for app in everything.apps {
            let rules = self.rules_of(&app);
            self.config_cache.put_app(app, rules);
        }
        let mut kept = HashSet::new();
        let mut by_app: HashMap<AppId, Vec<Arc<Endpoint>>> = HashMap::new();
        for record in everything.endpoints {
            let Some(entry) = self.config_cache.app_by_id(record.app) else { continue };
            let (app, uid) = (entry.app(), record.uid.clone());
            let endpoint = self.load_endpoint(&app, record).map_err(|error| {
                Error::Internal(format!("endpoint {uid} of app {} cannot be used: {error}", app.uid))
            })?;
            let hash = endpoint.contract_hash;
            if kept.insert(hash) && self.config_store.contract(hash).await?.is_none() {
                self.store_contract_of(&endpoint).await?;
            }
            by_app.entry(app.id).or_default().push(Arc::new(endpoint));
        }
        for (app, endpoints) in by_app {
            self.config_cache.load_endpoints(app, endpoints);
        }
        let compile = |record: EventTypeRecord| {
            let name = record.name.clone();
            let unusable = |error| Error::Internal(format!("event type {name} cannot be used: {error}"));
            EventType::compile(record).map(Arc::new).map_err(unusable)
        };
        let event_types: Vec<_> =
            everything.event_types.into_iter().map(compile).collect::<Result<_, _>>()?;
        self.config_cache.put_event_types(&event_types);
        for key in everything.keys.into_iter().filter(|key| key.revoked_at.is_none()) {
            self.config_cache.put_key(key);
        }
        if let Some(text) = admin_key {
            self.config_cache.put_key(self.key_of_settings(text));
        }
        self.node_state.set_config_version(version, self.node_state.epoch());
        Ok(loaded)
    }

    pub(super) fn key_of_settings(&self, text: &str) -> ApiKey {
        ApiKey {
            id: SETTINGS_KEY_ID,
            hash: KeyHash::of(text),
            // The operator chose this key, so even its first characters may reveal too much.
            display_prefix: String::new(),
            scope: Scope::Admin,
            name: Some("given by the settings".into()),
            created_at: self.clock.now(),
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
            theme: None,
        }
    }
}

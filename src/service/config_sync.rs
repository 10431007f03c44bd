//! Applies configuration changes of other nodes: loads changed apps, endpoints, keys and event types into the configuration
//! cache. Changes made by this node are listed too and are already cached.

use super::{Error, Service};
use crate::{
    domain::{
        api_key::SETTINGS_KEY_ID,
        app::App,
        endpoint::Endpoint,
        id::{AppId, EndpointId, EventTypeId, KeyId},
        live_update::UpdateSink,
    },
    functions::EventType,
    store::cluster::ConfigChanges,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Polling interval when no notification arrives.
const CHANGES_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Polling interval while streams are open. Views without a stream refresh as often.
const OTHER_NODES_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after a store error.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

impl Service {
    /// Runs until dropped; `notify` is notified when there are new changes. Not used in single-node mode.
    pub async fn sync_config(&self, notify: &Notify) {
        loop {
            // Registered before the read, so that no notification is missed.
            let notified = notify.notified();
            let pause = match self.catch_up().await {
                Ok(()) => CHANGES_POLL_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "could not follow what other nodes change");
                    ERROR_PAUSE
                }
            };
            tokio::select! {
                biased;
                () = notified => {}
                () = self.clock.sleep_for(pause) => {}
            }
        }
    }

    /// Runs until dropped. Live updates cover only this node, so when another node writes, every open stream gets `Lagged` and
    /// its client fetches again. Not used in single-node mode.
    pub async fn watch_other_nodes(&self) {
        let mut known = None;
        loop {
            self.clock.sleep_for(OTHER_NODES_POLL_INTERVAL).await;
            if !self.streams.has_subscribers() {
                known = None;
            } else if let Ok(view) = self.cluster_store.nodes().await
                && known.replace(view.write_counter) != Some(view.write_counter)
            {
                self.streams.report_other_node();
            }
        }
    }

    /// Loads all changes made until now into the configuration cache, then reports their version to the other nodes.
    pub(super) async fn catch_up(&self) -> Result<(), Error> {
        let (epoch, seen) = (self.node_state.epoch(), self.node_state.config_version());
        let mut changes = self.cluster_store.changes(seen).await?;
        if changes.version == seen {
            return Ok(());
        }
        if changes.is_all {
            self.add_everything(&mut changes).await?;
        }
        for app in &changes.apps {
            self.sync_app(*app).await?;
        }
        for endpoint in &changes.endpoints {
            self.sync_endpoint(*endpoint).await?;
        }
        for key in &changes.keys {
            self.sync_key(*key).await?;
        }
        for event_type in &changes.event_types {
            self.sync_event_type(*event_type).await?;
        }
        // Commands whose permits were taken before the change are stored by then, so another node that reads this node's leases
        // sees them.
        self.delivery_store.flush().await?;
        self.node_state.set_config_version(changes.version, epoch);
        Ok(())
    }

    /// The list of changes is no longer complete: everything stored or cached may have changed.
    async fn add_everything(&self, changes: &mut ConfigChanges) -> Result<(), Error> {
        let everything = self.config_store.config_snapshot().await?;
        let mut apps: BTreeSet<AppId> = everything.apps.iter().map(|app| app.id).collect();
        let mut endpoints: BTreeSet<EndpointId> = everything.endpoints.iter().map(|one| one.id).collect();
        let mut keys: BTreeSet<KeyId> = everything.keys.iter().map(|key| key.id).collect();
        let mut event_types: BTreeSet<EventTypeId> =
            everything.event_types.iter().map(|one| one.id).collect();
        apps.extend(self.config_cache.apps().iter().map(|app| app.id));
        self.each_endpoint(|endpoint| {
            endpoints.insert(endpoint.id());
        });
        let known_keys = self.config_cache.keys();
        keys.extend(known_keys.iter().map(|live| live.key().id).filter(|id| *id != SETTINGS_KEY_ID));
        event_types.extend(self.config_cache.catalogue().all().iter().map(|one| one.record.id));
        // Unchanged rows are not read again: each read is a round trip.
        for app in &everything.apps {
            if self.config_cache.app_by_id(app.id).is_some_and(|known| *known.app() == *app) {
                apps.remove(&app.id);
            }
        }
        for endpoint in &everything.endpoints {
            if self.config_cache.endpoint(endpoint.id).is_some_and(|known| known.record == *endpoint) {
                endpoints.remove(&endpoint.id);
            }
        }
        for key in &everything.keys {
            if key.revoked_at.is_none() && self.config_cache.key_by_id(key.id).is_some() {
                keys.remove(&key.id);
            }
        }
        changes.apps = apps.into_iter().collect();
        changes.endpoints = endpoints.into_iter().collect();
        changes.keys = keys.into_iter().collect();
        changes.event_types = event_types.into_iter().collect();
        Ok(())
    }

    async fn sync_app(&self, id: AppId) -> Result<(), Error> {
        let _turn = self.app_locks.lock(id.as_i64()).await;
        let Some(app) = self.config_store.app(id).await? else {
            self.readiness.forget_app(id);
            for endpoint in self.config_cache.remove_app(id) {
                self.permits.endpoint_changed(endpoint.id());
            }
            return Ok(());
        };
        let known = self.config_cache.app_by_id(id).map(|entry| entry.app());
        if known.as_deref() == Some(&app) {
            return Ok(());
        }
        self.config_cache.put_app(app.clone(), self.rules_of(&app));
        let Some(known) = known else { return Ok(()) };
        // Also if the limits are equal: the app may have been without limits in between.
        if known.settings.limits.is_some() || app.settings.limits.is_some() {
            self.permits.app_changed(id);
        }
        let contract = |app: &App| (app.settings.contract.clone(), app.settings.overrides.clone());
        if contract(&known) != contract(&app)
            && let Some(entry) = self.config_cache.app_by_id(id)
        {
            for endpoint in entry.endpoints().iter() {
                let _turn = self.endpoint_locks.lock(endpoint.id().as_i64()).await;
                self.load_changed_endpoint(&app, endpoint.id()).await?;
            }
        }
        Ok(())
    }

    /// Reloads the app before a change of the whole row: another node may have changed it a moment ago.
    pub(super) async fn refresh_app(&self, id: AppId) -> Result<(), Error> {
        if self.node_state.is_single_node() { Ok(()) } else { self.sync_app(id).await }
    }

    async fn sync_endpoint(&self, id: EndpointId) -> Result<(), Error> {
        let _turn = self.endpoint_locks.lock(id.as_i64()).await;
        let known = self.config_cache.endpoint(id);
        let Some(record) = self.config_store.endpoint(id).await? else {
            self.readiness.mark_usable(id);
            if known.is_some() {
                self.config_cache.remove_endpoint(id);
                self.permits.endpoint_changed(id);
            }
            return Ok(());
        };
        // An older row counts too: the store may have lost confirmed changes.
        let is_news = known.is_none_or(|known| known.record != record);
        match self.config_cache.app_by_id(record.app).filter(|_| is_news) {
            Some(entry) => self.load_changed_endpoint(&entry.app(), id).await,
            None => Ok(()),
        }
    }

    /// Loads a changed endpoint. If it cannot be loaded here, its URL, contract and secrets stay as cached, so that its other
    /// deliveries and other endpoints do not suffer. Its record is replaced all the same: other nodes rely on the disabled
    /// state, limits and order that this node has seen.
    async fn load_changed_endpoint(&self, app: &App, id: EndpointId) -> Result<(), Error> {
        let Some(record) = self.config_store.endpoint(id).await? else { return Ok(()) };
        let endpoint: Arc<Endpoint> = match self.load_endpoint(app, record.clone()) {
            Ok(endpoint) => {
                self.readiness.mark_usable(id);
                Arc::new(endpoint)
            }
            Err(error) => {
                self.readiness.mark_unusable(id, app.id, &record.uid);
                tracing::error!(%error, endpoint = record.uid, app = app.uid, "another node changed an endpoint in a way that cannot be used here");
                let Some(known) = self.config_cache.endpoint(id) else { return Ok(()) };
                Arc::new(Endpoint { record, ..Endpoint::clone(&known) })
            }
        };
        match self.activate(app, endpoint).await {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn sync_key(&self, id: KeyId) -> Result<(), Error> {
        match self.config_store.key(id).await?.filter(|key| key.revoked_at.is_none()) {
            None => self.config_cache.remove_key(id),
            Some(_) if self.config_cache.key_by_id(id).is_some() => {}
            Some(key) => self.config_cache.put_key(key),
        }
        Ok(())
    }

    async fn sync_event_type(&self, id: EventTypeId) -> Result<(), Error> {
        let _turn = self.catalogue_lock.lock().await;
        let Some(record) = self.config_store.event_type(id).await? else {
            let known = self.config_cache.catalogue().all();
            if let Some(gone) = known.iter().find(|one| one.record.id == id) {
                self.config_cache.remove_event_type(&gone.record.name);
            }
            return Ok(());
        };
        let name = record.name.clone();
        match EventType::compile(record) {
            Ok(event_type) => self.config_cache.put_event_types(&[Arc::new(event_type)]),
            Err(error) => {
                tracing::error!(%error, event_type = name, "another node changed an event type in a way that cannot be used here");
            }
        }
        Ok(())
    }
}

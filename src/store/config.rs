//! Configuration: apps, endpoints, keys, event types and resolved contracts. The in-memory configuration is built from it.
//!
//! The `entry` of the audit log is written with its change, and not at all if the change is refused.

use super::{
    Reply, Store,
    sql::{Sql, audit, config, event_types, maintenance, replays},
};
use crate::domain::{
    api_key::ApiKey,
    app::App,
    audit::AuditEntry,
    contract::ContractHash,
    endpoint::EndpointRecord,
    event_type::EventTypeRecord,
    id::{AppId, EndpointId, EventTypeId, KeyId},
    replay::Replay,
    time::Timestamp,
};

/// The configuration that is kept in memory, read once at start.
#[derive(Debug, Default)]
pub struct ConfigSnapshot {
    pub apps: Vec<App>,
    pub endpoints: Vec<EndpointRecord>,
    pub keys: Vec<ApiKey>,
    pub event_types: Vec<EventTypeRecord>,
}

/// Result of inserting a record with a uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    Added,
    /// The uid is in use: by another app, or by another endpoint of the app (a deleted endpoint keeps its uid).
    UidTaken,
}

/// Names of an endpoint, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointLabel {
    pub id: EndpointId,
    pub uid: String,
    pub url: String,
}

impl Store {
    /// Returns the whole configuration, of one commit.
    pub fn config_snapshot(&self) -> Reply<ConfigSnapshot> {
        self.backend.write(config::config_snapshot)
    }

    /// Adds an app; refused if its uid is in use.
    pub fn add_app(&self, app: App, entry: Option<AuditEntry>) -> Reply<Inserted> {
        self.backend.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::add_app(tx, &app)?))
    }

    /// Replaces the settings; `false` if there is no such app.
    pub fn change_app(&self, app: App, entry: Option<AuditEntry>) -> Reply<bool> {
        self.backend
            .write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::change_app(tx, &app)?))
    }

    /// Removes the app, its endpoints with their inspections, and its keys at once. Its events and deliveries are removed by
    /// `purge_deleted_apps`, which finds the rest by itself; nothing of them can be read any more.
    pub fn remove_app(&self, app: AppId, entry: Option<AuditEntry>) -> Reply<bool> {
        self.backend
            .write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::remove_app(tx, app)?))
    }

    /// Adds an endpoint; refused if its uid is in use.
    pub fn add_endpoint(&self, endpoint: EndpointRecord, entry: Option<AuditEntry>) -> Reply<Inserted> {
        self.backend.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), config::add_endpoint(tx, &endpoint)?)
        })
    }

    /// Replaces settings, secrets, headers, TLS and availability by a record whose revision is one higher than the stored
    /// one; `false` if it is not one higher or the endpoint is gone: another writer was faster, read again.
    pub fn change_endpoint(&self, endpoint: EndpointRecord, entry: Option<AuditEntry>) -> Reply<bool> {
        self.backend.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), config::change_endpoint(tx, &endpoint)?)
        })
    }

    /// Replaces an endpoint as `change_endpoint` does and starts these replays, all in one transaction.
    pub fn change_endpoint_and_replay(
        &self,
        endpoint: EndpointRecord,
        entry: AuditEntry,
        replays: Vec<(Replay, AuditEntry)>,
    ) -> Reply<bool> {
        let change = move |tx: &dyn Sql| {
            let is_changed =
                audit::write_if_changed(tx, Some(&entry), config::change_endpoint(tx, &endpoint)?)?;
            for (replay, entry) in replays.iter().filter(|_| is_changed) {
                audit::write_if_changed(tx, Some(entry), replays::start(tx, replay)?)?;
            }
            Ok(is_changed)
        };
        self.backend.write_then(change, |is_changed, after| after.replays_wait |= *is_changed)
    }

    /// Marks the endpoint deleted. Its history stays, its encrypted fields are removed, an inspection that waits or runs is
    /// cancelled.
    pub fn remove_endpoint(
        &self,
        endpoint: EndpointId,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<bool> {
        self.backend.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), config::remove_endpoint(tx, endpoint, now)?)
        })
    }

    /// Returns an app as it is stored now; `None` if it is gone.
    pub fn app(&self, app: AppId) -> Reply<Option<App>> {
        self.backend.read(move |connection| config::one_app(connection, app))
    }

    /// Returns an event type as it is stored now; `None` if it is gone.
    pub fn event_type(&self, event_type: EventTypeId) -> Reply<Option<EventTypeRecord>> {
        self.backend.read(move |connection| event_types::one(connection, event_type))
    }

    /// Returns an endpoint as it is stored now; `None` if it is gone.
    pub fn endpoint(&self, endpoint: EndpointId) -> Reply<Option<EndpointRecord>> {
        self.backend.read(move |connection| config::endpoint_record(connection, endpoint))
    }

    /// Returns uids and URLs of endpoints, for showing history; includes deleted ones.
    pub fn endpoint_names(&self, endpoints: Vec<EndpointId>) -> Reply<Vec<EndpointLabel>> {
        self.backend.read(move |connection| config::endpoint_names(connection, &endpoints))
    }

    /// Returns a key, active or revoked.
    pub fn key(&self, key: KeyId) -> Reply<Option<ApiKey>> {
        self.backend.read(move |connection| config::one_key(connection, key))
    }

    /// Returns keys in order of their ids, revoked ones too, at most `most`. Leaves out portal links.
    pub fn keys(&self, after: KeyId, most: u32) -> Reply<Vec<ApiKey>> {
        self.backend.read(move |connection| config::keys(connection, after, most))
    }

    /// Adds a key. With a portal link, removes a bounded number of links of its app that expired a day ago or more, and returns
    /// their ids.
    pub fn add_key(&self, key: ApiKey, entry: Option<AuditEntry>) -> Reply<Vec<KeyId>> {
        self.backend.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::add_key(tx, &key)?))
    }

    /// Revokes a key; `false` if there is none that is active.
    pub fn revoke_key(&self, key: KeyId, now: Timestamp, entry: Option<AuditEntry>) -> Reply<bool> {
        self.backend
            .write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::revoke_key(tx, key, now)?))
    }

    /// Stores when these keys were last used; an earlier use than the stored one changes nothing.
    pub fn record_key_uses(&self, uses: Vec<(KeyId, Timestamp)>) -> Reply<()> {
        self.backend.write(move |tx| maintenance::record_key_uses(tx, &uses))
    }

    /// Adds an event type at revision 1, or replaces it by a record whose revision is one higher than the stored one; `false`
    /// if it is not one higher, or the name is taken: another writer was faster.
    pub fn put_event_type(&self, event_type: EventTypeRecord, entry: Option<AuditEntry>) -> Reply<bool> {
        self.put_event_types(vec![(event_type, entry)])
    }

    /// Puts several event types with their entries, all of them or none.
    pub fn put_event_types(&self, event_types: Vec<(EventTypeRecord, Option<AuditEntry>)>) -> Reply<bool> {
        self.backend.write(move |tx| event_types::put_all(tx, &event_types))
    }

    /// `false` if there is none.
    pub fn remove_event_type(&self, event_type: EventTypeId, entry: Option<AuditEntry>) -> Reply<bool> {
        self.backend.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), event_types::remove(tx, event_type)?)
        })
    }

    /// Stores a resolved contract under its hash, so that an attempt can be explained later.
    pub fn store_contract(&self, hash: ContractHash, document: String) -> Reply<()> {
        self.backend.write(move |tx| config::store_contract(tx, hash, &document))
    }

    /// Returns a resolved contract by its hash; `None` if it was never stored.
    pub fn contract(&self, hash: ContractHash) -> Reply<Option<String>> {
        self.backend.read(move |connection| config::contract(connection, hash))
    }
}

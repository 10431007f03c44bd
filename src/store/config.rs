//! Config store: apps, endpoints, keys, event types and resolved contracts. The in-memory configuration is built from it.
//!
//! The `entry` of the audit log is written with its change, and not at all if the change is refused.

use super::Reply;
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

pub trait ConfigStore: Send + Sync {
    fn config_snapshot(&self) -> Reply<'_, ConfigSnapshot>;

    fn add_app(&self, app: App, entry: Option<AuditEntry>) -> Reply<'_, Inserted>;

    /// Replaces the settings; `false` if there is no such app.
    fn change_app(&self, app: App, entry: Option<AuditEntry>) -> Reply<'_, bool>;

    /// Removes the app, its endpoints with their inspections, and its keys at once. Its events and deliveries are removed by
    /// `ClusterStore::purge_deleted_apps`, which finds the rest by itself; nothing of them can be read any more.
    fn remove_app(&self, app: AppId, entry: Option<AuditEntry>) -> Reply<'_, bool>;

    fn add_endpoint(&self, endpoint: EndpointRecord, entry: Option<AuditEntry>) -> Reply<'_, Inserted>;

    /// Replaces settings, secrets, headers, TLS and availability by a record whose revision is one higher than the stored
    /// one; `false` if it is not one higher or the endpoint is gone: another writer was faster, read again.
    fn change_endpoint(&self, endpoint: EndpointRecord, entry: Option<AuditEntry>) -> Reply<'_, bool>;

    /// Replaces an endpoint as `change_endpoint` does and starts these replays, all in one transaction.
    fn change_endpoint_and_replay(
        &self,
        endpoint: EndpointRecord,
        entry: AuditEntry,
        replays: Vec<(Replay, AuditEntry)>,
    ) -> Reply<'_, bool>;

    /// Marks the endpoint deleted. Its history stays, its encrypted fields are removed, an inspection that waits or runs is
    /// cancelled.
    fn remove_endpoint(
        &self,
        endpoint: EndpointId,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, bool>;

    /// Returns an app as it is stored now; `None` if it is gone.
    fn app(&self, app: AppId) -> Reply<'_, Option<App>>;

    /// Returns an event type as it is stored now; `None` if it is gone.
    fn event_type(&self, event_type: EventTypeId) -> Reply<'_, Option<EventTypeRecord>>;

    /// Returns an endpoint as it is stored now; `None` if it is gone.
    fn endpoint(&self, endpoint: EndpointId) -> Reply<'_, Option<EndpointRecord>>;

    /// Returns uids and URLs of endpoints, for showing history; includes deleted ones.
    fn endpoint_names(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointLabel>>;

    /// Returns a key, active or revoked.
    fn key(&self, key: KeyId) -> Reply<'_, Option<ApiKey>>;

    /// Returns keys in order of their ids, revoked ones too, at most `most`. Leaves out portal links.
    fn keys(&self, after: KeyId, most: u32) -> Reply<'_, Vec<ApiKey>>;

    /// Adds a key. With a portal link, removes a bounded number of links of its app that expired a day ago or more, and returns
    /// their ids.
    fn add_key(&self, key: ApiKey, entry: Option<AuditEntry>) -> Reply<'_, Vec<KeyId>>;

    fn revoke_key(&self, key: KeyId, now: Timestamp, entry: Option<AuditEntry>) -> Reply<'_, bool>;

    /// Adds an event type at revision 1, or replaces it by a record whose revision is one higher than the stored one; `false`
    /// if it is not one higher, or the name is taken: another writer was faster.
    fn put_event_type(&self, event_type: EventTypeRecord, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.put_event_types(vec![(event_type, entry)])
    }

    /// Puts several event types with their entries, all of them or none.
    fn put_event_types(&self, event_types: Vec<(EventTypeRecord, Option<AuditEntry>)>) -> Reply<'_, bool>;

    /// `false` if there is none.
    fn remove_event_type(&self, event_type: EventTypeId, entry: Option<AuditEntry>) -> Reply<'_, bool>;

    /// Stores a resolved contract under its hash, so that an attempt can be explained later.
    fn store_contract(&self, hash: ContractHash, document: String) -> Reply<'_, ()>;

    fn contract(&self, hash: ContractHash) -> Reply<'_, Option<String>>;
}

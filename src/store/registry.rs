//! The registry: apps, endpoints, keys, event types and resolved contracts, as they are stored. The directory is built from it.
//!
//! An `entry` of the audit log is written with its change, and not at all if the change is refused.

use super::Reply;
use crate::domain::{
    app::App,
    audit::Entry,
    contract::ContractHash,
    endpoint::EndpointRecord,
    event_type::EventTypeRecord,
    id::{AppId, EndpointId, EventTypeId, KeyId},
    key::Key,
    replay::Replay,
    time::Timestamp,
};

/// Everything that the directory holds, read once at start.
#[derive(Debug, Default)]
pub struct Everything {
    pub apps: Vec<App>,
    pub endpoints: Vec<EndpointRecord>,
    pub keys: Vec<Key>,
    pub event_types: Vec<EventTypeRecord>,
}

/// Whether something new could be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Added,
    /// The uid is in use: by another app, or by another endpoint of the app (a deleted endpoint keeps its uid).
    Taken,
}

/// How people know an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointName {
    pub id: EndpointId,
    pub uid: String,
    pub url: String,
}

pub trait Registry: Send + Sync {
    fn everything(&self) -> Reply<'_, Everything>;

    fn add_app(&self, app: App, entry: Option<Entry>) -> Reply<'_, Added>;

    /// Replaces the settings; `false` if there is no such app.
    fn change_app(&self, app: App, entry: Option<Entry>) -> Reply<'_, bool>;

    /// Removes the app, its endpoints with their inspections, and its keys at once. Its events and deliveries are removed by
    /// `Cluster::purge`, which finds the rest by itself; nothing of them can be read any more.
    fn remove_app(&self, app: AppId, entry: Option<Entry>) -> Reply<'_, bool>;

    fn add_endpoint(&self, endpoint: EndpointRecord, entry: Option<Entry>) -> Reply<'_, Added>;

    /// Replaces settings, secrets, headers, TLS and switch by a record whose revision is one higher than the stored one;
    /// `false` if that is not so or the endpoint is gone: someone else was faster, read again.
    fn change_endpoint(&self, endpoint: EndpointRecord, entry: Option<Entry>) -> Reply<'_, bool>;

    /// The same, and these replays begin with it: all of it or nothing.
    fn change_and_begin(
        &self,
        endpoint: EndpointRecord,
        entry: Entry,
        replays: Vec<(Replay, Entry)>,
    ) -> Reply<'_, bool>;

    /// Marks it deleted: its history stays, whatever of it is sealed goes, an inspection that waits or runs is cancelled.
    fn remove_endpoint(&self, endpoint: EndpointId, now: Timestamp, entry: Option<Entry>) -> Reply<'_, bool>;

    /// One app as it is stored now; `None` if it is gone.
    fn app(&self, app: AppId) -> Reply<'_, Option<App>>;

    /// One event type as it is stored now; `None` if it is gone.
    fn event_type(&self, event_type: EventTypeId) -> Reply<'_, Option<EventTypeRecord>>;

    /// One endpoint as it is stored now; `None` if it is gone.
    fn endpoint(&self, endpoint: EndpointId) -> Reply<'_, Option<EndpointRecord>>;

    /// What endpoints are called and where they lead; deleted ones too, for showing history.
    fn endpoint_names(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointName>>;

    /// One key, whether it works or was revoked.
    fn key(&self, key: KeyId) -> Reply<'_, Option<Key>>;

    /// Keys in order of their ids, revoked ones too, at most `most`. Portal links are not among them.
    fn keys(&self, after: KeyId, most: u32) -> Reply<'_, Vec<Key>>;

    /// Adds a key. With a portal link, those of its app that expired a day ago or more go; their ids are the answer.
    fn add_key(&self, key: Key, entry: Option<Entry>) -> Reply<'_, Vec<KeyId>>;

    fn revoke_key(&self, key: KeyId, now: Timestamp, entry: Option<Entry>) -> Reply<'_, bool>;

    /// Adds an event type at revision 1, or replaces it by a record whose revision is one higher than the stored one;
    /// `false` if that is not so, or the name is taken: someone else was faster.
    fn put_event_type(&self, event_type: EventTypeRecord, entry: Option<Entry>) -> Reply<'_, bool> {
        self.put_event_types(vec![(event_type, entry)])
    }

    /// The same for several: all of them with their entries, or nothing at all.
    fn put_event_types(&self, event_types: Vec<(EventTypeRecord, Option<Entry>)>) -> Reply<'_, bool>;

    /// `false` if there is none.
    fn remove_event_type(&self, event_type: EventTypeId, entry: Option<Entry>) -> Reply<'_, bool>;

    /// Keeps a resolved contract under its hash, so that an attempt can be explained later.
    fn keep_contract(&self, hash: ContractHash, document: String) -> Reply<'_, ()>;

    fn contract(&self, hash: ContractHash) -> Reply<'_, Option<String>>;
}

//! Queries: lists and details of events and deliveries, for people. Reads only, on connections of their own, so that the writer is never blocked.
//!
//! A page examines at most `ROWS_EXAMINED_MAX` rows in time order and returns short with a cursor, so that no filter needs
//! an index of its own and no page can take long.

use super::{
    Reply, Store,
    deliveries::Accepted,
    sql::{dedup, queries, recent},
};
use crate::domain::{
    contract::ContractHash,
    delivery::{Delivery, DeliveryState},
    event::{DedupKey, Event, Fingerprint},
    id::{AppId, AuditId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
    outcome::Attempt,
    time::Timestamp,
};

pub const ROWS_EXAMINED_MAX: u32 = 10_000;

/// A page, newest first unless said otherwise. `next` continues it; a short page may have one.
#[derive(Debug)]
pub struct Page<T> {
    pub rows: Vec<T>,
    pub next: Option<Cursor>,
}

/// Where a list continues. The API prints it bound to its app and filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub at: i64,
    pub id: i64,
}

#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event_type: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub struct DeliveryListFilter {
    pub states: Vec<DeliveryState>,
    pub endpoint: Option<EndpointId>,
    pub event: Option<EventId>,
    pub event_type: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// A delivery as lists show it.
#[derive(Clone, Debug)]
pub struct DeliveryRow {
    pub delivery: Delivery,
    /// The event, without its data.
    pub event: Event,
    pub last_error: Option<LastError>,
    /// The contract that the last attempt was made under whose contract is known, if there was one.
    pub last_contract: Option<ContractHash>,
    /// Where the last attempt that failed went.
    pub last_url: Option<String>,
}

/// Status and error of the last attempt, if that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// A row of the attempt history; `number` is `None` for attempts that use no retry slot.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    pub position: u32,
    pub number: Option<u32>,
    pub attempt: Attempt,
}

/// An object in the store, by its own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectId {
    Event(EventId),
    Delivery(DeliveryId),
    Replay(ReplayId),
    Inspection(InspectionId),
    Notice(NoticeId),
    Audit(AuditId),
}

/// The app that an object belongs to; `None` for an entry of the audit log that belongs to no app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub Option<AppId>);

impl Store {
    /// Finds an event by the producer's id, or else by the product's own.
    pub fn find_event(&self, app: AppId, external_id: String, own: Option<EventId>) -> Reply<Option<Event>> {
        self.backend.read(move |connection| queries::find_event(connection, app, &external_id, own))
    }

    /// Returns the answer that accepting an event under these keys would get, without accepting it: `New` if nothing is
    /// stored under them.
    pub fn find_duplicate(&self, keys: Vec<DedupKey>, fingerprint: Fingerprint) -> Reply<Accepted> {
        self.backend.read(move |connection| dedup::find_duplicate(connection, &keys, fingerprint))
    }

    /// Lists the events of an app, newest first.
    pub fn events(
        &self,
        app: AppId,
        filter: EventFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<Page<Event>> {
        self.backend.read(move |connection| queries::events(connection, app, &filter, after, limit))
    }

    /// All deliveries of an event, replays included, oldest first.
    pub fn deliveries_of(&self, event: EventId) -> Reply<Vec<DeliveryRow>> {
        self.backend.read(move |connection| queries::deliveries_of(connection, event))
    }

    /// Returns a delivery of the app with its whole history, oldest attempt first.
    pub fn delivery(
        &self,
        app: AppId,
        delivery: DeliveryId,
    ) -> Reply<Option<(DeliveryRow, Vec<AttemptRow>)>> {
        self.backend.read(move |connection| queries::delivery(connection, app, delivery))
    }

    /// Lists the deliveries of an app, newest first.
    pub fn deliveries(
        &self,
        app: AppId,
        filter: DeliveryListFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<Page<DeliveryRow>> {
        self.backend.read(move |connection| queries::deliveries(connection, app, &filter, after, limit))
    }

    /// The latest attempts at an endpoint, at most `most`, newest first: of its newest deliveries, of those in flight and of
    /// those that wait for another attempt. Examines a bounded number of rows.
    pub fn recent_attempts(
        &self,
        app: AppId,
        endpoint: EndpointId,
        most: usize,
    ) -> Reply<Vec<(DeliveryId, AttemptRow)>> {
        self.backend.read(move |connection| recent::attempts(connection, app, endpoint, most))
    }

    /// Returns the app that owns the object; `None` if there is no such object.
    pub fn owner(&self, object: ObjectId) -> Reply<Option<Owner>> {
        self.backend.read(move |connection| queries::owner(connection, object))
    }

    /// The events that producers published under these keys, with their apps.
    pub fn events_by_dedup_key(&self, keys: Vec<DedupKey>) -> Reply<Vec<(EventId, AppId)>> {
        self.backend.read(move |connection| queries::events_by_dedup_key(connection, &keys))
    }

    /// Returns the deliveries that wait in these endpoint queues (all of one app), the next due first.
    pub fn queue(
        &self,
        endpoints: Vec<EndpointId>,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<Page<DeliveryRow>> {
        self.backend.read(move |connection| queries::queue(connection, &endpoints, after, limit))
    }

    /// Dead deliveries by the time they died, newest first; closed ones only if asked for.
    pub fn dead_letters(
        &self,
        app: AppId,
        endpoint: Option<EndpointId>,
        closed_too: bool,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<Page<DeliveryRow>> {
        self.backend.read(move |connection| {
            queries::dead_letters(connection, app, endpoint, closed_too, after, limit)
        })
    }

    /// How many deliveries wait, over all apps.
    pub fn waiting_count(&self) -> Reply<u64> {
        self.backend.read_for_engine(queries::waiting_count)
    }
}

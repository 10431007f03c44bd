//! Queries: lists and details for people. Reads only, on connections of their own, so that the writer is never blocked.
//!
//! A page examines at most `ROWS_EXAMINED_MAX` rows in time order and returns short with a cursor, so that no filter needs
//! an index of its own and no page can take long.

use super::{
    Reply,
    audit::AuditFilter,
    deliveries::Accepted,
    inbox::InboxEvent,
    notices::{NoticeBatch, NoticeFilter, NoticesWaiting},
    replays::{SourceSearch, Sources},
    statistics::{Statistics, StatisticsSearch},
};
use crate::domain::{
    audit::AuditEntry,
    contract::ContractHash,
    delivery::{Delivery, DeliveryState},
    event::{DedupKey, Event, Fingerprint},
    health::Health,
    id::{AppId, AuditId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
    inspection::Inspection,
    notice::Notice,
    outcome::Attempt,
    replay::Replay,
    statistics::Counters,
    time::Timestamp,
};
use std::time::Duration;

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

/// Health of an endpoint, with its counters.
#[derive(Clone, Debug, Default)]
pub struct HealthReport {
    pub health: Health,
    pub hour: Counters,
    pub day: Counters,
    pub three_days: Counters,
    /// As far back as statistics are kept.
    pub last_success_at: Option<Timestamp>,
    /// Outage-adjusted time, and when it was stored.
    pub clock: Option<(Duration, Timestamp)>,
}

pub trait QueryStore: Send + Sync {
    /// Finds an event by the producer's id, or else by the product's own.
    fn find_event(&self, app: AppId, external_id: String, own: Option<EventId>) -> Reply<'_, Option<Event>>;

    /// Returns the answer that accepting an event under these keys would get, without accepting it: `New` if nothing is
    /// stored under them.
    fn find_duplicate(&self, keys: Vec<DedupKey>, fingerprint: Fingerprint) -> Reply<'_, Accepted>;

    /// Returns some of the events that wait in the inbox, the oldest first. `None` if this store has no inbox.
    fn inbox_page(&self) -> Reply<'_, Option<Vec<InboxEvent>>>;

    fn events(
        &self,
        app: AppId,
        filter: EventFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Event>>;

    /// All deliveries of an event, replays included, oldest first.
    fn deliveries_of(&self, event: EventId) -> Reply<'_, Vec<DeliveryRow>>;

    fn delivery(&self, app: AppId, delivery: DeliveryId)
    -> Reply<'_, Option<(DeliveryRow, Vec<AttemptRow>)>>;

    fn deliveries(
        &self,
        app: AppId,
        filter: DeliveryListFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<DeliveryRow>>;

    /// The latest attempts at an endpoint, at most `most`, newest first: of its newest deliveries, of those in flight and of
    /// those that wait for another attempt. Examines a bounded number of rows.
    fn recent_attempts(
        &self,
        app: AppId,
        endpoint: EndpointId,
        most: usize,
    ) -> Reply<'_, Vec<(DeliveryId, AttemptRow)>>;

    /// Returns the app that owns the object; `None` if there is no such object.
    fn owner(&self, thing: ObjectId) -> Reply<'_, Option<Owner>>;

    /// The events that producers published under these keys, with their apps.
    fn events_by_dedup_key(&self, keys: Vec<DedupKey>) -> Reply<'_, Vec<(EventId, AppId)>>;

    /// Returns the deliveries that wait in these endpoint queues (all of one app), the next due first.
    fn queue(
        &self,
        queues: Vec<EndpointId>,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<DeliveryRow>>;

    /// Dead deliveries by the time they died, newest first; closed ones only if asked for.
    fn dead_letters(
        &self,
        app: AppId,
        endpoint: Option<EndpointId>,
        closed_too: bool,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<DeliveryRow>>;

    /// The next sources of a replay, at most `most`; examines a bounded number of rows.
    fn replay_sources(&self, search: SourceSearch, most: usize) -> Reply<'_, Sources>;

    /// Counts the sources of a replay, for people: as many as one query examines, without blocking the engine.
    fn count_sources(&self, search: SourceSearch) -> Reply<'_, Sources>;

    fn replays(&self, app: AppId, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<Replay>>;

    fn replay(&self, app: AppId, replay: ReplayId) -> Reply<'_, Option<Replay>>;
    /// The inspections of an endpoint, newest first.
    fn inspections(
        &self,
        endpoint: EndpointId,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Inspection>>;

    fn inspection(&self, app: AppId, inspection: InspectionId) -> Reply<'_, Option<Inspection>>;

    /// Lists the audit log; entries of a deleted app are in no page.
    fn audit(&self, filter: AuditFilter, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<AuditEntry>>;

    /// Returns an endpoint's health as of the last statistics rollup.
    fn health(&self, app: AppId, endpoint: EndpointId, now: Timestamp) -> Reply<'_, HealthReport>;

    /// The endpoints of an app that are degraded or failing.
    fn unhealthy_endpoints(&self, app: AppId) -> Reply<'_, Vec<EndpointId>>;

    /// Lists notices; those of a deleted app are in no page.
    fn notices(&self, filter: NoticeFilter, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<Notice>>;

    fn notice(&self, app: AppId, notice: NoticeId) -> Reply<'_, Option<Notice>>;

    /// Returns notices that are to become operational webhooks, oldest first, at most `most`; digests once they were closed.
    fn unpublished_notices(&self, most: usize) -> Reply<'_, NoticeBatch>;

    /// How many notices wait, over all apps.
    fn notices_waiting(&self) -> Reply<'_, NoticesWaiting>;

    /// Returns statistics as of the last rollup, and the backlog as it is now. Reads counters, never attempts.
    fn statistics(&self, search: StatisticsSearch) -> Reply<'_, Statistics>;

    /// How many deliveries wait, over all apps.
    fn waiting_count(&self) -> Reply<'_, u64>;
}

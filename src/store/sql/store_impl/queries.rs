//! Implements `QueryStore`; every method goes to a reader.

use crate::store::sql::{
    Backend, audit, dedup, health, inspections, notices, outbox, queries, recent, replays, statistics_query,
};
use crate::{
    domain::{
        audit::AuditEntry,
        event::{DedupKey, Event, Fingerprint},
        id::{AppId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
        inspection::Inspection,
        notice::Notice,
        replay::Replay,
        time::Timestamp,
    },
    store::{
        QueryStore, Reply,
        audit::AuditFilter,
        deliveries::Accepted,
        inbox::InboxEvent,
        notices::{NoticeBatch, NoticeFilter, NoticesWaiting},
        queries::{
            AttemptRow, Cursor, DeliveryListFilter, DeliveryRow, EventFilter, HealthReport, ObjectId, Owner,
            Page,
        },
        replays::{SourceSearch, Sources},
        statistics::{Statistics, StatisticsSearch},
    },
};

impl<D: Backend> QueryStore for D {
    fn find_event(&self, app: AppId, external_id: String, own: Option<EventId>) -> Reply<'_, Option<Event>> {
        self.read(move |connection| queries::find_event(connection, app, &external_id, own))
    }

    fn find_duplicate(&self, keys: Vec<DedupKey>, fingerprint: Fingerprint) -> Reply<'_, Accepted> {
        self.read(move |connection| dedup::find_duplicate(connection, &keys, fingerprint))
    }

    fn inbox_page(&self) -> Reply<'_, Option<Vec<InboxEvent>>> {
        let submitted = Backend::inbox_page(self);
        Box::pin(async move {
            match submitted {
                Some(submitted) => submitted.await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn events(
        &self,
        app: AppId,
        filter: EventFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Event>> {
        self.read(move |connection| queries::events(connection, app, &filter, after, limit))
    }

    fn deliveries_of(&self, event: EventId) -> Reply<'_, Vec<DeliveryRow>> {
        self.read(move |connection| queries::deliveries_of(connection, event))
    }

    fn delivery(
        &self,
        app: AppId,
        delivery: DeliveryId,
    ) -> Reply<'_, Option<(DeliveryRow, Vec<AttemptRow>)>> {
        self.read(move |connection| queries::delivery(connection, app, delivery))
    }

    fn deliveries(
        &self,
        app: AppId,
        filter: DeliveryListFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<DeliveryRow>> {
        self.read(move |connection| queries::deliveries(connection, app, &filter, after, limit))
    }

    fn recent_attempts(
        &self,
        app: AppId,
        endpoint: EndpointId,
        most: usize,
    ) -> Reply<'_, Vec<(DeliveryId, AttemptRow)>> {
        self.read(move |connection| recent::attempts(connection, app, endpoint, most))
    }

    fn owner(&self, thing: ObjectId) -> Reply<'_, Option<Owner>> {
        self.read(move |connection| queries::owner(connection, thing))
    }

    fn events_by_dedup_key(&self, keys: Vec<DedupKey>) -> Reply<'_, Vec<(EventId, AppId)>> {
        self.read(move |connection| queries::events_by_dedup_key(connection, &keys))
    }

    fn queue(
        &self,
        queues: Vec<EndpointId>,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<DeliveryRow>> {
        self.read(move |connection| queries::queue(connection, &queues, after, limit))
    }

    fn dead_letters(
        &self,
        app: AppId,
        endpoint: Option<EndpointId>,
        closed_too: bool,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<DeliveryRow>> {
        self.read(move |connection| {
            queries::dead_letters(connection, app, endpoint, closed_too, after, limit)
        })
    }

    fn replay_sources(&self, search: SourceSearch, most: usize) -> Reply<'_, Sources> {
        self.read_for_engine(move |connection| replays::sources(connection, &search, most))
    }

    fn count_sources(&self, search: SourceSearch) -> Reply<'_, Sources> {
        self.read(move |connection| replays::sources(connection, &search, usize::MAX))
    }

    fn replays(&self, app: AppId, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<Replay>> {
        self.read(move |connection| replays::list(connection, app, after, limit))
    }

    fn replay(&self, app: AppId, replay: ReplayId) -> Reply<'_, Option<Replay>> {
        self.read(move |connection| replays::one(connection, app, replay))
    }
    fn inspections(
        &self,
        endpoint: EndpointId,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Inspection>> {
        self.read(move |connection| inspections::of_endpoint(connection, endpoint, after, limit))
    }

    fn inspection(&self, app: AppId, inspection: InspectionId) -> Reply<'_, Option<Inspection>> {
        self.read(move |connection| inspections::one(connection, app, inspection))
    }

    fn audit(&self, filter: AuditFilter, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<AuditEntry>> {
        self.read(move |connection| audit::list(connection, &filter, after, limit))
    }

    fn health(&self, app: AppId, endpoint: EndpointId, now: Timestamp) -> Reply<'_, HealthReport> {
        self.read(move |connection| health::report(connection, app, endpoint, now))
    }

    fn unhealthy_endpoints(&self, app: AppId) -> Reply<'_, Vec<EndpointId>> {
        self.read(move |connection| health::unhealthy_endpoints(connection, app))
    }

    fn notices(&self, filter: NoticeFilter, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<Notice>> {
        self.read(move |connection| notices::list(connection, &filter, after, limit))
    }

    fn notice(&self, app: AppId, notice: NoticeId) -> Reply<'_, Option<Notice>> {
        self.read(move |connection| notices::one(connection, app, notice))
    }

    fn unpublished_notices(&self, most: usize) -> Reply<'_, NoticeBatch> {
        self.read_for_engine(move |connection| outbox::unpublished(connection, most))
    }

    fn notices_waiting(&self) -> Reply<'_, NoticesWaiting> {
        self.read_for_engine(notices::waiting)
    }

    fn statistics(&self, search: StatisticsSearch) -> Reply<'_, Statistics> {
        self.read(move |connection| statistics_query::statistics(connection, &search))
    }

    fn waiting_count(&self) -> Reply<'_, u64> {
        self.read_for_engine(queries::waiting_count)
    }
}

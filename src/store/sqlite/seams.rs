//! The four seams, each method handed to the writer's batch or to a reader.

use super::{
    SqliteStore, audit, browse, cluster,
    commands::{Accept, HandBack, Recording, Refill},
    dedup, event_types, inspections, ledger, registry, replays, retention, upkeep,
    work::{Call, answered},
};
use crate::{
    domain::{
        app::App,
        audit::Entry,
        contract::ContractHash,
        delivery::State,
        endpoint::EndpointRecord,
        event::{DedupKey, Event, Fingerprint},
        event_type::EventTypeRecord,
        id::{AppId, DeliveryId, EndpointId, EventId, EventTypeId, InspectionId, KeyId, ReplayId},
        inspection::{Inspection, Report},
        key::Key,
        port::Carried,
        replay::{Replay, ReplayState},
        retention::Keeps,
        storage::StorageUsage,
        time::Timestamp,
    },
    store::{
        Browse, Cluster, Ledger, Registry, Reply,
        audit::AuditFilter,
        browse::{Cursor, DeliveryFilter, EventFilter, Listed, Page, PastAttempt},
        cluster::{Forgotten, Joined},
        ledger::{Accepted, Ask, Asked, NewEvent, Ordered, Record, Refilled, Settle, Want},
        registry::{Added, EndpointName, Everything},
        replays::{ReplayChanged, ReplayPage, SourceSearch, Sources},
        retention::{Expired, Overdue, OverdueSearch, Ranges},
    },
};
use std::sync::Arc;
use tokio::sync::oneshot;

impl Ledger for SqliteStore {
    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>> {
        let (reply, answer) = oneshot::channel();
        let (count, bytes) = (events.len(), events.iter().map(|new| new.event.data.len()).sum());
        self.queue.push_accept(Box::new(Accept { events, results: Vec::new(), reply }), count, bytes);
        answered(answer)
    }

    fn record(&self, record: Record) {
        self.queue.push(Box::new(Recording { record, recorded: None }));
    }

    fn refill(&self, wants: Vec<Want>, now: Timestamp) -> Reply<'_, Vec<Refilled>> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Box::new(Refill { wants, now, found: Vec::new(), reply }));
        answered(answer)
    }

    fn hand_back(&self, carried: Vec<Carried>, now: Timestamp) -> Reply<'_, ()> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Box::new(HandBack { carried, now, waiting: Vec::new(), reply }));
        answered(answer)
    }

    fn ask(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: Ask,
        now: Timestamp,
        entry: Option<Entry>,
    ) -> Reply<'_, Asked> {
        self.call_then(
            move |tx| audit::note(tx, entry.as_ref(), ledger::ask(tx, app, delivery, ask, now)?),
            |asked, after| {
                if let Asked::Done(delivery) | Asked::Made(delivery) = asked
                    && delivery.state == State::Pending
                    && let Some(due) = delivery.due
                {
                    after.waiting.push((delivery.endpoint, due));
                }
            },
        )
    }

    fn settle(&self, endpoint: EndpointId, settle: Settle, most: usize, now: Timestamp) -> Reply<'_, usize> {
        let reply = self.call_then(
            move |tx| ledger::settle(tx, endpoint, settle, most, now),
            move |(_, released), after| {
                if *released {
                    after.waiting.push((endpoint, now));
                }
            },
        );
        Box::pin(async move { reply.await.map(|(settled, _)| settled) })
    }

    fn erase_data(&self, app: AppId, event: EventId, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), ledger::erase_data(tx, app, event)?))
    }

    fn expire(&self, ranges: Ranges, keeps: Arc<dyn Keeps>, now: Timestamp) -> Reply<'_, Expired> {
        self.call(move |tx| retention::expire(tx, &ranges, &*keeps, now))
    }

    fn begin_replay(&self, replay: Replay, entry: Option<Entry>) -> Reply<'_, ()> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), replays::begin(tx, &replay)?))
    }

    fn proceed(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>> {
        let reply = self.call_then(
            move |tx| replays::proceed(tx, &page, now),
            |(_, waiting), after| after.waiting.extend(waiting),
        );
        Box::pin(async move { reply.await.map(|(replay, _)| replay) })
    }

    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<Entry>,
    ) -> Reply<'_, ReplayChanged> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), replays::change(tx, app, replay, to, now)?))
    }
    fn order_inspection(&self, inspection: Inspection) -> Reply<'_, Ordered> {
        self.call_then(
            move |tx| inspections::order(tx, &inspection),
            |ordered, after| after.inspections_wait |= *ordered == Ordered::Waiting,
        )
    }

    fn take_inspection(&self, per_app_max: u32) -> Reply<'_, Option<Inspection>> {
        self.call(move |tx| inspections::take(tx, per_app_max))
    }

    fn end_inspection(
        &self,
        inspection: InspectionId,
        report: Option<Report>,
        now: Timestamp,
    ) -> Reply<'_, bool> {
        self.call(move |tx| inspections::end(tx, inspection, report.as_ref(), now))
    }

    fn flush(&self) -> Reply<'_, ()> {
        // In the queue of the accepts, which is the one that others overtake.
        let (work, reply) = Call::prepare(|_| Ok(()), |(), _| ());
        self.queue.push_accept(work, 0, 0);
        reply
    }
}

impl Registry for SqliteStore {
    fn everything(&self) -> Reply<'_, Everything> {
        self.call(registry::everything)
    }

    fn add_app(&self, app: App, entry: Option<Entry>) -> Reply<'_, Added> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::add_app(tx, &app)?))
    }

    fn change_app(&self, app: App, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::change_app(tx, &app)?))
    }

    fn remove_app(&self, app: AppId, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::remove_app(tx, app)?))
    }

    fn add_endpoint(&self, endpoint: EndpointRecord, entry: Option<Entry>) -> Reply<'_, Added> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::add_endpoint(tx, &endpoint)?))
    }

    fn change_endpoint(&self, endpoint: EndpointRecord, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::change_endpoint(tx, &endpoint)?))
    }

    fn remove_endpoint(&self, endpoint: EndpointId, now: Timestamp, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::remove_endpoint(tx, endpoint, now)?))
    }

    fn endpoint(&self, endpoint: EndpointId) -> Reply<'_, Option<EndpointRecord>> {
        self.read(move |connection| registry::endpoint_record(connection, endpoint))
    }

    fn endpoint_names(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointName>> {
        self.read(move |connection| registry::endpoint_names(connection, &endpoints))
    }

    fn key(&self, key: KeyId) -> Reply<'_, Option<Key>> {
        self.read(move |connection| registry::one_key(connection, key))
    }

    fn keys(&self, after: KeyId, most: u32) -> Reply<'_, Vec<Key>> {
        self.read(move |connection| registry::keys(connection, after, most))
    }

    fn add_key(&self, key: Key, entry: Option<Entry>) -> Reply<'_, Vec<KeyId>> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::add_key(tx, &key)?))
    }

    fn revoke_key(&self, key: KeyId, now: Timestamp, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), registry::revoke_key(tx, key, now)?))
    }

    fn put_event_types(&self, event_types: Vec<(EventTypeRecord, Option<Entry>)>) -> Reply<'_, bool> {
        self.call(move |tx| event_types::put_all(tx, &event_types))
    }

    fn remove_event_type(&self, event_type: EventTypeId, entry: Option<Entry>) -> Reply<'_, bool> {
        self.call(move |tx| audit::note(tx, entry.as_ref(), event_types::remove(tx, event_type)?))
    }

    fn keep_contract(&self, hash: ContractHash, document: String) -> Reply<'_, ()> {
        self.call(move |tx| registry::keep_contract(tx, hash, &document))
    }

    fn contract(&self, hash: ContractHash) -> Reply<'_, Option<String>> {
        self.read(move |connection| registry::contract(connection, hash))
    }
}

impl Browse for SqliteStore {
    fn find_event(&self, app: AppId, given_id: String, own: Option<EventId>) -> Reply<'_, Option<Event>> {
        self.read(move |connection| browse::find_event(connection, app, &given_id, own))
    }

    fn published_before(&self, keys: Vec<DedupKey>, fingerprint: Fingerprint) -> Reply<'_, Accepted> {
        self.read(move |connection| dedup::published_before(connection, &keys, fingerprint))
    }

    fn events(
        &self,
        app: AppId,
        filter: EventFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Event>> {
        self.read(move |connection| browse::events(connection, app, &filter, after, limit))
    }

    fn deliveries_of(&self, event: EventId) -> Reply<'_, Vec<Listed>> {
        self.read(move |connection| browse::deliveries_of(connection, event))
    }

    fn delivery(&self, app: AppId, delivery: DeliveryId) -> Reply<'_, Option<(Listed, Vec<PastAttempt>)>> {
        self.read(move |connection| browse::delivery(connection, app, delivery))
    }

    fn deliveries(
        &self,
        app: AppId,
        filter: DeliveryFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Listed>> {
        self.read(move |connection| browse::deliveries(connection, app, &filter, after, limit))
    }

    fn queue(&self, lanes: Vec<EndpointId>, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<Listed>> {
        self.read(move |connection| browse::queue(connection, &lanes, after, limit))
    }

    fn dead_letters(
        &self,
        app: AppId,
        endpoint: Option<EndpointId>,
        closed_too: bool,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<'_, Page<Listed>> {
        self.read(move |connection| browse::dead_letters(connection, app, endpoint, closed_too, after, limit))
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

    fn audit(&self, filter: AuditFilter, after: Option<Cursor>, limit: u32) -> Reply<'_, Page<Entry>> {
        self.read(move |connection| audit::list(connection, &filter, after, limit))
    }

    fn waiting_count(&self) -> Reply<'_, u64> {
        self.read_for_engine(browse::waiting_count)
    }
}

impl Cluster for SqliteStore {
    fn join(&self, now: Timestamp) -> Reply<'_, Joined> {
        let reply = self.call_then(
            move |tx| Ok((cluster::join(tx, now)?, inspections::interrupt(tx, now)?)),
            |(_, inspections_wait), after| after.inspections_wait |= *inspections_wait,
        );
        Box::pin(async move { reply.await.map(|(joined, _)| joined) })
    }

    fn find_lanes(&self) -> Reply<'_, Vec<(EndpointId, Timestamp)>> {
        self.read_for_engine(cluster::find_lanes)
    }

    fn purge(&self) -> Reply<'_, bool> {
        self.call(cluster::purge)
    }

    fn overdue(&self, search: OverdueSearch, keeps: Arc<dyn Keeps>, now: Timestamp) -> Reply<'_, Overdue> {
        self.read_for_engine(move |connection| retention::overdue(connection, &search, &*keeps, now))
    }

    fn forget(&self, before: Timestamp) -> Reply<'_, Forgotten> {
        self.call(move |tx| upkeep::forget(tx, before))
    }

    fn usage(&self) -> Reply<'_, StorageUsage> {
        let path = self.path.clone();
        self.read_for_engine(move |connection| upkeep::usage(connection, path.as_deref()))
    }

    fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> Reply<'_, ()> {
        self.call(move |tx| cluster::keys_used(tx, &uses))
    }

    fn running_replays(&self) -> Reply<'_, Vec<Replay>> {
        self.read_for_engine(replays::running)
    }

    fn unsettled(&self) -> Reply<'_, Vec<EndpointId>> {
        self.read_for_engine(cluster::unsettled)
    }
}

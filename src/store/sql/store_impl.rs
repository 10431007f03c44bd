//! Implements the store traits for every `Backend`; each method goes to the writer's batch or to a reader.

mod cluster;
mod queries;

use super::{
    Backend, Sql, audit,
    command::{answered, flush},
    commands::{Accept, LeaseDue, RecordResult, Release},
    config, delivery_statements, event_types,
    inbox::AcceptInbox,
    inspections, lease_due, outbox, replays, retention,
};
use crate::{
    domain::{
        api_key::ApiKey,
        app::App,
        audit::AuditEntry,
        contract::ContractHash,
        delivery::DeliveryState,
        endpoint::EndpointRecord,
        event_type::EventTypeRecord,
        id::{AppId, DeliveryId, EndpointId, EventId, EventTypeId, InspectionId, KeyId, NoticeId, ReplayId},
        inspection::{Inspection, InspectionReport},
        live_update::LiveUpdate,
        ports::LeasedDelivery,
        replay::{Replay, ReplayState},
        retention::RetentionPolicy,
        time::Timestamp,
    },
    store::{
        ConfigStore, DeliveryStore, Reply,
        config::{ConfigSnapshot, EndpointLabel, Inserted},
        deliveries::{
            Accepted, ActionResult, AdvanceRetries, AdvancedRetries, AvailabilityChange, DeliveryAction,
            DeliveryResult, InspectionRequested, LeaseRequest, LeaseResult, NewEvent,
        },
        inbox::InboxBatch,
        notices::{MailCursor, MailOutcome, NoticeBatch},
        replays::{ReplayChanged, ReplayPage},
        retention::{EventIdRanges, ExpireResult},
    },
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::oneshot;

/// Returns how many events there are, and how many bytes they hold.
fn weight(events: &[NewEvent]) -> (usize, usize) {
    (events.len(), events.iter().map(|new| new.event.data.len()).sum())
}

impl<D: Backend> DeliveryStore for D {
    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>> {
        let (reply, answer) = oneshot::channel();
        let (count, bytes) = weight(&events);
        let accept = Accept { events, results: Vec::new(), epoch: 0, reply: Some(reply) };
        self.commands().push_accept(Box::new(accept), count, bytes);
        answered(answer)
    }

    fn accept_inbox(&self, intake: InboxBatch) -> Reply<'_, Vec<Accepted>> {
        let (reply, answer) = oneshot::channel();
        let InboxBatch { events, refused, removed: settled } = intake;
        let (numbers, events): (Vec<_>, Vec<_>) = events.into_iter().unzip();
        let (count, bytes) = weight(&events);
        let accept = Accept { events, results: Vec::new(), epoch: 0, reply: Some(reply) };
        self.commands().push_accept(
            Box::new(AcceptInbox { accept, numbers, refused, removed: settled }),
            count,
            bytes,
        );
        answered(answer)
    }

    fn can_record(&self) -> bool {
        Backend::can_record(self)
    }

    fn record_result(&self, record: DeliveryResult) {
        self.commands().push(Box::new(RecordResult { record, recorded: None }));
    }

    fn lease_due(&self, wants: Vec<LeaseRequest>, now: Timestamp) -> Reply<'_, Vec<LeaseResult>> {
        let (reply, answer) = oneshot::channel();
        self.commands().push(Box::new(LeaseDue { requests: wants, now, found: Vec::new(), epoch: 0, reply }));
        answered(answer)
    }

    fn release(&self, carried: Vec<LeasedDelivery>, now: Timestamp) -> Reply<'_, ()> {
        let (reply, answer) = oneshot::channel();
        self.commands().push(Box::new(Release {
            carried,
            now,
            waiting: Vec::new(),
            changed: BTreeSet::new(),
            reply,
        }));
        answered(answer)
    }

    fn act(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: DeliveryAction,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ActionResult> {
        let reply = self.write_then(
            move |tx| {
                let mut woken = Vec::new();
                let asked = delivery_statements::act(tx, app, delivery, ask, now, &mut woken)?;
                Ok((audit::write_if_changed(tx, entry.as_ref(), asked)?, woken))
            },
            |(asked, woken), after| {
                after.waiting.extend(woken);
                if let ActionResult::Done(delivery) | ActionResult::Made(delivery) = asked {
                    let due = delivery.due.filter(|_| delivery.state == DeliveryState::Pending);
                    after.manual.extend(due.map(|due| (delivery.endpoint, due)));
                    after.publish([LiveUpdate::delivery(delivery)]);
                }
            },
        );
        Box::pin(async move { reply.await.map(|(asked, _)| asked) })
    }

    fn advance_retries(&self, recovery: AdvanceRetries, now: Timestamp) -> Reply<'_, AdvancedRetries> {
        let reply = self.write_then(
            move |tx| lease_due::advance_retries(tx, &recovery, now),
            move |(_, app), after| {
                if let Some(app) = *app {
                    after.waiting.push((recovery.endpoint, now));
                    after.publish([LiveUpdate::deliveries(app, recovery.endpoint)]);
                }
            },
        );
        Box::pin(async move { reply.await.map(|(brought, _)| brought) })
    }

    fn apply_to_waiting(
        &self,
        endpoint: EndpointId,
        settle: AvailabilityChange,
        most: usize,
        now: Timestamp,
    ) -> Reply<'_, usize> {
        let reply = self.write_then(
            move |tx| delivery_statements::apply_to_waiting(tx, endpoint, settle, most, now),
            move |settled, after| {
                if settled.is_released {
                    after.waiting.push((endpoint, now));
                }
                after.publish(settled.app.map(|app| LiveUpdate::deliveries(app, endpoint)));
            },
        );
        Box::pin(async move { reply.await.map(|settled| settled.count) })
    }

    fn erase_data(&self, app: AppId, event: EventId, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), delivery_statements::erase_data(tx, app, event)?)
        })
    }

    fn expire(
        &self,
        ranges: EventIdRanges,
        keeps: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<'_, ExpireResult> {
        let reply = self.write_then(
            move |tx| retention::expire(tx, &ranges, &*keeps, now),
            |(_, (woken, changed)), after| {
                after.waiting.extend(woken);
                after.publish(changed.iter().map(|(app, endpoint)| LiveUpdate::deliveries(*app, *endpoint)));
            },
        );
        Box::pin(async move { reply.await.map(|(expired, _)| expired) })
    }

    fn start_replay(&self, replay: Replay, entry: Option<AuditEntry>) -> Reply<'_, ()> {
        let update = LiveUpdate::replay(&replay);
        self.write_then(
            move |tx| audit::write_if_changed(tx, entry.as_ref(), replays::start(tx, &replay)?),
            move |(), after| {
                after.replays_wait = true;
                after.publish([update]);
            },
        )
    }

    fn advance_replay(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>> {
        let reply = self.write_then(
            move |tx| replays::promote_next(tx, &page, now),
            |(replay, waiting), after| {
                after.publish(replay.iter().map(LiveUpdate::replay));
                let endpoints: BTreeSet<EndpointId> = waiting.iter().map(|(endpoint, _)| *endpoint).collect();
                for app in replay.iter().map(|replay| replay.app) {
                    after.publish(endpoints.iter().map(|endpoint| LiveUpdate::deliveries(app, *endpoint)));
                }
                after.waiting.extend(waiting);
            },
        );
        Box::pin(async move { reply.await.map(|(replay, _)| replay) })
    }

    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ReplayChanged> {
        self.write_then(
            move |tx| audit::write_if_changed(tx, entry.as_ref(), replays::change(tx, app, replay, to, now)?),
            |changed, after| {
                after.replays_wait = true;
                if let ReplayChanged::Done(replay) = changed {
                    after.publish([LiveUpdate::replay(replay)]);
                }
            },
        )
    }
    fn request_inspection(&self, inspection: Inspection) -> Reply<'_, InspectionRequested> {
        self.write_then(
            move |tx| inspections::request(tx, &inspection),
            |ordered, after| after.inspections_wait |= *ordered == InspectionRequested::Waiting,
        )
    }

    fn start_next_inspection(&self, per_app_max: u32) -> Reply<'_, Option<Inspection>> {
        self.write(move |tx| inspections::start_next(tx, per_app_max))
    }

    fn finish_inspection(
        &self,
        inspection: InspectionId,
        report: Option<InspectionReport>,
        now: Timestamp,
    ) -> Reply<'_, bool> {
        self.write(move |tx| inspections::finish(tx, inspection, report.as_ref(), now))
    }

    fn next_mail(&self, turn: MailCursor, now: Timestamp) -> Reply<'_, NoticeBatch> {
        self.write(move |tx| outbox::next_mail(tx, &turn, now))
    }

    fn finish_mail(&self, app: AppId, first: NoticeId, end: MailOutcome, now: Timestamp) -> Reply<'_, ()> {
        self.write(move |tx| outbox::finish_mail(tx, app, first, &end, now))
    }

    fn close_digests(&self, now: Timestamp) -> Reply<'_, ()> {
        self.write(move |tx| outbox::close(tx, now).map(drop))
    }

    fn mark_notices_published(&self, notices: Vec<NoticeId>) -> Reply<'_, ()> {
        self.write(move |tx| outbox::mark_published(tx, &notices))
    }

    fn flush(&self) -> Reply<'_, ()> {
        // In the queue of the accepts, which other commands overtake.
        let (work, reply) = flush();
        self.commands().push_accept(work, 0, 0);
        reply
    }
}

impl<D: Backend> ConfigStore for D {
    fn config_snapshot(&self) -> Reply<'_, ConfigSnapshot> {
        self.write(config::config_snapshot)
    }

    fn add_app(&self, app: App, entry: Option<AuditEntry>) -> Reply<'_, Inserted> {
        self.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::add_app(tx, &app)?))
    }

    fn change_app(&self, app: App, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::change_app(tx, &app)?))
    }

    fn remove_app(&self, app: AppId, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::remove_app(tx, app)?))
    }

    fn add_endpoint(&self, endpoint: EndpointRecord, entry: Option<AuditEntry>) -> Reply<'_, Inserted> {
        self.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), config::add_endpoint(tx, &endpoint)?)
        })
    }

    fn change_endpoint(&self, endpoint: EndpointRecord, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), config::change_endpoint(tx, &endpoint)?)
        })
    }

    fn change_endpoint_and_replay(
        &self,
        endpoint: EndpointRecord,
        entry: AuditEntry,
        replays: Vec<(Replay, AuditEntry)>,
    ) -> Reply<'_, bool> {
        let change = move |tx: &dyn Sql| {
            let is_changed =
                audit::write_if_changed(tx, Some(&entry), config::change_endpoint(tx, &endpoint)?)?;
            for (replay, entry) in replays.iter().filter(|_| is_changed) {
                audit::write_if_changed(tx, Some(entry), replays::start(tx, replay)?)?;
            }
            Ok(is_changed)
        };
        self.write_then(change, |is_changed, after| after.replays_wait |= *is_changed)
    }

    fn remove_endpoint(
        &self,
        endpoint: EndpointId,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, bool> {
        self.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), config::remove_endpoint(tx, endpoint, now)?)
        })
    }

    fn app(&self, app: AppId) -> Reply<'_, Option<App>> {
        self.read(move |connection| config::one_app(connection, app))
    }

    fn event_type(&self, event_type: EventTypeId) -> Reply<'_, Option<EventTypeRecord>> {
        self.read(move |connection| event_types::one(connection, event_type))
    }

    fn endpoint(&self, endpoint: EndpointId) -> Reply<'_, Option<EndpointRecord>> {
        self.read(move |connection| config::endpoint_record(connection, endpoint))
    }

    fn endpoint_names(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointLabel>> {
        self.read(move |connection| config::endpoint_names(connection, &endpoints))
    }

    fn key(&self, key: KeyId) -> Reply<'_, Option<ApiKey>> {
        self.read(move |connection| config::one_key(connection, key))
    }

    fn keys(&self, after: KeyId, most: u32) -> Reply<'_, Vec<ApiKey>> {
        self.read(move |connection| config::keys(connection, after, most))
    }

    fn add_key(&self, key: ApiKey, entry: Option<AuditEntry>) -> Reply<'_, Vec<KeyId>> {
        self.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::add_key(tx, &key)?))
    }

    fn revoke_key(&self, key: KeyId, now: Timestamp, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.write(move |tx| audit::write_if_changed(tx, entry.as_ref(), config::revoke_key(tx, key, now)?))
    }

    fn put_event_types(&self, event_types: Vec<(EventTypeRecord, Option<AuditEntry>)>) -> Reply<'_, bool> {
        self.write(move |tx| event_types::put_all(tx, &event_types))
    }

    fn remove_event_type(&self, event_type: EventTypeId, entry: Option<AuditEntry>) -> Reply<'_, bool> {
        self.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), event_types::remove(tx, event_type)?)
        })
    }

    fn store_contract(&self, hash: ContractHash, document: String) -> Reply<'_, ()> {
        self.write(move |tx| config::store_contract(tx, hash, &document))
    }

    fn contract(&self, hash: ContractHash) -> Reply<'_, Option<String>> {
        self.read(move |connection| config::contract(connection, hash))
    }
}

//! Publishes live updates (SSE) for committed changes. Wraps the delivery store and the commit listener. With no subscribers,
//! each call adds one atomic load.
//!
//! The update for an attempt's result is published after a flush, so a client that refetches because of it sees the new
//! state.

use super::{
    DeliveryStore, Reply,
    deliveries::{
        Accepted, ActionResult, AdvanceRetries, AdvancedRetries, AvailabilityChange, DeliveryAction,
        DeliveryResult, InspectionRequested, LeaseRequest, LeaseResult, NewEvent,
    },
    inbox::InboxBatch,
    notices::{MailCursor, MailOutcome, NoticeBatch},
    replays::{ReplayChanged, ReplayPage},
    retention::{EventIdRanges, ExpireResult},
};
use crate::domain::{
    audit::AuditEntry,
    delivery::Availability,
    endpoint::Disabled,
    id::{AppId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
    inspection::{Inspection, InspectionReport},
    live_update::{LiveUpdate, UpdateSink},
    ports::{CommitListener, EndpointLookup, LeasedDelivery},
    replay::{Replay, ReplayState},
    retention::RetentionPolicy,
    time::Timestamp,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Delivery store that publishes live updates for its changes.
pub struct LiveUpdateStore {
    shared: Arc<Shared>,
}

struct Shared {
    delivery_store: Arc<dyn DeliveryStore>,
    watchers: Arc<dyn UpdateSink>,
    /// Updates for results that may not be durable yet. A task waits for the flush as long as there are any.
    recorded: Mutex<Vec<LiveUpdate>>,
}

impl LiveUpdateStore {
    pub fn new(delivery_store: Arc<dyn DeliveryStore>, watchers: Arc<dyn UpdateSink>) -> Self {
        Self { shared: Arc::new(Shared { delivery_store, watchers, recorded: Mutex::default() }) }
    }

    /// Returns the updates to publish for each of these events if it is new.
    fn updates_of_events<'a>(&self, events: impl IntoIterator<Item = &'a NewEvent>) -> Vec<Vec<LiveUpdate>> {
        if self.shared.watchers.has_subscribers() {
            events.into_iter().map(updates_of_new).collect()
        } else {
            Vec::new()
        }
    }

    /// Passes the answer through, and publishes the live updates that follow from it.
    fn publish_after<'a, T: Send + 'a>(
        &'a self,
        answer: Reply<'a, T>,
        updates: impl FnOnce(&T) -> Vec<LiveUpdate> + Send + 'a,
    ) -> Reply<'a, T> {
        let watchers = &self.shared.watchers;
        if !watchers.has_subscribers() {
            return answer;
        }
        Box::pin(async move {
            let answer = answer.await?;
            for update in updates(&answer) {
                watchers.publish(update);
            }
            Ok(answer)
        })
    }
}

impl Shared {
    fn recorded(&self) -> MutexGuard<'_, Vec<LiveUpdate>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the update once everything recorded so far is durable. One flush serves all that arrive meanwhile.
    fn publish_when_durable(self: &Arc<Self>, update: LiveUpdate) {
        let mut recorded = self.recorded();
        recorded.push(update);
        if recorded.len() > 1 {
            return;
        }
        drop(recorded);
        let shared = self.clone();
        tokio::spawn(async move {
            let mut published = 0;
            loop {
                let so_far = {
                    let mut recorded = shared.recorded();
                    recorded.drain(..published);
                    recorded.clone()
                };
                if so_far.is_empty() {
                    return;
                }
                // A closed or failing store has no new state to refetch; the update is harmless then.
                let _ = shared.delivery_store.flush().await;
                published = so_far.len();
                for update in so_far {
                    shared.watchers.publish(update);
                }
            }
        });
    }
}

/// Live update of a result, computed as if the endpoint were enabled at that moment.
fn update_of_result(record: &DeliveryResult) -> Option<LiveUpdate> {
    let mut delivery = record.leased.delivery.clone();
    let made = record.attempts.len() as u32;
    delivery.apply_verdict(&record.verdict, (made, made), Availability::Enabled, record.ended_at).ok()?;
    Some(if made > 0 { LiveUpdate::attempt(&delivery) } else { LiveUpdate::delivery(&delivery) })
}

/// Live updates of a new event. A delivery with a permit is published later, by the commit listener.
fn updates_of_new(new: &NewEvent) -> Vec<LiveUpdate> {
    let event = LiveUpdate::event(new.event.app, new.event.id);
    let waiting = new.deliveries.iter().filter(|new_delivery| new_delivery.permit.is_none());
    [event]
        .into_iter()
        .chain(waiting.map(|new_delivery| LiveUpdate::delivery(&new_delivery.delivery)))
        .collect()
}

fn updates_of_accepted(updates: Vec<Vec<LiveUpdate>>, accepted: &[Accepted]) -> Vec<LiveUpdate> {
    let new = updates.into_iter().zip(accepted).filter(|(_, accepted)| **accepted == Accepted::New);
    new.flat_map(|(updates, _)| updates).collect()
}

/// Forwards methods that need no live update.
macro_rules! pass_on {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {
        $(fn $name(&self, $($argument: $kind),*) -> Reply<'_, $answer> {
            self.shared.delivery_store.$name($($argument),*)
        })+
    };
}

impl DeliveryStore for LiveUpdateStore {
    fn can_record(&self) -> bool {
        self.shared.delivery_store.can_record()
    }

    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>> {
        let updates = self.updates_of_events(&events);
        self.publish_after(self.shared.delivery_store.accept(events), move |accepted| {
            updates_of_accepted(updates, accepted)
        })
    }

    fn accept_inbox(&self, intake: InboxBatch) -> Reply<'_, Vec<Accepted>> {
        let updates = self.updates_of_events(intake.events.iter().map(|(_, new)| new));
        self.publish_after(self.shared.delivery_store.accept_inbox(intake), move |accepted| {
            updates_of_accepted(updates, accepted)
        })
    }

    fn record_result(&self, record: DeliveryResult) {
        let update = if self.shared.watchers.has_subscribers() { update_of_result(&record) } else { None };
        self.shared.delivery_store.record_result(record);
        if let Some(update) = update {
            self.shared.publish_when_durable(update);
        }
    }

    fn act(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: DeliveryAction,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ActionResult> {
        self.publish_after(self.shared.delivery_store.act(app, delivery, ask, now, entry), |answer| {
            match answer {
                ActionResult::Done(delivery) | ActionResult::Made(delivery) => {
                    vec![LiveUpdate::delivery(delivery)]
                }
                ActionResult::Deleted | ActionResult::Refused(_) | ActionResult::Absent => Vec::new(),
            }
        })
    }

    fn start_replay(&self, replay: Replay, entry: Option<AuditEntry>) -> Reply<'_, ()> {
        let update = LiveUpdate::replay(&replay);
        self.publish_after(self.shared.delivery_store.start_replay(replay, entry), move |()| vec![update])
    }

    fn advance_replay(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>> {
        self.publish_after(self.shared.delivery_store.advance_replay(page, now), |replay| {
            replay.iter().map(LiveUpdate::replay).collect()
        })
    }

    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ReplayChanged> {
        self.publish_after(self.shared.delivery_store.change_replay(app, replay, to, now, entry), |changed| {
            match changed {
                ReplayChanged::Done(replay) => vec![LiveUpdate::replay(replay)],
                _ => Vec::new(),
            }
        })
    }

    pass_on! {
        fn lease_due(requests: Vec<LeaseRequest>, now: Timestamp) -> Vec<LeaseResult>;
        fn release(leased: Vec<LeasedDelivery>, now: Timestamp) -> ();
        fn apply_to_waiting(endpoint: EndpointId, settle: AvailabilityChange, most: usize, now: Timestamp) -> usize;
        fn erase_data(app: AppId, event: EventId, entry: Option<AuditEntry>) -> bool;
        fn expire(ranges: EventIdRanges, keeps: Arc<dyn RetentionPolicy>, now: Timestamp) -> ExpireResult;
        fn request_inspection(inspection: Inspection) -> InspectionRequested;
        fn start_next_inspection(per_app_max: u32) -> Option<Inspection>;
        fn finish_inspection(inspection: InspectionId, report: Option<InspectionReport>, now: Timestamp) -> bool;
        fn advance_retries(recovery: AdvanceRetries, now: Timestamp) -> AdvancedRetries;
        fn next_mail(cursor: MailCursor, now: Timestamp) -> NoticeBatch;
        fn finish_mail(app: AppId, first: NoticeId, end: MailOutcome, now: Timestamp) -> ();
        fn close_digests(now: Timestamp) -> ();
        fn mark_notices_published(notices: Vec<NoticeId>) -> ();
        fn flush() -> ();
    }
}

/// Commit listener that publishes live updates for leased deliveries, endpoints that a receiver disabled, and changes that
/// the store makes by itself.
pub struct LiveUpdateListener {
    commit_listener: Arc<dyn CommitListener>,
    watchers: Arc<dyn UpdateSink>,
    endpoints: Arc<dyn EndpointLookup>,
}

impl LiveUpdateListener {
    pub fn new(
        commit_listener: Arc<dyn CommitListener>,
        watchers: Arc<dyn UpdateSink>,
        endpoints: Arc<dyn EndpointLookup>,
    ) -> Self {
        Self { commit_listener, watchers, endpoints }
    }
}

impl CommitListener for LiveUpdateListener {
    fn deliveries_leased(&self, leased: Vec<LeasedDelivery>) {
        if self.watchers.has_subscribers() {
            for one in &leased {
                self.watchers.publish(LiveUpdate::delivery(&one.delivery));
            }
        }
        self.commit_listener.deliveries_leased(leased);
    }

    fn delivery_waiting(&self, endpoint: EndpointId, due: Timestamp) {
        self.commit_listener.delivery_waiting(endpoint, due);
    }

    fn manual_waiting(&self, endpoint: EndpointId, due: Timestamp) {
        self.commit_listener.manual_waiting(endpoint, due);
    }

    fn endpoint_disabled(&self, endpoint: EndpointId, off: Disabled, revision: u32) {
        self.commit_listener.endpoint_disabled(endpoint, off, revision);
        if let Some(known) = self.endpoints.endpoint(endpoint).filter(|_| self.watchers.has_subscribers()) {
            self.watchers.publish(LiveUpdate::endpoint(known.record.app, endpoint));
        }
    }

    fn inspection_waiting(&self) {
        self.commit_listener.inspection_waiting();
    }

    fn notice_waiting(&self) {
        self.commit_listener.notice_waiting();
    }

    fn replay_waiting(&self) {
        self.commit_listener.replay_waiting();
    }

    fn configuration_changed(&self) {
        self.commit_listener.configuration_changed();
    }

    fn is_queue_remote(&self, endpoint: EndpointId) -> bool {
        self.commit_listener.is_queue_remote(endpoint)
    }

    fn live_update(&self, update: LiveUpdate) {
        self.watchers.publish(update);
    }
}

//! Commands that accept events and record results, as commands of a batch.

use super::{
    BulkOp, Command, CommandKind, CommitEffects, Locks, Result, Sql,
    command::answered,
    delivery_statements::{self, RecordedResult},
    health,
};
use crate::{
    domain::{
        delivery::{Availability, Delivery, DeliveryState},
        event::{DedupKey, TEST_EVENT_TYPE},
        live_update::LiveUpdate,
        outcome::OutcomeClass,
        ports::LeasedDelivery,
        statistics::StatBatch,
        verdict::Verdict,
    },
    store::{
        Reply, StoreError,
        deliveries::{Accepted, DeliveryResult, NewDelivery, NewEvent},
    },
};
use tokio::sync::oneshot;

pub struct Accept {
    pub(super) events: Vec<NewEvent>,
    pub(super) results: Vec<Accepted>,
    epoch: i64,
    /// `None` once it was answered.
    reply: Option<oneshot::Sender<Result<Vec<Accepted>, StoreError>>>,
}

impl Accept {
    /// Makes the command, and the future of its answer.
    pub(in crate::store) fn prepare(events: Vec<NewEvent>) -> (Self, Reply<Vec<Accepted>>) {
        let (reply, answer) = oneshot::channel();
        (Self { events, results: Vec::new(), epoch: 0, reply: Some(reply) }, answered(answer))
    }

    /// Returns how many events there are, and how many bytes they hold.
    pub(in crate::store) fn weight(&self) -> (usize, usize) {
        (self.events.len(), self.events.iter().map(|new| new.event.data.len()).sum())
    }
    /// Sets the epoch that it is stored under. A permit that was taken under another epoch is dropped: its node has joined
    /// again since, and owns no endpoint queue at first.
    pub(super) fn set_epoch(&mut self, epoch: i64) {
        self.epoch = epoch;
        for new in &mut self.events {
            let at = new.event.accepted_at;
            let is_old = |new_delivery: &&mut NewDelivery| {
                new_delivery.permit.as_ref().is_some_and(|permit| !permit.is_valid_for(epoch))
            };
            for new_delivery in new.deliveries.iter_mut().filter(is_old) {
                new_delivery.permit = None;
                if new_delivery.delivery.state == DeliveryState::InFlight {
                    let _ = new_delivery.delivery.release(Availability::Enabled, at, at);
                }
            }
        }
    }

    /// Deliveries whose ordering group or availability decides what becomes of them.
    fn needing_lock(&self) -> impl Iterator<Item = &Delivery> {
        let new_deliveries =
            self.events.iter().flat_map(|new| &new.deliveries).map(|new_delivery| &new_delivery.delivery);
        new_deliveries
            .filter(|delivery| delivery.ordering_key.is_some() || delivery.state == DeliveryState::Held)
    }
}

impl Command for Accept {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.set_epoch(tx.epoch());
        self.results = self
            .events
            .iter_mut()
            .map(|event| delivery_statements::accept(tx, event))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn kind(&self) -> CommandKind {
        if self.needing_lock().next().is_some() { CommandKind::NeedsQueueLock } else { CommandKind::Accept }
    }

    fn keys(&self) -> Vec<DedupKey> {
        self.events.iter().flat_map(|new| &new.dedup).copied().collect()
    }

    fn bulk_op(&mut self) -> BulkOp<'_> {
        BulkOp::Accept(self)
    }

    fn locks(&self, locks: &mut Locks) {
        locks.queues.extend(self.needing_lock().map(|delivery| delivery.endpoint));
    }

    fn add_statistics(&self, counters: &mut StatBatch) {
        for (new, result) in self.events.iter().zip(&self.results) {
            let event = &new.event;
            if *result == Accepted::New && event.event_type != TEST_EVENT_TYPE {
                counters.entry(event.app, None, &event.event_type, event.accepted_at).events += 1;
            }
        }
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        for (new, result) in self.events.into_iter().zip(&self.results) {
            if *result != Accepted::New {
                continue;
            }
            after.publish([LiveUpdate::event(new.event.app, new.event.id)]);
            for new_delivery in new.deliveries {
                // A delivery that is queued behind others in its ordering group releases its permit.
                let is_leased = new_delivery.delivery.state == DeliveryState::InFlight;
                if let Some(permit) = new_delivery.permit.filter(|_| is_leased) {
                    let event = new.event.clone();
                    let due = event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at));
                    let leased = LeasedDelivery {
                        delivery: new_delivery.delivery,
                        event,
                        due,
                        permit,
                        epoch: self.epoch,
                    };
                    after.leased.push(leased);
                } else {
                    note_waiting(&new_delivery.delivery, after);
                    after.publish([LiveUpdate::delivery(&new_delivery.delivery)]);
                }
            }
        }
        if let Some(reply) = self.reply {
            let _ = reply.send(Ok(self.results));
        }
    }

    fn in_doubt(&mut self, error: &StoreError) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn failed(mut self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        self.in_doubt(error);
        None
    }
}

/// Notes a delivery that waits in the store now, for the engine.
fn note_waiting(delivery: &Delivery, after: &mut CommitEffects) {
    if delivery.state.is_waiting()
        && !delivery.is_queued_behind()
        && let Some(due) = delivery.due
    {
        after.waiting.push((delivery.endpoint, due));
    }
}

pub struct RecordResult {
    pub record: DeliveryResult,
    pub(super) recorded: Option<RecordedResult>,
}

impl RecordResult {
    pub(in crate::store) fn new(record: DeliveryResult) -> Self {
        Self { record, recorded: None }
    }
}

impl Command for RecordResult {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.recorded = delivery_statements::record_result(tx, &self.record)?;
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn kind(&self) -> CommandKind {
        let DeliveryResult { leased, verdict, .. } = &self.record;
        let Delivery { endpoint, ordering_key, .. } = leased.delivery;
        match (verdict, ordering_key) {
            (Verdict::Delivered, None) => CommandKind::Success(endpoint),
            (Verdict::Delivered, Some(_)) => CommandKind::NeedsQueueLock,
            _ => CommandKind::Failure(endpoint),
        }
    }

    fn bulk_op(&mut self) -> BulkOp<'_> {
        BulkOp::Record(self)
    }

    fn locks(&self, locks: &mut Locks) {
        let DeliveryResult { leased, attempts, verdict, health_sample, contract, .. } = &self.record;
        let Delivery { app, endpoint, ordering_key, .. } = leased.delivery;
        locks.queues.extend(ordering_key.map(|_| endpoint));
        let is_dead = matches!(verdict, Verdict::Dead { .. }) && contract.is_some();
        locks.digests.extend(is_dead.then_some(app));
        let (true, Some(last)) = (health_sample.is_some() && contract.is_some(), attempts.last()) else {
            return;
        };
        if last.outcome.class == OutcomeClass::Ok {
            locks.health_if_unhealthy.insert(endpoint);
        } else {
            locks.health.insert(endpoint);
        }
    }

    fn add_statistics(&self, counters: &mut StatBatch) {
        let DeliveryResult { leased, attempts, verdict, health_sample, ended_at, .. } = &self.record;
        let Some(RecordedResult { delivery, .. }) = &self.recorded else { return };
        // A failed extra attempt, requested manually, leaves the delivery as it had ended.
        let has_ended = delivery.state.is_terminal() && !leased.delivery.restores_saved_state(verdict);
        let attempt = attempts.last().filter(|_| health_sample.is_some());
        let event_type = &leased.event.event_type;
        if event_type == TEST_EVENT_TYPE || !(has_ended || attempt.is_some()) {
            return;
        }
        let counters = counters.entry(delivery.app, Some(delivery.endpoint), event_type, *ended_at);
        if let Some(attempt) = attempt {
            counters.add_attempt(&attempt.outcome, *ended_at);
        }
        if has_ended {
            counters.add_end(delivery.state, attempt.is_some() && health::ends_failed(&self.record));
        }
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        if let Some(RecordedResult { delivery, disabled, woken, health_changed }) = self.recorded {
            note_waiting(&delivery, after);
            let is_attempt = !self.record.attempts.is_empty();
            after.publish([if is_attempt {
                LiveUpdate::attempt(&delivery)
            } else {
                LiveUpdate::delivery(&delivery)
            }]);
            let is_endpoint_changed = health_changed || disabled.is_some();
            after.publish(is_endpoint_changed.then(|| LiveUpdate::endpoint(delivery.app, delivery.endpoint)));
            after.waiting.extend(woken);
            after.disabled.extend(disabled.map(|(off, revision)| (delivery.endpoint, off, revision)));
        }
        // The permit is released when the record is dropped.
    }

    /// A verdict is never lost while the process lives, unless the row itself is beyond repair.
    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        match error {
            StoreError::Unavailable(_) | StoreError::Overloaded => Some(self),
            StoreError::Closed | StoreError::Corrupt(_) => {
                let delivery = self.record.leased.delivery.id;
                tracing::error!(%delivery, %error, "a verdict could not be recorded");
                None
            }
        }
    }
}

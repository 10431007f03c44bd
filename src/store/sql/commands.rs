//! Commands of the hot path: accept, record, lease and release, as commands of a batch.

use super::{
    BulkOp, Command, CommandKind, CommitEffects, Error, Locks, Result, Sql,
    delivery_statements::{self, RecordedResult},
    health,
    lease_due::{self, DueDelivery, EndedUnsent, LeasedParts},
};
use crate::{
    domain::{
        delivery::{Availability, Delivery, DeliveryState},
        event::{DedupKey, TEST_EVENT_TYPE},
        fan_out::NewDelivery,
        id::{AppId, EndpointId},
        live_update::LiveUpdate,
        outcome::OutcomeClass,
        ports::{LeasedDelivery, Permit},
        statistics::StatBatch,
        time::Timestamp,
        verdict::Verdict,
    },
    store::{
        StoreError,
        deliveries::{Accepted, DeliveryResult, LeaseRequest, LeaseResult, NewEvent},
    },
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::oneshot;

pub(in crate::store) struct Accept {
    pub(super) events: Vec<NewEvent>,
    pub(super) results: Vec<Accepted>,
    pub(super) epoch: i64,
    /// `None` once it was answered.
    pub(super) reply: Option<oneshot::Sender<Result<Vec<Accepted>, StoreError>>>,
}

impl Accept {
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
            for new_delivery in new.deliveries {
                // A delivery that is queued behind others in its ordering group releases its permit.
                let is_leased = new_delivery.delivery.state == DeliveryState::InFlight;
                match new_delivery.permit.filter(|_| is_leased) {
                    Some(permit) => {
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
                    }
                    None => note_waiting(&new_delivery.delivery, after),
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

/// Live update that deliveries of the endpoint changed.
fn update_of(delivery: &Delivery) -> LiveUpdate {
    LiveUpdate::deliveries(delivery.app, delivery.endpoint)
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

pub(in crate::store) struct RecordResult {
    pub(super) record: DeliveryResult,
    pub(super) recorded: Option<RecordedResult>,
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
            after
                .live_updates
                .extend(health_changed.then(|| LiveUpdate::endpoint(delivery.app, delivery.endpoint)));
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

pub(super) struct LeaseDue {
    pub(super) requests: Vec<LeaseRequest>,
    pub(super) now: Timestamp,
    pub(super) found: Vec<LeasedParts>,
    pub(super) epoch: i64,
    pub(super) reply: oneshot::Sender<Result<Vec<LeaseResult>, StoreError>>,
}

impl Command for LeaseDue {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.epoch = tx.epoch();
        if self.requests.iter().any(|request| !request.is_all_of_epoch(self.epoch)) {
            // Requested before this node joined again: it knows no waiting deliveries now, and these permits are void.
            self.found = self.requests.iter().map(|_| LeasedParts::default()).collect();
            return Ok(());
        }
        let mut may_end = lease_due::ENDED_MAX;
        let together = in_savepoint(tx, &self.requests, &mut may_end, self.now)?;
        self.found = if let Ok(found) = together {
            found
        } else {
            // A row that cannot be read fails its own endpoint queue only, not those of the same command.
            may_end = lease_due::ENDED_MAX;
            let mut queue = |request| {
                let found = in_savepoint(tx, std::slice::from_ref(request), &mut may_end, self.now)?;
                Ok(found.unwrap_or_else(|error| {
                    tracing::error!(%error, "an endpoint queue cannot be read");
                    vec![LeasedParts::default()]
                }))
            };
            self.requests.iter().map(&mut queue).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        };
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn add_statistics(&self, counters: &mut StatBatch) {
        for EndedUnsent { delivery, event_type, is_blamed } in
            self.found.iter().flat_map(|found| &found.ended)
        {
            if event_type != TEST_EVENT_TYPE {
                counters
                    .entry(delivery.app, Some(delivery.endpoint), event_type, self.now)
                    .add_end(delivery.state, *is_blamed);
            }
        }
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        let (mut refilled, epoch) = (Vec::with_capacity(self.requests.len()), self.epoch);
        for (request, found) in self.requests.into_iter().zip(self.found) {
            refilled.push(LeaseResult {
                endpoint: request.endpoint,
                has_no_oldest: found.oldest.is_empty() && !request.permits.is_empty(),
                has_more_fresh: found.has_more_fresh,
                has_more_manual: found.has_more_manual,
                next_due: found.next_due,
            });
            let lease = |((delivery, event, due), mut permit): (DueDelivery, Permit)| {
                permit.add_bytes(event.data.len());
                LeasedDelivery { delivery, event: Arc::new(event), due, permit, epoch }
            };
            after.live_updates.extend(found.ended.first().map(|ended| update_of(&ended.delivery)));
            let manual = found.manual.into_iter().zip(request.manual_permits);
            let oldest = found.oldest.into_iter().zip(request.permits);
            let fresh = found.fresh.into_iter().zip(request.fresh_permits);
            after.leased.extend(manual.chain(oldest).chain(fresh).map(lease));
        }
        let _ = self.reply.send(Ok(refilled));
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        let _ = self.reply.send(Err(error.clone()));
        None
    }
}

/// Leases from these endpoint queues in a savepoint. The inner error names a row that cannot be read: then nothing was
/// leased, so that no delivery is left in flight unsent.
fn in_savepoint(
    tx: &dyn Sql,
    requests: &[LeaseRequest],
    may_end: &mut usize,
    now: Timestamp,
) -> Result<Result<Vec<LeasedParts>>> {
    tx.execute("SAVEPOINT queues", &[])?;
    let found = match lease_due::lease_due(tx, requests, may_end, now) {
        Err(error @ Error::Wrong(_)) => {
            tx.execute("ROLLBACK TO queues", &[])?;
            Err(error)
        }
        found => Ok(found?),
    };
    tx.execute("RELEASE queues", &[])?;
    Ok(found)
}

pub(super) struct Release {
    pub(super) leased: Vec<LeasedDelivery>,
    pub(super) now: Timestamp,
    pub(super) waiting: Vec<(EndpointId, Timestamp)>,
    pub(super) changed: BTreeSet<(AppId, EndpointId)>,
    pub(super) reply: oneshot::Sender<Result<(), StoreError>>,
}

impl Command for Release {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.waiting.clear();
        for leased in &self.leased {
            let became = delivery_statements::release(tx, leased, self.now, &mut self.waiting)?;
            self.changed.extend(became.as_ref().map(|delivery| (delivery.app, delivery.endpoint)));
            self.waiting.extend(became.and_then(|delivery| {
                delivery.due.filter(|_| delivery.state.is_waiting()).map(|due| (delivery.endpoint, due))
            }));
        }
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        after.waiting.extend(self.waiting);
        after
            .live_updates
            .extend(self.changed.into_iter().map(|(app, endpoint)| LiveUpdate::deliveries(app, endpoint)));
        let _ = self.reply.send(Ok(()));
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        match error {
            StoreError::Unavailable(_) | StoreError::Overloaded => Some(self),
            StoreError::Closed | StoreError::Corrupt(_) => {
                let _ = self.reply.send(Err(error.clone()));
                None
            }
        }
    }
}

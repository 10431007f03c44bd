//! Deliveries: accepting events, leasing deliveries, recording results, and actions on single deliveries.
//!
//! Commands are collected into batches, one transaction and one flush each. Results come before accepts. Where a delivery
//! leaves its ordering group, the next is promoted in the same transaction, whatever the command, and the commit listener
//! wakes its endpoint queue.

use super::{
    Reply, Store,
    sql::{Accept, LeaseDue, RecordResult, Release, audit, delivery_statements, flush_command, lease_due},
};
use crate::domain::{
    audit::AuditEntry,
    contract::Contract,
    delivery::{Availability, Delivery, DeliveryState, TransitionError},
    endpoint::Disabled,
    event::{DedupKey, Event, Fingerprint},
    health::HealthSample,
    id::{AppId, DeliveryId, EndpointId, EventId, InspectionId},
    live_update::LiveUpdate,
    outcome::Attempt,
    ports::{LeasedDelivery, Permit},
    time::Timestamp,
    verdict::Verdict,
};
use std::sync::Arc;

/// A published event with the deliveries it becomes.
#[derive(Debug)]
pub struct NewEvent {
    pub event: Arc<Event>,
    pub deliveries: Vec<NewDelivery>,
    /// The producer's id and the `Idempotency-Key`, where given.
    pub dedup: Vec<DedupKey>,
    /// Only compared when there is a key; all zero otherwise.
    pub fingerprint: Fingerprint,
}

/// A new delivery; with a permit it is in flight from the start and goes to the engine after the commit, unless it is queued
/// behind others of its ordering group.
#[derive(Debug)]
pub struct NewDelivery {
    pub delivery: Delivery,
    pub permit: Option<Permit>,
}

/// Result of accepting one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    New,
    /// Published before: that event, and its first deliveries.
    Repeated {
        event: Arc<Event>,
        deliveries: Vec<(DeliveryId, EndpointId)>,
    },
    /// Something else was published under this id or key.
    Conflict {
        event: EventId,
    },
}

/// The verdict on a leased delivery, with the requests that were made for it.
#[derive(Debug)]
pub struct DeliveryResult {
    pub leased: LeasedDelivery,
    pub attempts: Vec<Attempt>,
    pub verdict: Verdict,
    /// How the endpoint is disabled, with a verdict that disables it.
    pub disable: Option<Disabled>,
    /// Health sample of the receiver, from the last attempt; evaluated by the contract.
    pub health_sample: Option<HealthSample>,
    pub ended_at: Timestamp,
    /// The endpoint's contract, where it is known: its rules of health, and the notices of a delivery that dies.
    pub contract: Option<Arc<Contract>>,
}

/// Request to lease due deliveries of one endpoint queue. Each delivery takes one permit; unused permits are released.
#[derive(Debug)]
pub struct LeaseRequest {
    pub endpoint: EndpointId,
    /// Permits for the oldest.
    pub permits: Vec<Permit>,
    /// Leases a probe: where nothing is due, the first that waits for its next attempt, as an extra one.
    pub is_probe: bool,
    /// While a backlog drains: `permits` are for what is due until this, `fresh_permits` for what is due
    /// after it.
    pub backlog_until: Option<Timestamp>,
    pub fresh_permits: Vec<Permit>,
    /// Permits for manual deliveries that are due, before `backlog_until` or after it.
    pub manual_permits: Vec<Permit>,
    /// Bodies beyond this many bytes stay in the store, but for the first of each kind.
    pub bytes_max: usize,
    /// The endpoint's contract, unless that is gone: says which notices are written of deliveries that end here without an
    /// attempt.
    pub contract: Option<Arc<Contract>>,
}

impl LeaseRequest {
    /// Whether all its permits may send what is leased under this epoch.
    pub fn is_all_of_epoch(&self, epoch: i64) -> bool {
        [&self.permits, &self.fresh_permits, &self.manual_permits]
            .into_iter()
            .flatten()
            .all(|permit| permit.is_valid_for(epoch))
    }
}

/// Result of leasing from one endpoint queue.
#[derive(Debug)]
pub struct LeaseResult {
    pub endpoint: EndpointId,
    /// Permits for the oldest were given, and none was used.
    pub has_no_oldest: bool,
    /// Every permit for these was used: there may be more.
    pub has_more_fresh: bool,
    pub has_more_manual: bool,
    /// When the next of this queue is due, if any waits; may be in the past.
    pub next_due: Option<Timestamp>,
}

/// Request for a page of retries to advance, of an endpoint that answers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvanceRetries {
    pub endpoint: EndpointId,
    /// Only what was last tried before this.
    pub recovered_at: Timestamp,
    /// Starts behind the delivery that was due then and had this id.
    pub after: (Timestamp, DeliveryId),
    /// How many deliveries are examined.
    pub most: usize,
}

/// Result of advancing a page of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvancedRetries {
    pub count: usize,
    /// Where the next page starts; `None` when that was the last.
    pub next: Option<(Timestamp, DeliveryId)>,
}

/// Action on one delivery, requested by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryAction {
    Retry,
    /// On a delivered one: makes a new delivery with this id.
    Replay {
        new_id: DeliveryId,
        give_up_at: Option<Timestamp>,
    },
    Cancel,
    Close,
    /// Removes a terminal delivery and its history.
    Delete,
}

/// Result of an action on a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionResult {
    Done(Delivery),
    /// A replay of a delivered one made this new delivery.
    Made(Delivery),
    Deleted,
    Refused(TransitionError),
    /// No such delivery in this app.
    Absent,
}

/// Change of an endpoint's availability, to be applied to its waiting and held deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvailabilityChange {
    /// The endpoint was disabled or deleted: its waiting deliveries are held or cancelled.
    Disabled(Availability),
    /// The endpoint is enabled again: its held deliveries become due. The contract says whether they aged while held.
    Enabled { gives_up_while_held: bool },
}

/// Result of requesting an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectionRequested {
    /// The inspection waits, and the engine was notified.
    Waiting,
    /// The endpoint is being inspected already.
    Busy(InspectionId),
    /// The endpoint is gone.
    NoEndpoint,
}

impl Store {
    /// Stores each event with its deliveries and keys, all of the call in one transaction, and answers in the same order.
    /// Promise: `Ok` only after the flush; every delivery with a permit then goes to the engine, whether or not the caller is
    /// still there.
    ///
    /// A delivery made as held for an endpoint that is enabled by then is not held. A delivery whose ordering group has a
    /// head is queued behind all that was stored there before it, whatever their ids, and releases its permit. A duplicate
    /// inside the call or the batch resolves to the first. Refuses with `Overloaded` before memory grows.
    pub fn accept(&self, events: Vec<NewEvent>) -> Reply<Vec<Accepted>> {
        let (accept, answer) = Accept::prepare(events);
        let (count, bytes) = accept.weight();
        self.backend.submit_accept(Box::new(accept), count, bytes);
        answer
    }

    /// Whether a result can be recorded now, as far as that is known. While it cannot, nothing is leased and nothing is sent.
    /// A store in a file finds out by trying.
    pub fn can_record(&self) -> bool {
        self.backend.can_record()
    }

    /// Writes the attempts, the verdict and the notices of a delivery, and releases its permit once they are durable. Never
    /// refused and never lost while the process lives: it is retried until the store takes it. A delivery that is no longer
    /// in flight is left alone. With a health sample it also updates the endpoint's health, writes its notices and disables
    /// the endpoint as its contract says.
    pub fn record_result(&self, result: DeliveryResult) {
        self.backend.submit(Box::new(RecordResult::new(result)));
    }

    /// Leases due deliveries of these endpoint queues, at most one per permit, oldest first, and passes them to the engine
    /// after the commit: manual ones, then the backlog and the fresh ones, as the permits say. A delivery whose final wait or
    /// age is over ends instead. For a probe a delivery is leased ahead of its time if none is due.
    pub fn lease_due(&self, requests: Vec<LeaseRequest>, now: Timestamp) -> Reply<Vec<LeaseResult>> {
        let (lease, answer) = LeaseDue::prepare(requests, now);
        self.backend.submit(Box::new(lease));
        answer
    }

    /// Releases leased deliveries unattempted: due as they were.
    pub fn release(&self, leased: Vec<LeasedDelivery>, now: Timestamp) -> Reply<()> {
        let (release, answer) = Release::prepare(leased, now);
        self.backend.submit(Box::new(release));
        answer
    }

    /// Makes retries due at once that wait for a later time although the endpoint answers again, the oldest first. Deliveries
    /// that wait for `deliver_at` or for their end, or were tried since, are left alone. Wakes the endpoint queue by the commit
    /// listener.
    pub fn advance_retries(&self, recovery: AdvanceRetries, now: Timestamp) -> Reply<AdvancedRetries> {
        let reply = self.backend.write_then(
            move |tx| lease_due::advance_retries(tx, &recovery, now),
            move |(_, app), after| {
                if let Some(app) = *app {
                    after.waiting.push((recovery.endpoint, now));
                    after.publish([LiveUpdate::deliveries(app, recovery.endpoint)]);
                }
            },
        );
        Box::pin(async move { reply.await.map(|(advanced, _)| advanced) })
    }

    /// Performs an action on one delivery, if its state allows. Wakes the endpoint queue by the commit listener. An entry of
    /// the audit log is written if the action was performed, here and in the calls below that take one.
    pub fn act(
        &self,
        app: AppId,
        delivery: DeliveryId,
        action: DeliveryAction,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<ActionResult> {
        let reply = self.backend.write_then(
            move |tx| {
                let mut woken = Vec::new();
                let result = delivery_statements::act(tx, app, delivery, action, now, &mut woken)?;
                Ok((audit::write_if_changed(tx, entry.as_ref(), result)?, woken))
            },
            |(result, woken), after| {
                after.waiting.extend(woken);
                if let ActionResult::Done(delivery) | ActionResult::Made(delivery) = result {
                    let due = delivery.due.filter(|_| delivery.state == DeliveryState::Pending);
                    after.manual.extend(due.map(|due| (delivery.endpoint, due)));
                    after.publish([LiveUpdate::delivery(delivery)]);
                }
            },
        );
        Box::pin(async move { reply.await.map(|(result, _)| result) })
    }

    /// Applies an endpoint's availability to at most `most` of its deliveries; returns how many. Fewer than `most`: all are
    /// done. Dead ones that the endpoint skips by now are taken out of their ordering groups. Does nothing if the endpoint is
    /// enabled where it should be disabled, or the reverse: the call is late.
    pub fn apply_to_waiting(
        &self,
        endpoint: EndpointId,
        change: AvailabilityChange,
        most: usize,
        now: Timestamp,
    ) -> Reply<usize> {
        let reply = self.backend.write_then(
            move |tx| delivery_statements::apply_to_waiting(tx, endpoint, change, most, now),
            move |applied, after| {
                if applied.is_released {
                    after.waiting.push((endpoint, now));
                }
                after.publish(applied.app.map(|app| LiveUpdate::deliveries(app, endpoint)));
            },
        );
        Box::pin(async move { reply.await.map(|applied| applied.count) })
    }

    /// Waits until everything recorded or accepted so far is durable and passed to the engine.
    pub fn flush(&self) -> Reply<()> {
        // In the queue of the accepts, which other commands overtake.
        let (command, answer) = flush_command();
        self.backend.submit_accept(command, 0, 0);
        answer
    }
}

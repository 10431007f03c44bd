//! Delivery store: events, deliveries and attempts, and all commands that change them.
//!
//! Commands are collected into batches, one transaction and one flush each. Results come before accepts. Where a delivery
//! leaves its ordering group, the next is promoted in the same transaction, whatever the command, and the commit listener
//! wakes its endpoint queue.

use super::{
    Reply,
    inbox::InboxBatch,
    notices::{MailCursor, MailOutcome, NoticeBatch},
    replays::{ReplayChanged, ReplayPage},
    retention::{EventIdRanges, ExpireResult},
};
use crate::domain::{
    audit::AuditEntry,
    contract::Contract,
    delivery::{Availability, Delivery, TransitionError},
    endpoint::Disabled,
    event::{DedupKey, Event, Fingerprint},
    fan_out::NewDelivery,
    health::HealthSample,
    id::{AppId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
    inspection::{Inspection, InspectionReport},
    outcome::Attempt,
    ports::{LeasedDelivery, Permit},
    replay::{Replay, ReplayState},
    retention::RetentionPolicy,
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

pub trait DeliveryStore: Send + Sync {
    /// Stores each event with its deliveries and keys, all of the call in one transaction, and answers in the same order.
    /// Promise: `Ok` only after the flush; every delivery with a permit then goes to the engine, whether or not the caller is
    /// still there.
    ///
    /// A delivery made as held for an endpoint that is enabled by then is not held. A delivery whose ordering group has a
    /// head is queued behind all that was stored there before it, whatever their ids, and releases its permit. A duplicate
    /// inside the call or the batch resolves to the first. Refuses with `Overloaded` before memory grows.
    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>>;

    /// Accepts events from the inbox as `accept` does, and removes them and the other decided rows from it in the same
    /// transaction. A refused event, or one found to be a conflict, stays there with the reason. Answers for the events, in
    /// the same order.
    fn accept_inbox(&self, intake: InboxBatch) -> Reply<'_, Vec<Accepted>>;

    /// Whether a result can be recorded now, as far as that is known. While it cannot, nothing is leased and nothing is sent.
    /// A store in a file finds out by trying.
    fn can_record(&self) -> bool {
        true
    }

    /// Writes the attempts, the verdict and the notices of a delivery, and releases its permit once they are durable. Never
    /// refused and never lost while the process lives: it is retried until the store takes it. A delivery that is no longer
    /// in flight is left alone. With a health sample it also updates the endpoint's health, writes its notices and disables
    /// the endpoint as its contract says.
    fn record_result(&self, record: DeliveryResult);

    /// Leases due deliveries of these endpoint queues, at most one per permit, oldest first, and passes them to the engine
    /// after the commit: manual ones, then the backlog and the fresh ones, as the permits say. A delivery whose final wait or
    /// age is over ends instead. For a probe a delivery is leased ahead of its time if none is due.
    fn lease_due(&self, requests: Vec<LeaseRequest>, now: Timestamp) -> Reply<'_, Vec<LeaseResult>>;

    /// Releases leased deliveries unattempted: due as they were.
    fn release(&self, leased: Vec<LeasedDelivery>, now: Timestamp) -> Reply<'_, ()>;

    /// Makes retries due at once that wait for a later time although the endpoint answers again, the oldest first. Deliveries
    /// that wait for `deliver_at` or for their end, or were tried since, are left alone. Wakes the endpoint queue by the commit
    /// listener.
    fn advance_retries(&self, recovery: AdvanceRetries, now: Timestamp) -> Reply<'_, AdvancedRetries>;

    /// Performs an action on one delivery, if its state allows. Wakes the endpoint queue by the commit listener. An entry of
    /// the audit log is written if the action was performed, here and in the calls below that take one.
    fn act(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: DeliveryAction,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ActionResult>;

    /// Applies an endpoint's availability to at most `most` of its deliveries; returns how many. Fewer than `most`: all are
    /// done. Dead ones that the endpoint skips by now are taken out of their ordering groups. Does nothing if the endpoint is
    /// enabled where it should be disabled, or the reverse: the call is late.
    fn apply_to_waiting(
        &self,
        endpoint: EndpointId,
        settle: AvailabilityChange,
        most: usize,
        now: Timestamp,
    ) -> Reply<'_, usize>;

    /// Erases an event's payload and keeps the record; `false` if the app has no such event.
    fn erase_data(&self, app: AppId, event: EventId, entry: Option<AuditEntry>) -> Reply<'_, bool>;

    /// Removes from these events all that is due for removal, as the domain decides on the rows at that time; a bounded part,
    /// the rest is returned. Deliveries that still wait are recorded as ended and stay until another step.
    fn expire(
        &self,
        ranges: EventIdRanges,
        keeps: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<'_, ExpireResult>;

    fn start_replay(&self, replay: Replay, entry: Option<AuditEntry>) -> Reply<'_, ()>;

    /// Sends a page of sources again and advances the replay, in one transaction; the commit listener wakes the endpoint
    /// queues. `None`, and nothing done, if the replay is not running or has moved since.
    fn advance_replay(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>>;

    /// Pauses, resumes or cancels, as `to` says.
    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<'_, ReplayChanged>;
    /// Stores an inspection that waits, unless its endpoint has one that waits or runs. The engine is notified after the
    /// commit, whether or not the caller is still there.
    fn request_inspection(&self, inspection: Inspection) -> Reply<'_, InspectionRequested>;

    /// Marks the oldest waiting inspection as running and returns it, passing over apps that have `per_app_max` running.
    fn start_next_inspection(&self, per_app_max: u32) -> Reply<'_, Option<Inspection>>;

    /// Ends a running inspection, as interrupted if there is no report, and deletes the oldest ended ones of its endpoint
    /// beyond the number that is kept. `false` if it is not running any more: then nothing is changed.
    fn finish_inspection(
        &self,
        inspection: InspectionId,
        report: Option<InspectionReport>,
        now: Timestamp,
    ) -> Reply<'_, bool>;

    /// Returns the next mail to send: the notices of an app that go together. Promise: until it has ended it is returned
    /// again with the same notices, whatever is written meanwhile.
    fn next_mail(&self, cursor: MailCursor, now: Timestamp) -> Reply<'_, NoticeBatch>;

    /// Stores the result of the mail whose first notice this is.
    fn finish_mail(&self, app: AppId, first: NoticeId, end: MailOutcome, now: Timestamp) -> Reply<'_, ()>;

    /// Closes digests whose window is over: later notices are not counted in them.
    fn close_digests(&self, now: Timestamp) -> Reply<'_, ()>;

    /// Marks these notices as published, either because their operational webhooks exist or because no endpoint subscribes to
    /// them.
    fn mark_notices_published(&self, notices: Vec<NoticeId>) -> Reply<'_, ()>;

    /// Waits until everything recorded or accepted so far is durable and passed to the engine.
    fn flush(&self) -> Reply<'_, ()>;
}

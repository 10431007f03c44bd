//! The ledger: events, deliveries and attempts, and everything that changes them.
//!
//! Commands are gathered into batches, one transaction and one flush each. Results come before accepts. Where a delivery
//! leaves its line, the next steps up in the same transaction, whatever the command, and its lane is woken by the handover.

use super::{
    Reply,
    inbox::Intake,
    notices::{MailEnd, MailTurn, Outgoing},
    replays::{ReplayChanged, ReplayPage},
    retention::{Expired, Ranges},
};
use crate::domain::{
    audit::Entry,
    contract::Contract,
    delivery::{Delivery, Refusal, Switch},
    endpoint::SwitchedOff,
    event::{DedupKey, Event, Fingerprint},
    health::Sighting,
    id::{AppId, DeliveryId, EndpointId, EventId, InspectionId, NoticeId, ReplayId},
    inspection::{Inspection, Report},
    outcome::Attempt,
    port::{Carried, Hand},
    replay::{Replay, ReplayState},
    retention::Keeps,
    time::Timestamp,
    verdict::Verdict,
};
use std::sync::Arc;

/// A published event with the deliveries it becomes.
#[derive(Debug)]
pub struct NewEvent {
    pub event: Arc<Event>,
    pub births: Vec<Birth>,
    /// The producer's id and the `Idempotency-Key`, where given.
    pub dedup: Vec<DedupKey>,
    /// Only compared when there is a key; all zero otherwise.
    pub fingerprint: Fingerprint,
}

/// A delivery about to be born; with a hand it is in flight from the start and handed over after the commit.
#[derive(Debug)]
pub struct Birth {
    pub delivery: Delivery,
    pub hand: Option<Hand>,
}

/// What became of one published event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    New,
    /// The same was published before: that event, and its first deliveries.
    Repeated {
        event: Arc<Event>,
        deliveries: Vec<(DeliveryId, EndpointId)>,
    },
    /// Something else was published under this id or key.
    Conflict {
        event: EventId,
    },
}

/// The verdict on a carried delivery, with the requests that were made for it.
#[derive(Debug)]
pub struct Record {
    pub carried: Carried,
    pub attempts: Vec<Attempt>,
    pub verdict: Verdict,
    /// With a verdict that switches the endpoint off: how.
    pub switch_off: Option<SwitchedOff>,
    /// The last attempt says something about the receiver, which is judged by the contract.
    pub sighting: Option<Sighting>,
    pub ended_at: Timestamp,
    /// Of the endpoint, where it is known: by which rules it is judged, and how people are told of a delivery that dies.
    pub contract: Option<Arc<Contract>>,
}

/// How many of a lane's due deliveries there is room for: one hand each, already taken; unused ones go back.
#[derive(Debug)]
pub struct Want {
    pub endpoint: EndpointId,
    /// For the oldest.
    pub hands: Vec<Hand>,
    /// For a probe: where nothing is due, the first that waits for its next attempt, as an extra one.
    pub is_probe: bool,
    /// While a backlog drains: which is due until this, and hands for what is due after it.
    pub backlog_until: Option<Timestamp>,
    pub fresh: Vec<Hand>,
    /// For what people asked for, whenever it is due.
    pub by_hand: Vec<Hand>,
    /// Bodies beyond this many bytes stay in the store, but for the first of each kind.
    pub bytes_max: usize,
    /// Of the endpoint, unless that is gone: what is told of those that end here without an attempt.
    pub contract: Option<Arc<Contract>>,
}

impl Want {
    /// Whether all its hands may carry what is fetched under this epoch.
    pub fn is_of(&self, epoch: i64) -> bool {
        [&self.hands, &self.fresh, &self.by_hand].into_iter().flatten().all(|hand| hand.is_of(epoch))
    }
}

/// What a refill found in one lane.
#[derive(Debug)]
pub struct Refilled {
    pub endpoint: EndpointId,
    /// The oldest were asked for, and none was to be carried.
    pub has_none: bool,
    /// Every hand for these was used: there may be more.
    pub has_more_fresh: bool,
    pub has_more_by_hand: bool,
    /// When the next of this lane is due, if any waits; may be in the past.
    pub next_due: Option<Timestamp>,
}

/// A page of what an endpoint that answers again need not wait for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    pub endpoint: EndpointId,
    /// Only what was last tried before this.
    pub recovered_at: Timestamp,
    /// Goes on behind the delivery that was due then and had this id.
    pub after: (Timestamp, DeliveryId),
    /// How many are looked at.
    pub most: usize,
}

/// What a page of it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroughtForward {
    pub count: usize,
    /// Where the next page goes on; `None` when that was the last.
    pub next: Option<(Timestamp, DeliveryId)>,
}

/// Something a person asks for on one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Retry,
    /// Of a delivered one: makes a new delivery with this id.
    Replay {
        as_new: DeliveryId,
        give_up_at: Option<Timestamp>,
    },
    Cancel,
    Close,
    /// Removes a terminal delivery and its history.
    Delete,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Done(Delivery),
    /// A replay of a delivered one made this new delivery.
    Made(Delivery),
    Deleted,
    Refused(Refusal),
    /// No such delivery in this app.
    Absent,
}

/// What is to happen to the deliveries that wait for, or are held back from, an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// It was switched off or deleted: its waiting deliveries are held or cancelled.
    Off(Switch),
    /// It is on again: its held deliveries become due. Whether they grew older meanwhile is for the contract to say.
    On { gives_up_while_held: bool },
}

/// Whether an inspection could be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// It waits, and the engine was told.
    Waiting,
    /// The endpoint is being inspected already.
    Busy(InspectionId),
    /// The endpoint is gone.
    NoEndpoint,
}

pub trait Ledger: Send + Sync {
    /// Stores each event with its deliveries and keys, all of the call in one transaction, and answers in the same order.
    /// Promise: `Ok` only after the flush; whatever was born with a hand is then handed over, whether or not the caller is
    /// still there.
    /// What is born held for an endpoint that is on by then is not held. What is born into a line that has a first waits behind
    /// that and all that was stored there before it, whatever their ids, and gives a hand back.
    /// A duplicate inside the call or the batch resolves to the first. Refuses with `Overloaded` before memory grows.
    fn accept(&self, events: Vec<NewEvent>) -> Reply<'_, Vec<Accepted>>;

    /// Accepts events out of the inbox as above, and takes them and what is settled out of it in the same transaction; what is refused,
    /// or found to be a conflict, stays there with the reason. Answers for the events, in the same order.
    fn take_in(&self, intake: Intake) -> Reply<'_, Vec<Accepted>>;

    /// Whether what is begun now can be recorded, as far as that is known. While it cannot, nothing is taken and nothing is sent.
    /// A store in a file finds out by trying.
    fn can_record(&self) -> bool {
        true
    }

    /// Writes the attempts, the verdict and what people are to be told of it, and frees the hand once they are durable. Never refused and never lost while
    /// the process lives: it is tried again until the store takes it. A delivery that is no longer in flight is left alone.
    /// With a sighting, the endpoint's health, what people are told of it and the switch of its contract's rules are part of it.
    fn record(&self, record: Record);

    /// Marks due deliveries of these lanes as in flight, at most one per hand, oldest first, and hands them over after
    /// the commit: what people asked for, then the backlog and what is fresh, as the hands say. Those whose final wait or age
    /// is over end instead. For a probe one is carried ahead of its time if none is due.
    fn refill(&self, wants: Vec<Want>, now: Timestamp) -> Reply<'_, Vec<Refilled>>;

    /// Gives back, unattempted, what was to be carried and is not: due as it was.
    fn hand_back(&self, carried: Vec<Carried>, now: Timestamp) -> Reply<'_, ()>;

    /// Makes retries due at once that wait for a later time although the endpoint answers again, the oldest first. What waits
    /// for `deliver_at`, for its end, or was tried since, is left alone. Wakes the lane by the handover.
    fn bring_forward(&self, recovery: Recovery, now: Timestamp) -> Reply<'_, BroughtForward>;

    /// Does what a person asked on one delivery, if its state allows. Wakes the lane by the handover.
    /// With an entry of the audit log, that is written if it was done, here and in the calls below that take one.
    fn ask(
        &self,
        app: AppId,
        delivery: DeliveryId,
        ask: Ask,
        now: Timestamp,
        entry: Option<Entry>,
    ) -> Reply<'_, Asked>;

    /// Settles at most `most` deliveries of a switched endpoint; answers how many it did. Fewer than `most`: all done. Dead ones
    /// that the endpoint skips by now are taken out of the way of others.
    /// Does nothing if the endpoint is on where it should be off, or the other way round: the caller is late.
    fn settle(&self, endpoint: EndpointId, settle: Settle, most: usize, now: Timestamp) -> Reply<'_, usize>;

    /// Erases an event's payload and keeps the record; `false` if the app has no such event.
    fn erase_data(&self, app: AppId, event: EventId, entry: Option<Entry>) -> Reply<'_, bool>;

    /// Removes what is to go of these events by now, as the domain decides on what is there when it is done; a bounded part
    /// of it, the rest is left. What still waits ends on record and stays until another step.
    fn expire(&self, ranges: Ranges, keeps: Arc<dyn Keeps>, now: Timestamp) -> Reply<'_, Expired>;

    fn begin_replay(&self, replay: Replay, entry: Option<Entry>) -> Reply<'_, ()>;

    /// Sends a page of sources again and moves the replay on, in one transaction; the lanes are woken by the handover.
    /// `None`, and nothing done, if the replay is not running or is elsewhere by now.
    fn proceed(&self, page: ReplayPage, now: Timestamp) -> Reply<'_, Option<Replay>>;

    /// Pauses, resumes or cancels, as `to` says.
    fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<Entry>,
    ) -> Reply<'_, ReplayChanged>;
    /// Stores an inspection that waits, unless its endpoint has one that waits or runs. The engine is told after the commit,
    /// whether or not the caller is still there.
    fn order_inspection(&self, inspection: Inspection) -> Reply<'_, Ordered>;

    /// Marks the oldest waiting inspection as running and answers it, passing over apps that have `per_app_max` running.
    fn take_inspection(&self, per_app_max: u32) -> Reply<'_, Option<Inspection>>;

    /// Ends a running inspection, as interrupted if there is no report, and forgets the oldest ended ones of its endpoint
    /// beyond those that are kept. `false` if it is not running any more: then nothing is changed.
    fn end_inspection(
        &self,
        inspection: InspectionId,
        report: Option<Report>,
        now: Timestamp,
    ) -> Reply<'_, bool>;

    /// The next mail to send: the notices of an app that go together. Promise: until it has ended it is answered again with
    /// the same notices, whatever is written meanwhile.
    fn take_mail(&self, turn: MailTurn, now: Timestamp) -> Reply<'_, Outgoing>;

    /// What became of the mail whose first notice this is.
    fn end_mail(&self, app: AppId, first: NoticeId, end: MailEnd, now: Timestamp) -> Reply<'_, ()>;

    /// What happens from now on is counted in no digest whose window is over.
    fn close_digests(&self, now: Timestamp) -> Reply<'_, ()>;

    /// These notices are operational webhooks now, or nobody wants them.
    fn published_notices(&self, notices: Vec<NoticeId>) -> Reply<'_, ()>;

    /// Waits until everything recorded or accepted so far is durable and handed over.
    fn flush(&self) -> Reply<'_, ()>;
}

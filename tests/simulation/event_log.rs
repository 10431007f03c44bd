//! Journal of everything seen from outside, whatever process was alive: the evidence that the checker has besides the store.

use crate::{
    network::SeenRequest,
    plan::{ActionKind, AvailabilityAction, DiskTrouble},
};
use posthaste::domain::{
    delivery::Delivery,
    id::{DeliveryId, EndpointId, EventId},
    time::Timestamp,
};

#[derive(Debug, Default)]
pub(crate) struct EventLog {
    /// In the plan's order.
    pub(crate) endpoints: Vec<EndpointId>,
    pub(crate) posts: Vec<SeenRequest>,
    pub(crate) lives: Vec<ProcessFact>,
    pub(crate) answers: Vec<AnswerFact>,
    pub(crate) asks: Vec<ActionFact>,
    pub(crate) availability_changes: Vec<AvailabilityFact>,
    pub(crate) troubles: Vec<TroubleFact>,
    /// Deliveries that a caller knows of, in the order they came to be known.
    pub(crate) known: Vec<DeliveryId>,
    /// Violations seen on the spot.
    pub(crate) violations: Vec<Violation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    /// Accepted events are stored, and delivered means received.
    Lost,
    /// Everything ends, or waits for something.
    Stuck,
    /// Attempts are made when they are due.
    Schedule,
    /// Every request is in the history, once.
    Hidden,
    /// No request is sent after a recorded success or end, unless requested.
    AfterEnd,
    /// Receivers see twice only what was in flight at a fault, or what they lied about.
    Duplicate,
    /// A delivery ends as its contract, its history and people say.
    WrongEnd,
    /// Equal ids give the same event; no 202 without a commit.
    Accept,
    /// A replay ends, takes no source twice, and says how many it sent again.
    Replay,
    /// No record is removed before its time or before it has ended, and what is kept no longer is removed.
    Kept,
    /// Where order is kept, deliveries go one after another and as published; an ordering group always has a head.
    Order,
    /// An endpoint is disabled by a rule that holds, never without its warning, and when it must be.
    Availability,
    /// Every dead delivery is in one notice, and so is every replay that ends.
    Notified,
    /// No rate and no limit is exceeded, and an endpoint that fails is probed one request at a time.
    Pace,
    /// Memory agrees with the store, and every permit comes back.
    Consistency,
    /// A delivery is in one place: it waits, it has ended, or one node that others know of has leased it.
    OnePlace,
    /// Only the node that has leased a delivery sends it, while no other may take over from it.
    Send,
    /// A fenced node writes nothing more.
    Fence,
    /// The shards of a dead node are free only when its leased deliveries were swept.
    Sweep,
    /// Where limits or an order hold, one node sends at a time.
    Sole,
    /// A batch is stored once, whatever becomes of the answer.
    Once,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    Killed,
    /// Could not start, or its engine gave up: what a supervisor would start again.
    Exited,
    Stopped,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessFact {
    pub(crate) ready_at: Option<Timestamp>,
    /// When it was asked to stop, killed or gave up.
    pub(crate) leaving_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) ending: Option<ProcessEnd>,
}

/// An answer to a publish: the event is durable.
#[derive(Clone, Debug)]
pub(crate) struct AnswerFact {
    pub(crate) plan: usize,
    pub(crate) answered_at: Timestamp,
    pub(crate) is_new: bool,
    pub(crate) event: EventId,
    pub(crate) deliveries: Vec<(DeliveryId, String)>,
}

#[derive(Clone, Debug)]
pub(crate) enum ActionAnswer {
    /// As it was right after.
    Done(Delivery),
    Made(Delivery),
    Refused,
    /// The process died before it answered.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionFact {
    pub(crate) delivery: DeliveryId,
    /// A person requested this one delivery; otherwise a bulk replay did.
    pub(crate) is_manual: bool,
    pub(crate) kind: ActionKind,
    pub(crate) called_at: Timestamp,
    pub(crate) answered_at: Timestamp,
    pub(crate) said: ActionAnswer,
}

/// An endpoint that was enabled or disabled at some time between the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AvailabilityFact {
    pub(crate) endpoint: usize,
    pub(crate) kind: AvailabilityAction,
    pub(crate) called_at: Timestamp,
    pub(crate) answered_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TroubleFact {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) trouble: DiskTrouble,
}

impl EventLog {
    pub(crate) fn complain(&mut self, promise: Promise, what: impl Into<String>) {
        self.violations.push(Violation { promise, what: what.into() });
    }
}

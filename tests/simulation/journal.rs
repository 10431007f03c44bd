//! What was seen from outside, whatever process was alive: the evidence that the checker has besides the store.

use crate::{
    network::Post,
    plan::{DiskTrouble, SwitchKind, WishKind},
};
use posthaste::domain::{
    delivery::Delivery,
    id::{DeliveryId, EndpointId, EventId},
    time::Timestamp,
};

#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// In the plan's order.
    pub(crate) endpoints: Vec<EndpointId>,
    pub(crate) posts: Vec<Post>,
    pub(crate) lives: Vec<LifeFact>,
    pub(crate) answers: Vec<AnswerFact>,
    pub(crate) asks: Vec<AskFact>,
    pub(crate) switches: Vec<SwitchFact>,
    pub(crate) troubles: Vec<TroubleFact>,
    /// Deliveries that somebody outside knows of, in the order they came to be known.
    pub(crate) known: Vec<DeliveryId>,
    /// What was seen to be wrong on the spot.
    pub(crate) violations: Vec<Violation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    /// What was accepted is there, and delivered means received.
    Lost,
    /// Everything ends, or waits for something.
    Stuck,
    /// Attempts are made when they are due.
    Schedule,
    /// Every request is in the history, once.
    Hidden,
    /// Nothing is sent after a recorded success or end, unless asked for.
    AfterEnd,
    /// Receivers see twice only what was in flight at a fault, or what they lied about.
    Duplicate,
    /// A delivery ends as its contract, its history and people say.
    WrongEnd,
    /// The same id gives the same event; no 202 without a commit.
    Accept,
    /// A replay ends, takes no source twice, and says how many it sent again.
    Replay,
    /// Nothing goes before its time or before it has ended, and what is kept no longer goes.
    Kept,
    /// Where order is kept, one after another and as published; a line always has a first.
    Order,
    /// An endpoint is switched off by a rule that holds, never without its warning, and when it must be.
    Switched,
    /// People are told of every delivery that dies, once, and of every replay that ends.
    Told,
    /// No rate and no ceiling is exceeded, and an endpoint that fails is probed one request at a time.
    Pace,
    /// What is in memory agrees with the store, and every hand comes back.
    House,
    /// A delivery is in one place: it waits, it has ended, or one node that others know of carries it.
    Place,
    /// Nothing is sent but by the node that carries it, while nobody may take over from that.
    Dial,
    /// Whoever was fenced writes nothing more.
    Fence,
    /// The shards of a dead node are free only when what it carried was swept.
    Sweep,
    /// Where limits or an order hold, one node sends at a time.
    Sole,
    /// Whatever becomes of an answer, a batch is stored once.
    Once,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Killed,
    /// Could not start, or its engine gave up: what a supervisor would start again.
    Exited,
    Stopped,
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LifeFact {
    pub(crate) ready_at: Option<Timestamp>,
    /// Asked to stop, killed or given up.
    pub(crate) leaving_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) ending: Option<Ending>,
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
pub(crate) enum Said {
    /// As it was right after.
    Done(Delivery),
    Made(Delivery),
    Refused,
    /// The process died before it answered.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct AskFact {
    pub(crate) delivery: DeliveryId,
    /// Somebody asked for this one delivery; otherwise a replay of many did it.
    pub(crate) is_wish: bool,
    pub(crate) kind: WishKind,
    pub(crate) called_at: Timestamp,
    pub(crate) answered_at: Timestamp,
    pub(crate) said: Said,
}

/// A switch that took effect at some time between the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwitchFact {
    pub(crate) endpoint: usize,
    pub(crate) kind: SwitchKind,
    pub(crate) called_at: Timestamp,
    pub(crate) answered_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TroubleFact {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) trouble: DiskTrouble,
}

impl Journal {
    pub(crate) fn complain(&mut self, promise: Promise, what: impl Into<String>) {
        self.violations.push(Violation { promise, what: what.into() });
    }
}

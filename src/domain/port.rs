//! The ports that rooms meet at: hands, taken before an event is stored, the handover after the commit, and the gate before
//! every request.
//!
//! The store knows the first two and nothing of the engine; the engine's lanes implement them.

use super::{
    circuit::Pace,
    delivery::Delivery,
    endpoint::SwitchedOff,
    event::Event,
    hint::Hint,
    id::{AppId, EndpointId},
    time::Timestamp,
};
use std::sync::Arc;

/// Gives out permits to carry. Taking one never waits.
pub trait Hands: Send + Sync {
    /// A hand for one delivery of `bytes` to this endpoint, unless all hands, or the endpoint's share of them, are busy,
    /// or others already wait in its lane.
    fn take(&self, endpoint: EndpointId, bytes: usize) -> Option<Hand>;

    /// A hand for a test, which goes out at once even to an endpoint that is off; none if far too much is under way already.
    fn take_for_test(&self, endpoint: EndpointId, bytes: usize) -> Option<Hand>;

    /// The endpoint's settings or switch changed, or it was deleted: its lane follows, and what waits is settled in the
    /// background where the service has not done so.
    fn endpoint_changed(&self, endpoint: EndpointId);

    /// The app's settings changed: its lanes follow its limits.
    fn app_changed(&self, _: AppId) {}

    /// What keeps this delivery from being sent now, if anything does.
    fn pace(&self, _: &Delivery, _: Timestamp) -> Option<Pace> {
        None
    }

    /// A replay was begun, resumed, paused or cancelled: the store knows which.
    fn replays_changed(&self);

    /// Whether another node is to send what this endpoint gets: what is for it waits in the store.
    fn is_sent_elsewhere(&self, _: EndpointId) -> bool {
        false
    }

    /// How many deliveries more this node could carry.
    fn free(&self) -> usize {
        0
    }
}

/// Asked before anything is sent to a receiver.
pub trait DialGate: Send + Sync {
    /// Whether this node may begin a request now: it is certain that nobody else took its work over.
    fn is_open(&self) -> bool;
}

/// Where a hand goes back to.
pub trait HandHolder: Send + Sync {
    fn give_back(&self, bytes: usize);

    /// A hand that was taken before it was known what it would carry now holds this many bytes.
    fn weigh(&self, bytes: usize);
}

/// A permit to carry one delivery. It is free again when dropped, which is when the result is committed.
pub struct Hand {
    holder: Arc<dyn HandHolder>,
    bytes: usize,
    /// Under which it was taken, if that matters.
    epoch: Option<i64>,
}

impl Hand {
    pub fn new(holder: Arc<dyn HandHolder>, bytes: usize) -> Self {
        Self { holder, bytes, epoch: None }
    }

    /// One that carries only what is given to it under this epoch: a node that joins again begins with none.
    pub fn under(epoch: i64, holder: Arc<dyn HandHolder>, bytes: usize) -> Self {
        Self { holder, bytes, epoch: Some(epoch) }
    }

    /// Whether it may carry what is stored as carried under this epoch.
    pub fn is_of(&self, epoch: i64) -> bool {
        self.epoch.is_none_or(|own| own == epoch)
    }

    /// Counts the bytes of what it carries, for a hand that was taken before they were known.
    pub fn weigh(&mut self, bytes: usize) {
        self.holder.weigh(bytes);
        self.bytes += bytes;
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.holder.give_back(self.bytes);
    }
}

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hand")
    }
}

/// A delivery in hand, with all that is needed to send it but the endpoint's current settings.
#[derive(Debug)]
pub struct Carried {
    pub delivery: Delivery,
    pub event: Arc<Event>,
    /// Since when it could have been sent.
    pub due: Timestamp,
    pub hand: Hand,
    /// Under which this process carries it. Whatever comes of it is written only while the store says the same.
    pub epoch: i64,
}

/// What the ledger tells the engine after a commit. None of these may wait.
pub trait Handover: Send + Sync {
    /// These are in flight in the store and nobody else will send them.
    fn carry(&self, carried: Vec<Carried>);
    /// Something in this lane waits in the store, due then. A hint: the store is the truth.
    fn waiting(&self, endpoint: EndpointId, due: Timestamp);
    /// The same about something that a person asked for, who waits for it.
    fn asked(&self, endpoint: EndpointId, due: Timestamp) {
        self.waiting(endpoint, due);
    }
    /// An endpoint was switched off with a verdict, because its receiver said that it is gone or by a rule of its contract: it
    /// has this revision now.
    fn switched_off(&self, endpoint: EndpointId, off: SwitchedOff, revision: u32);
    /// An inspection waits in the store.
    fn inspections_wait(&self);
    /// A notice waits in the store.
    fn notices_wait(&self);
    /// Another node began a replay or changed one: the store knows which.
    fn replays_wait(&self) {}
    /// Another node changed apps, endpoints, keys or event types.
    fn configuration_waits(&self) {}
    /// Whether another node looks after this lane: then the store tells that one as well of what waits there.
    fn is_elsewhere(&self, _: EndpointId) -> bool {
        false
    }
    /// For those who watch, where nothing else says it: nobody has to do anything.
    fn changed(&self, _: Hint) {}
}

//! All that a lane remembers, behind its one lock, and what follows from it at once.

use super::queue::Queue;
use crate::domain::{
    circuit::{Circuit, May},
    order::Order,
    rate::{RateLimit, Tokens},
    time::Timestamp,
};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// In memory and not yet sent, beyond what is in flight: enough to keep an endpoint busy between two refills.
const QUEUE_MAX: usize = 256;

/// What the endpoint, its app and its contract say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting, and all combine")]
pub(super) struct LaneSettings {
    pub(super) in_flight_max: usize,
    pub(super) is_off: bool,
    pub(super) rate: Option<RateLimit>,
    /// Whether pauses and the circuit apply.
    pub(super) is_adaptive: bool,
    pub(super) order: Order,
    /// A hash of where it is.
    pub(super) url: u64,
    /// Whether its app or the node has a ceiling.
    pub(super) is_gated: bool,
    /// Who looks after it, where there are several nodes.
    pub(super) shard: u8,
    /// Whether it has limits or an order, which only one of several nodes can keep. Never of a node that is alone.
    pub(super) is_exclusive: bool,
    /// Counts the endpoint's changes.
    pub(super) revision: u32,
    /// When its app was changed, where that has limits: how often is not known.
    pub(super) app_changed_at: Option<Timestamp>,
}

pub(super) fn hash_of(url: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(url)
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing to remember, and all combine")]
pub(super) struct LaneState {
    pub(super) queue: Queue,
    /// Requests in flight.
    pub(super) couriers: usize,
    /// Hands out: in the queue, in flight, or not yet recorded.
    pub(super) held: usize,
    /// Those of them that fresh ones have while a backlog drains.
    pub(super) held_fresh: usize,
    pub(super) settings: LaneSettings,
    pub(super) tokens: Tokens,
    pub(super) circuit: Circuit,
    /// It stood at the gates at some time, and may have been given a place there since.
    pub(super) was_gated: bool,
    /// When it wakes to look for a token.
    pub(super) wakes_at: Option<Timestamp>,
    /// Since when there has been something to send, and no token.
    pub(super) starved_since: Option<Timestamp>,
    /// More is due than can be sent, since then; what is due later is fresh and has its half.
    pub(super) backlog_until: Option<Timestamp>,
    /// Some of it is in the store, for want of room here.
    pub(super) is_behind: bool,
    /// A fresh one was refused a hand and waits in the store.
    pub(super) has_fresh_waiting: bool,
    /// Something that a person asked for may wait in the store.
    pub(super) has_asked_waiting: bool,
    /// Nothing that a probe could take waits in the store.
    pub(super) has_none_to_probe: bool,
    /// The scheduler found no room here and wants to be told when there is.
    pub(super) is_blocked: bool,
    /// When the first in the store is due, as far as is known.
    pub(super) next_due: Option<Timestamp>,
    /// No other node has anything of it in flight or will have. Only asked where it is exclusive.
    pub(super) is_sole: bool,
    /// The node that looks after it cannot carry all of it, and this one helps.
    pub(super) is_helping: bool,
}

impl LaneState {
    pub(super) fn new(settings: LaneSettings, tokens: Tokens) -> Self {
        Self {
            queue: Queue::default(),
            couriers: 0,
            held: 0,
            held_fresh: 0,
            settings,
            tokens,
            circuit: Circuit::default(),
            was_gated: false,
            wakes_at: None,
            starved_since: None,
            backlog_until: None,
            is_behind: false,
            has_fresh_waiting: false,
            has_asked_waiting: true,
            has_none_to_probe: false,
            is_blocked: false,
            next_due: None,
            is_sole: false,
            is_helping: false,
        }
    }

    pub(super) fn may(&mut self, now: Timestamp) -> May {
        if self.settings.is_adaptive { self.circuit.may(now) } else { May::Send(None) }
    }

    /// A backlog that is neither here nor in the store is over.
    pub(super) fn end_backlog(&mut self) {
        if !self.is_behind && !self.queue.has_overdue() {
            self.backlog_until = None;
        }
    }

    /// Requests at a time, as things are.
    pub(super) fn width(&self) -> usize {
        self.circuit
            .width()
            .map_or(self.settings.in_flight_max, |width| self.settings.in_flight_max.min(width as usize))
    }

    pub(super) fn room_max(&self) -> usize {
        let width = self.width();
        width + QUEUE_MAX.min(width * 4)
    }

    /// What is fresh must not wait behind much that was: of a rate, at most a second's worth.
    pub(super) fn room_for_fresh(&self) -> usize {
        let half = self.room_max().div_ceil(2);
        self.settings.rate.map_or(half, |rate| half.min(rate.per_second as usize))
    }

    /// Not for every single one: half a room lets a refill bring a batch.
    pub(super) fn has_room(&self) -> bool {
        let fresh_fit = self.has_fresh_waiting && self.held_fresh * 2 <= self.room_for_fresh();
        (self.held - self.held_fresh) * 2 <= self.room_max() || fresh_fit
    }

    /// When the scheduler has to look at what waits in the store.
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        let due = self.next_due.filter(|_| !self.settings.is_off)?;
        if !self.circuit.is_closed() {
            return Some(due);
        }
        let asked = Some(due).filter(|_| self.has_asked_waiting);
        let opens_at = self.circuit.opens_at().map(|at| at.max(due));
        // A probe does not wait for what is due; not for long, at least.
        let ahead_at = self.circuit.tries_ahead_at().filter(|_| !self.has_none_to_probe);
        [asked, opens_at, ahead_at].into_iter().flatten().min()
    }
}

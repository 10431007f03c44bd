//! State of an endpoint queue, kept behind its one lock, and the rules that follow from it alone.

use super::ready_queue::ReadyQueue;
use crate::domain::{
    circuit_breaker::{CircuitBreaker, SendDecision},
    ordering::OrderingMode,
    rate_limit::{RateLimit, TokenBucket},
    time::Timestamp,
};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Deliveries in memory and not yet sent, beyond those in flight: enough to keep an endpoint busy between two refills.
const QUEUE_MAX: usize = 256;

/// Settings of a queue, taken from the endpoint, its app and its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting, and all combine")]
pub(super) struct EndpointQueueSettings {
    pub(super) in_flight_max: usize,
    pub(super) is_disabled: bool,
    pub(super) rate: Option<RateLimit>,
    /// Whether pauses and the circuit breaker apply.
    pub(super) is_adaptive: bool,
    pub(super) order: OrderingMode,
    /// Hash of the endpoint's URL.
    pub(super) url: u64,
    /// Whether its app or the node has limits.
    pub(super) is_limited: bool,
    /// Shard that decides which of several nodes owns the queue.
    pub(super) shard: u8,
    /// Whether it has limits or an order, which only one of several nodes can keep. Always false on a single node.
    pub(super) is_exclusive: bool,
    /// Counts the endpoint's changes.
    pub(super) revision: u32,
    /// When its app was changed, if that has limits; the number of changes is not known.
    pub(super) app_changed_at: Option<Timestamp>,
}

pub(super) fn hash_of(url: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(url)
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent flag, and all combine")]
pub(super) struct EndpointQueueState {
    pub(super) ready: ReadyQueue,
    /// Requests in flight.
    pub(super) in_flight: usize,
    /// Permits out: deliveries in the queue, in flight, or not yet recorded.
    pub(super) permits_out: usize,
    /// Permits of fresh deliveries among them, while a backlog drains.
    pub(super) fresh_permits_out: usize,
    pub(super) settings: EndpointQueueSettings,
    pub(super) tokens: TokenBucket,
    pub(super) circuit: CircuitBreaker,
    /// Whether it ever asked the concurrency limiter, which may have granted it a slot since.
    pub(super) has_used_limiter: bool,
    /// When its timer checks for a token again.
    pub(super) timer_at: Option<Timestamp>,
    /// Since when there has been something to send, and no token.
    pub(super) rate_limited_since: Option<Timestamp>,
    /// Set while more is due than can be sent. Deliveries due after this time are fresh and have half of the capacity.
    pub(super) backlog_until: Option<Timestamp>,
    /// Part of the backlog is in the store, for want of capacity here.
    pub(super) has_stored_backlog: bool,
    /// A fresh delivery may wait in the store, for want of a permit.
    pub(super) has_fresh_waiting: bool,
    /// A manual delivery may wait in the store.
    pub(super) has_manual_waiting: bool,
    /// No delivery in the store could serve as a probe.
    pub(super) has_none_to_probe: bool,
    /// The scheduler found no capacity here and has to be woken when there is some.
    pub(super) is_blocked: bool,
    /// When the first delivery in the store is due, as far as is known.
    pub(super) next_due: Option<Timestamp>,
    /// No other node has a delivery of it in flight or will have. Only used while the queue is exclusive.
    pub(super) is_exclusive_owner: bool,
    /// This node helps the owner, which cannot send everything that is due.
    pub(super) is_helping_owner: bool,
}

impl EndpointQueueState {
    pub(super) fn new(settings: EndpointQueueSettings, tokens: TokenBucket) -> Self {
        Self {
            ready: ReadyQueue::default(),
            in_flight: 0,
            permits_out: 0,
            fresh_permits_out: 0,
            settings,
            tokens,
            circuit: CircuitBreaker::default(),
            has_used_limiter: false,
            timer_at: None,
            rate_limited_since: None,
            backlog_until: None,
            has_stored_backlog: false,
            has_fresh_waiting: false,
            has_manual_waiting: true,
            has_none_to_probe: false,
            is_blocked: false,
            next_due: None,
            is_exclusive_owner: false,
            is_helping_owner: false,
        }
    }

    pub(super) fn circuit_decision(&mut self, now: Timestamp) -> SendDecision {
        if self.settings.is_adaptive { self.circuit.decide(now) } else { SendDecision::Send(None) }
    }

    /// Ends a backlog that is neither in memory nor in the store.
    pub(super) fn end_backlog(&mut self) {
        if !self.has_stored_backlog && !self.ready.has_overdue() {
            self.backlog_until = None;
        }
    }

    /// Returns how many requests may be in flight at present.
    pub(super) fn concurrency(&self) -> usize {
        self.circuit
            .width()
            .map_or(self.settings.in_flight_max, |width| self.settings.in_flight_max.min(width as usize))
    }

    pub(super) fn capacity(&self) -> usize {
        let width = self.concurrency();
        width + QUEUE_MAX.min(width * 4)
    }

    /// Returns the capacity for fresh deliveries. With a rate limit, at most a second's worth: fresh ones must not wait
    /// behind many that were.
    pub(super) fn fresh_capacity(&self) -> usize {
        let half = self.capacity().div_ceil(2);
        self.settings.rate.map_or(half, |rate| half.min(rate.per_second as usize))
    }

    /// Whether there is capacity for a refill: half of it, so that a refill brings a batch.
    pub(super) fn has_refill_capacity(&self) -> bool {
        let fresh_fit = self.has_fresh_waiting && self.fresh_permits_out * 2 <= self.fresh_capacity();
        (self.permits_out - self.fresh_permits_out) * 2 <= self.capacity() || fresh_fit
    }

    /// Returns when the scheduler has to refill from the store.
    pub(super) fn next_refill_at(&self) -> Option<Timestamp> {
        let due = self.next_due.filter(|_| !self.settings.is_disabled)?;
        if !self.circuit.blocks_sending() {
            return Some(due);
        }
        let manual = Some(due).filter(|_| self.has_manual_waiting);
        let opens_at = self.circuit.resumes_at().map(|at| at.max(due));
        // A probe may take a delivery that is not due yet, though less often.
        let ahead_at = self.circuit.early_probe_at().filter(|_| !self.has_none_to_probe);
        [manual, opens_at, ahead_at].into_iter().flatten().min()
    }
}

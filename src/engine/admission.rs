//! Admission of deliveries: the circuit breaker, the tokens and the limits that each passes before it is sent, and what they
//! learn when its request has ended.

use super::{
    body_cache::BodyCache,
    concurrency_limiter::{ConcurrencyLimiter, WokenQueues},
    endpoint_queue::EndpointQueue,
    queue_state::EndpointQueueState,
    ready_queue::{QueuedDelivery, is_test},
    timers::TimerKey,
};
use crate::domain::{
    circuit_breaker::{
        AttemptResult, CircuitTransition, DelayReason, PausedUntil, RequestedPause, SendDecision,
        UNNEEDED_PROBE_NOTE, rate_note,
    },
    delivery::{Delivery, DeliveryState},
    id::{DeliveryId, made_at},
    outcome::OutcomeClass,
    ports::LeasedDelivery,
    rate_limit::TokenBucket,
    time::Timestamp,
};
use std::sync::{
    Arc, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Delivery that is about to be sent.
pub(super) struct OutgoingDelivery {
    pub(super) leased: LeasedDelivery,
    pub(super) bodies: Arc<BodyCache>,
    /// History note on why it is sent when it is, if there is one.
    pub(super) note: Option<String>,
}

/// Admission ticket: what the queue has to know when the request has ended.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent flag, and all combine")]
pub(super) struct AdmissionTicket {
    delivery: DeliveryId,
    /// Hash of the URL that it goes to.
    url: u64,
    is_test: bool,
    is_probe: bool,
    /// Whether it holds a concurrency slot.
    holds_slot: bool,
    /// Whether it took tokens.
    took_tokens: bool,
    /// Whether only this node may send for its endpoint.
    is_exclusive: bool,
    /// Whether it was sent, which uses its tokens; only noted if it took some.
    was_sent: AtomicBool,
}

pub(super) type Admitted = (OutgoingDelivery, AdmissionTicket);

impl AdmissionTicket {
    /// Whether each of its requests takes tokens.
    pub(super) fn took_tokens(&self) -> bool {
        self.took_tokens
    }

    /// Whether its request must be over when another node may send for its endpoint.
    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendResult {
    pub(super) class: OutcomeClass,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) requested_pause: Option<RequestedPause>,
}

impl EndpointQueue {
    /// Returns the next delivery, if one may be sent; its worker is counted in. Also returns which other queues were
    /// admitted.
    pub(super) fn try_admit_next(&self, now: Timestamp) -> (Option<Admitted>, WokenQueues) {
        let mut state = self.lock();
        if self.context.permit_pool.is_send_gate_closed() || self.may_not_send(&state) {
            return (None, WokenQueues::default());
        }
        let Some(is_probe) = state.pick(now) else {
            state.rate_limited_since = state.rate_limited_since.filter(|_| !state.ready.is_empty());
            return (None, WokenQueues::default());
        };
        if let Some(rate) = state.settings.rate
            && let Err(wait) = state.tokens.check(rate, now)
        {
            state.rate_limited_since.get_or_insert(now);
            state.backlog_until.get_or_insert(now);
            let at = now.plus(wait);
            if state.timer_at.is_none_or(|known| at < known) {
                state.timer_at = Some(self.context.timers.set(at, TimerKey::Queue(self.endpoint), now));
            }
            return (None, WokenQueues::default());
        }
        let is_gated = state.settings.is_limited;
        let mut served = WokenQueues::default();
        if is_gated {
            state.has_used_limiter = true;
            let (may, others) = self.limiter().try_admit(self.app, self.endpoint, now);
            served = others;
            if !may {
                state.backlog_until.get_or_insert(now);
                return (None, served);
            }
        }
        let sending = state.pop_outgoing(is_probe, is_gated, now);
        (sending, served)
    }

    /// Starts the rate limit at `now` with no tokens saved up, as this process has sent nothing before.
    pub(super) fn start_rate_limit(&self, now: Timestamp) {
        self.lock().tokens = TokenBucket::empty_at(Some(now));
    }

    /// Clears the timer, which has fired.
    pub(super) fn clear_timer(&self) {
        self.lock().timer_at = None;
    }

    /// Counts a worker out and updates the circuit breaker; `report` is `None` if nothing was sent, or nothing is known of
    /// it. Returns what changed, and when the scheduler has to refill if that changed.
    pub(super) fn finish_request(
        &self,
        ticket: &AdmissionTicket,
        report: Option<SendResult>,
        now: Timestamp,
    ) -> (CircuitTransition, Option<Timestamp>) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if ticket.took_tokens && !ticket.was_sent.load(Relaxed) {
            state.tokens.put_back();
        }
        // An answer from another URL says nothing about this one.
        if !state.settings.is_adaptive || ticket.url != state.settings.url {
            return (CircuitTransition::Unchanged, None);
        }
        let change = state.update_circuit(ticket, report, now);
        let has_changed = change != CircuitTransition::Unchanged || state.circuit.blocks_sending();
        (change, if has_changed { state.next_refill_at() } else { None })
    }

    /// Releases the concurrency slot, if it holds one.
    pub(super) fn release_slot(&self, ticket: &AdmissionTicket, now: Timestamp) -> WokenQueues {
        if ticket.holds_slot {
            self.limiter().release_slot(self.app, ticket.was_sent.load(Relaxed), now)
        } else {
            WokenQueues::default()
        }
    }

    /// Releases slots that the queue was granted and has no use for.
    pub(super) fn give_up_granted(&self, now: Timestamp) -> WokenQueues {
        if self.lock().has_used_limiter {
            return self.limiter().give_up_granted(self.app, self.endpoint, now);
        }
        WokenQueues::default()
    }

    /// Marks the request as sent now, which may be later than its tokens were taken.
    pub(super) fn mark_sent(&self, ticket: &AdmissionTicket, now: Timestamp) {
        if !ticket.took_tokens || ticket.was_sent.swap(true, Relaxed) {
            return;
        }
        let mut state = self.lock();
        let rate = state.settings.rate;
        state.tokens.spend(rate, now);
        if ticket.holds_slot {
            self.limiter().spend_tokens(self.app, now);
        }
    }

    /// Whether another request may be sent at once in place of one that did not arrive; takes the tokens for it if so.
    pub(super) fn may_repeat(&self, ticket: &AdmissionTicket, now: Timestamp) -> bool {
        if !ticket.took_tokens {
            return true;
        }
        let mut state = self.lock();
        let rate = state.settings.rate;
        if rate.is_some_and(|rate| state.tokens.check(rate, now).is_err()) {
            return false;
        }
        let may = !ticket.holds_slot || self.limiter().may_repeat(self.app, now);
        if may {
            state.tokens.reserve();
            state.tokens.spend(rate, now);
        }
        may
    }

    /// Takes what is in memory and may not be sent, by this node or while the endpoint is throttled: it waits in the store
    /// instead.
    pub(super) fn take_unsendable(&self, now: Timestamp) -> Vec<LeasedDelivery> {
        let mut state = self.lock();
        if self.may_not_send(&state) {
            return state.ready.take_all();
        }
        if !state.ready.has_automatic() {
            return Vec::new();
        }
        match state.circuit_decision(now) {
            SendDecision::Send(_) => Vec::new(),
            SendDecision::SendProbe => state.ready.take_automatic(1),
            SendDecision::Probe | SendDecision::Wait(_) => state.ready.take_automatic(0),
        }
    }

    /// Opens the circuit breaker with a probe due now, if the contract is adaptive. Returns when the scheduler has to refill.
    pub(super) fn start_half_open(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        if state.settings.is_adaptive {
            state.circuit.start_half_open(now);
        }
        state.next_refill_at()
    }

    pub(super) fn resume_pause(&self, paused: PausedUntil, now: Timestamp) {
        let mut state = self.lock();
        if state.settings.is_adaptive {
            state.circuit.resume_pause(paused, now);
        }
    }

    /// Whether the endpoint is paused, and whether its circuit breaker is open.
    pub(super) fn throttle_state(&self, now: Timestamp) -> (bool, bool) {
        let state = self.lock();
        (state.circuit.is_paused(now), state.circuit.is_open())
    }

    /// Returns what keeps this delivery from being sent now, if anything does.
    pub(super) fn delay_reason(&self, delivery: &Delivery, now: Timestamp) -> Option<DelayReason> {
        let state = self.lock();
        let is_due = delivery.state.is_waiting() && delivery.due.is_some_and(|due| due <= now);
        let is_queued = delivery.state == DeliveryState::InFlight && state.ready.holds(delivery.id);
        if state.settings.is_disabled || !(is_due || is_queued) {
            return None;
        }
        let throttled = state.circuit.delay_reason(now).filter(|_| !delivery.is_manual);
        let rate_limited =
            state.settings.rate.filter(|_| state.rate_limited_since.is_some()).map(DelayReason::Rate);
        let at_gates = state.settings.is_limited && self.limiter().is_waiting(self.app, self.endpoint);
        let is_full = state.in_flight >= state.concurrency();
        throttled
            .or(rate_limited)
            .or(at_gates.then_some(DelayReason::AppOrNodeLimit))
            .or(is_full.then_some(DelayReason::EndpointLimit))
    }

    pub(super) fn limiter(&self) -> MutexGuard<'_, ConcurrencyLimiter> {
        self.context.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointQueueState {
    /// Updates the circuit breaker by what a request says about the endpoint.
    fn update_circuit(
        &mut self,
        ticket: &AdmissionTicket,
        report: Option<SendResult>,
        now: Timestamp,
    ) -> CircuitTransition {
        let said = report.filter(|report| report.class.is_numbered());
        // A failed test says nothing, unless it was the probe.
        let counts =
            |report: &SendResult| report.class == OutcomeClass::Ok || ticket.is_probe || !ticket.is_test;
        let Some(report) = said.filter(counts) else {
            // After a lost connection the next probe may be sent at once; a local error, or what kept it from being sent, is
            // not over so soon.
            match report.map(|report| report.class) {
                _ if !ticket.is_probe => {}
                None | Some(OutcomeClass::Local) => self.circuit.delay_probe(now),
                Some(_) => self.circuit.drop_probe(),
            }
            return CircuitTransition::Unchanged;
        };
        let SendResult { started_at, ended_at, requested_pause: requested, class } = report;
        let (delivery, is_probe, order) = (ticket.delivery, ticket.is_probe, self.settings.order);
        let ended = AttemptResult { delivery, started_at, ended_at, is_probe, order };
        if class != OutcomeClass::Ok {
            return self.circuit.failed(&ended, requested);
        }
        if self.circuit.is_fully_closed() {
            return CircuitTransition::Unchanged;
        }
        let in_flight_max = u32::try_from(self.settings.in_flight_max).unwrap_or(u32::MAX);
        self.circuit.succeeded(&ended, in_flight_max)
    }

    /// Whether the endpoint itself allows a delivery to be sent, and if so, whether that is the probe.
    fn pick(&mut self, now: Timestamp) -> Option<bool> {
        if self.in_flight >= self.settings.in_flight_max {
            return None;
        }
        if self.ready.has_manual() {
            // The delivery that was fetched for the probe may turn out to be a manual one.
            return Some(self.circuit.is_fetching_probe() && !self.ready.has_automatic());
        }
        if !self.ready.has_automatic() {
            return None;
        }
        match self.circuit_decision(now) {
            SendDecision::Send(_) if self.in_flight < self.concurrency() => Some(false),
            SendDecision::SendProbe => Some(true),
            SendDecision::Send(_) | SendDecision::Probe | SendDecision::Wait(_) => None,
        }
    }

    fn pop_outgoing(&mut self, is_probe: bool, holds_slot: bool, now: Timestamp) -> Option<Admitted> {
        let manual = self.ready.pop_manual();
        let is_by_hand = manual.is_some();
        let QueuedDelivery { leased, bodies } = manual.or_else(|| self.ready.pop())?;
        let is_limited = holds_slot || self.settings.rate.is_some();
        if is_limited {
            self.tokens.reserve();
        }
        if is_probe {
            self.circuit.send_probe();
        }
        let note = self.note(&leased, is_by_hand, is_probe, now);
        if self.ready.is_empty() {
            self.rate_limited_since = None;
        }
        if self.backlog_until.is_some() {
            self.end_backlog();
        }
        self.in_flight += 1;
        let (delivery, url, is_test) = (leased.delivery.id, self.settings.url, is_test(&leased));
        let (has_gone_out, is_exclusive) = (AtomicBool::new(false), self.settings.is_exclusive);
        let ticket = AdmissionTicket {
            delivery,
            url,
            is_test,
            is_probe,
            holds_slot,
            took_tokens: is_limited,
            is_exclusive,
            was_sent: has_gone_out,
        };
        Some((OutgoingDelivery { leased, bodies, note }, ticket))
    }

    /// Returns the history note on why it is sent when it is: none on the happy path.
    fn note(
        &self,
        leased: &LeasedDelivery,
        is_by_hand: bool,
        is_probe: bool,
        now: Timestamp,
    ) -> Option<String> {
        let LeasedDelivery { delivery, due, .. } = leased;
        let is_scheduled = delivery.retry_index > 0 && delivery.saved_state.is_none();
        let is_early = is_scheduled && *due == made_at(delivery.id.as_i64());
        let throttled = match (is_probe, is_early, is_by_hand) {
            (true, ..) => Some(self.circuit.probe_note(delivery.is_early_probe())),
            _ if delivery.is_early_probe() => Some(UNNEEDED_PROBE_NOTE.to_owned()),
            (_, true, _) => Some("tried early: the endpoint answers again".to_owned()),
            (.., true) => None,
            _ => self.circuit.wait_note(*due),
        };
        let rate_limited = self.settings.rate.zip(self.rate_limited_since);
        let rate_limited =
            rate_limited.and_then(|(rate, since)| rate_note(now.since((*due).max(since)), rate));
        match (throttled, rate_limited) {
            (Some(throttled), Some(rate_limited)) => Some(format!("{throttled}; {rate_limited}")),
            (throttled, rate_limited) => throttled.or(rate_limited),
        }
    }
}

//! Admission of deliveries: the circuit breaker, the tokens and the limits that each passes before it is sent, and what they
//! learn when its request has ended.

use super::{
    alarm::Sleeper,
    gates::{Gates, Served},
    lane::Lane,
    lane_state::LaneState,
    queue::is_test,
};
use crate::domain::{
    circuit::{AHEAD, Change, Ended, May, Pace, PauseAsked, PausedUntil, rate_note},
    delivery::{Delivery, State},
    id::{DeliveryId, made_at},
    outcome::Class,
    port::Carried,
    rate::Tokens,
    time::Timestamp,
};
use std::sync::{
    MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Delivery that is about to be sent.
pub(super) struct Sending {
    pub(super) carried: Carried,
    /// History note on why it is sent when it is, if there is one.
    pub(super) note: Option<String>,
}

/// Admission ticket: what the queue has to know when the request has ended.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent flag, and all combine")]
pub(super) struct Leave {
    delivery: DeliveryId,
    /// Hash of the URL that it goes to.
    url: u64,
    is_test: bool,
    is_probe: bool,
    /// Whether it holds a concurrency slot.
    is_gated: bool,
    /// Whether it took tokens.
    is_limited: bool,
    /// Whether only this node may send for its endpoint.
    is_exclusive: bool,
    /// Whether it was sent, which uses its tokens; only noted if it took some.
    has_gone_out: AtomicBool,
}

pub(super) type Next = (Sending, Leave);

impl Leave {
    /// Whether each of its requests takes tokens.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Whether its request must be over when another node may send for its endpoint.
    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) class: Class,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) asked: Option<PauseAsked>,
}

impl Lane {
    /// Returns the next delivery, if one may be sent; its worker is counted in. Also returns which other queues were
    /// admitted.
    pub(super) fn next(&self, now: Timestamp) -> (Option<Next>, Served) {
        let mut state = self.lock();
        if self.around.pool.is_gated() || self.is_barred(&state) {
            return (None, Served::default());
        }
        let Some(is_probe) = state.choose(now) else {
            state.starved_since = state.starved_since.filter(|_| !state.queue.is_empty());
            return (None, Served::default());
        };
        if let Some(rate) = state.settings.rate
            && let Err(wait) = state.tokens.look(rate, now)
        {
            state.starved_since.get_or_insert(now);
            state.backlog_until.get_or_insert(now);
            let at = now.plus(wait);
            if state.wakes_at.is_none_or(|known| at < known) {
                state.wakes_at = Some(self.around.alarm.set(at, Sleeper::Lane(self.endpoint), now));
            }
            return (None, Served::default());
        }
        let is_gated = state.settings.is_gated;
        let mut served = Served::default();
        if is_gated {
            state.was_gated = true;
            let (may, others) = self.gates().enter(self.app, self.endpoint, now);
            served = others;
            if !may {
                state.backlog_until.get_or_insert(now);
                return (None, served);
            }
        }
        let sending = state.send(is_probe, is_gated, now);
        (sending, served)
    }

    /// Starts the rate limit at `now` with no tokens saved up, as this process has sent nothing before.
    pub(super) fn start(&self, now: Timestamp) {
        self.lock().tokens = Tokens::none_at(Some(now));
    }

    /// Clears the timer, which has fired.
    pub(super) fn wake(&self) {
        self.lock().wakes_at = None;
    }

    /// Counts a worker out and updates the circuit breaker; `report` is `None` if nothing was sent, or nothing is known of
    /// it. Returns what changed, and when the scheduler has to refill if that changed.
    pub(super) fn ended(
        &self,
        leave: &Leave,
        report: Option<Report>,
        now: Timestamp,
    ) -> (Change, Option<Timestamp>) {
        let mut state = self.lock();
        state.couriers = state.couriers.saturating_sub(1);
        if leave.is_limited && !leave.has_gone_out.load(Relaxed) {
            state.tokens.put_back();
        }
        // An answer from another URL says nothing about this one.
        if !state.settings.is_adaptive || leave.url != state.settings.url {
            return (Change::Nothing, None);
        }
        let change = state.judge(leave, report, now);
        let has_changed = change != Change::Nothing || state.circuit.is_closed();
        (change, if has_changed { state.look_at() } else { None })
    }

    /// Releases the concurrency slot, if it holds one.
    pub(super) fn leave_gates(&self, leave: &Leave, now: Timestamp) -> Served {
        if leave.is_gated {
            self.gates().leave(self.app, leave.has_gone_out.load(Relaxed), now)
        } else {
            Served::default()
        }
    }

    /// Releases slots that the queue was granted and has no use for.
    pub(super) fn forgo(&self, now: Timestamp) -> Served {
        if self.lock().was_gated {
            return self.gates().forgo(self.app, self.endpoint, now);
        }
        Served::default()
    }

    /// Marks the request as sent now, which may be later than its tokens were taken.
    pub(super) fn go_out(&self, leave: &Leave, now: Timestamp) {
        if !leave.is_limited || leave.has_gone_out.swap(true, Relaxed) {
            return;
        }
        let mut state = self.lock();
        let rate = state.settings.rate;
        state.tokens.spend(rate, now);
        if leave.is_gated {
            self.gates().go_out(self.app, now);
        }
    }

    /// Whether another request may be sent at once in place of one that did not arrive; takes the tokens for it if so.
    pub(super) fn may_repeat(&self, leave: &Leave, now: Timestamp) -> bool {
        if !leave.is_limited {
            return true;
        }
        let mut state = self.lock();
        let rate = state.settings.rate;
        if rate.is_some_and(|rate| state.tokens.look(rate, now).is_err()) {
            return false;
        }
        let may = !leave.is_gated || self.gates().may_repeat(self.app, now);
        if may {
            state.tokens.reserve();
            state.tokens.spend(rate, now);
        }
        may
    }

    /// Takes what is in memory and may not be sent, by this node or while the endpoint is throttled: it waits in the store
    /// instead.
    pub(super) fn take_misplaced(&self, now: Timestamp) -> Vec<Carried> {
        let mut state = self.lock();
        if self.is_barred(&state) {
            return state.queue.take_all();
        }
        if !state.queue.has_automatic() {
            return Vec::new();
        }
        match state.may(now) {
            May::Send(_) => Vec::new(),
            May::SendProbe => state.queue.take_automatic(1),
            May::Probe | May::Wait(_) => state.queue.take_automatic(0),
        }
    }

    /// Opens the circuit breaker with a probe due now, if the contract is adaptive. Returns when the scheduler has to refill.
    pub(super) fn distrust(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        if state.settings.is_adaptive {
            state.circuit.distrust(now);
        }
        state.look_at()
    }

    pub(super) fn resume_pause(&self, paused: PausedUntil, now: Timestamp) {
        let mut state = self.lock();
        if state.settings.is_adaptive {
            state.circuit.resume_pause(paused, now);
        }
    }

    /// Whether the endpoint is paused, and whether its circuit breaker is open.
    pub(super) fn is_spared(&self, now: Timestamp) -> (bool, bool) {
        let state = self.lock();
        (state.circuit.is_paused(now), state.circuit.is_open())
    }

    /// Returns what keeps this delivery from being sent now, if anything does.
    pub(super) fn pace(&self, delivery: &Delivery, now: Timestamp) -> Option<Pace> {
        let state = self.lock();
        let is_due = delivery.state.is_waiting() && delivery.due.is_some_and(|due| due <= now);
        let is_queued = delivery.state == State::InFlight && state.queue.holds(delivery.id);
        if state.settings.is_off || !(is_due || is_queued) {
            return None;
        }
        let spared = state.circuit.pace(now).filter(|_| !delivery.is_asked);
        let starved = state.settings.rate.filter(|_| state.starved_since.is_some()).map(Pace::Rate);
        let at_gates = state.settings.is_gated && self.gates().is_waiting(self.app, self.endpoint);
        let is_full = state.couriers >= state.width();
        spared.or(starved).or(at_gates.then_some(Pace::Ceiling)).or(is_full.then_some(Pace::Full))
    }

    pub(super) fn gates(&self) -> MutexGuard<'_, Gates> {
        self.around.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneState {
    /// Updates the circuit breaker by what a request says about the endpoint.
    fn judge(&mut self, leave: &Leave, report: Option<Report>, now: Timestamp) -> Change {
        let said = report.filter(|report| report.class.is_numbered());
        // A failed test says nothing, unless it was the probe.
        let counts = |report: &Report| report.class == Class::Ok || leave.is_probe || !leave.is_test;
        let Some(report) = said.filter(counts) else {
            // After a lost connection the next probe may be sent at once; a local error, or what kept it from being sent, is
            // not over so soon.
            match report.map(|report| report.class) {
                _ if !leave.is_probe => {}
                None | Some(Class::Local) => self.circuit.put_off_probe(now),
                Some(_) => self.circuit.drop_probe(),
            }
            return Change::Nothing;
        };
        let Report { started_at, ended_at, asked, class } = report;
        let (delivery, is_probe, order) = (leave.delivery, leave.is_probe, self.settings.order);
        let ended = Ended { delivery, started_at, ended_at, is_probe, order };
        if class != Class::Ok {
            return self.circuit.failed(&ended, asked);
        }
        if self.circuit.is_calm() {
            return Change::Nothing;
        }
        let in_flight_max = u32::try_from(self.settings.in_flight_max).unwrap_or(u32::MAX);
        self.circuit.succeeded(&ended, in_flight_max)
    }

    /// Whether the endpoint itself allows a delivery to be sent, and if so, whether that is the probe.
    fn choose(&mut self, now: Timestamp) -> Option<bool> {
        if self.couriers >= self.settings.in_flight_max {
            return None;
        }
        if self.queue.has_by_hand() {
            // The delivery that was fetched for the probe may turn out to be a manual one.
            return Some(self.circuit.is_fetching() && !self.queue.has_automatic());
        }
        if !self.queue.has_automatic() {
            return None;
        }
        match self.may(now) {
            May::Send(_) if self.couriers < self.width() => Some(false),
            May::SendProbe => Some(true),
            May::Send(_) | May::Probe | May::Wait(_) => None,
        }
    }

    fn send(&mut self, is_probe: bool, is_gated: bool, now: Timestamp) -> Option<Next> {
        let by_hand = self.queue.pop_by_hand();
        let is_by_hand = by_hand.is_some();
        let carried = by_hand.or_else(|| self.queue.pop())?;
        let is_limited = is_gated || self.settings.rate.is_some();
        if is_limited {
            self.tokens.reserve();
        }
        if is_probe {
            self.circuit.send_probe();
        }
        let note = self.note(&carried, is_by_hand, is_probe, now);
        if self.queue.is_empty() {
            self.starved_since = None;
        }
        if self.backlog_until.is_some() {
            self.end_backlog();
        }
        self.couriers += 1;
        let (delivery, url, is_test) = (carried.delivery.id, self.settings.url, is_test(&carried));
        let (has_gone_out, is_exclusive) = (AtomicBool::new(false), self.settings.is_exclusive);
        let leave =
            Leave { delivery, url, is_test, is_probe, is_gated, is_limited, is_exclusive, has_gone_out };
        Some((Sending { carried, note }, leave))
    }

    /// Returns the history note on why it is sent when it is: none on the happy path.
    fn note(&self, carried: &Carried, is_by_hand: bool, is_probe: bool, now: Timestamp) -> Option<String> {
        let Carried { delivery, due, .. } = carried;
        let is_scheduled = delivery.place > 0 && delivery.return_to.is_none();
        let is_early = is_scheduled && *due == made_at(delivery.id.as_i64());
        let spared = match (is_probe, is_early, is_by_hand) {
            (true, ..) => Some(self.circuit.probe_note(delivery.is_ahead())),
            _ if delivery.is_ahead() => Some(AHEAD.to_owned()),
            (_, true, _) => Some("tried early: the endpoint answers again".to_owned()),
            (.., true) => None,
            _ => self.circuit.wait_note(*due),
        };
        let starved = self.settings.rate.zip(self.starved_since);
        let starved = starved.and_then(|(rate, since)| rate_note(now.since((*due).max(since)), rate));
        match (spared, starved) {
            (Some(spared), Some(starved)) => Some(format!("{spared}; {starved}")),
            (spared, starved) => spared.or(starved),
        }
    }
}

//! What a lane sends, and what comes of it: the circuit, the tokens and the gates that a delivery passes on its way out, and
//! what they are told when a request has ended.

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

/// A delivery on its way out.
pub(super) struct Sending {
    pub(super) carried: Carried,
    /// What its history says about when it is sent, if that is worth a word.
    pub(super) note: Option<String>,
}

/// What has to be told when it has come back.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing to tell, and all combine")]
pub(super) struct Leave {
    delivery: DeliveryId,
    /// A hash of where it goes.
    url: u64,
    is_test: bool,
    is_probe: bool,
    /// It has a place at the gates.
    is_gated: bool,
    /// There are tokens that it took.
    is_limited: bool,
    /// Only this node may send for its endpoint.
    is_exclusive: bool,
    /// And used.
    has_gone_out: AtomicBool,
}

pub(super) type Next = (Sending, Leave);

impl Leave {
    /// Whether every request of it takes tokens.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Whether it must not be on its way any more when another node may send for its endpoint.
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
    /// The next delivery to go out, if one may; its courier is counted in. Says who else was let through at the gates.
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

    /// Nothing was sent by this process before.
    pub(super) fn start(&self, now: Timestamp) {
        self.lock().tokens = Tokens::none_at(Some(now));
    }

    /// The time that it slept until has come.
    pub(super) fn wake(&self) {
        self.lock().wakes_at = None;
    }

    /// What came back from a courier; `None` if nothing was sent, or nothing is known of it. Counts the courier out, and says
    /// when the scheduler has to look again if that changed.
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
        // What another receiver answered says nothing about this one.
        if !state.settings.is_adaptive || leave.url != state.settings.url {
            return (Change::Nothing, None);
        }
        let change = state.judge(leave, report, now);
        let has_changed = change != Change::Nothing || state.circuit.is_closed();
        (change, if has_changed { state.look_at() } else { None })
    }

    /// Gives a place at the gates back.
    pub(super) fn leave_gates(&self, leave: &Leave, now: Timestamp) -> Served {
        if leave.is_gated {
            self.gates().leave(self.app, leave.has_gone_out.load(Relaxed), now)
        } else {
            Served::default()
        }
    }

    /// Gives back what the gates gave it and it has no use for.
    pub(super) fn forgo(&self, now: Timestamp) -> Served {
        if self.lock().was_gated {
            return self.gates().forgo(self.app, self.endpoint, now);
        }
        Served::default()
    }

    /// The request goes out now, which may be later than its tokens were taken.
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

    /// Whether another request may go out at once in the place of one that did not arrive.
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

    /// What is in memory and may not be sent, by this node or while the endpoint is left alone: it waits in the store instead.
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

    /// Open, with a probe due now; answers when the scheduler has to look.
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

    /// Paused, open.
    pub(super) fn is_spared(&self, now: Timestamp) -> (bool, bool) {
        let state = self.lock();
        (state.circuit.is_paused(now), state.circuit.is_open())
    }

    /// What keeps this delivery from being sent now, if anything does.
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
    /// What a request says about the endpoint.
    fn judge(&mut self, leave: &Leave, report: Option<Report>, now: Timestamp) -> Change {
        let said = report.filter(|report| report.class.is_numbered());
        // A test that fails says nothing, unless it was the one that was tried.
        let counts = |report: &Report| report.class == Class::Ok || leave.is_probe || !leave.is_test;
        let Some(report) = said.filter(counts) else {
            // A lost connection is tried again at once; a fault of our own, or what kept it from being sent, is not over so soon.
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

    /// Whether something may go out as far as the endpoint itself is concerned, and if so, whether it is the probe.
    fn choose(&mut self, now: Timestamp) -> Option<bool> {
        if self.couriers >= self.settings.in_flight_max {
            return None;
        }
        if self.queue.has_by_hand() {
            // What was fetched for the probe may turn out to be something that a person asked for.
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

    /// In words, why it is sent when it is: nothing on the happy path.
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

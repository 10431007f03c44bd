//! The circuit breaker of an endpoint under an adaptive contract. It pauses for as long as the receiver asks, probes with one
//! request at a time after many failures in a row, and then restores the full concurrency step by step.
//!
//! A pure state machine: callers report results and ask what may be sent, and always pass the time in.

mod messages;
mod pause;
#[cfg(test)]
mod tests;

pub use messages::{DelayReason, EARLY_PROBE_NOTE, UNNEEDED_PROBE_NOTE, rate_note};
pub use pause::{AttemptResult, PausedUntil, RequestedPause};

use super::{
    contract::Contract, id::DeliveryId, ordering::OrderingMode, outcome::Outcome, time::Timestamp, verdict,
};
use std::time::Duration;

/// Failures in a row that open the circuit; without an order they must be of at least two deliveries.
pub const OPENS_AFTER_FAILURES: u32 = 10;
/// Failures in a row that open it where the whole endpoint is one ordering group: only the head can fail, and the rest wait anyway.
pub const OPENS_AFTER_FAILURES_ORDERED: u32 = 3;
const FIRST_PROBE_AFTER: Duration = Duration::from_secs(5);
const PROBE_AFTER_MAX: Duration = Duration::from_mins(5);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub struct CircuitBreaker {
    state: BreakerState,
    /// Failures in a row, since the last success.
    failures: u32,
    failing_since: Option<Timestamp>,
    first_failed_delivery: Option<DeliveryId>,
    has_several_deliveries: bool,
    /// The limit on concurrent requests after a closure; absent if only the endpoint's own limit holds.
    ramp: Option<Ramp>,
    /// Pauses in a row, since a success that was sent after one.
    pauses: u32,
    /// The last time that nothing was sent.
    last_quiet_period: Option<QuietPeriod>,
}

#[derive(Clone, Copy, Debug, Default)]
enum BreakerState {
    #[default]
    Closed,
    Paused(Pause),
    Open(OpenState),
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    began_at: Timestamp,
    until: Timestamp,
    /// The status of the answer, and the pause that the receiver asked for.
    status: Option<u16>,
    requested: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct OpenState {
    began_at: Timestamp,
    probe_at: Timestamp,
    /// The delay from the last failure to `probe_at`.
    wait: Duration,
    probe: ProbeState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeState {
    None,
    /// A delivery for it is being fetched.
    Fetched,
    Out,
}

#[derive(Clone, Copy, Debug)]
struct Ramp {
    width: u32,
    successes: u32,
    /// Requests sent before this do not count: they say nothing about the endpoint as it is now.
    since: Timestamp,
    after: RampOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RampOrigin {
    Pause,
    Open,
}

/// A span of time in which nothing automatic was sent.
#[derive(Clone, Copy, Debug)]
struct QuietPeriod {
    from: Timestamp,
    until: Timestamp,
    /// Absent if the circuit was open.
    pause: Option<Pause>,
}

/// The decision on what may be sent now, apart from manual requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendDecision {
    /// Requests may be sent, at most this many at a time if there is a limit.
    Send(Option<u32>),
    /// A probe may be sent, once a delivery is fetched for it.
    Probe,
    /// The delivery that was fetched for the probe may be sent.
    SendProbe,
    /// No request may be sent until this time; without a time, until the probe has ended.
    Wait(Option<Timestamp>),
}

/// The change that a reported result caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitTransition {
    Unchanged,
    /// Automatic sending has stopped for a while.
    Stopped,
    /// More requests may be sent at a time.
    Widened,
    /// The circuit was open, and the endpoint answers again.
    Recovered,
}

impl CircuitBreaker {
    /// Opens the circuit with the first probe due, for an endpoint that was failing before this process knew it.
    pub fn start_half_open(&mut self, now: Timestamp) {
        self.state = BreakerState::Open(OpenState {
            began_at: now,
            probe_at: now,
            wait: Duration::ZERO,
            probe: ProbeState::None,
        });
    }

    /// Restores a pause that the receiver asked for earlier and that is not over.
    pub fn resume_pause(&mut self, paused: PausedUntil, now: Timestamp) {
        let PausedUntil { status, until } = paused;
        if let BreakerState::Open(open) = &mut self.state {
            open.probe_at = open.probe_at.max(until);
        } else {
            let (began_at, status) = (now, Some(status));
            self.state = BreakerState::Paused(Pause { began_at, until, status, requested: None });
        }
    }

    /// Whether the circuit is closed without failures or limits. The only check on the happy path.
    pub fn is_fully_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed) && self.failures == 0 && self.ramp.is_none()
    }

    pub fn is_open(&self) -> bool {
        matches!(self.state, BreakerState::Open(_))
    }

    pub fn is_paused(&self, now: Timestamp) -> bool {
        matches!(&self.state, BreakerState::Paused(pause) if pause.until > now)
    }

    /// Whether new deliveries have to wait in the store. An expired pause ends only when `decide` is called.
    pub fn blocks_sending(&self) -> bool {
        !matches!(self.state, BreakerState::Closed)
    }

    /// The end of the pause or the time of the next probe. `None` if closed, or while a probe is fetched or out.
    pub fn resumes_at(&self) -> Option<Timestamp> {
        match self.state {
            BreakerState::Closed => None,
            BreakerState::Paused(pause) => Some(pause.until),
            BreakerState::Open(open) => Some(open.probe_at).filter(|_| open.probe == ProbeState::None),
        }
    }

    /// The time for a probe with a delivery that is not due yet: later than `resumes_at`, because it costs an extra attempt.
    pub fn early_probe_at(&self) -> Option<Timestamp> {
        let BreakerState::Open(open) = self.state else { return None };
        self.resumes_at().map(|at| at.plus(open.wait * 2))
    }

    /// The limit on concurrent requests after a closure, if there is one.
    pub fn width(&self) -> Option<u32> {
        self.ramp.map(|ramp| ramp.width)
    }

    pub fn decide(&mut self, now: Timestamp) -> SendDecision {
        match self.state {
            BreakerState::Paused(pause) if pause.until <= now => {
                let (from, until) = (pause.began_at, pause.until);
                self.last_quiet_period = Some(QuietPeriod { from, until, pause: Some(pause) });
                self.start_ramp(until, RampOrigin::Pause);
                SendDecision::Send(self.width())
            }
            BreakerState::Paused(pause) => SendDecision::Wait(Some(pause.until)),
            BreakerState::Closed => SendDecision::Send(self.width()),
            BreakerState::Open(open) => match open.probe {
                ProbeState::None if open.probe_at <= now => SendDecision::Probe,
                ProbeState::None => SendDecision::Wait(Some(open.probe_at)),
                ProbeState::Fetched => SendDecision::SendProbe,
                ProbeState::Out => SendDecision::Wait(None),
            },
        }
    }

    /// Records that a delivery is being fetched for the probe.
    pub fn fetch_probe(&mut self) {
        self.set_probe(ProbeState::Fetched);
    }

    pub fn send_probe(&mut self) {
        self.set_probe(ProbeState::Out);
    }

    /// Drops the probe because no delivery was found or it was not sent. Another may be made.
    pub fn drop_probe(&mut self) {
        self.set_probe(ProbeState::None);
    }

    /// Delays the next probe because the last one was inconclusive. The delay doubles each time.
    pub fn delay_probe(&mut self, now: Timestamp) {
        if let BreakerState::Open(open) = &mut self.state {
            let wait = open.wait.max(FIRST_PROBE_AFTER);
            (open.probe, open.probe_at, open.wait) =
                (ProbeState::None, now.plus(wait), next_probe_after(wait));
        }
    }

    /// Closes the circuit when its probe would be due, because another node does the probing. One request at a time may be sent.
    pub fn close_when_probe_due(&mut self, now: Timestamp) {
        if self.is_open() && self.resumes_at().is_some_and(|at| at <= now) {
            self.start_ramp(now, RampOrigin::Open);
        }
    }

    /// Whether a probe is being fetched and not sent yet.
    pub fn is_fetching_probe(&self) -> bool {
        matches!(&self.state, BreakerState::Open(OpenState { probe: ProbeState::Fetched, .. }))
    }

    fn set_probe(&mut self, to: ProbeState) {
        if let BreakerState::Open(open) = &mut self.state {
            open.probe = to;
        }
    }

    /// Records a success, automatic or manual.
    pub fn succeeded(&mut self, ended: &AttemptResult, in_flight_max: u32) -> CircuitTransition {
        (self.failures, self.failing_since, self.first_failed_delivery, self.has_several_deliveries) =
            (0, None, None, false);
        match self.state {
            // A request that was sent before the circuit opened says nothing about the endpoint as it is now.
            BreakerState::Open(open) if !ended.is_probe && ended.started_at < open.began_at => {
                CircuitTransition::Unchanged
            }
            BreakerState::Open(open) => {
                let (from, until) = (open.began_at, ended.ended_at);
                self.last_quiet_period = Some(QuietPeriod { from, until, pause: None });
                self.pauses = 0;
                self.start_ramp(until, RampOrigin::Open);
                CircuitTransition::Recovered
            }
            BreakerState::Paused(_) => CircuitTransition::Unchanged,
            BreakerState::Closed => self.widen(ended, in_flight_max),
        }
    }

    fn widen(&mut self, ended: &AttemptResult, in_flight_max: u32) -> CircuitTransition {
        let Some(ramp) = self.ramp.as_mut().filter(|ramp| ended.started_at >= ramp.since) else {
            return CircuitTransition::Unchanged;
        };
        self.pauses = 0;
        ramp.successes += 1;
        if ramp.successes < ramp.width {
            return CircuitTransition::Unchanged;
        }
        (ramp.width, ramp.successes) = (ramp.width.saturating_mul(2), 0);
        if ramp.width >= in_flight_max {
            self.ramp = None;
        }
        CircuitTransition::Widened
    }

    /// Records a failure that counts against the endpoint.
    pub fn failed(&mut self, ended: &AttemptResult, requested: Option<RequestedPause>) -> CircuitTransition {
        let is_late = self.ramp.is_some_and(|ramp| ended.started_at < ramp.since);
        if is_late && requested.is_none() {
            return CircuitTransition::Unchanged;
        }
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(ended.ended_at);
        let first = *self.first_failed_delivery.get_or_insert(ended.delivery);
        self.has_several_deliveries |= first != ended.delivery;
        let wait_min = requested.and_then(|requested| requested.wait).unwrap_or_default();
        if let BreakerState::Open(open) = self.state {
            // Not a probe that was sent before the circuit closed and opened again.
            if ended.is_probe && ended.started_at >= open.began_at {
                self.open(open.began_at, next_probe_after(open.wait), ended.ended_at, wait_min);
            }
            return CircuitTransition::Unchanged;
        }
        let falls_back = !is_late && self.ramp.is_some_and(|ramp| ramp.width == 1);
        let reopens = falls_back && self.ramp.is_some_and(|ramp| ramp.after == RampOrigin::Open);
        if reopens || self.has_failed_enough(ended.order) {
            let rest = match self.state {
                BreakerState::Paused(pause) => pause.until.since(ended.ended_at),
                _ => Duration::ZERO,
            };
            self.open(ended.ended_at, FIRST_PROBE_AFTER, ended.ended_at, wait_min.max(rest));
            return CircuitTransition::Stopped;
        }
        if requested.is_some() || falls_back {
            return self.pause(ended, requested);
        }
        if let Some(ramp) = &mut self.ramp {
            (ramp.width, ramp.successes) = ((ramp.width / 2).max(1), 0);
        }
        CircuitTransition::Unchanged
    }

    /// Whether there were enough failures to open. Without order they must be of several deliveries, as one delivery may itself be
    /// the cause; in an ordering group only the head is sent.
    fn has_failed_enough(&self, order: OrderingMode) -> bool {
        match order {
            OrderingMode::None => self.failures >= OPENS_AFTER_FAILURES && self.has_several_deliveries,
            OrderingMode::Key => self.failures >= OPENS_AFTER_FAILURES,
            OrderingMode::Endpoint => self.failures >= OPENS_AFTER_FAILURES_ORDERED,
        }
    }

    fn open(&mut self, began_at: Timestamp, wait: Duration, now: Timestamp, wait_min: Duration) {
        let probe_at = now.plus(wait.max(wait_min));
        self.ramp = None;
        self.state = BreakerState::Open(OpenState { began_at, probe_at, wait, probe: ProbeState::None });
    }

    fn pause(&mut self, ended: &AttemptResult, requested: Option<RequestedPause>) -> CircuitTransition {
        let now = ended.ended_at;
        // Several requests in flight together may each ask for a pause; only one sent after the pause began counts as a further pause.
        if let BreakerState::Paused(pause) = &mut self.state
            && ended.started_at <= pause.began_at
        {
            let wait = requested.and_then(|requested| requested.wait).unwrap_or_default();
            if now.plus(wait) > pause.until {
                (pause.until, pause.requested) = (now.plus(wait), Some(wait));
            }
            return CircuitTransition::Unchanged;
        }
        let step = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(10)).min(PAUSE_MAX);
        self.pauses = self.pauses.saturating_add(1);
        let wait = requested.and_then(|requested| requested.wait);
        let mut until = now.plus(wait.unwrap_or(step));
        let mut began_at = now;
        if let BreakerState::Paused(pause) = self.state {
            (until, began_at) = (until.max(pause.until), pause.began_at);
        }
        self.ramp = None;
        self.state = BreakerState::Paused(Pause {
            began_at,
            until,
            status: requested.map(|requested| requested.status),
            requested: wait,
        });
        CircuitTransition::Stopped
    }

    fn start_ramp(&mut self, since: Timestamp, after: RampOrigin) {
        self.state = BreakerState::Closed;
        self.ramp = Some(Ramp { width: 1, successes: 0, since, after });
    }
}

fn next_probe_after(wait: Duration) -> Duration {
    wait.saturating_mul(2).clamp(FIRST_PROBE_AFTER, PROBE_AFTER_MAX)
}

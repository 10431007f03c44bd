//! Texts for people: why a delivery is not sent now, and why an attempt was made when it was.

use super::{BreakerState, CircuitBreaker, OpenState, Pause, QuietPeriod};
use crate::{
    rate_limit::RateLimit,
    time::{Timestamp, humanize_duration},
};
use std::time::Duration;

/// Shorter waits are not mentioned.
const NOTED_WAIT_MIN: Duration = Duration::from_secs(1);

/// The note of a probe with a delivery that is due later; its schedule stays as it is.
pub const EARLY_PROBE_NOTE: &str = "a probe ahead of its time";
/// The note of such a delivery if the circuit had closed before it was sent.
pub const UNNEEDED_PROBE_NOTE: &str = "ahead of its time: fetched for a probe, which was not needed any more";

/// The reason why an endpoint queue does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayReason {
    Paused {
        until: Timestamp,
        status: Option<u16>,
    },
    Open {
        failures: u32,
        probe_at: Option<Timestamp>,
    },
    Rate(RateLimit),
    /// The limit of the app or of the node is reached.
    AppOrNodeLimit,
    /// The endpoint's limit on requests in flight is reached.
    EndpointLimit,
}

impl DelayReason {
    pub fn message(&self) -> String {
        match self {
            Self::Paused { until, status: Some(status) } => {
                format!("the endpoint asked for a pause ({status}) until {}", until.rfc3339_seconds())
            }
            Self::Paused { until, status: None } => {
                format!(
                    "the endpoint failed again right after a pause; it is left alone until {}",
                    until.rfc3339_seconds()
                )
            }
            Self::Open { failures, probe_at } => {
                let then = probe_at.map_or_else(
                    || "one is being tried".to_owned(),
                    |at| format!("one is tried at {}", at.rfc3339_seconds()),
                );
                format!("{}; {then}", failing(*failures))
            }
            Self::Rate(limit) => format!("the endpoint gets at most {} per second", limit.per_second),
            Self::AppOrNodeLimit => {
                "as much is being sent as the limits of the app or of this node allow".to_owned()
            }
            Self::EndpointLimit => {
                "others are on their way to the endpoint, which takes no more at a time".to_owned()
            }
        }
    }
}

fn failing(failures: u32) -> String {
    match failures {
        0 => "the endpoint was failing before the last start".to_owned(),
        times => format!("the endpoint failed {times} times in a row"),
    }
}

impl CircuitBreaker {
    /// The reason why automatic deliveries are not sent, if there is one.
    pub fn delay_reason(&self, now: Timestamp) -> Option<DelayReason> {
        match &self.state {
            BreakerState::Closed => None,
            BreakerState::Paused(pause) if pause.until <= now => None,
            BreakerState::Paused(Pause { until, status, .. }) => {
                Some(DelayReason::Paused { until: *until, status: *status })
            }
            BreakerState::Open(OpenState { probe, probe_at, .. }) => {
                let probe_at = Some(*probe_at).filter(|_| *probe == super::ProbeState::None);
                Some(DelayReason::Open { failures: self.failures, probe_at })
            }
        }
    }

    /// Describes the probe that is sent now; `is_early` if its delivery was due later.
    pub fn probe_note(&self, is_early: bool) -> String {
        let probe = if is_early { EARLY_PROBE_NOTE } else { "a probe" };
        let since = self.failing_since.map_or(String::new(), |at| format!(" since {}", at.rfc3339_seconds()));
        match self.failures {
            0 => format!("{probe}: the endpoint was failing before the last start"),
            times => format!("{probe}: the endpoint had failed {times} times in a row{since}"),
        }
    }

    /// Describes how long a delivery due at `due` was delayed by the last closure, if at least `NOTED_WAIT_MIN`.
    pub fn wait_note(&self, due: Timestamp) -> Option<String> {
        let QuietPeriod { from, until, pause } = self.last_quiet_period?;
        let waited = until.since(due.max(from));
        if waited < NOTED_WAIT_MIN {
            return None;
        }
        let waited = in_seconds(waited);
        Some(match pause {
            None => format!("waited {waited} longer: the endpoint did not answer"),
            Some(Pause { status: Some(status), requested: wait, .. }) => {
                let wait = wait.map_or(String::new(), |wait| format!(", Retry-After {}", wait.as_secs()));
                format!("waited {waited} longer: the endpoint asked for a pause ({status}{wait})")
            }
            Some(_) => format!("waited {waited} longer: the endpoint failed right after a pause"),
        })
    }
}

/// Describes how long a delivery waited for a token, if at least `NOTED_WAIT_MIN`.
pub fn rate_note(waited: Duration, limit: RateLimit) -> Option<String> {
    let per_second = limit.per_second;
    (waited >= NOTED_WAIT_MIN)
        .then(|| format!("waited {} for the rate limit of {per_second} per second", in_seconds(waited)))
}

/// Writes a duration in whole seconds, rounded up.
fn in_seconds(time: Duration) -> String {
    humanize_duration(Duration::from_secs(time.as_millis().div_ceil(1000) as u64))
}

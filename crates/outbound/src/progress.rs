//! Progress of an attempt. Outlives the attempt's future, so that an attempt cut off by its deadline can still say
//! where the time went.

use super::{answer::ReceivedAnswer, send_error::SendError};
use model::outcome::{Outcome, OutcomeClass, Timings};
use std::{io, net::SocketAddr, time::Duration};
use tokio::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptPhase {
    Resolving,
    /// Through a proxy: until the proxy knows the destination.
    ReachingProxy,
    Connecting,
    Securing,
    Awaiting,
    Reading,
}

impl AttemptPhase {
    const fn description(self) -> &'static str {
        match self {
            Self::Resolving => "looking up the host name",
            Self::ReachingProxy => "reaching the proxy",
            Self::Connecting => "connecting",
            Self::Securing => "setting up TLS",
            Self::Awaiting => "waiting for the answer",
            Self::Reading => "reading the answer",
        }
    }
}

pub(super) struct AttemptProgress {
    started: Instant,
    pub(super) phase: AttemptPhase,
    pub(super) timings: Timings,
    pub(super) address: Option<SocketAddr>,
    pub(super) answer: ReceivedAnswer,
}

impl AttemptProgress {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            phase: AttemptPhase::Resolving,
            timings: Timings::default(),
            address: None,
            answer: ReceivedAnswer::default(),
        }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn timed_out(&self, timeout: Duration) -> SendError {
        let limit = if timeout.subsec_millis() == 0 {
            format!("{} s", timeout.as_secs())
        } else {
            format!("{} ms", timeout.as_millis())
        };
        // A proxy that does not answer is a local failure.
        let class = if self.phase == AttemptPhase::ReachingProxy {
            OutcomeClass::Local
        } else {
            OutcomeClass::Timeout
        };
        SendError::new(class, format!("timed out after {limit} while {}", self.phase.description()))
    }

    /// The error for an address that used up its share of the time.
    pub(super) fn address_timed_out(&self) -> SendError {
        match self.phase {
            AttemptPhase::ReachingProxy => SendError::proxy("did not answer in time"),
            _ => SendError::io(&io::ErrorKind::TimedOut.into()),
        }
    }

    /// Builds the outcome. A status counts only if the answer was complete; for an incomplete one the error text
    /// names it.
    pub(super) fn outcome(mut self, ended: Result<(), SendError>) -> Outcome {
        self.timings.total_us = micros(self.started.elapsed());
        let answer = self.answer;
        let retry_after = answer.retry_after.filter(|_| ended.is_ok());
        let (class, status, error) = match (ended, answer.status) {
            (Ok(()), status) => (OutcomeClass::Http, status, None),
            (Err(fault), Some(status)) => (
                fault.class,
                None,
                Some(format!("{} (the answer began with status {status})", fault.message)),
            ),
            (Err(fault), None) => (fault.class, None, Some(fault.message.into_owned())),
        };
        Outcome {
            class,
            status,
            error,
            timings: self.timings,
            address: self.address,
            retry_after,
            response_headers: answer.headers,
            response_body: answer.body.into(),
        }
    }
}

/// Whole microseconds, enough for more than an hour.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

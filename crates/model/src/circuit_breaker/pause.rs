//! Input of the circuit breaker: the result of an attempt, and the pause that a receiver asked for.

use super::{Contract, DeliveryId, OrderingMode, Outcome, Timestamp, verdict};
use std::time::Duration;

/// The end of a request that says something about the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct AttemptResult {
    pub delivery: DeliveryId,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub is_probe: bool,
    /// The ordering mode of its endpoint.
    pub order: OrderingMode,
}

/// An answer that asks for a pause: 429 or 503.
#[derive(Clone, Copy, Debug)]
pub struct RequestedPause {
    pub status: u16,
    /// The pause asked for, as far as the contract honours it.
    pub wait: Option<Duration>,
}

/// A pause that must survive a restart, as long as the receiver asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PausedUntil {
    pub status: u16,
    pub until: Timestamp,
}

impl RequestedPause {
    /// The end of the pause. `None` if no time was asked for: such a pause is too short to store.
    pub fn until(self, ended_at: Timestamp) -> Option<PausedUntil> {
        self.wait.map(|wait| PausedUntil { status: self.status, until: ended_at.plus(wait) })
    }

    pub fn from_outcome(outcome: &Outcome, contract: &Contract, ended_at: Timestamp) -> Option<Self> {
        let status = outcome.status.filter(|status| matches!(status, 429 | 503))?;
        let wait = verdict::requested_wait(outcome, contract, ended_at);
        Some(Self { status, wait: Some(wait).filter(|wait| !wait.is_zero()) })
    }
}

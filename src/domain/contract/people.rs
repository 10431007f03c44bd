//! The part of a contract that people see: what states are called, when an endpoint's health switches it off, and what
//! somebody is told.

use super::{
    course::percent,
    reader::{Field, words},
};
use crate::domain::delivery::{Reason, State};
use serde_json::Value;
use std::time::Duration;

/// The sender's own names for the states of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateNames {
    pub pending: String,
    pub in_flight: String,
    pub retrying: String,
    pub held: String,
    pub delivered: String,
    pub dead: String,
    pub cancelled: String,
    pub expired: String,
    /// Of an event that no endpoint wanted.
    pub skipped: String,
    /// `None`: as `dead`.
    pub serialisation_failed: Option<String>,
    /// `None`: as `dead`.
    pub signing_failed: Option<String>,
}

impl StateNames {
    pub fn of(&self, state: State, reason: Option<Reason>) -> &str {
        match (state, reason) {
            (State::Pending, _) => &self.pending,
            (State::Retrying, _) => &self.retrying,
            (State::InFlight, _) => &self.in_flight,
            (State::Held, _) => &self.held,
            (State::Delivered, _) => &self.delivered,
            (State::Cancelled, _) => &self.cancelled,
            (State::Expired, _) => &self.expired,
            (State::Dead, Some(Reason::SerialisationFailed)) => {
                self.serialisation_failed.as_ref().unwrap_or(&self.dead)
            }
            (State::Dead, Some(Reason::SigningFailed)) => self.signing_failed.as_ref().unwrap_or(&self.dead),
            (State::Dead, _) => &self.dead,
        }
    }
}

/// A part of all, from 1 to 99 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u8);

impl Field for Share {
    fn form() -> String {
        "a percentage from \"1%\" to \"99%\"".into()
    }

    fn read(value: &Value) -> Option<Self> {
        percent(value.as_str()?, 99).map(Self)
    }

    fn write(&self) -> Value {
        Value::from(format!("{}%", self.0))
    }
}

/// By which rules an endpoint is called degraded, its owner is warned, and it is switched off. Rules that are absent
/// never act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRule {
    /// So many events in a row ended failed, in the order of their end; only a delivered one starts the count afresh.
    pub off_after_failed_events: Option<u32>,
    /// So long nothing succeeded and something failed.
    pub off_after_failing_for: Option<Duration>,
    /// So long before its owner is warned; without the warning it is not switched off for failing.
    pub warning_after: Option<Duration>,
    /// What the endpoint's `disabled_reason` says then.
    pub off_reason: String,
    /// More than this part of the deliveries within the window fail.
    pub degraded_above: Option<Share>,
    pub degraded_window: Option<Duration>,
}

words!(
    /// How often people hear of dead letters.
    DeadLetterNotice {
        Each = "each",
        /// Several in one.
        Digest = "digest",
        None = "none",
    }
);

words!(
    /// Where a notice appears; an e-mail is on the list too.
    Channel {
        Email = "email",
        List = "list",
        None = "none",
    }
);

/// What people are told, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notices {
    pub dead_letter: DeadLetterNotice,
    /// Never `None`.
    pub dead_letter_by: Channel,
    /// How long dead letters gather in one digest.
    pub digest_window: Duration,
    pub degraded: Channel,
    /// The endpoint will be switched off unless something succeeds.
    pub off_warning: Channel,
    pub switched_off: Channel,
    pub replay_finished: Channel,
}

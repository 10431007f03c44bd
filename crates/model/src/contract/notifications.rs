//! Contract sections for people: names of delivery states, health rules that disable an endpoint, notices.

use super::{
    delivery_rules::percent,
    field_reader::{FieldValue, string_enum},
};
use crate::delivery::{DeliveryState, EndReason};
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
    /// Name for an event without subscribers.
    pub skipped: String,
    /// `None`: as `dead`.
    pub serialisation_failed: Option<String>,
    /// `None`: as `dead`.
    pub signing_failed: Option<String>,
}

impl StateNames {
    pub fn of(&self, state: DeliveryState, reason: Option<EndReason>) -> &str {
        match (state, reason) {
            (DeliveryState::Pending, _) => &self.pending,
            (DeliveryState::Retrying, _) => &self.retrying,
            (DeliveryState::InFlight, _) => &self.in_flight,
            (DeliveryState::Held, _) => &self.held,
            (DeliveryState::Delivered, _) => &self.delivered,
            (DeliveryState::Cancelled, _) => &self.cancelled,
            (DeliveryState::Expired, _) => &self.expired,
            (DeliveryState::Dead, Some(EndReason::SerialisationFailed)) => {
                self.serialisation_failed.as_ref().unwrap_or(&self.dead)
            }
            (DeliveryState::Dead, Some(EndReason::SigningFailed)) => {
                self.signing_failed.as_ref().unwrap_or(&self.dead)
            }
            (DeliveryState::Dead, _) => &self.dead,
        }
    }
}

/// A share from 1 to 99 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl FieldValue for Percent {
    fn allowed_form() -> String {
        "a percentage from \"1%\" to \"99%\"".into()
    }

    fn read(value: &Value) -> Option<Self> {
        percent(value.as_str()?, 99).map(Self)
    }

    fn write(&self) -> Value {
        Value::from(format!("{}%", self.0))
    }
}

/// Rules by which an endpoint is degraded, its owner is warned, and it is disabled. Absent rules never act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRule {
    /// Disabled after so many failed events in a row, in the order of their end; only a delivered one resets the count.
    pub off_after_failed_events: Option<u32>,
    /// Disabled after failures without a success for so long.
    pub off_after_failing_for: Option<Duration>,
    /// Failing for so long warns the owner; without that warning it is not disabled for failing.
    pub warning_after: Option<Duration>,
    /// Value of the endpoint's `disabled_reason` when it is disabled.
    pub off_reason: String,
    /// Degraded when more than this share of the deliveries within the window fail.
    pub degraded_above: Option<Percent>,
    pub degraded_window: Option<Duration>,
}

string_enum!(
    /// How often notices of dead letters are made.
    DeadLetterNotice {
        Each = "each",
        /// Several dead letters in one notice.
        Digest = "digest",
        None = "none",
    }
);

string_enum!(
    /// Where a notice appears; a notice by e-mail is on the list too.
    NoticeChannel {
        Email = "email",
        List = "list",
        None = "none",
    }
);

/// Notices to people, and the channel of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notices {
    pub dead_letter: DeadLetterNotice,
    /// Never `None`.
    pub dead_letter_by: NoticeChannel,
    /// How long dead letters are collected into one digest.
    pub digest_window: Duration,
    pub degraded: NoticeChannel,
    /// Warning that the endpoint will be disabled unless a delivery succeeds.
    pub off_warning: NoticeChannel,
    pub disabled: NoticeChannel,
    pub replay_finished: NoticeChannel,
}

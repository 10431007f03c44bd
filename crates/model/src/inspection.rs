//! An inspection sends a receiver requests that it should accept or refuse, and reports which protections it has.
//!
//! An inspection is a stored row that the engine picks up and completes with a report. No event, delivery or attempt is
//! created, so it never counts for the endpoint's health.

mod evaluate;
mod messages;
mod probe;
#[cfg(test)]
mod tests;

pub use evaluate::InspectionEvaluator;
pub use probe::{
    INSPECTION_HEADER, InspectionProbe, InspectionSubject, ProbeError, ProbeRequest, health_headers,
};

use super::{
    id::{AppId, EndpointId, InspectionId},
    stored::nullable,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Number of ids per inspection: its own, and an event's and a delivery's for each probe.
pub const IDS_PER_INSPECTION: u32 = 1 + 2 * InspectionProbe::ALL.len() as u32;

/// How many ended inspections of an endpoint are kept.
pub const INSPECTIONS_KEPT_PER_ENDPOINT: u32 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub id: InspectionId,
    pub app: AppId,
    pub endpoint: EndpointId,
    pub kind: InspectionKind,
    pub state: InspectionState,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// Present once it is finished.
    pub report: Option<InspectionReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectionKind {
    /// All checks.
    Inspect,
    /// The health address alone.
    Ping,
}

impl InspectionKind {
    pub const ALL: [Self; 2] = [Self::Inspect, Self::Ping];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Ping => "ping",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectionState {
    Waiting,
    Running,
    Finished,
    /// The node stopped in the middle. Not run again: the person who started it may have left.
    Interrupted,
    /// The endpoint was deleted.
    Cancelled,
}

impl InspectionState {
    pub const ALL: [Self; 5] =
        [Self::Waiting, Self::Running, Self::Finished, Self::Interrupted, Self::Cancelled];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Result of an inspection: its checks in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InspectionReport {
    #[serde(rename = "contract")]
    pub contract: String,
    #[serde(rename = "checks")]
    pub checks: Vec<InspectionCheck>,
}

/// Check of one requirement on receivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InspectionCheck {
    #[serde(rename = "name")]
    pub name: CheckName,
    #[serde(rename = "finding")]
    pub finding: InspectionFinding,
    /// Status of the response that decided it, if there was one.
    #[serde(rename = "status", deserialize_with = "nullable")]
    pub status: Option<u16>,
    #[serde(rename = "duration_ms", deserialize_with = "nullable")]
    pub duration_ms: Option<u32>,
    #[serde(rename = "sent")]
    pub sent: String,
    #[serde(rename = "came_back")]
    pub came_back: String,
    #[serde(rename = "why")]
    pub why: String,
    /// Advice, if there is something to do.
    #[serde(rename = "advice", deserialize_with = "nullable")]
    pub advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckName {
    #[serde(rename = "correct_delivery")]
    CorrectDelivery,
    #[serde(rename = "tampered_body")]
    TamperedBody,
    #[serde(rename = "old_timestamp")]
    OldTimestamp,
    #[serde(rename = "unknown_signature")]
    UnknownSignature,
    #[serde(rename = "repeated_id")]
    RepeatedId,
    #[serde(rename = "odd_json")]
    OddJson,
    #[serde(rename = "answer_time")]
    AnswerTime,
    #[serde(rename = "health_address")]
    HealthAddress,
}

impl CheckName {
    pub const fn name(self) -> &'static str {
        match self {
            Self::CorrectDelivery => "correct_delivery",
            Self::TamperedBody => "tampered_body",
            Self::OldTimestamp => "old_timestamp",
            Self::UnknownSignature => "unknown_signature",
            Self::RepeatedId => "repeated_id",
            Self::OddJson => "odd_json",
            Self::AnswerTime => "answer_time",
            Self::HealthAddress => "health_address",
        }
    }

    /// Describes a receiver that passes.
    pub const fn title(self) -> &'static str {
        match self {
            Self::CorrectDelivery => "Accepts a correct delivery",
            Self::TamperedBody => "Refuses a body that was changed",
            Self::OldTimestamp => "Refuses an old timestamp",
            Self::UnknownSignature => "Refuses an unknown signature",
            Self::RepeatedId => "Answers a repeated id with success",
            Self::OddJson => "Accepts odd but legal JSON",
            Self::AnswerTime => "Answers in time",
            Self::HealthAddress => "Has a health address that answers",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InspectionFinding {
    #[serde(rename = "passed")]
    Passed,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "does_not_apply")]
    DoesNotApply,
    /// Not tried, or the response is not conclusive.
    #[serde(rename = "unknown")]
    Unknown,
}

impl InspectionFinding {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::DoesNotApply => "does_not_apply",
            Self::Unknown => "unknown",
        }
    }
}

impl InspectionReport {
    pub fn count(&self, finding: InspectionFinding) -> usize {
        self.checks.iter().filter(|check| check.finding == finding).count()
    }
}

//! A replay: many past deliveries sent again, or past events sent to an endpoint that never got them (a backfill), as one
//! stored row that proceeds page by page.
//!
//! A replay walks ids upwards from `from_id` to `to_id`, both fixed when it is created, and `reached` only grows: no source
//! is taken twice, and deliveries that a replay creates are never among its sources.

use super::{
    delivery::DeliveryState,
    id::{AppId, EndpointId, ReplayId},
    stored::nullable,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// States from which a delivery can be replayed.
pub const REPLAYABLE_STATES: [DeliveryState; 4] =
    [DeliveryState::Dead, DeliveryState::Delivered, DeliveryState::Cancelled, DeliveryState::Expired];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub id: ReplayId,
    pub app: AppId,
    pub selection: ReplaySelection,
    /// Most sources that are sent again in a second.
    pub per_second: u32,
    pub state: ReplayState,
    pub from_id: i64,
    /// Sources have smaller ids than this.
    pub to_id: i64,
    /// All sources up to this id have been processed.
    pub reached: i64,
    /// How many sources there were when it was made.
    pub total: u64,
    pub replayed: u64,
    /// Sources that could not be replayed any more when their turn came.
    pub refused: u64,
    pub last_refusal: Option<String>,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
    /// How long it was running, without pauses and times without a process.
    pub running_time: Duration,
}

/// A running replay has a page more often than this; the rest of a longer gap is not counted as running.
const PAGE_INTERVAL_MAX: Duration = Duration::from_secs(5);

impl Replay {
    /// Adds the time since the last change to the running time, and sets the last change to `now`.
    pub fn record_progress(&mut self, now: Timestamp) {
        if self.state == ReplayState::Running {
            self.running_time += now.since(self.changed_at).min(PAGE_INTERVAL_MAX);
        }
        self.changed_at = now;
    }

    /// Average rate while it was running.
    pub fn average_per_second(&self) -> f64 {
        // The first page takes no time, though it is meant for a second that has not passed: hence the upper bound.
        let seconds = self.running_time.as_secs_f64();
        if seconds > 0.0 { (self.replayed as f64 / seconds).min(f64::from(self.per_second)) } else { 0.0 }
    }
}

/// Sources of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplaySelection {
    #[serde(rename = "deliveries")]
    Deliveries(ReplayFilter),
    #[serde(rename = "backfill")]
    Backfill(Backfill),
}

/// Filter of past deliveries; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayFilter {
    #[serde(rename = "endpoint", deserialize_with = "nullable")]
    pub endpoint: Option<i64>,
    #[serde(rename = "event_type", deserialize_with = "nullable")]
    pub event_type: Option<String>,
    /// By their names in the API.
    #[serde(rename = "states")]
    pub states: Vec<String>,
    /// Only deliveries that ended then or later, and were not cancelled manually.
    #[serde(rename = "missed_since", default, skip_serializing_if = "Option::is_none")]
    pub missed_since: Option<Timestamp>,
}

/// Past events that the endpoint subscribes to and has no delivery of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backfill {
    #[serde(rename = "endpoint")]
    pub endpoint: i64,
    #[serde(rename = "event_type", deserialize_with = "nullable")]
    pub event_type: Option<String>,
}

impl ReplaySelection {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Deliveries(_) => "replay",
            Self::Backfill(_) => "backfill",
        }
    }

    pub fn endpoint(&self) -> Option<EndpointId> {
        let number = match self {
            Self::Deliveries(deliveries) => deliveries.endpoint,
            Self::Backfill(backfill) => Some(backfill.endpoint),
        };
        number.map(EndpointId::from_i64)
    }

    pub fn event_type(&self) -> Option<&str> {
        match self {
            Self::Deliveries(ReplayFilter { event_type, .. })
            | Self::Backfill(Backfill { event_type, .. }) => event_type.as_deref(),
        }
    }

    /// Start of the time for which missed deliveries are selected, if they are.
    pub fn missed_since(&self) -> Option<Timestamp> {
        match self {
            Self::Deliveries(deliveries) => deliveries.missed_since,
            Self::Backfill(_) => None,
        }
    }

    /// Returns the selected states of deliveries; empty for a backfill.
    pub fn states(&self) -> Vec<DeliveryState> {
        match self {
            Self::Deliveries(deliveries) => {
                let named = |name: &String| REPLAYABLE_STATES.into_iter().find(|state| state.name() == name);
                deliveries.states.iter().filter_map(named).collect()
            }
            Self::Backfill(_) => Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    Running,
    Paused,
    Finished,
    Cancelled,
}

impl ReplayState {
    pub const ALL: [Self; 4] = [Self::Running, Self::Paused, Self::Finished, Self::Cancelled];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
        }
    }

    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Cancelled)
    }

    /// Whether a person may change this state to `next`.
    pub const fn may_become(self, next: Self) -> bool {
        match next {
            Self::Running | Self::Paused | Self::Cancelled => !self.is_ended(),
            Self::Finished => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_is_over_stays_so_and_only_its_own_end_finishes_it() {
        use ReplayState::{Cancelled, Finished, Paused, Running};
        for from in ReplayState::ALL {
            for to in ReplayState::ALL {
                let allowed = matches!((from, to), (Running | Paused, Running | Paused | Cancelled));
                assert_eq!(from.may_become(to), allowed, "{from:?} to {to:?}");
            }
        }
        assert!(Finished.is_ended() && Cancelled.is_ended() && !Paused.is_ended());
    }

    #[test]
    fn a_selection_survives_being_written_down() {
        let all = [
            ReplaySelection::Deliveries(ReplayFilter {
                endpoint: Some(7),
                event_type: None,
                states: vec!["dead".into(), "expired".into()],
                missed_since: Some(Timestamp::from_millis(5)),
            }),
            ReplaySelection::Backfill(Backfill { endpoint: 9, event_type: Some("a.b".into()) }),
        ];
        for selection in all {
            let text = serde_json::to_string(&selection).unwrap();
            assert_eq!(serde_json::from_str::<ReplaySelection>(&text).unwrap(), selection, "{text}");
        }
    }
}

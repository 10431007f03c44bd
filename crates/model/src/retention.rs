//! Decides which parts of an event and its deliveries are deleted now: a pure function of the contracts' retention periods,
//! the state of each delivery, and the time. The store reads the facts and carries out the decision.
//!
//! An event is deleted as a whole. Before that, only its payload and the history of finished deliveries are deleted
//! separately, and dead letters are closed. An unfinished delivery is never deleted: it ends first, and that is on record.

#[cfg(test)]
mod tests;

use super::{
    contract::{Retention, RetentionPeriod},
    delivery::DeliveryState,
    id::{AppId, EndpointId},
    time::Timestamp,
};
use std::{collections::BTreeSet, time::Duration};

/// An `Idempotency-Key` is known for at least this long, however short its event is kept.
pub const IDEMPOTENCY_KEY_KEPT: Duration = Duration::from_hours(24);

/// Retention periods, as the contracts say now.
pub trait RetentionPolicy: Send + Sync {
    /// `None` if the app is gone: no decision is made about its events.
    fn for_app(&self, app: AppId) -> Option<Retention>;

    /// `None` if the endpoint is gone: its app's contract counts.
    fn for_endpoint(&self, endpoint: EndpointId) -> Option<Retention>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFacts {
    pub accepted_at: Timestamp,
    pub deliver_at: Option<Timestamp>,
    pub has_data: bool,
    pub has_idempotency_key: bool,
    /// Retention periods of its app.
    pub keep: Retention,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryFacts {
    pub state: DeliveryState,
    /// A dead letter that was closed.
    pub is_closed: bool,
    /// A dead letter that waits for a manual extra attempt: if that is never made, it is a dead letter again.
    pub returns_to_dead: bool,
    /// Creation time, if later than its event's, or the time of the last manual retry or replay.
    pub restarted_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub has_history: bool,
    /// Retention periods of its endpoint; `dead_letters` as it was when it died.
    pub keep: Retention,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventDecision {
    Stays,
    /// The record stays without its payload.
    LosesData,
    /// Deleted with all its deliveries.
    Goes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryDecision {
    Stays,
    /// Still waiting: ends now, on record, and is deleted later.
    Ends,
    /// Its attempts are deleted, its state and its counts stay.
    LosesHistory,
    /// A dead letter that was not replayed in time is closed. Its record stays with its event.
    Closes,
    /// Deleted with its event.
    Goes,
}

/// Decision on an event and each of its deliveries, in the order they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionDecision {
    pub event: EventDecision,
    pub deliveries: Vec<DeliveryDecision>,
}

impl RetentionDecision {
    pub fn changes_nothing(&self) -> bool {
        let stay = |fate: &DeliveryDecision| *fate == DeliveryDecision::Stays;
        self.event == EventDecision::Stays && self.deliveries.iter().all(stay)
    }
}

pub fn decide(event: &EventFacts, deliveries: &[DeliveryFacts], now: Timestamp) -> RetentionDecision {
    let from = event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at));
    let begun = |delivery: &DeliveryFacts| delivery.restarted_at.map_or(from, |at| at.max(from));
    let longest = |app: Timestamp, of: &dyn Fn(&DeliveryFacts) -> Timestamp| {
        deliveries.iter().map(of).max().unwrap_or(app)
    };
    let end =
        longest(retention_end(event.keep.events, from), &|one| retention_end(one.keep.events, begun(one)));
    let payload_end =
        longest(retention_end(event.keep.payloads, from), &|one| retention_end(one.keep.payloads, from));
    let is_over = end <= now;
    let fates: Vec<_> = deliveries.iter().map(|delivery| delivery.decide(is_over, now)).collect();

    let goes_on = |(delivery, fate): (&DeliveryFacts, &DeliveryDecision)| {
        delivery.finished_at.is_none() && *fate != DeliveryDecision::Ends
    };
    let is_replayable = |(delivery, fate): (&DeliveryFacts, &DeliveryDecision)| {
        delivery.is_dead_letter() && *fate != DeliveryDecision::Closes
            || delivery.returns_to_dead && *fate == DeliveryDecision::Ends
    };
    let all = || deliveries.iter().zip(&fates);
    let has_use = all().any(goes_on) || all().any(is_replayable);
    let is_known = event.has_idempotency_key && event.accepted_at.plus(IDEMPOTENCY_KEY_KEPT) > now;
    let is_on_record = is_known || all().any(|(one, fate)| one.is_on_record(*fate, end, now));
    if is_over && !has_use && !is_on_record {
        return RetentionDecision {
            event: EventDecision::Goes,
            deliveries: vec![DeliveryDecision::Goes; deliveries.len()],
        };
    }
    let is_settled = payload_end <= now && deliveries.iter().all(DeliveryFacts::needs_no_payload);
    let loses_data = event.has_data && !has_use && (is_over || is_settled);
    RetentionDecision {
        event: if loses_data { EventDecision::LosesData } else { EventDecision::Stays },
        deliveries: fates,
    }
}

impl DeliveryFacts {
    fn decide(&self, is_over: bool, now: Timestamp) -> DeliveryDecision {
        match self.finished_at {
            None if is_over && self.state != DeliveryState::InFlight => DeliveryDecision::Ends,
            Some(died_at) if self.is_dead_letter() => {
                if retention_end(self.keep.dead_letters, died_at) <= now {
                    DeliveryDecision::Closes
                } else {
                    DeliveryDecision::Stays
                }
            }
            Some(at) if self.has_history && retention_end(self.keep.attempts, at) <= now => {
                DeliveryDecision::LosesHistory
            }
            _ => DeliveryDecision::Stays,
        }
    }

    /// Whether it is dead and not closed, so that a replay is possible.
    fn is_dead_letter(&self) -> bool {
        self.state == DeliveryState::Dead && !self.is_closed
    }

    /// Whether its end must stay visible, because it ended only when its event's retention was over.
    fn is_on_record(&self, fate: DeliveryDecision, end: Timestamp, now: Timestamp) -> bool {
        let ended_late = |at: Timestamp| at >= end && retention_end(self.keep.attempts, at) > now;
        fate == DeliveryDecision::Ends || !self.is_dead_letter() && self.finished_at.is_some_and(ended_late)
    }

    /// Whether its payload is not expected to be needed again.
    fn needs_no_payload(&self) -> bool {
        matches!(self.state, DeliveryState::Delivered | DeliveryState::Cancelled) || self.is_closed
    }
}

/// Returns the end of a retention period that starts at `from`; the end of time if it has none.
fn retention_end(keep: RetentionPeriod, from: Timestamp) -> Timestamp {
    match keep {
        RetentionPeriod::For(duration) => from.plus(duration),
        RetentionPeriod::Forever => Timestamp::from_millis(i64::MAX),
    }
}

/// Returns the ages at which a part of an event may be due for deletion.
pub fn retention_ages(keeps: impl IntoIterator<Item = Retention>) -> BTreeSet<Duration> {
    let all = |keep: Retention| [keep.events, keep.attempts, keep.payloads, keep.dead_letters];
    let finite = |keep| match keep {
        RetentionPeriod::For(duration) => Some(duration),
        RetentionPeriod::Forever => None,
    };
    keeps.into_iter().flat_map(all).filter_map(finite).collect()
}

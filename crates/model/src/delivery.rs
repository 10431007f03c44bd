//! A delivery of one event to one endpoint: its states and all transitions between them.
//!
//! Every change of state goes through a method here; the store writes only what these methods return, and only
//! over a row that is still in the state they started from.

mod manual_actions;
mod ordering;
mod probing;
mod state;
#[cfg(test)]
mod tests;

pub use state::{DeliveryState, EndReason};

use super::{
    id::{AppId, DeliveryId, EndpointId, EventId},
    ordering::OrderingKey,
    time::Timestamp,
    verdict::{DueAction, Verdict},
};

/// State of a delivery before an extra attempt (manual, or an early probe); restored if that attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedState {
    pub state: DeliveryState,
    pub reason: Option<EndReason>,
    pub due: Option<Timestamp>,
    pub at_due: DueAction,
    pub finished_at: Option<Timestamp>,
    /// The extra attempt is an early probe of the endpoint, not a manual retry.
    pub is_probe: bool,
}

/// Availability of an endpoint, and what happens to waiting deliveries while it is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    Enabled,
    DisabledHold,
    DisabledCancel,
    Deleted,
}

/// Error of a transition that is not allowed; the API answers it with 409.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    #[error("a delivery that is {} cannot be {verb}", .state.name())]
    WrongState { state: DeliveryState, verb: &'static str },
    #[error("the endpoint of this delivery was deleted")]
    EndpointDeleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub app: AppId,
    pub event: EventId,
    pub endpoint: EndpointId,
    /// First delivery of a chain of replays; the own id if this is no replay. Receivers see this id.
    pub root: DeliveryId,
    pub replay_of: Option<DeliveryId>,
    pub state: DeliveryState,
    pub reason: Option<EndReason>,
    /// Number of used slots of the contract's schedule.
    pub retry_index: u32,
    /// Attempts that have a number, over all schedules and retries.
    pub attempt_count: u32,
    /// Rows in the history, numbered or not.
    pub history_len: u32,
    pub due: Option<Timestamp>,
    pub at_due: DueAction,
    pub give_up_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Start of the current hold.
    pub held_at: Option<Timestamp>,
    /// Time of the last manual retry or replay; its event's retention counts from there.
    pub restarted_at: Option<Timestamp>,
    /// The next attempt was requested manually: it goes before others, also to a throttled endpoint.
    pub is_manual: bool,
    pub saved_state: Option<SavedState>,
    /// Ordering group, until the delivery has left it; absent where no order is kept.
    pub ordering_key: Option<OrderingKey>,
    /// Position among the deliveries queued behind the head of the ordering group; only queued ones have it.
    pub order_seq: Option<i64>,
    /// Time at which the ordering group went on without it, because it was dead.
    pub skipped_at: Option<Timestamp>,
}

/// Result of claiming a due delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimResult {
    Attempt,
    /// The final wait or the age is over: the delivery ended without an attempt.
    Ended,
}

impl Delivery {
    /// Creates a pending delivery, due at `due`, with no slot used.
    pub fn new(
        id: DeliveryId,
        app: AppId,
        event: EventId,
        endpoint: EndpointId,
        due: Timestamp,
        give_up_at: Option<Timestamp>,
    ) -> Self {
        Self {
            id,
            app,
            event,
            endpoint,
            root: id,
            replay_of: None,
            state: DeliveryState::Pending,
            reason: None,
            retry_index: 0,
            attempt_count: 0,
            history_len: 0,
            due: Some(due),
            at_due: DueAction::Attempt,
            give_up_at,
            finished_at: None,
            held_at: None,
            restarted_at: None,
            is_manual: false,
            saved_state: None,
            ordering_key: None,
            order_seq: None,
            skipped_at: None,
        }
    }

    /// Starts a new delivery in flight.
    pub fn start_in_flight(&mut self) {
        (self.state, self.due) = (DeliveryState::InFlight, None);
    }

    /// Claims a due delivery for an attempt. An extra attempt is made even past `give_up_at`.
    pub fn claim(&mut self, now: Timestamp) -> Result<ClaimResult, TransitionError> {
        self.require(DeliveryState::is_waiting, "carried")?;
        let too_old = self.saved_state.is_none() && self.give_up_at.is_some_and(|at| at <= now);
        match self.at_due {
            DueAction::Exhaust | DueAction::ExhaustUncounted => {
                self.finish(DeliveryState::Dead, EndReason::Exhausted, now);
            }
            DueAction::Expire => self.finish(DeliveryState::Expired, EndReason::GaveUp, now),
            DueAction::Attempt if too_old => self.finish(DeliveryState::Expired, EndReason::GaveUp, now),
            DueAction::Attempt => {
                self.state = DeliveryState::InFlight;
                self.due = None;
                return Ok(ClaimResult::Attempt);
            }
        }
        Ok(ClaimResult::Ended)
    }

    /// Applies the verdict on an attempt. Adds `rows` attempts to the history, `numbered` of them with a number.
    pub fn apply_verdict(
        &mut self,
        verdict: &Verdict,
        (rows, numbered): (u32, u32),
        availability: Availability,
        now: Timestamp,
    ) -> Result<(), TransitionError> {
        self.require(|state| state == DeliveryState::InFlight, "concluded")?;
        self.history_len += rows;
        self.attempt_count += numbered;
        self.is_manual = false;
        match *verdict {
            Verdict::Delivered => self.finish(DeliveryState::Delivered, None, now),
            _ if self.restores_saved_state(verdict) => self.restore(availability, now),
            Verdict::Dead { reason, .. } => {
                self.retry_index += numbered.min(1);
                self.finish(DeliveryState::Dead, EndReason::from(reason), now);
            }
            Verdict::Retry { due, then } => {
                self.retry_index += 1;
                self.set_waiting(due, then);
                self.apply_availability(availability, now);
            }
            Verdict::RetryUncounted { due } => {
                self.set_waiting(due, DueAction::Attempt);
                self.apply_availability(availability, now);
            }
        }
        Ok(())
    }

    /// Releases the delivery unsent, if the node drains or the endpoint is throttled: due as before. An early probe returns
    /// to its saved state.
    pub fn release(
        &mut self,
        availability: Availability,
        due: Timestamp,
        now: Timestamp,
    ) -> Result<(), TransitionError> {
        self.require(|state| state == DeliveryState::InFlight, "handed back")?;
        if self.is_early_probe() {
            self.restore(availability, now);
        } else {
            self.set_waiting(due.min(now), DueAction::Attempt);
            self.apply_availability(availability, now);
        }
        Ok(())
    }

    /// Takes over from a dead node: due now, or back in the saved state after an extra attempt; the schedule is unchanged.
    /// The caller adds the attempt "outcome unknown".
    pub fn take_over(&mut self, availability: Availability, now: Timestamp) -> Result<(), TransitionError> {
        self.require(|state| state == DeliveryState::InFlight, "taken over")?;
        self.history_len += 1;
        if self.saved_state.is_some() {
            self.restore(availability, now);
        } else {
            self.set_waiting(now, DueAction::Attempt);
            self.apply_availability(availability, now);
        }
        Ok(())
    }

    /// Holds or cancels a waiting delivery whose endpoint was disabled or deleted.
    pub fn hold_or_cancel(
        &mut self,
        availability: Availability,
        now: Timestamp,
    ) -> Result<(), TransitionError> {
        self.require(|state| state.is_waiting() || state == DeliveryState::Held, "held or cancelled")?;
        self.apply_availability(availability, now);
        Ok(())
    }

    /// Resumes a held delivery: due now, unless its own time is later. Time held does not count as age, unless
    /// `gives_up_while_held`.
    pub fn resume(&mut self, gives_up_while_held: bool, now: Timestamp) -> Result<(), TransitionError> {
        self.require(|state| state == DeliveryState::Held, "released")?;
        if let Some(held_at) = self.held_at.filter(|_| !gives_up_while_held) {
            let held_for = now.since(held_at);
            self.give_up_at = self.give_up_at.map(|at| at.plus(held_for));
            if self.at_due == DueAction::Expire {
                self.due = self.give_up_at;
            }
        }
        let due = self.due.map_or(now, |due| due.max(now));
        self.set_waiting(due, self.at_due);
        Ok(())
    }

    /// Expires a waiting delivery whose event's retention ended. One that had ended before an extra attempt was requested
    /// returns to that end.
    pub fn expire_by_retention(&mut self, now: Timestamp) -> Result<(), TransitionError> {
        self.require(|state| state.is_waiting() || state == DeliveryState::Held, "expired")?;
        if self.saved_state.is_some_and(|back| back.state.is_terminal()) {
            self.held_at = None;
            self.restore(Availability::Enabled, now);
        } else {
            self.finish(DeliveryState::Expired, EndReason::Retention, now);
        }
        Ok(())
    }

    /// Holds or cancels the delivery if its endpoint is disabled or deleted.
    pub fn apply_availability(&mut self, availability: Availability, now: Timestamp) {
        match availability {
            Availability::Enabled => {}
            Availability::DisabledHold => self.hold(now),
            Availability::DisabledCancel => {
                self.finish(DeliveryState::Cancelled, EndReason::EndpointDisabled, now);
            }
            Availability::Deleted => self.finish(DeliveryState::Cancelled, EndReason::EndpointDeleted, now),
        }
    }

    /// Next scheduled attempt, as the API shows it. `None` during an extra attempt, a final wait or a hold, and behind
    /// another delivery of its ordering group.
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        let scheduled =
            self.state.is_waiting() && self.saved_state.is_none() && self.at_due == DueAction::Attempt;
        self.due.filter(|_| scheduled && !self.is_queued_behind())
    }

    fn become_pending(&mut self, availability: Availability, now: Timestamp) {
        self.state = DeliveryState::Pending;
        self.at_due = DueAction::Attempt;
        self.reason = None;
        self.finished_at = None;
        self.due = Some(now);
        // Requested manually: a disabled endpoint holds it, whatever it does with other deliveries.
        if availability != Availability::Enabled {
            self.hold(now);
        }
    }

    fn snapshot(&self, is_probe: bool) -> SavedState {
        let Self { state, reason, due, at_due, finished_at, .. } = *self;
        SavedState { state, reason, due, at_due, finished_at, is_probe }
    }

    fn restore(&mut self, availability: Availability, now: Timestamp) {
        let Some(back) = self.saved_state.take() else { return };
        self.is_manual = false;
        self.state = back.state;
        self.reason = back.reason;
        self.due = back.due;
        self.at_due = back.at_due;
        self.finished_at = back.finished_at;
        if self.state.is_waiting() {
            self.apply_availability(availability, now);
        }
    }

    fn hold(&mut self, now: Timestamp) {
        self.state = DeliveryState::Held;
        self.held_at = self.held_at.or(Some(now));
    }

    fn set_waiting(&mut self, due: Timestamp, at_due: DueAction) {
        self.state = if self.retry_index == 0 || self.saved_state.is_some() {
            DeliveryState::Pending
        } else {
            DeliveryState::Retrying
        };
        self.due = Some(due);
        self.at_due = at_due;
        self.held_at = None;
    }

    fn finish(&mut self, state: DeliveryState, reason: impl Into<Option<EndReason>>, now: Timestamp) {
        self.state = state;
        self.reason = reason.into();
        (self.due, self.order_seq) = (None, None);
        self.at_due = DueAction::Attempt;
        self.finished_at = Some(now);
        self.held_at = None;
        self.is_manual = false;
        self.saved_state = None;
    }

    fn require(
        &self,
        allowed: impl Fn(DeliveryState) -> bool,
        verb: &'static str,
    ) -> Result<(), TransitionError> {
        if allowed(self.state) {
            Ok(())
        } else {
            Err(TransitionError::WrongState { state: self.state, verb })
        }
    }
}

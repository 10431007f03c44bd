//! Transitions of a delivery that people request: retry, replay, backfill, cancel and close.

use super::{Availability, Delivery, DeliveryId, DeliveryState, EndReason, Timestamp, TransitionError};

impl Delivery {
    /// Requests an extra attempt as soon as a permit is free; the schedule is unchanged.
    pub fn retry(&mut self, availability: Availability, now: Timestamp) -> Result<(), TransitionError> {
        let allowed = |state| {
            matches!(
                state,
                DeliveryState::Retrying
                    | DeliveryState::Dead
                    | DeliveryState::Cancelled
                    | DeliveryState::Expired
            )
        };
        self.require(allowed, "retried")?;
        if availability == Availability::Deleted {
            return Err(TransitionError::EndpointDeleted);
        }
        self.saved_state = Some(self.snapshot(false));
        self.restarted_at = Some(now);
        self.is_manual = true;
        self.become_pending(availability, now);
        Ok(())
    }

    /// Restarts the delivery on a fresh schedule; numbering continues. A delivered one is refused: the caller
    /// makes a new delivery with `replay_as`.
    pub fn replay(
        &mut self,
        give_up_at: Option<Timestamp>,
        availability: Availability,
        now: Timestamp,
    ) -> Result<(), TransitionError> {
        let allowed =
            |state| matches!(state, DeliveryState::Dead | DeliveryState::Cancelled | DeliveryState::Expired);
        self.require(allowed, "replayed")?;
        if availability == Availability::Deleted {
            return Err(TransitionError::EndpointDeleted);
        }
        self.retry_index = 0;
        self.give_up_at = give_up_at;
        self.restarted_at = Some(now);
        self.become_pending(availability, now);
        Ok(())
    }

    /// Creates a new delivery that repeats this delivered one, which does not change.
    pub fn replay_as(
        &self,
        id: DeliveryId,
        give_up_at: Option<Timestamp>,
        availability: Availability,
        now: Timestamp,
    ) -> Result<Self, TransitionError> {
        self.require(|state| state == DeliveryState::Delivered, "replayed as new")?;
        if availability == Availability::Deleted {
            return Err(TransitionError::EndpointDeleted);
        }
        let mut copy = Self::new(id, self.app, self.event, self.endpoint, now, give_up_at);
        copy.root = self.root;
        copy.replay_of = Some(self.id);
        copy.become_pending(availability, now);
        Ok(copy)
    }

    /// Prepares the new delivery of a backfill: held if the endpoint is disabled.
    pub fn new_backfill(
        mut new: Self,
        availability: Availability,
        now: Timestamp,
    ) -> Result<Self, TransitionError> {
        if availability == Availability::Deleted {
            return Err(TransitionError::EndpointDeleted);
        }
        if availability != Availability::Enabled {
            new.hold(now);
        }
        Ok(new)
    }

    pub fn cancel(&mut self, now: Timestamp) -> Result<(), TransitionError> {
        self.require(|state| state.is_waiting() || state == DeliveryState::Held, "cancelled")?;
        self.finish(DeliveryState::Cancelled, EndReason::Manual, now);
        Ok(())
    }

    /// Closes a dead letter: no replay is expected.
    pub fn close(&mut self) -> Result<(), TransitionError> {
        self.require(|state| state == DeliveryState::Dead, "closed")?;
        self.reason = Some(EndReason::Closed);
        Ok(())
    }
}

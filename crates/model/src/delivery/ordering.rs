//! Position of a delivery in its ordering group, where the endpoint keeps order. The head of a group is as free as any other
//! delivery; those queued behind it are never due, and are promoted one by one, in order.

use super::{Delivery, DeliveryState, EndReason};
use crate::{ordering::OrderingKey, time::Timestamp};

impl Delivery {
    /// Whether it is queued behind another delivery of its ordering group; it is never due while it is.
    pub fn is_queued_behind(&self) -> bool {
        self.due == Some(Timestamp::NEVER)
    }

    /// Queues a new delivery behind the head of its ordering group; one created in flight becomes pending.
    pub fn enqueue_behind_head(&mut self, order_seq: i64) {
        if self.state == DeliveryState::InFlight {
            self.state = DeliveryState::Pending;
        }
        (self.due, self.order_seq) = (Some(Timestamp::NEVER), Some(order_seq));
    }

    /// Promotes it to the head of its ordering group: due now, unless `deliver_at` is later. A held one stays held.
    pub fn promote(&mut self, deliver_at: Option<Timestamp>, now: Timestamp) {
        (self.due, self.order_seq) = (Some(deliver_at.map_or(now, |at| at.max(now))), None);
    }

    /// Whether it no longer blocks its ordering group. A dead one blocks until it is closed, unless dead ones are skipped.
    pub fn has_left_group(&self, skips_dead: bool) -> bool {
        match self.state {
            DeliveryState::Dead => skips_dead || self.reason == Some(EndReason::Closed),
            state => state.is_terminal(),
        }
    }

    /// Leaves its ordering group if it no longer blocks it, and returns the group. Sets `skipped_at` if the group goes on
    /// only because dead ones are skipped.
    pub fn leave_group(&mut self, skips_dead: bool, now: Timestamp) -> Option<OrderingKey> {
        if !self.has_left_group(skips_dead) {
            return None;
        }
        let left = self.ordering_key.take()?;
        if !self.has_left_group(false) {
            self.skipped_at = Some(now);
        }
        Some(left)
    }
}

//! A delivery's place in its line, where its endpoint keeps order. The first of a line is as free as any other delivery; those
//! behind it are due never, and step up one by one, in their turn.

use super::{Delivery, Reason, State};
use crate::domain::{order::OrderKey, time::Timestamp};

impl Delivery {
    /// Another delivery of its line comes first: it is not due before that has ended.
    pub fn waits_behind(&self) -> bool {
        self.due == Some(Timestamp::NEVER)
    }

    /// A newborn joins a line that has a first already; a hand it was given is not for it.
    pub fn stand_behind(&mut self, turn: i64) {
        if self.state == State::InFlight {
            self.state = State::Pending;
        }
        (self.due, self.turn) = (Some(Timestamp::NEVER), Some(turn));
    }

    /// It is the first of its line now: due at once, unless its event was published for later. Held stays held.
    pub fn step_up(&mut self, deliver_at: Option<Timestamp>, now: Timestamp) {
        (self.due, self.turn) = (Some(deliver_at.map_or(now, |at| at.max(now))), None);
    }

    /// Whether it is no longer in the way of those behind it. A dead one is until it is closed, unless it is skipped.
    pub fn has_left_line(&self, skips_dead: bool) -> bool {
        match self.state {
            State::Dead => skips_dead || self.reason == Some(Reason::Closed),
            state => state.is_terminal(),
        }
    }

    /// Leaves its line if it is no longer in the way, and remembers if that goes on because the dead are skipped. Answers
    /// which line it was.
    pub fn leave_line(&mut self, skips_dead: bool, now: Timestamp) -> Option<OrderKey> {
        if !self.has_left_line(skips_dead) {
            return None;
        }
        let left = self.okey.take()?;
        if !self.has_left_line(false) {
            self.skipped_at = Some(now);
        }
        Some(left)
    }
}

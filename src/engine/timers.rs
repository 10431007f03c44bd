//! Timers: one ordered set for all queues that wait for a token, and for the concurrency limiter.
//!
//! No timer is set far ahead. One that seems to be was set before the clock was set back, and is due at once.

use crate::domain::{id::EndpointId, time::Timestamp};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How far ahead a timer may be set.
pub(super) const TIMER_AHEAD_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerKey {
    Limiter,
    Queue(EndpointId),
}

#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    set: Mutex<BTreeSet<(Timestamp, TimerKey)>>,
    /// Wakes the task that sleeps until the first timer.
    pub(super) first_changed: Notify,
}

impl TimerQueue {
    /// Sets a timer. Returns when it will fire, which may be earlier.
    pub(super) fn set(&self, at: Timestamp, sleeper: TimerKey, now: Timestamp) -> Timestamp {
        let at = at.min(now.plus(TIMER_AHEAD_MAX));
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = set.first().is_none_or(|(first, _)| at < *first);
        set.insert((at, sleeper));
        drop(set);
        if is_first {
            self.first_changed.notify_one();
        }
        at
    }

    pub(super) fn first(&self) -> Option<Timestamp> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).first().map(|(at, _)| *at)
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.first().is_some_and(|(at, _)| *at <= now)
            || set.last().is_some_and(|(at, _)| *at > latest_plausible(now))
    }

    /// Removes and returns all timers that are due.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<TimerKey> {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while set.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(set.pop_first().map(|(_, sleeper)| sleeper));
        }
        while set.last().is_some_and(|(at, _)| *at > latest_plausible(now)) {
            due.extend(set.pop_last().map(|(_, sleeper)| sleeper));
        }
        due
    }
}

/// Latest time of a plausible timer: twice as far ahead as allowed, since callers read the clock a moment before. A later
/// one means that the clock was set back.
fn latest_plausible(now: Timestamp) -> Timestamp {
    now.plus(TIMER_AHEAD_MAX * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + ms)
    }

    fn queue(number: i64) -> TimerKey {
        TimerKey::Queue(EndpointId::from_i64(number))
    }

    #[test]
    fn due_timers_fire_once_and_the_others_stay_set() {
        let timers = TimerQueue::default();
        for (timer_at, number) in [(30, 3), (10, 1), (20, 2)] {
            assert_eq!(timers.set(at(timer_at), queue(number), at(0)), at(timer_at));
        }
        assert!(!timers.is_due(at(9)) && timers.take_due(at(9)).is_empty());
        assert!(timers.is_due(at(20)));
        assert_eq!(timers.take_due(at(20)), [queue(1), queue(2)]);
        assert_eq!((timers.first(), timers.take_due(at(20)).len()), (Some(at(30)), 0));
    }

    #[test]
    fn a_timer_set_before_the_clock_was_set_back_fires_whatever_else_is_set() {
        let (timers, hour) = (TimerQueue::default(), 3_600_000);
        assert_eq!(
            timers.set(at(2 * hour), queue(1), at(hour)),
            at(hour + 5000),
            "no timer is set far ahead"
        );
        timers.set(at(7), queue(2), at(0));
        assert!(timers.is_due(at(5)));
        assert_eq!(timers.take_due(at(5)), [queue(1)]);
        assert_eq!(timers.first(), Some(at(7)));
    }
}

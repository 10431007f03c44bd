//! From where on lanes are looked through for what waits. What was taken out of a lane stays in its index for as long as somebody keeps
//! a snapshot of the database, a backup for example, and a look from the beginning would go through all of it each time.

use super::pulse::Pulse;
use crate::domain::{id::EndpointId, time::Timestamp};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long something older that comes into a lane may go unseen there while what is due fills all hands.
const AGAIN_FROM_THE_BEGINNING_AFTER: Duration = Duration::from_secs(5);

pub(super) struct Floors {
    pulse: Arc<Pulse>,
    lanes: Mutex<HashMap<EndpointId, Floor>>,
}

struct Floor {
    due: Timestamp,
    /// When the lane was last looked through from its beginning.
    since_us: u64,
}

impl Floors {
    pub(super) fn new(pulse: Arc<Pulse>) -> Self {
        Self { pulse, lanes: Mutex::default() }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<EndpointId, Floor>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_fresh(&self, floor: &Floor) -> bool {
        let passed = Duration::from_micros(self.pulse.now_us().saturating_sub(floor.since_us));
        passed < AGAIN_FROM_THE_BEGINNING_AFTER
    }

    pub(super) fn of(&self, lane: EndpointId) -> Option<Timestamp> {
        self.lanes().get(&lane).filter(|floor| self.is_fresh(floor)).map(|floor| floor.due)
    }

    /// Nothing that is due waits before this; `None`: nothing is due at all.
    pub(super) fn reached(&self, lane: EndpointId, due: Option<Timestamp>) {
        let mut lanes = self.lanes();
        let Some(due) = due else {
            lanes.remove(&lane);
            return;
        };
        let known = lanes.get(&lane).filter(|floor| self.is_fresh(floor));
        let since_us = known.map_or_else(|| self.pulse.now_us(), |floor| floor.since_us);
        lanes.insert(lane, Floor { due, since_us });
    }

    /// What was taken out of them may be there again.
    pub(super) fn forget(&self) {
        self.lanes().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::CommitWatch;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl CommitWatch for Hand {
        fn started(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn committed(&self, _: u64, _: usize) {}
    }

    #[test]
    fn a_lane_is_looked_through_from_where_it_goes_on_and_again_from_its_beginning_after_a_while() {
        let watch = Arc::new(Hand::default());
        let floors = Floors::new(Arc::new(Pulse::new(watch.clone())));
        let (lane, at) = (EndpointId::from_i64(7), |ms| Some(Timestamp::from_millis(ms)));
        assert_eq!(floors.of(lane), None);
        floors.reached(lane, at(10));
        watch.0.store(4_999_999, Relaxed);
        floors.reached(lane, at(20));
        assert_eq!(floors.of(lane), at(20));
        assert_eq!(floors.of(EndpointId::from_i64(8)), None);
        // Having gone on does not put that off.
        watch.0.store(5_000_000, Relaxed);
        assert_eq!(floors.of(lane), None);
        floors.reached(lane, at(5));
        watch.0.store(9_999_999, Relaxed);
        assert_eq!(floors.of(lane), at(5));
        floors.reached(lane, None);
        assert_eq!(floors.of(lane), None);
        floors.reached(lane, at(30));
        floors.forget();
        assert_eq!(floors.of(lane), None);
    }
}

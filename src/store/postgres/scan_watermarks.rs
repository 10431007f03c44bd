//! Scan watermarks: where the search of an endpoint queue starts. Rows taken out of a queue stay in its index as long as any
//! transaction keeps a snapshot of the database, a backup for example, and a search from the beginning goes through all of
//! them each time. Only after a slow search does the next one start where that ended.

use super::writer_lease::WriterLease;
use crate::domain::{id::EndpointId, time::Timestamp};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// How long an older delivery that is added to a queue may go unseen while due ones fill all permits.
const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// A search that takes longer is slow, with everything else that was searched in it.
const SLOW_SCAN: Duration = Duration::from_millis(20);

pub(super) struct ScanWatermarks {
    pulse: Arc<WriterLease>,
    lanes: Mutex<HashMap<EndpointId, Watermark>>,
    /// When the current search began.
    began_us: AtomicU64,
}

struct Watermark {
    due: Timestamp,
    /// When the queue was last searched from its beginning.
    since_us: u64,
}

impl ScanWatermarks {
    pub(super) fn new(pulse: Arc<WriterLease>) -> Self {
        Self { pulse, lanes: Mutex::default(), began_us: AtomicU64::new(0) }
    }

    /// Notes the time at which a search begins.
    pub(super) fn begin(&self) {
        self.began_us.store(self.pulse.now_us(), Relaxed);
    }

    fn is_over(&self, time: Duration, since_us: u64) -> bool {
        Duration::from_micros(self.pulse.now_us().saturating_sub(since_us)) >= time
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<EndpointId, Watermark>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_fresh(&self, floor: &Watermark) -> bool {
        !self.is_over(FULL_SCAN_INTERVAL, floor.since_us)
    }

    pub(super) fn of(&self, lane: EndpointId) -> Option<Timestamp> {
        self.lanes().get(&lane).filter(|floor| self.is_fresh(floor)).map(|floor| floor.due)
    }

    /// Records that a search found no due delivery before `due`, or none at all. A new watermark is set only after a slow search.
    pub(super) fn record(&self, lane: EndpointId, due: Option<Timestamp>) {
        let mut lanes = self.lanes();
        let since_us = lanes.get(&lane).filter(|floor| self.is_fresh(floor)).map(|floor| floor.since_us);
        match (due, since_us) {
            (Some(due), Some(since_us)) => {
                lanes.insert(lane, Watermark { due, since_us });
            }
            (Some(due), None) if self.is_over(SLOW_SCAN, self.began_us.load(Relaxed)) => {
                lanes.insert(lane, Watermark { due, since_us: self.pulse.now_us() });
            }
            _ => {
                lanes.remove(&lane);
            }
        }
    }

    /// Clears all watermarks: leased deliveries may have been rolled back into the queues.
    pub(super) fn clear(&self) {
        self.lanes().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::CommitWatch;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[derive(Default)]
    struct FakeWatch(AtomicU64);

    impl CommitWatch for FakeWatch {
        fn started(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn committed(&self, _: u64, _: usize) {}
    }

    #[test]
    fn a_queue_is_searched_from_its_watermark_and_from_its_beginning_after_a_while() {
        let watch = Arc::new(FakeWatch::default());
        let floors = ScanWatermarks::new(Arc::new(WriterLease::new(watch.clone())));
        let (lane, at) = (EndpointId::from_i64(7), |ms| Some(Timestamp::from_millis(ms)));
        assert_eq!(floors.of(lane), None);
        floors.begin();
        watch.0.store(19_999, Relaxed);
        floors.record(lane, at(10));
        assert_eq!(floors.of(lane), None, "that search was quick");
        watch.0.store(20_000, Relaxed);
        floors.record(lane, at(10));
        watch.0.store(5_019_999, Relaxed);
        floors.begin();
        floors.record(lane, at(20));
        assert_eq!(floors.of(lane), at(20));
        assert_eq!(floors.of(EndpointId::from_i64(8)), None);
        // A new watermark does not delay the full search.
        watch.0.store(5_020_000, Relaxed);
        assert_eq!(floors.of(lane), None);
        floors.begin();
        watch.0.store(5_040_000, Relaxed);
        floors.record(lane, at(5));
        assert_eq!(floors.of(lane), at(5));
        floors.record(lane, None);
        assert_eq!(floors.of(lane), None);
        floors.record(lane, at(30));
        assert_eq!(floors.of(lane), at(30));
        floors.clear();
        assert_eq!(floors.of(lane), None);
    }
}

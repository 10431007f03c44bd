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
    writer_lease: Arc<WriterLease>,
    by_endpoint: Mutex<HashMap<EndpointId, Watermark>>,
    /// When the current search began.
    began_us: AtomicU64,
}

struct Watermark {
    due: Timestamp,
    /// When the queue was last searched from its beginning.
    since_us: u64,
}

impl ScanWatermarks {
    pub(super) fn new(writer_lease: Arc<WriterLease>) -> Self {
        Self { writer_lease, by_endpoint: Mutex::default(), began_us: AtomicU64::new(0) }
    }

    /// Notes the time at which a search begins.
    pub(super) fn begin(&self) {
        self.began_us.store(self.writer_lease.now_us(), Relaxed);
    }

    fn is_over(&self, time: Duration, since_us: u64) -> bool {
        Duration::from_micros(self.writer_lease.now_us().saturating_sub(since_us)) >= time
    }

    fn by_endpoint(&self) -> MutexGuard<'_, HashMap<EndpointId, Watermark>> {
        self.by_endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_fresh(&self, watermark: &Watermark) -> bool {
        !self.is_over(FULL_SCAN_INTERVAL, watermark.since_us)
    }

    pub(super) fn of(&self, endpoint: EndpointId) -> Option<Timestamp> {
        self.by_endpoint()
            .get(&endpoint)
            .filter(|watermark| self.is_fresh(watermark))
            .map(|watermark| watermark.due)
    }

    /// Records that a search found no due delivery before `due`, or none at all. A new watermark is set only after a slow search.
    pub(super) fn record(&self, endpoint: EndpointId, due: Option<Timestamp>) {
        let mut by_endpoint = self.by_endpoint();
        let since_us = by_endpoint
            .get(&endpoint)
            .filter(|watermark| self.is_fresh(watermark))
            .map(|watermark| watermark.since_us);
        match (due, since_us) {
            (Some(due), Some(since_us)) => {
                by_endpoint.insert(endpoint, Watermark { due, since_us });
            }
            (Some(due), None) if self.is_over(SLOW_SCAN, self.began_us.load(Relaxed)) => {
                by_endpoint.insert(endpoint, Watermark { due, since_us: self.writer_lease.now_us() });
            }
            _ => {
                by_endpoint.remove(&endpoint);
            }
        }
    }

    /// Clears all watermarks: leased deliveries may have been rolled back into the queues.
    pub(super) fn clear(&self) {
        self.by_endpoint().clear();
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
        let watermarks = ScanWatermarks::new(Arc::new(WriterLease::new(watch.clone())));
        let (endpoint, at) = (EndpointId::from_i64(7), |ms| Some(Timestamp::from_millis(ms)));
        assert_eq!(watermarks.of(endpoint), None);
        watermarks.begin();
        watch.0.store(19_999, Relaxed);
        watermarks.record(endpoint, at(10));
        assert_eq!(watermarks.of(endpoint), None, "that search was quick");
        watch.0.store(20_000, Relaxed);
        watermarks.record(endpoint, at(10));
        watch.0.store(5_019_999, Relaxed);
        watermarks.begin();
        watermarks.record(endpoint, at(20));
        assert_eq!(watermarks.of(endpoint), at(20));
        assert_eq!(watermarks.of(EndpointId::from_i64(8)), None);
        // A new watermark does not delay the full search.
        watch.0.store(5_020_000, Relaxed);
        assert_eq!(watermarks.of(endpoint), None);
        watermarks.begin();
        watch.0.store(5_040_000, Relaxed);
        watermarks.record(endpoint, at(5));
        assert_eq!(watermarks.of(endpoint), at(5));
        watermarks.record(endpoint, None);
        assert_eq!(watermarks.of(endpoint), None);
        watermarks.record(endpoint, at(30));
        assert_eq!(watermarks.of(endpoint), at(30));
        watermarks.clear();
        assert_eq!(watermarks.of(endpoint), None);
    }
}

//! What is counted of an endpoint's attempts: sums that can be added up over any time, in rows of a minute and of an hour.
//!
//! Counted are attempts that have a number and blame the receiver or praise it: no tests, no faults of our own.

use super::{id::EndpointId, tally::Histogram, time::Timestamp};
use std::{collections::BTreeMap, time::Duration};

/// Sums of some span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Attempts that succeeded,
    pub ok: u64,
    /// and those that did not.
    pub failed: u64,
    /// Deliveries that ended delivered,
    pub delivered: u64,
    /// and those that the receiver did not take, to the end.
    pub dead: u64,
    /// What all attempts took together.
    pub total_us: u64,
    /// How many attempts took so long, by the buckets of `tally`, in microseconds.
    pub latency: BTreeMap<u8, u64>,
    pub last_ok_at: Option<Timestamp>,
}

impl Sums {
    pub fn attempt(&mut self, succeeded: bool, took_us: u32, ended_at: Timestamp) {
        if succeeded {
            self.ok += 1;
            self.last_ok_at = self.last_ok_at.max(Some(ended_at));
        } else {
            self.failed += 1;
        }
        self.total_us += u64::from(took_us);
        *self.latency.entry(Histogram::bucket(u64::from(took_us)) as u8).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.delivered += other.delivered;
        self.dead += other.dead;
        self.total_us += other.total_us;
        for (bucket, count) in &other.latency {
            *self.latency.entry(*bucket).or_default() += count;
        }
        self.last_ok_at = self.last_ok_at.max(other.last_ok_at);
    }

    pub const fn attempts(&self) -> u64 {
        self.ok + self.failed
    }

    pub const fn ended(&self) -> u64 {
        self.delivered + self.dead
    }

    /// From 0 to 1; nothing can be said about no attempts.
    pub fn success_rate(&self) -> Option<f64> {
        (self.attempts() > 0).then(|| self.ok as f64 / self.attempts() as f64)
    }

    /// So many of a hundred attempts took at most this long: right within the bucket that it falls into.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let all: u64 = self.latency.values().sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut before = 0;
        for (bucket, count) in &self.latency {
            if before + count >= wanted {
                let (from, to) = (lower_bound(*bucket), Histogram::bound((*bucket).into()));
                let part = (wanted - before) as f64 / *count as f64;
                return Some(Duration::from_micros(from + ((to - from) as f64 * part) as u64));
            }
            before += count;
        }
        None
    }
}

fn lower_bound(bucket: u8) -> u64 {
    bucket.checked_sub(1).map_or(0, |below| Histogram::bound(below.into()))
}

/// How much time a row of sums stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    Minute,
    Hour,
}

impl Width {
    pub const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3600,
        }
    }

    /// How long such rows are kept.
    pub const fn kept_for(self) -> Duration {
        match self {
            Self::Minute => Duration::from_hours(3),
            Self::Hour => Duration::from_hours(30 * 24),
        }
    }

    /// The start of the row that an instant belongs to.
    pub const fn start(self, at: Timestamp) -> Timestamp {
        let ms = self.seconds() * 1000;
        Timestamp::from_millis(at.as_millis().div_euclid(ms) * ms)
    }

    /// The start of the first row that lies wholly after an instant, or begins with it.
    pub const fn first_after(self, at: Timestamp) -> Timestamp {
        self.start(Timestamp::from_millis(at.as_millis().saturating_add(self.seconds() * 1000 - 1)))
    }

    /// Which rows say most about a window of this length.
    pub fn for_window(window: Duration) -> Self {
        if window <= Duration::from_hours(1) { Self::Minute } else { Self::Hour }
    }

    /// The start of the first row of a window that ends now; the window is longer by what of that row lies before it.
    pub fn first_of(self, window: Duration, now: Timestamp) -> Timestamp {
        let ms = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        self.start(Timestamp::from_millis(now.as_millis().saturating_sub(ms)))
    }
}

/// What one commit adds, by endpoint and minute.
#[derive(Debug, Default)]
pub struct Batch(BTreeMap<(EndpointId, Timestamp), Sums>);

impl Batch {
    pub fn of(&mut self, endpoint: EndpointId, at: Timestamp) -> &mut Sums {
        self.0.entry((endpoint, Width::Minute.start(at))).or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn rows(&self) -> impl Iterator<Item = (EndpointId, Timestamp, &Sums)> {
        self.0.iter().map(|((endpoint, minute), sums)| (*endpoint, *minute, sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn nothing_is_said_about_no_attempts() {
        let none = Sums::default();
        assert_eq!((none.success_rate(), none.percentile(50)), (None, None));
    }

    #[test]
    fn a_window_begins_with_the_row_that_its_start_lies_in() {
        let hour = Duration::from_hours(1);
        let at = Timestamp::from_millis(NOW.as_millis() + 61_000);
        assert_eq!(Width::Minute.first_of(hour, at), Timestamp::from_millis(NOW.as_millis() - 3_540_000));
        assert_eq!(Width::for_window(hour), Width::Minute);
        assert_eq!(Width::for_window(hour * 24), Width::Hour);
    }

    #[test]
    fn the_first_row_after_an_instant_holds_nothing_from_before_it() {
        for width in Width::ALL {
            let later = |ms| Timestamp::from_millis(NOW.as_millis() + ms);
            assert_eq!(width.first_after(NOW), NOW);
            assert_eq!(width.first_after(later(1)), later(width.seconds() * 1000));
            assert_eq!(width.first_after(later(-1)), NOW);
        }
    }

    proptest! {
        #[test]
        fn sums_of_parts_are_the_sums_of_the_whole(took in prop::collection::vec((any::<bool>(), 0_u32..200_000_000), 1..50)) {
            let mut whole = Sums::default();
            let mut parts = [Sums::default(), Sums::default()];
            for (n, (ok, us)) in took.iter().enumerate() {
                let at = Timestamp::from_millis(n as i64);
                whole.attempt(*ok, *us, at);
                parts[n % 2].attempt(*ok, *us, at);
            }
            let [mut first, second] = parts;
            first.add(&second);
            prop_assert_eq!(first, whole);
        }

        #[test]
        fn a_percentile_is_never_further_off_than_its_bucket(took in prop::collection::vec(1_u32..100_000_000, 1..80)) {
            let mut sums = Sums::default();
            for us in &took {
                sums.attempt(true, *us, NOW);
            }
            let mut sorted = took;
            sorted.sort_unstable();
            for percent in [50, 90, 99, 100] {
                let exact = f64::from(sorted[(sorted.len() * percent).div_ceil(100) - 1]);
                let said = sums.percentile(percent as u64).unwrap().as_micros() as f64;
                prop_assert!(said <= exact * 2.0 && said * 2.0 >= exact, "{said} for {exact}");
            }
        }
    }
}

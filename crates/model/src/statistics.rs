//! Statistics of events and attempts: counters that can be summed over any time, in rows of a minute, an hour and a day.
//!
//! Attempts count if they have a number and say something about the receiver: no tests, no local failures. Deliveries count
//! when they end, whatever the cause; cancelled ones do not count, as people cancelled them.

mod time_range;

pub use time_range::TimeRange;

use super::{
    delivery::DeliveryState,
    histogram,
    id::{AppId, EndpointId},
    outcome::{Outcome, OutcomeClass},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// The counters of a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Published events.
    pub events: u64,
    /// Successful attempts.
    pub succeeded: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Deliveries that ended delivered.
    pub delivered: u64,
    /// Deliveries that ended dead.
    pub dead: u64,
    /// Dead deliveries that the receiver did not cause; included in `dead`.
    pub dead_local: u64,
    /// Deliveries that ended expired.
    pub expired: u64,
    /// The total duration of all attempts.
    pub total_us: u64,
    /// The number of attempts by duration: the buckets of `histogram`, in microseconds.
    pub latency: BTreeMap<u8, u64>,
    /// The number of attempts by result.
    pub result_counts: BTreeMap<ResultCode, u64>,
    pub last_ok_at: Option<Timestamp>,
}

impl Counters {
    pub fn add_attempt(&mut self, outcome: &Outcome, ended_at: Timestamp) {
        let (ending, took_us) = (ResultCode::of(outcome), outcome.timings.total_us);
        if ending.is_success() {
            self.succeeded += 1;
            self.last_ok_at = self.last_ok_at.max(Some(ended_at));
        } else {
            self.failed += 1;
        }
        self.total_us += u64::from(took_us);
        *self.latency.entry(histogram::bucket(u64::from(took_us)) as u8).or_default() += 1;
        *self.result_counts.entry(ending).or_default() += 1;
    }

    /// Counts a delivery that ended in this state.
    pub fn add_end(&mut self, state: DeliveryState, is_by_receiver: bool) {
        match state {
            DeliveryState::Delivered => self.delivered += 1,
            DeliveryState::Dead => {
                self.dead += 1;
                self.dead_local += u64::from(!is_by_receiver);
            }
            DeliveryState::Expired => self.expired += 1,
            DeliveryState::Cancelled
            | DeliveryState::Pending
            | DeliveryState::Retrying
            | DeliveryState::InFlight
            | DeliveryState::Held => {}
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.delivered += other.delivered;
        self.dead += other.dead;
        self.dead_local += other.dead_local;
        self.expired += other.expired;
        self.total_us += other.total_us;
        for (bucket, count) in &other.latency {
            *self.latency.entry(*bucket).or_default() += count;
        }
        for (ending, count) in &other.result_counts {
            *self.result_counts.entry(*ending).or_default() += count;
        }
        self.last_ok_at = self.last_ok_at.max(other.last_ok_at);
    }

    /// Returns the failures with their counts, the most common first.
    pub fn failures(&self) -> Vec<(ResultCode, u64)> {
        let mut failures: Vec<_> =
            self.result_counts.iter().map(|(ending, count)| (*ending, *count)).collect();
        failures.retain(|(ending, _)| !ending.is_success());
        failures.sort_by_key(|(ending, count)| (std::cmp::Reverse(*count), *ending));
        failures
    }

    pub const fn attempts(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// Returns the dead deliveries that the receiver caused.
    pub const fn dead_by_receiver(&self) -> u64 {
        self.dead.saturating_sub(self.dead_local)
    }

    /// Returns the ended deliveries that the receiver is evaluated by.
    pub const fn counted_ends(&self) -> u64 {
        self.delivered + self.dead_by_receiver()
    }

    /// Returns the success rate from 0 to 1, or `None` without attempts.
    pub fn success_rate(&self) -> Option<f64> {
        (self.attempts() > 0).then(|| self.succeeded as f64 / self.attempts() as f64)
    }

    /// Returns the duration that `percent` of a hundred attempts did not exceed, exact to the bucket it falls into.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let all: u64 = self.latency.values().sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut before = 0;
        for (bucket, count) in &self.latency {
            if before + count >= wanted {
                let (from, to) = (lower_bound(*bucket), histogram::bound((*bucket).into()));
                let part = (wanted - before) as f64 / *count as f64;
                return Some(Duration::from_micros(from + ((to - from) as f64 * part) as u64));
            }
            before += count;
        }
        None
    }
}

/// The result of an attempt: the status of its answer or, without one, its class; negative if it failed. The contract decided
/// what counts as success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResultCode(i16);

impl ResultCode {
    const STATUS_MIN: u16 = 100;

    pub fn of(outcome: &Outcome) -> Self {
        let is_answer = matches!(outcome.class, OutcomeClass::Ok | OutcomeClass::Http);
        let class = || OutcomeClass::ALL.iter().position(|class| *class == outcome.class).unwrap_or(0) as u16;
        let code = outcome.status.filter(|_| is_answer).unwrap_or_else(class);
        let code = i16::try_from(code).unwrap_or(i16::MAX);
        Self(if outcome.class == OutcomeClass::Ok { code } else { -code })
    }

    pub const fn is_success(self) -> bool {
        self.0 >= 0
    }

    /// Returns the status of the answer, if there was one.
    pub fn status(self) -> Option<u16> {
        Some(self.0.unsigned_abs()).filter(|code| *code >= Self::STATUS_MIN)
    }

    /// Returns the status, else the name of the class.
    pub fn name(self) -> String {
        let class = || {
            OutcomeClass::ALL.get(usize::from(self.0.unsigned_abs())).map_or("unknown", |class| class.name())
        };
        self.status().map_or_else(|| class().to_owned(), |status| status.to_string())
    }
}

fn lower_bound(bucket: u8) -> u64 {
    bucket.checked_sub(1).map_or(0, |below| histogram::bound(below.into()))
}

/// The time that a row of counters covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    Minute,
    Hour,
    Day,
}

impl Resolution {
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86_400,
        }
    }

    /// Returns how long such rows are kept.
    pub const fn kept_for(self) -> Duration {
        match self {
            Self::Minute => Duration::from_hours(3),
            Self::Hour => Duration::from_hours(30 * 24),
            Self::Day => Duration::from_hours(400 * 24),
        }
    }

    /// Returns the start of the row that an instant belongs to.
    pub const fn start(self, at: Timestamp) -> Timestamp {
        let ms = self.seconds() * 1000;
        Timestamp::from_millis(at.as_millis().div_euclid(ms) * ms)
    }

    /// Returns the start of the first row that begins at or after an instant.
    pub const fn first_after(self, at: Timestamp) -> Timestamp {
        self.start(Timestamp::from_millis(at.as_millis().saturating_add(self.seconds() * 1000 - 1)))
    }

    /// Returns the resolution that suits a window of this length.
    pub fn for_window(window: Duration) -> Self {
        if window <= Duration::from_hours(1) { Self::Minute } else { Self::Hour }
    }

    /// Returns the start of the first row of a window that ends now. The row may begin before the window does.
    pub fn first_of(self, window: Duration, now: Timestamp) -> Timestamp {
        let ms = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        self.start(Timestamp::from_millis(now.as_millis().saturating_sub(ms)))
    }
}

/// The counters that one commit adds, by app, endpoint, event type and minute. Some belong to no endpoint.
#[derive(Debug, Default)]
pub struct StatBatch(BTreeMap<(AppId, Option<EndpointId>, Timestamp), BTreeMap<String, Counters>>);

/// A row of a batch.
#[derive(Debug)]
pub struct StatRow<'a> {
    pub app: AppId,
    pub endpoint: Option<EndpointId>,
    pub minute: Timestamp,
    pub event_type: &'a str,
    pub counters: &'a Counters,
}

impl StatBatch {
    pub fn entry(
        &mut self,
        app: AppId,
        endpoint: Option<EndpointId>,
        event_type: &str,
        at: Timestamp,
    ) -> &mut Counters {
        let by_type = self.0.entry((app, endpoint, Resolution::Minute.start(at))).or_default();
        by_type.entry(event_type.to_owned()).or_default()
    }

    pub fn rows(&self) -> impl Iterator<Item = StatRow<'_>> {
        self.0.iter().flat_map(|((app, endpoint, minute), by_type)| {
            by_type.iter().map(|(event_type, counters)| StatRow {
                app: *app,
                endpoint: *endpoint,
                minute: *minute,
                event_type,
                counters,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Timings;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn took_so_long(succeeded: bool, total_us: u32) -> Outcome {
        let class = if succeeded { OutcomeClass::Ok } else { OutcomeClass::Http };
        let status = Some(if succeeded { 200 } else { 500 });
        let timings = Timings { total_us, ..Timings::default() };
        Outcome { status, timings, ..Outcome::failed(class, "") }
    }

    #[test]
    fn a_result_code_has_the_status_or_the_class_and_whether_it_failed() {
        let ended = |class, status| ResultCode::of(&Outcome { status, ..Outcome::failed(class, "") });
        for (class, status, name, is_success, shown) in [
            (OutcomeClass::Ok, Some(204), "204", true, Some(204)),
            (OutcomeClass::Ok, Some(409), "409", true, Some(409)),
            (OutcomeClass::Http, Some(200), "200", false, Some(200)),
            (OutcomeClass::Http, Some(503), "503", false, Some(503)),
            (OutcomeClass::Timeout, None, "timeout", false, None),
            // The status arrived and the rest of the answer did not.
            (OutcomeClass::Timeout, Some(200), "timeout", false, None),
            (OutcomeClass::AddressRefused, None, "address_refused", false, None),
        ] {
            let ending = ended(class, status);
            assert_eq!((&*ending.name(), ending.is_success(), ending.status()), (name, is_success, shown));
            let kept: BTreeMap<ResultCode, u64> = [(ending, 1)].into();
            let text = serde_json::to_string(&kept).unwrap();
            assert_eq!(serde_json::from_str::<BTreeMap<ResultCode, u64>>(&text).unwrap(), kept);
        }
    }

    #[test]
    fn failures_are_listed_with_the_most_common_first() {
        let mut counters = Counters::default();
        for (class, status) in [
            (OutcomeClass::Ok, 200),
            (OutcomeClass::Http, 503),
            (OutcomeClass::Http, 500),
            (OutcomeClass::Http, 503),
        ] {
            counters.add_attempt(&Outcome { status: Some(status), ..Outcome::failed(class, "") }, NOW);
        }
        let counted: Vec<_> =
            counters.failures().into_iter().map(|(ending, count)| (ending.name(), count)).collect();
        assert_eq!(counted, [("503".to_owned(), 2), ("500".to_owned(), 1)]);
    }

    #[test]
    fn every_end_except_cancellation_is_counted_and_dead_ones_by_cause() {
        let mut counters = Counters::default();
        for state in DeliveryState::ALL {
            counters.add_end(state, true);
            counters.add_end(state, false);
        }
        assert_eq!((counters.delivered, counters.dead, counters.expired), (2, 2, 2));
        assert_eq!((counters.dead_by_receiver(), counters.counted_ends()), (1, 3));
    }

    #[test]
    fn without_attempts_there_is_no_rate_and_no_percentile() {
        let none = Counters::default();
        assert_eq!((none.success_rate(), none.percentile(50)), (None, None));
    }

    #[test]
    fn a_window_begins_with_the_row_that_its_start_lies_in() {
        let hour = Duration::from_hours(1);
        let at = Timestamp::from_millis(NOW.as_millis() + 61_000);
        assert_eq!(
            Resolution::Minute.first_of(hour, at),
            Timestamp::from_millis(NOW.as_millis() - 3_540_000)
        );
        assert_eq!(Resolution::for_window(hour), Resolution::Minute);
        assert_eq!(Resolution::for_window(hour * 24), Resolution::Hour);
    }

    #[test]
    fn the_first_row_after_an_instant_holds_nothing_from_before_it() {
        for width in [Resolution::Minute, Resolution::Hour] {
            let later = |ms| Timestamp::from_millis(NOW.as_millis() + ms);
            assert_eq!(width.first_after(NOW), NOW);
            assert_eq!(width.first_after(later(1)), later(width.seconds() * 1000));
            assert_eq!(width.first_after(later(-1)), NOW);
        }
    }

    proptest! {
        #[test]
        fn adding_the_counters_of_parts_gives_those_of_the_whole(took in prop::collection::vec((any::<bool>(), 0_u32..200_000_000), 1..50)) {
            let mut whole = Counters::default();
            let mut parts = [Counters::default(), Counters::default()];
            for (n, (ok, us)) in took.iter().enumerate() {
                let at = Timestamp::from_millis(n as i64);
                whole.add_attempt(&took_so_long(*ok, *us), at);
                parts[n % 2].add_attempt(&took_so_long(*ok, *us), at);
            }
            let [mut first, second] = parts;
            first.add(&second);
            prop_assert_eq!(first, whole);
        }

        #[test]
        fn a_percentile_is_never_further_off_than_its_bucket(took in prop::collection::vec(1_u32..100_000_000, 1..80)) {
            let mut counters = Counters::default();
            for us in &took {
                counters.add_attempt(&took_so_long(true, *us), NOW);
            }
            let mut sorted = took;
            sorted.sort_unstable();
            for percent in [50, 90, 99, 100] {
                let exact = f64::from(sorted[(sorted.len() * percent).div_ceil(100) - 1]);
                let said = counters.percentile(percent as u64).unwrap().as_micros() as f64;
                prop_assert!(said <= exact * 2.0 && said * 2.0 >= exact, "{said} for {exact}");
            }
        }
    }
}

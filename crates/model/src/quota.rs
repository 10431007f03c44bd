//! Quotas: how much an app may publish in a second, held by a bucket that fills at that rate and has room for one second.
//!
//! Pure arithmetic on thousandths, so that nothing is lost between two readings of a millisecond clock.

use super::{
    field_error::FieldError,
    rate_limit::{RefilledAt, fill, time_to_fill},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

const EVENTS_PER_SECOND_MAX: u64 = 1_000_000;
const BYTES_PER_SECOND_MAX: u64 = 1_000_000_000_000;
const QUOTA_FIELDS: [&str; 2] = [QuotaLimit::Events.name(), QuotaLimit::Bytes.name()];

/// The limits that an operator sets for an app; an absent one is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    #[serde(rename = "events_per_second", default, skip_serializing_if = "Option::is_none")]
    pub events_per_second: Option<u32>,
    /// Bytes of `data` as it was given.
    #[serde(rename = "bytes_per_second", default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

impl Quota {
    /// Reads the field `quota`. Returns `None` if it limits nothing.
    pub fn read(fields: &Map<String, Value>) -> Result<Option<Self>, FieldError> {
        if let Some(unknown) = fields.keys().find(|name| !QUOTA_FIELDS.contains(&name.as_str())) {
            return Err(FieldError::unknown(format!("quota.{unknown}"), unknown, QUOTA_FIELDS.into_iter()));
        }
        let read = |limit: QuotaLimit, most: u64| match fields.get(limit.name()) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let fitting = value.as_u64().filter(|rate| (1..=most).contains(rate));
                let refused = || {
                    FieldError::new(
                        format!("quota.{}", limit.name()),
                        format!("must be a whole number from 1 to {most}"),
                    )
                };
                fitting.map(Some).ok_or_else(refused)
            }
        };
        let quota = Self {
            events_per_second: read(QuotaLimit::Events, EVENTS_PER_SECOND_MAX)?.map(|rate| rate as u32),
            bytes_per_second: read(QuotaLimit::Bytes, BYTES_PER_SECOND_MAX)?,
        };
        Ok((quota != Self::default()).then_some(quota))
    }
}

/// The limit that is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaLimit {
    Events,
    Bytes,
}

impl QuotaLimit {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events_per_second",
            Self::Bytes => "bytes_per_second",
        }
    }
}

/// The error if an event exceeds the quota now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    pub limit: QuotaLimit,
    pub per_second: u64,
    /// How long until the event would be admitted, if no other is admitted before.
    pub wait: Duration,
}

impl QuotaExceeded {
    /// Returns the wait in whole seconds, at least one.
    pub fn retry_after_seconds(&self) -> u64 {
        u64::try_from(self.wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
    }
}

/// The remaining quota of an app, in thousandths of an event and of a byte.
#[derive(Clone, Copy, Debug)]
pub struct QuotaBucket {
    events: i64,
    bytes: i64,
    refilled_at: RefilledAt,
}

impl Default for QuotaBucket {
    /// Makes a full bucket; the first use limits it to the quota.
    fn default() -> Self {
        Self { events: i64::MAX, bytes: i64::MAX, refilled_at: RefilledAt::default() }
    }
}

impl QuotaBucket {
    /// Takes one event of this size, or nothing. An event larger than a second's worth of bytes is admitted when the
    /// bucket is full, and later ones wait until the debt is paid: otherwise it would be refused for ever.
    pub fn take(&mut self, quota: &Quota, bytes: usize, now: Timestamp) -> Result<(), QuotaExceeded> {
        let passed = self.refilled_at.elapsed_ms(now);
        let event_rate = quota.events_per_second.map(i64::from);
        let byte_rate = quota.bytes_per_second.map(|rate| i64::try_from(rate).unwrap_or(i64::MAX / 1000));
        fill_up_to_a_second(&mut self.events, event_rate, passed);
        fill_up_to_a_second(&mut self.bytes, byte_rate, passed);
        let size = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(1000);
        let too_many = check_level(QuotaLimit::Events, self.events, event_rate, 1000);
        let too_large = check_level(QuotaLimit::Bytes, self.bytes, byte_rate, size);
        if let Some(exceeded) = too_many.into_iter().chain(too_large).max_by_key(|exceeded| exceeded.wait) {
            return Err(exceeded);
        }
        self.events = self.events.saturating_sub(1000);
        self.bytes = self.bytes.saturating_sub(size);
        Ok(())
    }
}

/// Fills a level up to a second's worth.
fn fill_up_to_a_second(level: &mut i64, rate: Option<i64>, passed_ms: i64) {
    match rate {
        None => *level = i64::MAX,
        Some(rate) => fill(level, rate, rate, passed_ms),
    }
}

fn check_level(limit: QuotaLimit, level: i64, rate: Option<i64>, wanted: i64) -> Option<QuotaExceeded> {
    let rate = rate?;
    let missing = wanted.min(rate.saturating_mul(1000)).saturating_sub(level);
    (missing > 0).then(|| QuotaExceeded {
        limit,
        per_second: rate.unsigned_abs(),
        wait: time_to_fill(missing, rate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const START: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(START + ms)
    }

    fn quota(events: Option<u32>, bytes: Option<u64>) -> Quota {
        Quota { events_per_second: events, bytes_per_second: bytes }
    }

    proptest! {
        /// In any window of time at most the rate's worth and one second's worth are admitted.
        #[test]
        fn a_quota_never_admits_more_than_its_rate_and_one_second(
            events in 1u32..50,
            bytes in 1u64..5000,
            asks in prop::collection::vec((-50i64..700, 0usize..6000), 1..200),
        ) {
            let quota = quota(Some(events), Some(bytes));
            let (mut bucket, mut now) = (QuotaBucket::default(), 0);
            let mut taken: Vec<(i64, u64)> = Vec::new();
            for (step, size) in asks {
                // Some callers come late with an earlier reading of the clock.
                let asked_at = if taken.is_empty() { now } else { now + step };
                now = now.max(asked_at);
                if bucket.take(&quota, size, at(asked_at)).is_ok() {
                    taken.push((now, size as u64));
                }
            }
            for (first, &(from, _)) in taken.iter().enumerate() {
                let (mut count, mut sum, mut excess) = (0, 0, 0);
                for &(until, size) in &taken[first..] {
                    let ms = (until - from) as u64;
                    count += 1;
                    sum += size;
                    // An event larger than a second's worth borrows from the time after it, at most once.
                    excess = excess.max(size.saturating_sub(bytes));
                    prop_assert!(count * 1000 <= u64::from(events) * (ms + 1000));
                    prop_assert!(sum * 1000 <= bytes * (ms + 1000) + excess * 1000);
                }
            }
        }

        /// A refused event is admitted after exactly the wait that the error names, whatever was taken before.
        #[test]
        fn a_refused_event_is_admitted_after_the_named_wait(
            events in prop::option::of(1u32..50),
            bytes in prop::option::of(1u64..5000),
            asks in prop::collection::vec((0i64..700, 0usize..20_000), 1..100),
        ) {
            let quota = quota(events, bytes);
            let (mut bucket, mut now) = (QuotaBucket::default(), 0);
            for (step, size) in asks {
                now += step;
                if let Err(exceeded) = bucket.take(&quota, size, at(now)) {
                    let mut early = bucket;
                    let almost = exceeded.wait.as_millis() as i64 - 1;
                    prop_assert!(early.take(&quota, size, at(now + almost)).is_err(), "the wait is no longer than it must be");
                    now += exceeded.retry_after_seconds() as i64 * 1000;
                    prop_assert_eq!(bucket.take(&quota, size, at(now)), Ok(()));
                }
            }
        }
    }

    #[test]
    fn an_event_larger_than_a_second_is_admitted_by_a_full_bucket_and_paid_back() {
        let quota = quota(None, Some(100));
        let mut bucket = QuotaBucket::default();
        assert_eq!(bucket.take(&quota, 1000, at(0)), Ok(()));
        let exceeded = bucket.take(&quota, 100, at(0)).unwrap_err();
        assert_eq!((exceeded.limit, exceeded.retry_after_seconds()), (QuotaLimit::Bytes, 10));
        assert!(bucket.take(&quota, 100, at(9_999)).is_err());
        assert_eq!(bucket.take(&quota, 100, at(10_000)), Ok(()));
    }

    #[test]
    fn a_changed_quota_applies_at_once_and_no_limit_never_refuses() {
        let mut bucket = QuotaBucket::default();
        for _ in 0..10_000 {
            assert_eq!(bucket.take(&quota(None, None), usize::MAX, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(&quota(Some(1), None), 9, at(0)), Ok(()));
        let exceeded = bucket.take(&quota(Some(1), None), 9, at(0)).unwrap_err();
        assert_eq!((exceeded.limit, exceeded.per_second), (QuotaLimit::Events, 1));
    }

    #[test]
    fn a_clock_that_is_set_back_neither_fills_the_bucket_nor_keeps_it_empty() {
        let (mut bucket, quota) = (QuotaBucket::default(), quota(Some(1), None));
        assert_eq!(bucket.take(&quota, 0, at(3_600_000)), Ok(()));
        assert!(bucket.take(&quota, 0, at(0)).is_err());
        assert_eq!(bucket.take(&quota, 0, at(1_000)), Ok(()));
    }

    #[test]
    fn an_invalid_quota_is_refused_with_the_name_of_its_field() {
        let read = |value: Value| Quota::read(value.as_object().unwrap()).map_err(|error| error.field);
        let both = json!({ "events_per_second": 5, "bytes_per_second": 7 });
        assert_eq!(read(both), Ok(Some(quota(Some(5), Some(7)))));
        assert_eq!(read(json!({ "bytes_per_second": null })), Ok(None));
        for bad in [json!(0), json!(-1), json!(1.5), json!("5"), json!(1_000_001)] {
            let error = read(json!({ "events_per_second": bad }));
            assert_eq!(error, Err("quota.events_per_second".to_owned()), "{bad}");
        }
        assert_eq!(read(json!({ "events": 5 })), Err("quota.events".to_owned()));
    }
}

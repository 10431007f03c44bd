//! Instants and durations as the product writes them.
//!
//! A `Timestamp` is wall-clock milliseconds; deadlines of running requests use a monotonic clock instead.

use std::{fmt, time::Duration};

/// A wall-clock instant, in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Later than anything is ever due: the last second of the year 9999. The store's indexes name this number.
    pub const NEVER: Self = Self(253_402_300_799_000);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, as signatures carry them.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Whether periodic work that is next due at this time is due. Also true if the clock was set back by more than the period, so
    /// that the work does not wait until the clock has caught up.
    pub fn is_due(self, every: Duration, now: Self) -> bool {
        self <= now || self > now.plus(every)
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Reads RFC 3339 with any offset; finer digits than milliseconds are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_millisecond()))
    }

    /// RFC 3339 in UTC with exactly three decimals, for example `2026-11-15T09:30:00.000Z`.
    pub fn rfc3339_millis(self) -> String {
        format!("{:.3}", self.instant())
    }

    /// RFC 3339 in UTC in whole seconds, for example `2026-11-15T09:30:00Z`.
    pub fn rfc3339_seconds(self) -> String {
        Self(self.as_seconds() * 1000).instant().to_string()
    }

    fn instant(self) -> jiff::Timestamp {
        let edge = if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(edge)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339_millis())
    }
}

/// An instant of a monotonic clock, in milliseconds since some start. The clock ignores changes of the wall clock and runs on
/// while the machine sleeps. Instants mean nothing on another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(i64);

impl Monotonic {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The form of a duration, for error messages.
pub const DURATION_FORM: &str =
    "a whole number followed by ms, s, m, h or d, at least 10ms, for example \"5m\"";

/// Reads `<int>(ms|s|m|h|d)`; shorter than 10 ms or longer than ten years is refused.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = text[..digits].parse().ok()?;
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = count.checked_mul(unit_ms)?;
    (10..=3650 * 86_400_000).contains(&millis).then(|| Duration::from_millis(millis))
}

/// Writes a duration in the largest unit that divides it, so that `parse_duration` reads it back.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (unit_ms, unit) = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")]
        .into_iter()
        .find(|(unit_ms, _)| millis > 0 && millis.is_multiple_of(*unit_ms))
        .unwrap_or((1, "ms"));
    format!("{}{unit}", millis / unit_ms)
}

/// Writes a duration for people, in hours and smaller units, or in days if it is more than three whole ones: `2h36m`,
/// `72h`, `110h36m`, `7d`.
pub fn humanize_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0".into();
    }
    if millis > 3 * 86_400_000 && millis.is_multiple_of(86_400_000) {
        return format_duration(duration);
    }
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let mut rest = millis;
    let said = units.into_iter().filter_map(|(unit_ms, unit)| {
        let count = rest / unit_ms;
        rest %= unit_ms;
        (count > 0).then(|| format!("{count}{unit}"))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_written_in_utc_with_the_asked_precision() {
        let at = Timestamp::parse("2026-11-15T10:30:00.1239+01:00").unwrap();
        assert_eq!(at.rfc3339_millis(), "2026-11-15T09:30:00.123Z");
        assert_eq!(at.rfc3339_seconds(), "2026-11-15T09:30:00Z");
        assert_eq!(Timestamp::from_millis(0).rfc3339_millis(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(-1).rfc3339_seconds(), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn periodic_work_is_due_although_the_clock_was_set_back() {
        let (next, every) = (Timestamp::from_millis(10_000), Duration::from_secs(5));
        let has_come = |now_ms| next.is_due(every, Timestamp::from_millis(now_ms));
        assert_eq!([4_999, 5_000, 9_999, 10_000, 10_001].map(has_come), [true, false, false, true, true]);
    }

    #[test]
    fn durations_are_written_in_hours_and_smaller_units_or_whole_days() {
        let said = |seconds| humanize_duration(Duration::from_secs(seconds));
        assert_eq!(
            [0, 5, 60, 1270, 9360, 398_160].map(said),
            ["0", "5s", "1m", "21m10s", "2h36m", "110h36m"]
        );
        assert_eq!([86_400, 259_200, 604_800].map(said), ["24h", "72h", "7d"]);
        assert_eq!(humanize_duration(Duration::from_millis(61_050)), "1m1s50ms");
    }

    #[test]
    fn invalid_durations_are_refused() {
        for bad in ["", "5", "m", "5 m", "1.5s", "-1s", "9ms", "0s", "5M", "99999999999999999999d", "3651d"] {
            assert_eq!(parse_duration(bad), None, "{bad:?}");
        }
        assert_eq!(parse_duration("10ms"), Some(Duration::from_millis(10)));
        assert_eq!(parse_duration("72h"), Some(Duration::from_hours(72)));
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_back(millis in 10u64..315_360_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }

        #[test]
        fn any_instant_can_be_written(millis: i64) {
            prop_assert!(Timestamp::from_millis(millis).rfc3339_millis().ends_with('Z'));
        }
    }
}

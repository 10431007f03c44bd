//! Time since the machine started, which all processes of a measurement share, CPU time of this process, and dates.

use rustix::time::{ClockId, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// CPU time of this process so far, finer than the hundredths of a second that `/proc` has.
pub fn own_cpu_seconds() -> f64 {
    nanos(ClockId::ProcessCPUTime) as f64 / NANOS_PER_SECOND as f64
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

/// Seconds between two instants; 0 if they are in the other order.
pub fn seconds_between(earlier_ns: u64, later_ns: u64) -> f64 {
    later_ns.saturating_sub(earlier_ns) as f64 / NANOS_PER_SECOND as f64
}

pub fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Seconds since 1970 by the machine's calendar.
pub fn unix_seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// Seconds since 1970 in UTC, by Howard Hinnant's calendar arithmetic.
pub fn rfc3339(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here, so that the day that is not in every year is the last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_794_959_999), "2026-11-17T23:59:59Z");
    }
}

//! Backoff: the contract's waits between attempts, with random jitter.

use super::contract::{Jitter, RetryRule};
use std::time::Duration;

/// Returns the wait after the attempt that used slot `retry_index`, or `None` when the schedule has no more. `random` is uniform in
/// [0, 1).
pub fn delay_after(retry: &RetryRule, retry_index: u32, random: f64) -> Option<Duration> {
    retry.waits.get(retry_index as usize).map(|&wait| apply_jitter(wait, retry.jitter, random))
}

fn apply_jitter(wait: Duration, jitter: Jitter, random: f64) -> Duration {
    let factor = match jitter {
        Jitter::None => return wait,
        Jitter::Full => random,
        Jitter::Percent(percent) => 1.0 + f64::from(percent) / 100.0 * (2.0 * random - 1.0),
    };
    Duration::from_millis((wait.as_millis() as f64 * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fixtures;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_mins(1);

    proptest! {
        #[test]
        fn jitter_stays_within_its_bounds(random in 0.0..1.0f64, percent in 1u8..=100, secs in 1u64..2_592_000) {
            let wait = Duration::from_secs(secs);
            prop_assert_eq!(apply_jitter(wait, Jitter::None, random), wait);
            prop_assert!(apply_jitter(wait, Jitter::Full, random) <= wait);
            let spread = apply_jitter(wait, Jitter::Percent(percent), random).as_secs_f64();
            let reach = wait.as_secs_f64() * f64::from(percent) / 100.0 + 0.001;
            prop_assert!((spread - wait.as_secs_f64()).abs() <= reach);
        }
    }

    #[test]
    fn jitter_reaches_both_ends_and_is_even() {
        assert_eq!(apply_jitter(MINUTE, Jitter::Full, 0.0), Duration::ZERO);
        assert_eq!(apply_jitter(MINUTE, Jitter::Full, 0.5), Duration::from_secs(30));
        assert_eq!(apply_jitter(MINUTE, Jitter::Percent(20), 0.0), Duration::from_secs(48));
        assert_eq!(apply_jitter(MINUTE, Jitter::Percent(20), 0.5), MINUTE);
        assert_eq!(apply_jitter(MINUTE, Jitter::Percent(20), 0.999_999_9), Duration::from_secs(72));
    }

    #[test]
    fn the_schedule_ends_after_its_last_wait() {
        let retry = fixtures::zerofee().retry;
        assert_eq!(delay_after(&retry, 4, 0.3), Some(Duration::from_hours(8)));
        assert_eq!(delay_after(&retry, 5, 0.3), None);
        assert_eq!(delay_after(&retry, u32::MAX, 0.3), None);
    }
}

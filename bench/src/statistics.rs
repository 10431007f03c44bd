//! Percentiles, medians and the third best of a series. All of them pick a value that was measured, except an even median.

use crate::clock;
use serde::{Deserialize, Serialize};

/// Milliseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    pub n: usize,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Latency {
    pub fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let at = |share| round(clock::milliseconds(percentile(&nanos, share)));
        Self { n: nanos.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

/// Nearest rank: the smallest value that at least this share of all values does not exceed. 0 of an empty series.
pub fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// None of an empty series; the mean of the middle two of an even one.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values = ascending(values);
    let middle = values.len().checked_sub(1)? / 2;
    Some(f64::midpoint(values[middle], values[values.len() / 2]))
}

/// The third largest value. A disturbance only ever makes a run worse, so it says more than the mean and less luck is in it
/// than in the best. The smallest value of a series of one or two.
pub fn third_best(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values = ascending(values);
    let worst = *values.first()?;
    Some(values.iter().rev().nth(2).copied().unwrap_or(worst))
}

fn ascending(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Three digits behind the point, which is finer than anything here is measured.
pub fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(
            [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| percentile(&hundred, share)),
            [50, 90, 99, 100, 100]
        );
        assert_eq!([0.0, 0.5, 1.0].map(|share| percentile(&[7], share)), [7, 7, 7]);
        assert_eq!(percentile(&[], 0.5), 0);
    }

    #[test]
    fn a_latency_is_in_milliseconds_and_does_not_need_sorted_values() {
        let latency = Latency::of(vec![3_000_000, 1_000_000, 2_500_000]);
        assert_eq!((latency.n, latency.p50, latency.p99, latency.max), (3, 2.5, 3.0, 3.0));
        assert_eq!(Latency::of(vec![]), Latency::default());
    }

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn the_third_best_is_the_third_largest() {
        assert_eq!(third_best([5.0, 9.0, 1.0, 8.0, 7.0]), Some(7.0));
        assert_eq!(third_best([2.0, 1.0]), Some(1.0));
        assert_eq!(third_best([]), None);
    }
}

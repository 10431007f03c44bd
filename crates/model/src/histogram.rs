//! The buckets of histograms: each is twice as wide as the one before, so that noting a value costs two additions.

/// The last bucket with an upper bound holds values up to 2²⁷: two minutes in microseconds, a day and a half in
/// milliseconds.
pub const BUCKETS: usize = 28;

/// A snapshot of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// The number of values in each bucket, not cumulative.
    pub counts: [u64; BUCKETS],
    pub larger: u64,
    pub sum: u64,
}

impl HistogramSnapshot {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.larger
    }
}

/// Returns the bucket of a value; `BUCKETS` or more means the one for larger values.
pub const fn bucket(value: u64) -> usize {
    64 - value.saturating_sub(1).leading_zeros() as usize
}

/// Returns the largest value that a bucket holds.
pub const fn bound(bucket: usize) -> u64 {
    1 << bucket
}

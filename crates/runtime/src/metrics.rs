//! The metrics of the process: plain atomics that any module may update without waiting.
//!
//! Histograms have fixed buckets, each twice as wide as the one before, so that noting a value costs two additions.

use model::{
    histogram::{self, BUCKETS, HistogramSnapshot},
    outcome::OutcomeClass,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A histogram with the upper bounds 1, 2, 4, … and one bucket for larger values.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    larger: AtomicU64,
    sum: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, value: u64) {
        self.counts.get(histogram::bucket(value)).unwrap_or(&self.larger).fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed));
        HistogramSnapshot { counts, larger: self.larger.load(Relaxed), sum: self.sum.load(Relaxed) }
    }
}

/// The kinds of data that retention removes, each with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedKind {
    Events,
    Deliveries,
    Attempts,
    /// Payloads of events whose record stays.
    Payloads,
}

impl RemovedKind {
    pub const ALL: [Self; 4] = [Self::Events, Self::Deliveries, Self::Attempts, Self::Payloads];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Deliveries => "deliveries",
            Self::Attempts => "attempts",
            Self::Payloads => "payloads",
        }
    }
}

/// The results of sending a mail, each with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailResult {
    Sent,
    /// The server refused it for good.
    Refused,
    /// The server was down; tried again.
    Failed,
}

impl MailResult {
    pub const ALL: [Self; 3] = [Self::Sent, Self::Refused, Self::Failed];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The values that `/metrics` shows.
#[derive(Debug, Default)]
pub struct Metrics {
    accepted: AtomicU64,
    attempts: [AtomicU64; OutcomeClass::ALL.len()],
    in_flight: AtomicU64,
    waiting: AtomicU64,
    oldest_overdue_ms: AtomicU64,
    paused: AtomicU64,
    circuits_open: AtomicU64,
    ended_by_retention: AtomicU64,
    removed: [AtomicU64; RemovedKind::ALL.len()],
    mails: [AtomicU64; MailResult::ALL.len()],
    /// Notices that wait to be mailed, and to become operational webhooks.
    notices_waiting: [AtomicU64; 2],
    pub accept_us: Histogram,
    /// The time from acceptance (or `deliver_at`) to delivery.
    pub delivered_ms: Histogram,
    pub commit_commands: Histogram,
    pub commit_us: Histogram,
}

impl Metrics {
    /// Counts events that are durable now, without repeated ones.
    pub fn count_accepted(&self, events: u64) {
        self.accepted.fetch_add(events, Relaxed);
    }

    pub fn observe_accept(&self, us: u64) {
        self.accept_us.observe(us);
    }

    pub fn count_attempt(&self, class: OutcomeClass) {
        self.attempts[class as usize].fetch_add(1, Relaxed);
    }

    pub fn observe_delivered(&self, ms: u64) {
        self.delivered_ms.observe(ms);
    }

    pub fn observe_commit(&self, commands: u64, us: u64) {
        self.commit_commands.observe(commands);
        self.commit_us.observe(us);
    }

    pub fn set_in_flight(&self, deliveries: u64) {
        self.in_flight.store(deliveries, Relaxed);
    }

    pub fn set_waiting(&self, deliveries: u64) {
        self.waiting.store(deliveries, Relaxed);
    }

    /// Sets how long the most overdue delivery has been due; zero if none is.
    pub fn set_oldest_overdue(&self, ms: u64) {
        self.oldest_overdue_ms.store(ms, Relaxed);
    }

    /// Sets the number of paused endpoints, and of those with an open circuit.
    pub fn set_throttled_endpoints(&self, paused: u64, open: u64) {
        self.paused.store(paused, Relaxed);
        self.circuits_open.store(open, Relaxed);
    }

    pub fn throttled_endpoints(&self) -> (u64, u64) {
        (self.paused.load(Relaxed), self.circuits_open.load(Relaxed))
    }

    /// Counts deliveries that still waited when their event's retention ended.
    pub fn count_ended_by_retention(&self, deliveries: u64) {
        self.ended_by_retention.fetch_add(deliveries, Relaxed);
    }

    pub fn count_removed(&self, what: RemovedKind, count: u64) {
        self.removed[what as usize].fetch_add(count, Relaxed);
    }

    pub fn count_mail(&self, what: MailResult) {
        self.mails[what as usize].fetch_add(1, Relaxed);
    }

    pub fn mails_total(&self, what: MailResult) -> u64 {
        self.mails[what as usize].load(Relaxed)
    }

    pub fn set_notices_waiting(&self, mails: u64, webhooks: u64) {
        self.notices_waiting[0].store(mails, Relaxed);
        self.notices_waiting[1].store(webhooks, Relaxed);
    }

    /// Returns the notices that wait to be mailed, and to become operational webhooks.
    pub fn notices_waiting(&self) -> (u64, u64) {
        (self.notices_waiting[0].load(Relaxed), self.notices_waiting[1].load(Relaxed))
    }

    pub fn ended_by_retention_total(&self) -> u64 {
        self.ended_by_retention.load(Relaxed)
    }

    pub fn removed_total(&self, what: RemovedKind) -> u64 {
        self.removed[what as usize].load(Relaxed)
    }

    pub fn accepted_total(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    pub fn attempts_total(&self, class: OutcomeClass) -> u64 {
        self.attempts[class as usize].load(Relaxed)
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    pub fn oldest_overdue_ms(&self) -> u64 {
        self.oldest_overdue_ms.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_falls_into_the_first_bucket_that_holds_it(value: u64) {
            let histogram = Histogram::default();
            histogram.observe(value);
            let reading = histogram.snapshot();
            let expected = (0..BUCKETS).find(|&bucket| value <= histogram::bound(bucket));
            let found = reading.counts.iter().position(|&count| count == 1);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(reading.larger, u64::from(expected.is_none()));
            prop_assert_eq!(reading.count(), 1);
        }
    }

    #[test]
    fn every_class_has_a_counter_of_its_own() {
        let metrics = Metrics::default();
        for (times, class) in OutcomeClass::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| metrics.count_attempt(class));
        }
        for (times, class) in OutcomeClass::ALL.into_iter().enumerate() {
            assert_eq!(metrics.attempts_total(class), times as u64, "{class:?}");
        }
    }
}

//! The health of an endpoint: the effect of each counted attempt, and the rules of its contract. Pure.
//!
//! Rules that disable an endpoint count and time only what failed since its last success, so a flapping endpoint is never
//! disabled; the windows of the statistics can only make it degraded. Durations are measured in outage-adjusted time
//! (`outage_detector`), which excludes local outages; people are shown the wall clock.

mod events;
#[cfg(test)]
mod tests;

pub use events::{HealthContext, HealthEvent, disabled_manually};

use super::{
    circuit_breaker::PausedUntil,
    contract::{Contract, HealthRule, NoticeChannel, Percent},
    statistics::Counters,
    time::Timestamp,
};
use std::time::Duration;

/// Failed attempts in a row that make an endpoint failing.
pub const FAILING_AFTER_FAILURES: u32 = 10;
/// Successes in a row after which an endpoint is not failing any more.
pub const RECOVERED_AFTER_SUCCESSES: u32 = 3;
/// With fewer failed attempts, an endpoint is neither warned nor disabled for failing a long time.
pub const FAILURES_BEFORE_WARNING_MIN: u32 = 5;
/// A window with fewer attempts or ended deliveries is not evaluated.
const WINDOW_SAMPLES_MIN: u64 = 10;
/// The percentage points by which the share must fall below the limit before an endpoint is no longer degraded.
const DEGRADED_HYSTERESIS_PERCENT: u64 = 20;
/// This many in the last hour without a failure also end degradation.
const RECOVERED_SAMPLES_MIN: u64 = 5;
/// The share of failed attempts of the last hour that makes an endpoint degraded, if its contract has no share of its own.
const DEGRADED_ABOVE_DEFAULT: Percent = Percent(50);

/// A health sample: a counted attempt as the delivery worker observed it.
#[derive(Clone, Copy, Debug)]
pub struct HealthSample {
    /// Outage-adjusted time when it ended.
    pub adjusted_time: Duration,
    /// The pause that the receiver asked for.
    pub paused: Option<PausedUntil>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    Healthy,
    Degraded,
    Failing,
}

impl HealthState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Failing => "failing",
        }
    }
}

/// An instant on both the wall clock and the outage-adjusted clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockedTime {
    pub at: Timestamp,
    pub adjusted_time: Duration,
}

/// The health of one endpoint: failures since its last success, and its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failed attempts in a row.
    pub consecutive_failures: u32,
    /// Events that ended failed in a row, in the order of their end.
    pub failed_events: u32,
    pub first_failure: Option<ClockedTime>,
    pub last_error: Option<String>,
    /// When its owner was warned that it will be disabled.
    pub warned_at: Option<ClockedTime>,
    /// Successes in a row, counted until it is healthy again.
    pub successes: u32,
    pub degraded_since: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
    /// When its last trouble ended, if it had any.
    pub healthy_since: Option<Timestamp>,
    pub trouble_notice: Option<TroubleNotice>,
    /// The longest pause that the receiver asked for; it may be over.
    pub paused: Option<PausedUntil>,
}

/// A notification of trouble that was sent. Its end will be notified over the same channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TroubleNotice {
    pub channel: NoticeChannel,
    /// When the trouble began.
    pub since: Timestamp,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct FailedAttempt<'a> {
    pub at: Timestamp,
    pub adjusted_time: Duration,
    pub error: &'a str,
    /// Whether the delivery ended with it.
    pub ends_event: bool,
}

/// The statistics that health is evaluated by.
#[derive(Clone, Debug, Default)]
pub struct HealthWindows {
    pub last_hour: Counters,
    /// Counters over the contract's `health.degraded_window`.
    pub degraded: Counters,
}

impl Health {
    pub const fn state(&self) -> HealthState {
        match (self.failing_since, self.degraded_since) {
            (Some(_), _) => HealthState::Failing,
            (None, Some(_)) => HealthState::Degraded,
            (None, None) => HealthState::Healthy,
        }
    }

    /// Returns the start of its current state; `None` if it never had trouble.
    pub const fn state_since(&self) -> Option<Timestamp> {
        match self.state() {
            HealthState::Failing => self.failing_since,
            HealthState::Degraded => self.degraded_since,
            HealthState::Healthy => self.healthy_since,
        }
    }

    /// Whether a success changes nothing.
    pub const fn has_no_trouble(&self) -> bool {
        self.consecutive_failures == 0
            && self.failed_events == 0
            && self.failing_since.is_none()
            && self.degraded_since.is_none()
            && self.trouble_notice.is_none()
    }

    /// Records a success. Resets everything that the rules for disabling look at.
    pub fn succeeded(&mut self, at: Timestamp) -> Option<HealthEvent> {
        let was = self.state();
        (self.consecutive_failures, self.failed_events) = (0, 0);
        (self.first_failure, self.warned_at) = (None, None);
        self.successes = self.successes.saturating_add(1);
        if self.successes >= RECOVERED_AFTER_SUCCESSES {
            self.failing_since = None;
        }
        self.recover(was, at)
    }

    pub fn failed(&mut self, failure: &FailedAttempt<'_>, contract: &Contract) -> Vec<HealthEvent> {
        let rule = &contract.health;
        let FailedAttempt { at, adjusted_time: clock, error, ends_event } = *failure;
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        self.successes = 0;
        self.first_failure.get_or_insert(ClockedTime { at, adjusted_time: clock });
        self.last_error = Some(error.to_owned());
        if ends_event {
            self.failed_events = self.failed_events.saturating_add(1);
        }
        if let Some(off) = self.check_failed_events(rule).or_else(|| self.check_failing_duration(rule, clock))
        {
            self.record_notification(
                contract.notices.disabled,
                self.first_failure.map_or(at, |first| first.at),
            );
            return vec![off];
        }
        let mut events = Vec::new();
        if self.consecutive_failures >= FAILING_AFTER_FAILURES && self.failing_since.is_none() {
            self.failing_since = Some(at);
            let since = self.first_failure.map_or(at, |first| first.at);
            // A contract that defines degraded has defined when people are notified.
            if rule.degraded_above.is_none() && self.record_notification(contract.notices.degraded, since) {
                events.push(HealthEvent::Failing { in_a_row: self.consecutive_failures, since });
            }
        }
        if let Some(off_in) = self.warning_due(rule, clock) {
            self.warned_at = Some(ClockedTime { at, adjusted_time: clock });
            let since = self.first_failure.map_or(at, |first| first.at);
            self.record_notification(contract.notices.off_warning, since);
            events.push(HealthEvent::Warning { since, disables_at: at.plus(off_in) });
        }
        events
    }

    /// Records a pause that the receiver asked for. The later end counts.
    pub fn record_pause(&mut self, requested: Option<PausedUntil>) {
        self.paused = self.paused.into_iter().chain(requested).max_by_key(|paused| paused.until);
    }

    /// Records an event that ended failed without another attempt, when its final wait was over.
    pub fn record_failed_event(&mut self) {
        self.failed_events = self.failed_events.saturating_add(1);
    }

    /// Evaluates the statistics, and the number of failed events, as some end without an attempt.
    pub fn evaluate(
        &mut self,
        windows: &HealthWindows,
        contract: &Contract,
        at: Timestamp,
    ) -> Option<HealthEvent> {
        let rule = &contract.health;
        if let Some(off) = self.check_failed_events(rule) {
            return Some(off);
        }
        let (all, bad, above) = match rule.degraded_above {
            Some(share) => (windows.degraded.counted_ends(), windows.degraded.dead_by_receiver(), share),
            None => (windows.last_hour.attempts(), windows.last_hour.failed, DEGRADED_ABOVE_DEFAULT),
        };
        let (lately, bad_lately) = match rule.degraded_above {
            Some(_) => (windows.last_hour.counted_ends(), windows.last_hour.dead_by_receiver()),
            None => (all, bad),
        };
        let above = u64::from(above.0);
        let below = above.saturating_sub(DEGRADED_HYSTERESIS_PERCENT);
        let is_better_lately = lately >= RECOVERED_SAMPLES_MIN && bad_lately * 100 <= below * lately;
        let is_well_lately = lately >= RECOVERED_SAMPLES_MIN && bad_lately == 0;
        match self.degraded_since {
            None if all >= WINDOW_SAMPLES_MIN && bad * 100 > above * all && !is_better_lately => {
                self.degraded_since = Some(at);
                let since = self.first_failure.map_or(at, |first| first.at);
                let percent = bad * 100 / all;
                self.record_notification(contract.notices.degraded, since)
                    .then_some(HealthEvent::Degraded { percent, since })
            }
            Some(_) if (all > 0 && bad * 100 <= below * all) || is_well_lately => {
                let was = self.state();
                self.degraded_since = None;
                self.recover(was, at)
            }
            _ => None,
        }
    }

    /// How long until it is disabled if no attempt succeeds.
    pub fn disables_in(&self, rule: &HealthRule, clock: Duration) -> Option<Duration> {
        let (first, off_after) = (self.first_failure?, rule.off_after_failing_for?);
        let left = off_after.saturating_sub(clock.saturating_sub(first.adjusted_time));
        let Some(warning_after) = rule.warning_after else { return Some(left) };
        let notice = off_after.saturating_sub(warning_after);
        let warned_for =
            self.warned_at.map_or(Duration::ZERO, |warned| clock.saturating_sub(warned.adjusted_time));
        Some(left.max(notice.saturating_sub(warned_for)))
    }

    fn check_failed_events(&self, rule: &HealthRule) -> Option<HealthEvent> {
        let events = rule.off_after_failed_events.filter(|events| self.failed_events >= *events)?;
        Some(HealthEvent::TooManyFailedEvents { events, since: self.first_failure.map(|first| first.at) })
    }

    fn check_failing_duration(&self, rule: &HealthRule, clock: Duration) -> Option<HealthEvent> {
        let is_due = self.disables_in(rule, clock)?.is_zero()
            && self.consecutive_failures >= FAILURES_BEFORE_WARNING_MIN;
        let is_warned = rule.warning_after.is_none() || self.warned_at.is_some();
        let since = self.first_failure?.at;
        (is_due && is_warned).then_some(HealthEvent::FailingTooLong { since })
    }

    fn warning_due(&self, rule: &HealthRule, clock: Duration) -> Option<Duration> {
        let (first, warning_after) = (self.first_failure?, rule.warning_after?);
        let is_due = clock.saturating_sub(first.adjusted_time) >= warning_after;
        let is_new = self.warned_at.is_none() && self.consecutive_failures >= FAILURES_BEFORE_WARNING_MIN;
        self.disables_in(rule, clock).filter(|_| is_due && is_new)
    }

    /// Records that people are notified. Returns whether this is the first notification of this trouble.
    fn record_notification(&mut self, by: NoticeChannel, since: Timestamp) -> bool {
        let before = self.trouble_notice;
        let by = match before.map(|notified| notified.channel) {
            Some(NoticeChannel::Email) => NoticeChannel::Email,
            Some(NoticeChannel::List) if by == NoticeChannel::None => NoticeChannel::List,
            _ => by,
        };
        self.trouble_notice =
            Some(TroubleNotice { channel: by, since: before.map_or(since, |notified| notified.since) });
        before.is_none()
    }

    fn recover(&mut self, was: HealthState, at: Timestamp) -> Option<HealthEvent> {
        if self.state() != HealthState::Healthy {
            return None;
        }
        if was != HealthState::Healthy {
            self.healthy_since = Some(at);
        }
        // Only a success is notified as recovery.
        if self.consecutive_failures > 0 {
            return None;
        }
        (self.last_error, self.successes) = (None, 0);
        self.trouble_notice
            .take()
            .map(|notified| HealthEvent::Recovered { since: notified.since, by: notified.channel })
    }
}

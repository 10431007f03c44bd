//! Whether rules disabled endpoints when they had to and only then, by the checker's own arithmetic on what was attempted.
//!
//! A rule may count from the last success, or from when a person enabled the endpoint. Time without a process does not
//! count; a kill may take a little more of it.

use super::evidence::{DeliveryFile, Evidence, ReceiverFacts};
use crate::{
    event_log::{ProcessEnd, Promise, Violation},
    plan::{AvailabilityAction, SECOND},
    process::HEALTH_EVERY,
};
use posthaste::domain::{
    contract::ResponseMeaning,
    delivery::{DeliveryState, EndReason},
    endpoint::{Disabled, DisabledReason},
    id::EndpointId,
    outcome::OutcomeClass,
    time::Timestamp,
};
use rusqlite::Connection;
use std::time::Duration;

/// Fewer failed attempts are no reason for a warning.
const FAILURES_MIN: usize = 5;

/// Returns every time at which a rule disabled the endpoint.
pub(crate) fn ruled_off(disk: &Connection, endpoint: EndpointId) -> Vec<Timestamp> {
    let mut rows = disk.prepare("SELECT disabled FROM went_off WHERE endpoint = ?1 ORDER BY rowid").unwrap();
    let rows = rows.query_map([endpoint.as_i64()], |row| row.get::<_, String>(0)).unwrap();
    let off = rows.map(|off| serde_json::from_str::<Disabled>(&off.unwrap()).unwrap());
    off.filter(|off| matches!(off.reason, DisabledReason::Rule(_))).map(|off| off.at).collect()
}

pub(crate) fn warned(disk: &Connection, endpoint: EndpointId) -> Vec<Timestamp> {
    let mut rows = disk.prepare("SELECT at FROM warned WHERE endpoint = ?1 ORDER BY rowid").unwrap();
    let read = |row: &rusqlite::Row<'_>| row.get(0).map(Timestamp::from_millis);
    rows.query_map([endpoint.as_i64()], read).unwrap().map(Result::unwrap).collect()
}

pub(crate) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    for number in 0..evidence.receivers.len() {
        let story = EndpointHistory::of(evidence, number);
        for what in story.wrong_offs().into_iter().chain(story.wrong_warnings()).chain(story.missed_offs()) {
            let what = format!("receiver-{number}: {what}");
            violations.push(Violation { promise: Promise::Availability, what });
        }
    }
}

/// Facts about one endpoint, in milliseconds.
struct EndpointHistory<'a> {
    receiver: &'a ReceiverFacts,
    files: Vec<&'a DeliveryFile<'a>>,
    /// Ends of attempts that count, in order, and whether they succeeded.
    attempts: Vec<(i64, bool)>,
    /// Ends of attempts that disabled it by themselves.
    gone: Vec<i64>,
    /// When a person enabled it while it was disabled.
    switched_on: Vec<i64>,
    /// While no process was there.
    down: Vec<(i64, i64)>,
    /// How much more time kills may have taken.
    slack: i64,
    /// Only rules disabled or enabled it.
    has_only_rules: bool,
    is_troubled: bool,
    /// A request could not be sent: time stood still, for how long is not known here.
    has_local: bool,
}

impl<'a> EndpointHistory<'a> {
    fn of(evidence: &'a Evidence<'_>, number: usize) -> Self {
        let event_log = evidence.event_log;
        let is_test =
            |file: &&DeliveryFile<'_>| evidence.events.get(&file.event).is_some_and(|event| event.is_test);
        let files: Vec<_> =
            evidence.files.iter().filter(|file| file.receiver == number && !is_test(file)).collect();
        let (mut attempts, mut gone) = (Vec::new(), Vec::new());
        let switches_off = |status| {
            evidence.receivers[number].contract.answers.meaning(status) == ResponseMeaning::DisableEndpoint
        };
        for file in &files {
            for row in file.rows.iter().filter(|row| row.class.is_numbered()) {
                let ended_at = file.post_of(row).and_then(|post| post.ended_at);
                attempts.extend(ended_at.map(|at| (at.as_millis(), row.class == OutcomeClass::Ok)));
                gone.extend(
                    ended_at.map(Timestamp::as_millis).filter(|_| row.status.is_some_and(switches_off)),
                );
            }
        }
        attempts.sort_unstable();
        let manual: Vec<_> =
            event_log.availability_changes.iter().filter(|fact| fact.endpoint == number).collect();
        // Enabling an enabled endpoint changes nothing.
        let receiver = &evidence.receivers[number];
        let was_off = |at: Timestamp| receiver.availability_changes.is_certainly_disabled(at.as_millis());
        let ons = manual.iter().filter(|fact| fact.kind == AvailabilityAction::On && was_off(fact.called_at));
        let mut down = Vec::new();
        for (index, life) in event_log.lives.iter().enumerate() {
            let Some(ended) = life.ended_at else { continue };
            let ready = event_log.lives[index + 1..].iter().find_map(|next| next.ready_at);
            let ready = ready.map_or(i64::MAX, Timestamp::as_millis);
            // A process that died before it was ready ended no time that was not over already.
            if down.last().is_none_or(|(_, known)| *known != ready) {
                down.push((ended.as_millis(), ready));
            }
        }
        let kills =
            event_log.lives.iter().filter(|life| life.ending != Some(ProcessEnd::Stopped)).count() as i64;
        let has_local =
            evidence.files.iter().any(|file| file.rows.iter().any(|row| row.class == OutcomeClass::Local));
        let is_plain =
            manual.iter().all(|fact| fact.kind == AvailabilityAction::Touch) && event_log.troubles.is_empty();
        Self {
            receiver,
            files,
            attempts,
            gone,
            switched_on: ons.map(|fact| fact.called_at.as_millis()).collect(),
            down,
            slack: SECOND + kills * HEALTH_EVERY.as_millis() as i64,
            has_only_rules: is_plain,
            is_troubled: !event_log.troubles.is_empty(),
            has_local,
        }
    }

    /// Returns the failures that may count at `at`: the ends of failed attempts since its last success or its being enabled.
    /// Attempts of the last second may have been written down in another order.
    fn failures(&self, at: i64) -> Vec<i64> {
        let successes =
            self.attempts.iter().filter(|(end, ok)| *ok && *end < at - SECOND).map(|(end, _)| *end);
        let ons = self.switched_on.iter().copied().filter(|on| *on <= at);
        let since = successes.chain(ons).max().unwrap_or(0);
        let failed = self.attempts.iter().filter(|(end, ok)| !ok && *end >= since && *end <= at);
        failed.map(|(end, _)| *end).collect()
    }

    /// Returns how much time with a process there was between the two.
    fn up(&self, from: i64, to: i64) -> i64 {
        let down: i64 = self.down.iter().map(|(start, end)| (to.min(*end) - from.max(*start)).max(0)).sum();
        to - from - down
    }

    fn wrong_offs(&self) -> Vec<String> {
        if self.is_troubled {
            return Vec::new();
        }
        let offs = self.receiver.disabled_by_rule.iter().map(|at| at.as_millis());
        offs.filter(|at| !self.too_many_events(*at) && !self.failed_too_long(*at))
            .map(|at| format!("switched off at {at} by no rule: failures {:?}", self.failures(at)))
            .collect()
    }

    /// Replayed deliveries may have ended any number of times.
    fn too_many_events(&self, at: i64) -> bool {
        let Some(events) = self.receiver.contract.health.off_after_failed_events else { return false };
        let failures = self.failures(at);
        let Some(first) = failures.first() else { return false };
        let may_have_ended = self.files.iter().filter(|file| {
            let ended = file.finished_at.map_or(i64::MAX, Timestamp::as_millis);
            let has_failed = file.rows.iter().any(|row| row.class != OutcomeClass::Ok);
            !file.asks.is_empty() || (has_failed && ended >= *first && ended <= at)
        });
        failures.len() >= events as usize && may_have_ended.count() >= events as usize
    }

    fn failed_too_long(&self, at: i64) -> bool {
        let health = &self.receiver.contract.health;
        let (Some(off_after), failures) = (health.off_after_failing_for, self.failures(at)) else {
            return false;
        };
        let (Some(first), off_after) = (failures.first().copied(), ms(off_after)) else { return false };
        let lasted = |from: i64| self.up(from, at) + SECOND;
        let is_warned = health.warning_after.is_none_or(|after| {
            let warned = self.receiver.warned.iter().map(|at| at.as_millis());
            warned.filter(|warned| *warned >= first).any(|warned| lasted(warned) >= off_after - ms(after))
        });
        failures.len() >= FAILURES_MIN && lasted(first) >= off_after && is_warned
    }

    fn wrong_warnings(&self) -> Vec<String> {
        let warning_after = self.receiver.contract.health.warning_after.map_or(i64::MAX, ms);
        let is_right = |at: i64| {
            let failures = self.failures(at);
            failures.len() >= FAILURES_MIN && self.up(failures[0], at) + SECOND >= warning_after
        };
        let warned = self.receiver.warned.iter().map(|at| at.as_millis()).filter(|_| !self.is_troubled);
        warned.filter(|at| !is_right(*at)).map(|at| format!("warned at {at} without a reason")).collect()
    }

    fn missed_offs(&self) -> Option<String> {
        if !self.has_only_rules {
            return None;
        }
        let disabled = self.receiver.disabled_by_rule.first().map_or(i64::MAX, |at| at.as_millis());
        let must_be_off = self.must_be_off_for_events().into_iter().chain(self.must_be_off_for_time()).min();
        must_be_off
            // The last failure may have been an answer that disables it by itself.
            .filter(|at| !self.receiver.availability_changes.is_certainly_disabled(*at) && disabled > *at)
            .filter(|at| !self.gone.contains(at))
            .map(|at| format!("should have been switched off by {at}, and was at {disabled}"))
    }

    /// Returns when the last of too many events ended, of those whose end is known for certain; any success resets the
    /// count.
    fn must_be_off_for_events(&self) -> Option<i64> {
        let events = self.receiver.contract.health.off_after_failed_events?;
        let failed = self.files.iter().filter(|file| {
            let reason = matches!(file.reason, Some(EndReason::Exhausted | EndReason::RefusedByReceiver));
            file.state == DeliveryState::Dead && reason && file.asks.is_empty()
        });
        let failed = failed.filter_map(|file| Some((file.finished_at?.as_millis(), true)));
        let succeeded = self.attempts.iter().filter(|(_, ok)| *ok).map(|(end, _)| (*end, false));
        let mut ends: Vec<(i64, bool)> = failed.chain(succeeded).collect();
        ends.sort_unstable();
        let mut in_a_row = 0;
        ends.into_iter().find_map(|(at, is_failed)| {
            in_a_row = if is_failed { in_a_row + 1 } else { 0 };
            (in_a_row == events).then_some(at)
        })
    }

    /// Returns the first failed attempt after every condition of the rule certainly held.
    fn must_be_off_for_time(&self) -> Option<i64> {
        let health = Some(&self.receiver.contract.health).filter(|_| !self.has_local)?;
        let (off_after, warning_after) = (ms(health.off_after_failing_for?), ms(health.warning_after?));
        let certain = |from: i64, to: i64| self.up(from, to) - self.slack;
        let failed = self.attempts.iter().filter(|(_, ok)| !ok).map(|(end, _)| *end);
        failed
            .filter(|at| {
                let failures = self.failures(*at);
                let warned_by = failures.iter().enumerate().find(|(index, end)| {
                    *index + 1 >= FAILURES_MIN && certain(failures[0], **end) >= warning_after
                });
                let is_long = certain(failures[0], *at) >= off_after;
                is_long
                    && warned_by.is_some_and(|(_, warned)| certain(*warned, *at) >= off_after - warning_after)
            })
            .min()
    }
}

fn ms(duration: Duration) -> i64 {
    duration.as_millis() as i64
}

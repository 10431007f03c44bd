//! Tests of the health rules at their edges and of their invariants: a success resets, no endpoint is disabled unwarned, states
//! do not flap.

use super::*;
use crate::{
    contract::{OverrideLevel, fixtures},
    notice::NoticeKind,
};
use proptest::prelude::*;
use serde_json::json;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const HOUR: Duration = Duration::from_hours(1);

/// A failure this many hours after the start, on both clocks.
fn failure(hours: u64, ends_event: bool) -> FailedAttempt<'static> {
    FailedAttempt {
        at: START.plus(HOUR * hours as u32),
        adjusted_time: HOUR * hours as u32,
        error: "HTTP 500",
        ends_event,
    }
}

fn counters(ended: u64, dead: u64) -> Counters {
    Counters { delivered: ended - dead, dead, succeeded: ended - dead, failed: dead, ..Counters::default() }
}

fn is_disabled(events: &HealthEvent) -> bool {
    events.disabled(&fixtures::standard(), START).is_some()
}

#[test]
fn ten_failed_events_disable_a_zerofee_endpoint() {
    let zerofee = fixtures::zerofee();
    let mut health = Health::default();
    for event in 0..9 {
        assert!(!health.failed(&failure(event, false), &zerofee).iter().any(is_disabled));
        assert!(!health.failed(&failure(event, true), &zerofee).iter().any(is_disabled), "{event}");
    }
    let events = health.failed(&failure(9, true), &zerofee);
    assert_eq!(events, [HealthEvent::TooManyFailedEvents { events: 10, since: Some(START) }]);
    let off = events[0].disabled(&zerofee, START).unwrap();
    assert_eq!((off.reason.name(), off.by.as_ref().unwrap().id()), ("auto_disabled_failures", "posthaste"));
}

#[test]
fn bastionary_warns_at_48_hours_and_disables_at_72_standard_at_60_and_120() {
    for (contract, warned_at, disables_at) in
        [(fixtures::bastionary(), 48, 72), (fixtures::standard(), 60, 120)]
    {
        let mut health = Health::default();
        for hour in 0..disables_at {
            let events = health.failed(&failure(hour, true), &contract);
            let warning =
                HealthEvent::Warning { since: START, disables_at: START.plus(HOUR * disables_at as u32) };
            assert_eq!(events.contains(&warning), hour == warned_at, "{} at {hour} h", contract.name);
            assert!(!events.iter().any(is_disabled), "{} at {hour} h", contract.name);
        }
        assert_eq!(health.disables_in(&contract.health, HOUR * (disables_at as u32 - 1)), Some(HOUR));
        let events = health.failed(&failure(disables_at, true), &contract);
        assert_eq!(events, [HealthEvent::FailingTooLong { since: START }], "{}", contract.name);
    }
}

#[test]
fn a_late_warning_delays_disabling_and_few_failures_never_disable() {
    let bastionary = fixtures::bastionary();
    let mut health = Health::default();
    health.failed(&failure(0, true), &bastionary);
    for hour in [100, 101, 102] {
        assert_eq!(health.failed(&failure(hour, true), &bastionary), [], "{hour}");
    }
    let events = health.failed(&failure(103, true), &bastionary);
    assert_eq!(events, [HealthEvent::Warning { since: START, disables_at: START.plus(HOUR * 127) }]);
    assert_eq!(health.failed(&failure(126, true), &bastionary), []);
    assert_eq!(
        health.failed(&failure(127, true), &bastionary),
        [HealthEvent::FailingTooLong { since: START }]
    );
}

#[test]
fn local_outages_delay_the_warning_and_the_disabling() {
    let bastionary = fixtures::bastionary();
    let mut health = Health::default();
    // Three days without a process: the wall clock advanced, the adjusted clock did not.
    for hour in 0..10 {
        health.failed(&failure(hour, true), &bastionary);
    }
    let back =
        |hours: u64| FailedAttempt { at: START.plus(HOUR * (hours as u32 + 72)), ..failure(hours, true) };
    assert!(
        health
            .failed(&back(10), &bastionary)
            .iter()
            .all(|events| !matches!(events, HealthEvent::Warning { .. }))
    );
    let events = health.failed(&back(48), &bastionary);
    assert_eq!(events, [HealthEvent::Warning { since: START, disables_at: START.plus(HOUR * (72 + 72)) }]);
}

#[test]
fn a_contract_without_warnings_disables_without_one() {
    let overrides = json!({ "health": { "off_after_failing_for": "2h", "warning_after": null } });
    let contract = fixtures::standard().with_overrides(&overrides, OverrideLevel::App).unwrap();
    let mut health = Health::default();
    for _ in 0..9 {
        assert!(!health.failed(&failure(0, false), &contract).iter().any(is_disabled));
    }
    assert!(health.failed(&failure(2, false), &contract).iter().any(is_disabled));
}

#[test]
fn ten_failures_are_failing_and_three_successes_recover_over_the_same_channel() {
    let standard = fixtures::standard();
    let mut health = Health::default();
    for _ in 0..9 {
        assert_eq!(health.failed(&failure(0, false), &standard), []);
    }
    assert_eq!(
        health.failed(&failure(1, false), &standard),
        [HealthEvent::Failing { in_a_row: 10, since: START }]
    );
    assert_eq!((health.state(), health.state_since()), (HealthState::Failing, Some(START.plus(HOUR))));
    assert_eq!(health.failed(&failure(1, false), &standard), [], "reported once");
    for _ in 1..RECOVERED_AFTER_SUCCESSES {
        assert_eq!((health.succeeded(START), health.state()), (None, HealthState::Failing));
    }
    let recovered = HealthEvent::Recovered { since: START, by: NoticeChannel::List };
    assert_eq!(health.succeeded(START.plus(HOUR)), Some(recovered));
    assert!(health.has_no_trouble());
    assert_eq!((health.state(), health.state_since()), (HealthState::Healthy, Some(START.plus(HOUR))));
    // A contract that defines degraded itself gets no notice of failing.
    let mut quiet = Health::default();
    (0..20).for_each(|_| assert_eq!(quiet.failed(&failure(0, false), &fixtures::bastionary()), []));
    assert_eq!(quiet.state(), HealthState::Failing);
}

#[test]
fn bastionary_is_degraded_above_80_percent_of_ten_and_not_before() {
    let bastionary = fixtures::bastionary();
    let evaluate = |health: &mut Health, day: Counters, hour: Counters| {
        health.evaluate(&HealthWindows { last_hour: hour, degraded: day }, &bastionary, START)
    };
    let mut health = Health::default();
    for (ended, dead) in [(9, 9), (10, 8), (100, 80)] {
        assert_eq!(
            evaluate(&mut health, counters(ended, dead), Counters::default()),
            None,
            "{dead} of {ended}"
        );
    }
    assert_eq!(evaluate(&mut health, counters(100, 81), counters(5, 0)), None, "it has recovered already");
    let degraded = HealthEvent::Degraded { percent: 81, since: START };
    assert_eq!(evaluate(&mut health, counters(100, 81), counters(20, 20)), Some(degraded));
    assert_eq!(evaluate(&mut health, counters(100, 61), counters(20, 1)), None, "hardly better");
    assert_eq!(
        evaluate(&mut health, Counters::default(), Counters::default()),
        None,
        "nothing worked meanwhile"
    );
    let recovered = HealthEvent::Recovered { since: START, by: NoticeChannel::Email };
    assert_eq!(evaluate(&mut health, counters(100, 60), counters(20, 1)), Some(recovered));
    evaluate(&mut health, counters(100, 99), counters(20, 20));
    assert_eq!(
        evaluate(&mut health, counters(110, 99), counters(5, 0)),
        Some(recovered),
        "the last hour was well"
    );
}

#[test]
fn by_default_more_than_half_of_ten_attempts_within_an_hour_is_degraded() {
    let standard = fixtures::standard();
    let evaluate = |health: &mut Health, hour: Counters| {
        health.evaluate(&HealthWindows { last_hour: hour, ..HealthWindows::default() }, &standard, START)
    };
    let mut health = Health::default();
    assert_eq!(evaluate(&mut health, counters(10, 5)), None);
    assert!(matches!(
        evaluate(&mut health, counters(10, 6)),
        Some(HealthEvent::Degraded { percent: 60, .. })
    ));
    assert_eq!(evaluate(&mut health, counters(10, 4)), None);
    assert!(matches!(evaluate(&mut health, counters(10, 3)), Some(HealthEvent::Recovered { .. })));
}

#[test]
fn events_that_end_without_an_attempt_count_as_failed() {
    let overrides = json!({ "health": { "off_after_failed_events": 2 } });
    let contract = fixtures::orientedos().with_overrides(&overrides, OverrideLevel::App).unwrap();
    let mut health = Health::default();
    health.record_failed_event();
    assert_eq!(health.evaluate(&HealthWindows::default(), &contract, START), None);
    health.record_failed_event();
    assert!(
        health
            .evaluate(&HealthWindows::default(), &contract, START)
            .is_some_and(|events| is_disabled(&events))
    );
}

#[test]
fn notices_name_the_trouble_its_start_and_the_last_error() {
    let bastionary = fixtures::bastionary();
    let (app, endpoint) = (crate::id::AppId::from_i64(1), crate::id::EndpointId::from_i64(2));
    let about =
        HealthContext { app, endpoint, contract: &bastionary, at: START, last_error: Some("HTTP 503") };
    let disables_at = START.plus(HOUR * 24);
    let warning = HealthEvent::Warning { since: START, disables_at }.notice(&about);
    assert_eq!((warning.kind, warning.channel), (NoticeKind::EndpointWarning, NoticeChannel::Email));
    assert!(warning.details.text.contains("since 2027-01-15T08:00:00Z"), "{}", warning.details.text);
    assert!(warning.details.text.contains("at 2027-01-16T08:00:00Z"), "{}", warning.details.text);
    assert_eq!((warning.details.since, warning.details.disables_at), (Some(START), Some(disables_at)));
    assert_eq!(warning.details.last_error.as_deref(), Some("HTTP 503"));
    let recovered = HealthEvent::Recovered { since: START, by: NoticeChannel::Email }.notice(&about);
    assert_eq!((recovered.kind, recovered.details.last_error), (NoticeKind::EndpointRecovered, None));
}

/// Returns a contract with rules of all kinds.
fn everything() -> Contract {
    let health = json!({
        "off_after_failed_events": 12, "off_after_failing_for": "20h", "warning_after": "10h",
        "degraded_above": "60%", "degraded_window": "24h",
    });
    fixtures::standard().with_overrides(&json!({ "health": health }), OverrideLevel::App).unwrap()
}

proptest! {
    #[test]
    fn a_success_resets_and_disabling_needs_a_warning_and_enough_failures(
        steps in prop::collection::vec((0_u64..4, 0_u8..8), 1..150),
    ) {
        let contract = everything();
        let mut health = Health::default();
        let (mut hours, mut failures, mut ended, mut warned_at, mut first) = (0, 0, 0, None, None);
        for (passed, what) in steps {
            hours += passed;
            if what == 0 {
                health.succeeded(START.plus(HOUR * hours as u32));
                prop_assert_eq!((health.consecutive_failures, health.failed_events), (0, 0));
                prop_assert_eq!((health.first_failure, health.warned_at), (None, None));
                (failures, ended, warned_at, first) = (0, 0, None, None);
                continue;
            }
            let ends_event = what == 1;
            let events = health.failed(&failure(hours, ends_event), &contract);
            failures += 1;
            ended += u32::from(ends_event);
            let first = *first.get_or_insert(hours);
            for events in events {
                match events {
                    HealthEvent::Warning { .. } => {
                        prop_assert!(failures >= FAILURES_BEFORE_WARNING_MIN && hours - first >= 10 && warned_at.is_none());
                        warned_at = Some(hours);
                    }
                    HealthEvent::FailingTooLong { .. } => {
                        prop_assert!(hours - first >= 20 && warned_at.is_some_and(|at| hours - at >= 10));
                        return Ok(());
                    }
                    HealthEvent::TooManyFailedEvents { .. } => {
                        prop_assert!(ended >= 12);
                        return Ok(());
                    }
                    _ => {}
                }
            }
            prop_assert!(ended < 12, "it should be off");
            prop_assert!(hours - first < 20 || warned_at.is_none_or(|at| hours - at < 10), "it should be off");
        }
    }

    #[test]
    fn equal_windows_never_flap_between_degraded_and_healthy(
        ended in 0_u64..60, dead in 0_u64..60, lately in 0_u64..20, dead_lately in 0_u64..20, own: bool,
    ) {
        let contract = if own { everything() } else { fixtures::standard() };
        let windows = HealthWindows {
            last_hour: counters(lately.max(dead_lately), dead_lately),
            degraded: counters(ended.max(dead), dead),
        };
        let mut health = Health::default();
        health.evaluate(&windows, &contract, START);
        let state_before = health.state();
        for _ in 0..3 {
            health.evaluate(&windows, &contract, START);
            prop_assert_eq!(health.state(), state_before);
        }
        let mut other = Health { degraded_since: Some(START), ..Health::default() };
        other.evaluate(&windows, &contract, START);
        let left = other.state();
        other.evaluate(&windows, &contract, START);
        prop_assert_eq!(other.state(), left, "what it left it does not come back to");
    }
}

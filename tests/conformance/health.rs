//! Health and statistics: written with the attempt, exact after a crash, deleted with their endpoint or app.

use crate::fixture::{Fixture, NOW, after, attempt, dead, retry_at};
use posthaste::{
    domain::{
        circuit_breaker::PausedUntil,
        contract::{Contract, OverrideLevel, WaitingWhenDisabled},
        delivery::DeliveryState,
        endpoint::{DisabledBy, DisabledReason},
        health,
        id::EndpointId,
        outcome::OutcomeClass,
        ports::LeasedDelivery,
        time::Timestamp,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::{
        deliveries::{DeliveryAction, DeliveryResult},
        health::{HealthCandidate, HealthReport},
    },
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const CLOCK: Duration = Duration::from_secs(1000);

/// Returns the `standard` contract with these health rules.
pub(crate) fn contract(rules: &Value) -> Arc<Contract> {
    let standard = Contract::builtin().unwrap().swap_remove(0);
    Arc::new(standard.with_overrides(&json!({ "health": rules }), OverrideLevel::Operator).unwrap())
}

pub(crate) fn plain() -> Arc<Contract> {
    contract(&json!({}))
}

/// Makes the result of an attempt that counts.
pub(crate) fn counted(
    leased: LeasedDelivery,
    verdict: Verdict,
    contract: &Arc<Contract>,
    ended_at: Timestamp,
) -> DeliveryResult {
    let attempt = match verdict {
        Verdict::Delivered => attempt(OutcomeClass::Ok, 200),
        _ => attempt(OutcomeClass::Http, 500),
    };
    let (health_sample, contract) =
        (Some(health::HealthSample { adjusted_time: CLOCK, paused: None }), Some(contract.clone()));
    DeliveryResult {
        leased,
        attempts: vec![attempt],
        verdict,
        disable: None,
        health_sample,
        ended_at,
        contract,
    }
}

pub(crate) async fn record_counted(fixture: &mut Fixture, verdict: Verdict, contract: &Arc<Contract>) {
    let leased = fixture.leased().await;
    fixture.store().record_result(counted(leased, verdict, contract, after(1)));
    fixture.wait_until_idle().await;
}

async fn report(fixture: &Fixture, now: Timestamp) -> HealthReport {
    fixture.store().health(fixture.app, fixture.endpoint, now).await.unwrap()
}

pub(crate) async fn roll_up(fixture: &Fixture, now: Timestamp) -> Vec<EndpointId> {
    let rolled = fixture.store().roll_up(CLOCK, now).await.unwrap();
    assert!(!rolled.has_more);
    rolled.candidates
}

pub(crate) async fn evaluate(fixture: &Fixture, contract: &Arc<Contract>, now: Timestamp) {
    let candidate =
        HealthCandidate { app: fixture.app, endpoint: fixture.endpoint, contract: contract.clone() };
    fixture.store().evaluate_health(vec![candidate], now).await.unwrap();
    fixture.wait_until_idle().await;
}

pub(crate) const EXHAUSTED: Verdict =
    Verdict::Dead { reason: DeadReason::Exhausted, disable_endpoint: false };

pub(crate) async fn only_counted_attempts_are_in_the_windows_after_a_roll_up(mut fixture: Fixture) {
    let plain = plain();
    for verdict in [Verdict::Delivered, Verdict::Delivered, retry_at(after(60)), EXHAUSTED] {
        record_counted(&mut fixture, verdict, &plain).await;
    }
    // Without a health sample: a test, or a local failure.
    fixture.concluded(EXHAUSTED, attempt(OutcomeClass::Http, 500)).await;
    assert_eq!(report(&fixture, after(2)).await.hour.attempts(), 0, "not rolled up yet");
    assert_eq!(roll_up(&fixture, after(2)).await, [fixture.endpoint], "something failed");
    for _ in 0..2 {
        let report = report(&fixture, after(2)).await;
        for counters in [&report.hour, &report.day, &report.three_days] {
            assert_eq!(
                (counters.succeeded, counters.failed, counters.delivered, counters.dead_by_receiver()),
                (2, 2, 2, 1)
            );
            assert_eq!(counters.latency.values().sum::<u64>(), 4);
        }
        assert_eq!(report.last_success_at, Some(after(1)));
        assert!(roll_up(&fixture, after(2)).await.is_empty(), "nothing new");
    }
    let later = report(&fixture, after(2 * 3600)).await;
    assert_eq!((later.hour.attempts(), later.day.attempts()), (0, 4));
    assert_eq!(report(&fixture, after(74 * 3600)).await.three_days.attempts(), 0);
}

pub(crate) async fn statistics_left_by_a_crash_are_rolled_up_once(mut fixture: Fixture) {
    let plain = plain();
    for _ in 0..3 {
        record_counted(&mut fixture, Verdict::Delivered, &plain).await;
    }
    fixture.reopen();
    roll_up(&fixture, after(2)).await;
    fixture.reopen();
    roll_up(&fixture, after(3)).await;
    assert_eq!(report(&fixture, after(3)).await.hour.succeeded, 3);
}

/// Ends two events failed and retries a third, all in one batch, under a contract that disables after two.
async fn two_of_two(fixture: &mut Fixture, waiting: WaitingWhenDisabled) -> Vec<DeliveryState> {
    let mut rules = json!({ "off_after_failed_events": 2, "off_reason": "too_often" });
    rules["off_after_failing_for"] = Value::Null;
    rules["warning_after"] = Value::Null;
    let overrides = json!({ "health": rules, "off": { "waiting": waiting.name() } });
    let standard = Contract::builtin().unwrap().swap_remove(0);
    let contract = Arc::new(standard.with_overrides(&overrides, OverrideLevel::Operator).unwrap());
    let mut leased = Vec::new();
    for _ in 0..4 {
        leased.push(fixture.leased().await);
    }
    let ids: Vec<_> = leased.iter().map(|leased| leased.delivery.id).collect();
    let verdicts = [EXHAUSTED, EXHAUSTED, retry_at(after(60)), EXHAUSTED];
    for (leased, verdict) in leased.into_iter().zip(verdicts) {
        fixture.store().record_result(counted(leased, verdict, &contract, after(1)));
    }
    fixture.wait_until_idle().await;
    let mut states = Vec::new();
    for id in ids {
        states.push(fixture.delivery(id).await.state);
    }
    states
}

pub(crate) async fn a_rule_disables_with_its_attempt_and_applies_to_its_batch(mut fixture: Fixture) {
    let states = two_of_two(&mut fixture, WaitingWhenDisabled::Held).await;
    assert_eq!(states, [DeliveryState::Dead, DeliveryState::Dead, DeliveryState::Held, DeliveryState::Dead]);
    let disabled = fixture.recorder.take_disabled();
    assert_eq!(disabled.len(), 1, "once");
    let (endpoint, off, revision) = &disabled[0];
    assert_eq!((*endpoint, *revision), (fixture.endpoint, 2));
    assert_eq!((&off.reason, off.at), (&DisabledReason::Rule("too_often".into()), after(1)));
    assert_eq!((&off.by, off.waiting), (&Some(DisabledBy::Posthaste), WaitingWhenDisabled::Held));
    let stored = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    assert_eq!((stored.disabled.as_ref(), stored.revision), (Some(off), 2));
    assert_eq!(report(&fixture, after(2)).await.health.failed_events, 2, "what came later says nothing new");
}

pub(crate) async fn a_rule_that_disables_cancels_retries_if_the_contract_says_so(mut fixture: Fixture) {
    let states = two_of_two(&mut fixture, WaitingWhenDisabled::Cancelled).await;
    assert_eq!(
        states,
        [DeliveryState::Dead, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Dead]
    );
}

pub(crate) async fn a_success_resets_health_and_a_failed_manual_attempt_ends_no_event(mut fixture: Fixture) {
    let plain = plain();
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    fixture.store().record_result(counted(leased, EXHAUSTED, &plain, after(1)));
    fixture.wait_until_idle().await;
    fixture.request(id, DeliveryAction::Retry).await;
    let leased = fixture.lease(id, after(2)).await;
    fixture.store().record_result(counted(leased, EXHAUSTED, &plain, after(3)));
    fixture.wait_until_idle().await;
    let health = report(&fixture, after(3)).await.health;
    assert_eq!((health.consecutive_failures, health.failed_events), (2, 1));
    assert_eq!(health.first_failure.map(|first| (first.at, first.adjusted_time)), Some((after(1), CLOCK)));
    assert_eq!(health.last_error.as_deref(), Some("no answer"));
    record_counted(&mut fixture, Verdict::Delivered, &plain).await;
    let health = report(&fixture, after(3)).await.health;
    assert!(
        health.has_no_trouble() && health.first_failure.is_none() && health.last_error.is_none(),
        "{health:?}"
    );
    roll_up(&fixture, after(4)).await;
    assert_eq!(report(&fixture, after(4)).await.hour.dead, 1, "the extra attempt ended nothing anew");
}

pub(crate) async fn a_late_result_does_not_change_health(mut fixture: Fixture) {
    let one = contract(&json!({ "off_after_failed_events": 1 }));
    let leased = fixture.leased().await;
    let twin = LeasedDelivery {
        delivery: leased.delivery.clone(),
        event: leased.event.clone(),
        due: leased.due,
        permit: fixture.permits.take(),
        epoch: leased.epoch,
    };
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    fixture.store().record_result(counted(twin, EXHAUSTED, &one, after(2)));
    fixture.wait_until_idle().await;
    assert!(roll_up(&fixture, after(3)).await.is_empty());
    let report = report(&fixture, after(3)).await;
    assert_eq!((report.health, report.hour.attempts()), (health::Health::default(), 0));
    assert!(fixture.recorder.take_disabled().is_empty());
}

pub(crate) async fn health_is_known_after_a_restart_and_time_never_runs_back(mut fixture: Fixture) {
    let plain = plain();
    for _ in 0..10 {
        record_counted(&mut fixture, retry_at(after(60)), &plain).await;
    }
    let before = report(&fixture, after(2)).await.health;
    assert_eq!((before.consecutive_failures, before.state()), (10, health::HealthState::Failing));
    fixture.reopen();
    let health = fixture.store().health_bootstrap(after(2)).await.unwrap();
    assert_eq!(health.adjusted_time, CLOCK, "an attempt knew as much");
    assert_eq!((health.failing, health.healthy), (vec![fixture.endpoint], vec![]));
    assert_eq!(report(&fixture, after(2)).await.health, before);
    record_counted(&mut fixture, Verdict::Delivered, &plain).await;
    fixture.store().roll_up(CLOCK * 2, after(3)).await.unwrap();
    let health = fixture.store().health_bootstrap(after(3)).await.unwrap();
    assert_eq!((health.adjusted_time, health.healthy), (CLOCK * 2, vec![fixture.endpoint]));
    assert_eq!(report(&fixture, after(3)).await.clock, Some((CLOCK * 2, after(3))));
}

pub(crate) async fn enabling_resets_health_and_keeps_the_statistics(mut fixture: Fixture) {
    let plain = plain();
    for _ in 0..12 {
        record_counted(&mut fixture, EXHAUSTED, &plain).await;
    }
    roll_up(&fixture, after(2)).await;
    assert_eq!(fixture.store().unhealthy_endpoints(fixture.app).await.unwrap(), [fixture.endpoint]);
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    assert_eq!(report(&fixture, after(2)).await.health.consecutive_failures, 12, "why it is off stays known");
    fixture.set_availability(fixture.endpoint, None).await;
    let report = report(&fixture, after(2)).await;
    let health::Health { consecutive_failures, first_failure, failing_since, healthy_since, .. } =
        report.health;
    assert_eq!((consecutive_failures, first_failure, failing_since), (0, None, None));
    assert_eq!(healthy_since, Some(NOW));
    assert_eq!(report.hour.failed, 12);
    assert!(fixture.store().unhealthy_endpoints(fixture.app).await.unwrap().is_empty());
}

pub(crate) async fn a_deleted_endpoint_leaves_neither_health_nor_statistics(mut fixture: Fixture) {
    let plain = plain();
    record_counted(&mut fixture, EXHAUSTED, &plain).await;
    roll_up(&fixture, after(2)).await;
    record_counted(&mut fixture, EXHAUSTED, &plain).await;
    assert!(fixture.store().remove_endpoint(fixture.endpoint, after(3), None).await.unwrap());
    assert!(roll_up(&fixture, after(4)).await.is_empty(), "rows still in the log belong to no endpoint");
    let report = report(&fixture, after(4)).await;
    assert_eq!((report.health, report.three_days.attempts()), (health::Health::default(), 0));
}

pub(crate) async fn a_deleted_app_leaves_neither_health_nor_statistics(mut fixture: Fixture) {
    let plain = plain();
    record_counted(&mut fixture, EXHAUSTED, &plain).await;
    roll_up(&fixture, after(2)).await;
    assert!(fixture.store().remove_app(fixture.app, None).await.unwrap());
    while fixture.store().purge_deleted_apps().await.unwrap() {}
    let report = report(&fixture, after(4)).await;
    assert_eq!((report.health, report.three_days.attempts()), (health::Health::default(), 0));
}

pub(crate) async fn windows_make_an_endpoint_degraded_and_healthy_again(mut fixture: Fixture) {
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    record_counted(&mut fixture, Verdict::Delivered, &own).await;
    for _ in 0..9 {
        record_counted(&mut fixture, dead(DeadReason::RefusedByReceiver), &own).await;
    }
    roll_up(&fixture, after(2)).await;
    evaluate(&fixture, &plain(), after(2)).await;
    assert_eq!(
        report(&fixture, after(2)).await.health.state(),
        health::HealthState::Degraded,
        "by our own rule too"
    );
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    fixture.set_availability(fixture.endpoint, None).await;
    evaluate(&fixture, &own, after(2)).await;
    let degraded = report(&fixture, after(2)).await.health;
    assert_eq!((degraded.state(), degraded.state_since()), (health::HealthState::Degraded, Some(after(2))));
    assert!(roll_up(&fixture, after(3)).await.is_empty(), "nothing new");
    assert_eq!(fixture.store().degraded().await.unwrap(), [fixture.endpoint], "looked at until it is well");
    for _ in 0..6 {
        record_counted(&mut fixture, Verdict::Delivered, &own).await;
    }
    assert_eq!(
        roll_up(&fixture, after(4)).await,
        [fixture.endpoint],
        "what works is news of one that did not"
    );
    evaluate(&fixture, &own, after(4)).await;
    assert_eq!(report(&fixture, after(4)).await.health.state(), health::HealthState::Healthy, "9 of 16");
    assert!(roll_up(&fixture, after(5)).await.is_empty());
    assert!(fixture.store().degraded().await.unwrap().is_empty());
}

/// Records `count` verdicts at one time and rolls them up.
pub(crate) async fn record_many(
    fixture: &mut Fixture,
    count: u32,
    verdict: Verdict,
    contract: &Arc<Contract>,
    at: Timestamp,
) {
    for _ in 0..count {
        let leased = fixture.leased().await;
        fixture.store().record_result(counted(leased, verdict, contract, at));
    }
    fixture.wait_until_idle().await;
    roll_up(fixture, at).await;
}

pub(crate) async fn failures_before_the_window_or_the_recovery_do_not_degrade(mut fixture: Fixture) {
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    record_many(&mut fixture, 20, EXHAUSTED, &own, after(60)).await;
    let day = 24 * 3600;
    evaluate(&fixture, &own, after(day + 120)).await;
    assert_eq!(report(&fixture, after(day)).await.health.degraded_since, None, "longer ago than a day");
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    let mut record = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    (record.disabled, record.updated_at, record.revision) = (None, after(1800), record.revision + 1);
    assert!(fixture.store().change_endpoint(record, None).await.unwrap());
    record_many(&mut fixture, 3, Verdict::Delivered, &own, after(1900)).await;
    record_many(&mut fixture, 1, EXHAUSTED, &own, after(6000)).await;
    evaluate(&fixture, &own, after(6060)).await;
    assert_eq!(report(&fixture, after(6060)).await.health.degraded_since, None, "one of four since it is on");
    record_many(&mut fixture, 20, EXHAUSTED, &own, after(6120)).await;
    evaluate(&fixture, &own, after(6180)).await;
    assert_eq!(report(&fixture, after(6180)).await.health.degraded_since, Some(after(6180)), "21 of 24");
}

pub(crate) async fn an_end_after_a_local_failure_does_not_count(mut fixture: Fixture) {
    let one = contract(&json!({ "off_after_failed_events": 1 }));
    let ours = Verdict::Retry { due: after(60), then: DueAction::ExhaustUncounted };
    let id = fixture.concluded(ours, attempt(OutcomeClass::Timeout, 0)).await;
    fixture.refill(fixture.endpoint, 1, after(60)).await;
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Dead);
    assert!(roll_up(&fixture, after(61)).await.is_empty());
    let report = report(&fixture, after(61)).await;
    assert_eq!((report.health.failed_events, report.hour.dead_by_receiver(), report.hour.dead), (0, 0, 1));
    evaluate(&fixture, &one, after(61)).await;
    assert!(fixture.recorder.take_disabled().is_empty());
}

pub(crate) async fn an_event_that_ends_while_waiting_counts_and_may_disable(mut fixture: Fixture) {
    let one = contract(&json!({ "off_after_failed_events": 1 }));
    let last = Verdict::Retry { due: after(60), then: DueAction::Exhaust };
    record_counted(&mut fixture, last, &one).await;
    evaluate(&fixture, &one, after(50)).await;
    assert!(fixture.recorder.take_disabled().is_empty(), "it has not ended");
    fixture.refill(fixture.endpoint, 1, after(60)).await;
    assert_eq!(report(&fixture, after(60)).await.health.failed_events, 1);
    assert_eq!(roll_up(&fixture, after(61)).await, [fixture.endpoint]);
    assert_eq!(report(&fixture, after(61)).await.hour.dead, 1);
    evaluate(&fixture, &one, after(61)).await;
    assert_eq!(fixture.recorder.take_disabled().len(), 1);
    evaluate(&fixture, &one, after(62)).await;
    assert!(fixture.recorder.take_disabled().is_empty(), "it is off already");
}

pub(crate) async fn statistics_rows_are_kept_according_to_their_width(mut fixture: Fixture) {
    let (plain, hour) = (plain(), 3600);
    record_counted(&mut fixture, Verdict::Delivered, &plain).await;
    roll_up(&fixture, after(2)).await;
    for (later, minutes, hours) in
        [(2 * hour, 1, 1), (4 * hour, 0, 1), (29 * 24 * hour, 0, 1), (31 * 24 * hour, 0, 0)]
    {
        roll_up(&fixture, after(later)).await;
        // Read as if it were still that time.
        let report = report(&fixture, after(2)).await;
        assert_eq!((report.hour.succeeded, report.day.succeeded), (minutes, hours), "after {later} s");
    }
}

pub(crate) async fn a_requested_pause_is_stored_until_it_ends_or_the_url_changes(mut fixture: Fixture) {
    let plain = plain();
    let mut known = Vec::new();
    for (status, second) in [(429, 100), (503, 50)] {
        let mut record = counted(fixture.leased().await, retry_at(after(60)), &plain, after(1));
        record.health_sample.as_mut().unwrap().paused = Some(PausedUntil { status, until: after(second) });
        fixture.store().record_result(record);
        fixture.wait_until_idle().await;
        record_counted(&mut fixture, Verdict::Delivered, &plain).await;
        record_counted(&mut fixture, retry_at(after(60)), &plain).await;
        evaluate(&fixture, &plain, after(1)).await;
        fixture.reopen();
        known.push(fixture.store().health_bootstrap(after(2)).await.unwrap().paused);
    }
    let longest = vec![(fixture.endpoint, PausedUntil { status: 429, until: after(100) })];
    assert_eq!(known, [longest.clone(), longest.clone()], "a shorter one changes nothing");
    assert!(fixture.store().health_bootstrap(after(100)).await.unwrap().paused.is_empty(), "over");
    let mut record = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    for (url, paused) in [(record.settings.url.clone(), longest), ("https://other.example/".into(), vec![])] {
        (record.settings.url, record.revision) = (url, record.revision + 1);
        assert!(fixture.store().change_endpoint(record.clone(), None).await.unwrap());
        assert_eq!(fixture.store().health_bootstrap(after(2)).await.unwrap().paused, paused);
    }
}

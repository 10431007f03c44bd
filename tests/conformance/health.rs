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
    carried: LeasedDelivery,
    verdict: Verdict,
    contract: &Arc<Contract>,
    ended_at: Timestamp,
) -> DeliveryResult {
    let attempt = match verdict {
        Verdict::Delivered => attempt(OutcomeClass::Ok, 200),
        _ => attempt(OutcomeClass::Http, 500),
    };
    let (sighting, contract) =
        (Some(health::HealthSample { adjusted_time: CLOCK, paused: None }), Some(contract.clone()));
    DeliveryResult {
        leased: carried,
        attempts: vec![attempt],
        verdict,
        disable: None,
        health_sample: sighting,
        ended_at,
        contract,
    }
}

pub(crate) async fn record_counted(stage: &mut Fixture, verdict: Verdict, contract: &Arc<Contract>) {
    let carried = stage.leased().await;
    stage.store().record_result(counted(carried, verdict, contract, after(1)));
    stage.wait_until_idle().await;
}

async fn report(stage: &Fixture, now: Timestamp) -> HealthReport {
    stage.store().health(stage.app, stage.endpoint, now).await.unwrap()
}

pub(crate) async fn roll_up(stage: &Fixture, now: Timestamp) -> Vec<EndpointId> {
    let rolled = stage.store().roll_up(CLOCK, now).await.unwrap();
    assert!(!rolled.has_more);
    rolled.candidates
}

pub(crate) async fn evaluate(stage: &Fixture, contract: &Arc<Contract>, now: Timestamp) {
    let suspect = HealthCandidate { app: stage.app, endpoint: stage.endpoint, contract: contract.clone() };
    stage.store().evaluate_health(vec![suspect], now).await.unwrap();
    stage.wait_until_idle().await;
}

pub(crate) const EXHAUSTED: Verdict =
    Verdict::Dead { reason: DeadReason::Exhausted, disable_endpoint: false };

pub(crate) async fn only_counted_attempts_are_in_the_windows_after_a_roll_up(mut stage: Fixture) {
    let plain = plain();
    for verdict in [Verdict::Delivered, Verdict::Delivered, retry_at(after(60)), EXHAUSTED] {
        record_counted(&mut stage, verdict, &plain).await;
    }
    // Without a health sample: a test, or a local failure.
    stage.concluded(EXHAUSTED, attempt(OutcomeClass::Http, 500)).await;
    assert_eq!(report(&stage, after(2)).await.hour.attempts(), 0, "not rolled up yet");
    assert_eq!(roll_up(&stage, after(2)).await, [stage.endpoint], "something failed");
    for _ in 0..2 {
        let report = report(&stage, after(2)).await;
        for sums in [&report.hour, &report.day, &report.three_days] {
            assert_eq!((sums.succeeded, sums.failed, sums.delivered, sums.dead_by_receiver()), (2, 2, 2, 1));
            assert_eq!(sums.latency.values().sum::<u64>(), 4);
        }
        assert_eq!(report.last_success_at, Some(after(1)));
        assert!(roll_up(&stage, after(2)).await.is_empty(), "nothing new");
    }
    let later = report(&stage, after(2 * 3600)).await;
    assert_eq!((later.hour.attempts(), later.day.attempts()), (0, 4));
    assert_eq!(report(&stage, after(74 * 3600)).await.three_days.attempts(), 0);
}

pub(crate) async fn statistics_left_by_a_crash_are_rolled_up_once(mut stage: Fixture) {
    let plain = plain();
    for _ in 0..3 {
        record_counted(&mut stage, Verdict::Delivered, &plain).await;
    }
    stage.reopen();
    roll_up(&stage, after(2)).await;
    stage.reopen();
    roll_up(&stage, after(3)).await;
    assert_eq!(report(&stage, after(3)).await.hour.succeeded, 3);
}

/// Ends two events failed and retries a third, all in one batch, under a contract that disables after two.
async fn two_of_two(stage: &mut Fixture, waiting: WaitingWhenDisabled) -> Vec<DeliveryState> {
    let mut rules = json!({ "off_after_failed_events": 2, "off_reason": "too_often" });
    rules["off_after_failing_for"] = Value::Null;
    rules["warning_after"] = Value::Null;
    let overrides = json!({ "health": rules, "off": { "waiting": waiting.name() } });
    let standard = Contract::builtin().unwrap().swap_remove(0);
    let contract = Arc::new(standard.with_overrides(&overrides, OverrideLevel::Operator).unwrap());
    let mut carried = Vec::new();
    for _ in 0..4 {
        carried.push(stage.leased().await);
    }
    let ids: Vec<_> = carried.iter().map(|carried| carried.delivery.id).collect();
    let verdicts = [EXHAUSTED, EXHAUSTED, retry_at(after(60)), EXHAUSTED];
    for (carried, verdict) in carried.into_iter().zip(verdicts) {
        stage.store().record_result(counted(carried, verdict, &contract, after(1)));
    }
    stage.wait_until_idle().await;
    let mut states = Vec::new();
    for id in ids {
        states.push(stage.delivery(id).await.state);
    }
    states
}

pub(crate) async fn a_rule_disables_with_its_attempt_and_applies_to_its_batch(mut stage: Fixture) {
    let states = two_of_two(&mut stage, WaitingWhenDisabled::Held).await;
    assert_eq!(states, [DeliveryState::Dead, DeliveryState::Dead, DeliveryState::Held, DeliveryState::Dead]);
    let told = stage.recorder.take_disabled();
    assert_eq!(told.len(), 1, "once");
    let (endpoint, off, revision) = &told[0];
    assert_eq!((*endpoint, *revision), (stage.endpoint, 2));
    assert_eq!((&off.reason, off.at), (&DisabledReason::Rule("too_often".into()), after(1)));
    assert_eq!((&off.by, off.waiting), (&Some(DisabledBy::Posthaste), WaitingWhenDisabled::Held));
    let stored = stage.store().endpoint(stage.endpoint).await.unwrap().unwrap();
    assert_eq!((stored.disabled.as_ref(), stored.revision), (Some(off), 2));
    assert_eq!(report(&stage, after(2)).await.health.failed_events, 2, "what came later says nothing new");
}

pub(crate) async fn a_rule_that_disables_cancels_retries_if_the_contract_says_so(mut stage: Fixture) {
    let states = two_of_two(&mut stage, WaitingWhenDisabled::Cancelled).await;
    assert_eq!(
        states,
        [DeliveryState::Dead, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Dead]
    );
}

pub(crate) async fn a_success_resets_health_and_a_failed_manual_attempt_ends_no_event(mut stage: Fixture) {
    let plain = plain();
    let carried = stage.leased().await;
    let id = carried.delivery.id;
    stage.store().record_result(counted(carried, EXHAUSTED, &plain, after(1)));
    stage.wait_until_idle().await;
    stage.request(id, DeliveryAction::Retry).await;
    let carried = stage.lease(id, after(2)).await;
    stage.store().record_result(counted(carried, EXHAUSTED, &plain, after(3)));
    stage.wait_until_idle().await;
    let health = report(&stage, after(3)).await.health;
    assert_eq!((health.consecutive_failures, health.failed_events), (2, 1));
    assert_eq!(health.first_failure.map(|first| (first.at, first.adjusted_time)), Some((after(1), CLOCK)));
    assert_eq!(health.last_error.as_deref(), Some("no answer"));
    record_counted(&mut stage, Verdict::Delivered, &plain).await;
    let health = report(&stage, after(3)).await.health;
    assert!(
        health.has_no_trouble() && health.first_failure.is_none() && health.last_error.is_none(),
        "{health:?}"
    );
    roll_up(&stage, after(4)).await;
    assert_eq!(report(&stage, after(4)).await.hour.dead, 1, "the extra attempt ended nothing anew");
}

pub(crate) async fn a_late_result_does_not_change_health(mut stage: Fixture) {
    let one = contract(&json!({ "off_after_failed_events": 1 }));
    let carried = stage.leased().await;
    let twin = LeasedDelivery {
        delivery: carried.delivery.clone(),
        event: carried.event.clone(),
        due: carried.due,
        permit: stage.permits.take(),
        epoch: carried.epoch,
    };
    stage.record(carried, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    stage.store().record_result(counted(twin, EXHAUSTED, &one, after(2)));
    stage.wait_until_idle().await;
    assert!(roll_up(&stage, after(3)).await.is_empty());
    let report = report(&stage, after(3)).await;
    assert_eq!((report.health, report.hour.attempts()), (health::Health::default(), 0));
    assert!(stage.recorder.take_disabled().is_empty());
}

pub(crate) async fn health_is_known_after_a_restart_and_time_never_runs_back(mut stage: Fixture) {
    let plain = plain();
    for _ in 0..10 {
        record_counted(&mut stage, retry_at(after(60)), &plain).await;
    }
    let before = report(&stage, after(2)).await.health;
    assert_eq!((before.consecutive_failures, before.state()), (10, health::HealthState::Failing));
    stage.reopen();
    let standing = stage.store().health_bootstrap(after(2)).await.unwrap();
    assert_eq!(standing.adjusted_time, CLOCK, "an attempt knew as much");
    assert_eq!((standing.failing, standing.healthy), (vec![stage.endpoint], vec![]));
    assert_eq!(report(&stage, after(2)).await.health, before);
    record_counted(&mut stage, Verdict::Delivered, &plain).await;
    stage.store().roll_up(CLOCK * 2, after(3)).await.unwrap();
    let standing = stage.store().health_bootstrap(after(3)).await.unwrap();
    assert_eq!((standing.adjusted_time, standing.healthy), (CLOCK * 2, vec![stage.endpoint]));
    assert_eq!(report(&stage, after(3)).await.clock, Some((CLOCK * 2, after(3))));
}

pub(crate) async fn enabling_resets_health_and_keeps_the_statistics(mut stage: Fixture) {
    let plain = plain();
    for _ in 0..12 {
        record_counted(&mut stage, EXHAUSTED, &plain).await;
    }
    roll_up(&stage, after(2)).await;
    assert_eq!(stage.store().unhealthy_endpoints(stage.app).await.unwrap(), [stage.endpoint]);
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    assert_eq!(report(&stage, after(2)).await.health.consecutive_failures, 12, "why it is off stays known");
    stage.set_availability(stage.endpoint, None).await;
    let report = report(&stage, after(2)).await;
    let health::Health { consecutive_failures, first_failure, failing_since, healthy_since, .. } =
        report.health;
    assert_eq!((consecutive_failures, first_failure, failing_since), (0, None, None));
    assert_eq!(healthy_since, Some(NOW));
    assert_eq!(report.hour.failed, 12);
    assert!(stage.store().unhealthy_endpoints(stage.app).await.unwrap().is_empty());
}

pub(crate) async fn a_deleted_endpoint_leaves_neither_health_nor_statistics(mut stage: Fixture) {
    let plain = plain();
    record_counted(&mut stage, EXHAUSTED, &plain).await;
    roll_up(&stage, after(2)).await;
    record_counted(&mut stage, EXHAUSTED, &plain).await;
    assert!(stage.store().remove_endpoint(stage.endpoint, after(3), None).await.unwrap());
    assert!(roll_up(&stage, after(4)).await.is_empty(), "rows still in the log belong to no endpoint");
    let report = report(&stage, after(4)).await;
    assert_eq!((report.health, report.three_days.attempts()), (health::Health::default(), 0));
}

pub(crate) async fn a_deleted_app_leaves_neither_health_nor_statistics(mut stage: Fixture) {
    let plain = plain();
    record_counted(&mut stage, EXHAUSTED, &plain).await;
    roll_up(&stage, after(2)).await;
    assert!(stage.store().remove_app(stage.app, None).await.unwrap());
    while stage.store().purge_deleted_apps().await.unwrap() {}
    let report = report(&stage, after(4)).await;
    assert_eq!((report.health, report.three_days.attempts()), (health::Health::default(), 0));
}

pub(crate) async fn windows_make_an_endpoint_degraded_and_healthy_again(mut stage: Fixture) {
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    record_counted(&mut stage, Verdict::Delivered, &own).await;
    for _ in 0..9 {
        record_counted(&mut stage, dead(DeadReason::RefusedByReceiver), &own).await;
    }
    roll_up(&stage, after(2)).await;
    evaluate(&stage, &plain(), after(2)).await;
    assert_eq!(
        report(&stage, after(2)).await.health.state(),
        health::HealthState::Degraded,
        "by our own rule too"
    );
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    stage.set_availability(stage.endpoint, None).await;
    evaluate(&stage, &own, after(2)).await;
    let degraded = report(&stage, after(2)).await.health;
    assert_eq!((degraded.state(), degraded.state_since()), (health::HealthState::Degraded, Some(after(2))));
    assert!(roll_up(&stage, after(3)).await.is_empty(), "nothing new");
    assert_eq!(stage.store().degraded().await.unwrap(), [stage.endpoint], "looked at until it is well");
    for _ in 0..6 {
        record_counted(&mut stage, Verdict::Delivered, &own).await;
    }
    assert_eq!(roll_up(&stage, after(4)).await, [stage.endpoint], "what works is news of one that did not");
    evaluate(&stage, &own, after(4)).await;
    assert_eq!(report(&stage, after(4)).await.health.state(), health::HealthState::Healthy, "9 of 16");
    assert!(roll_up(&stage, after(5)).await.is_empty());
    assert!(stage.store().degraded().await.unwrap().is_empty());
}

/// Records `count` verdicts at one time and rolls them up.
pub(crate) async fn record_many(
    stage: &mut Fixture,
    count: u32,
    verdict: Verdict,
    contract: &Arc<Contract>,
    at: Timestamp,
) {
    for _ in 0..count {
        let carried = stage.leased().await;
        stage.store().record_result(counted(carried, verdict, contract, at));
    }
    stage.wait_until_idle().await;
    roll_up(stage, at).await;
}

pub(crate) async fn failures_before_the_window_or_the_recovery_do_not_degrade(mut stage: Fixture) {
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    record_many(&mut stage, 20, EXHAUSTED, &own, after(60)).await;
    let day = 24 * 3600;
    evaluate(&stage, &own, after(day + 120)).await;
    assert_eq!(report(&stage, after(day)).await.health.degraded_since, None, "longer ago than a day");
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    let mut record = stage.store().endpoint(stage.endpoint).await.unwrap().unwrap();
    (record.disabled, record.updated_at, record.revision) = (None, after(1800), record.revision + 1);
    assert!(stage.store().change_endpoint(record, None).await.unwrap());
    record_many(&mut stage, 3, Verdict::Delivered, &own, after(1900)).await;
    record_many(&mut stage, 1, EXHAUSTED, &own, after(6000)).await;
    evaluate(&stage, &own, after(6060)).await;
    assert_eq!(report(&stage, after(6060)).await.health.degraded_since, None, "one of four since it is on");
    record_many(&mut stage, 20, EXHAUSTED, &own, after(6120)).await;
    evaluate(&stage, &own, after(6180)).await;
    assert_eq!(report(&stage, after(6180)).await.health.degraded_since, Some(after(6180)), "21 of 24");
}

pub(crate) async fn an_end_after_a_local_failure_does_not_count(mut stage: Fixture) {
    let one = contract(&json!({ "off_after_failed_events": 1 }));
    let ours = Verdict::Retry { due: after(60), then: DueAction::ExhaustUncounted };
    let id = stage.concluded(ours, attempt(OutcomeClass::Timeout, 0)).await;
    stage.refill(stage.endpoint, 1, after(60)).await;
    assert_eq!(stage.delivery(id).await.state, DeliveryState::Dead);
    assert!(roll_up(&stage, after(61)).await.is_empty());
    let report = report(&stage, after(61)).await;
    assert_eq!((report.health.failed_events, report.hour.dead_by_receiver(), report.hour.dead), (0, 0, 1));
    evaluate(&stage, &one, after(61)).await;
    assert!(stage.recorder.take_disabled().is_empty());
}

pub(crate) async fn an_event_that_ends_while_waiting_counts_and_may_disable(mut stage: Fixture) {
    let one = contract(&json!({ "off_after_failed_events": 1 }));
    let last = Verdict::Retry { due: after(60), then: DueAction::Exhaust };
    record_counted(&mut stage, last, &one).await;
    evaluate(&stage, &one, after(50)).await;
    assert!(stage.recorder.take_disabled().is_empty(), "it has not ended");
    stage.refill(stage.endpoint, 1, after(60)).await;
    assert_eq!(report(&stage, after(60)).await.health.failed_events, 1);
    assert_eq!(roll_up(&stage, after(61)).await, [stage.endpoint]);
    assert_eq!(report(&stage, after(61)).await.hour.dead, 1);
    evaluate(&stage, &one, after(61)).await;
    assert_eq!(stage.recorder.take_disabled().len(), 1);
    evaluate(&stage, &one, after(62)).await;
    assert!(stage.recorder.take_disabled().is_empty(), "it is off already");
}

pub(crate) async fn statistics_rows_are_kept_according_to_their_width(mut stage: Fixture) {
    let (plain, hour) = (plain(), 3600);
    record_counted(&mut stage, Verdict::Delivered, &plain).await;
    roll_up(&stage, after(2)).await;
    for (later, minutes, hours) in
        [(2 * hour, 1, 1), (4 * hour, 0, 1), (29 * 24 * hour, 0, 1), (31 * 24 * hour, 0, 0)]
    {
        roll_up(&stage, after(later)).await;
        // Read as if it were still that time.
        let report = report(&stage, after(2)).await;
        assert_eq!((report.hour.succeeded, report.day.succeeded), (minutes, hours), "after {later} s");
    }
}

pub(crate) async fn a_requested_pause_is_stored_until_it_ends_or_the_url_changes(mut stage: Fixture) {
    let plain = plain();
    let mut known = Vec::new();
    for (status, second) in [(429, 100), (503, 50)] {
        let mut record = counted(stage.leased().await, retry_at(after(60)), &plain, after(1));
        record.health_sample.as_mut().unwrap().paused = Some(PausedUntil { status, until: after(second) });
        stage.store().record_result(record);
        stage.wait_until_idle().await;
        record_counted(&mut stage, Verdict::Delivered, &plain).await;
        record_counted(&mut stage, retry_at(after(60)), &plain).await;
        evaluate(&stage, &plain, after(1)).await;
        stage.reopen();
        known.push(stage.store().health_bootstrap(after(2)).await.unwrap().paused);
    }
    let longest = vec![(stage.endpoint, PausedUntil { status: 429, until: after(100) })];
    assert_eq!(known, [longest.clone(), longest.clone()], "a shorter one changes nothing");
    assert!(stage.store().health_bootstrap(after(100)).await.unwrap().paused.is_empty(), "over");
    let mut record = stage.store().endpoint(stage.endpoint).await.unwrap().unwrap();
    for (url, paused) in [(record.settings.url.clone(), longest), ("https://other.example/".into(), vec![])] {
        (record.settings.url, record.revision) = (url, record.revision + 1);
        assert!(stage.store().change_endpoint(record.clone(), None).await.unwrap());
        assert_eq!(stage.store().health_bootstrap(after(2)).await.unwrap().paused, paused);
    }
}

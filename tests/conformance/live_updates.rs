//! Live updates that the store publishes: each is part of the commit that causes it.

use crate::{
    fixture::{Fixture, NOW, after, attempt, retry_at},
    health::{EXHAUSTED, contract, counted, evaluate, plain, record_counted, record_many},
    replays,
};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{Availability, Delivery, DeliveryState},
        endpoint::{Disabled, DisabledReason},
        event::DedupSpace,
        id::DeliveryId,
        live_update::{DeliveryUpdate, LiveUpdate, LiveUpdateKind},
        outcome::OutcomeClass,
        replay::ReplayState,
        verdict::{DueAction, Verdict},
    },
    store::deliveries::{
        Accepted, AdvanceRetries, AvailabilityChange, DeliveryAction, DeliveryResult, NewEvent,
    },
};
use serde_json::json;

fn deliveries(stage: &Fixture) -> [LiveUpdate; 1] {
    [LiveUpdate::deliveries(stage.app, stage.endpoint)]
}

/// Takes the recorded live updates about the endpoint or several of its deliveries.
fn about_endpoint(stage: &Fixture) -> Vec<LiveUpdate> {
    let is_about_endpoint = |update: &LiveUpdate| {
        matches!(update.kind, LiveUpdateKind::Endpoint(_) | LiveUpdateKind::Deliveries(_))
    };
    stage.recorder.take_live_updates().into_iter().filter(is_about_endpoint).collect()
}

/// Live update of a delivery of the stage's endpoint.
fn one(new: &NewEvent, state: DeliveryState) -> DeliveryUpdate {
    let Delivery { id, event, endpoint, .. } = new.deliveries[0].delivery;
    DeliveryUpdate { delivery: id, event, endpoint, state }
}

pub(crate) async fn a_new_event_and_its_deliveries_give_live_updates(mut stage: Fixture) {
    for (new, state) in
        [(stage.one_event(), DeliveryState::Pending), (stage.one_with_permit(), DeliveryState::InFlight)]
    {
        let expected = [LiveUpdateKind::Event(new.event.id), LiveUpdateKind::Delivery(one(&new, state))];
        let (mut new, mut repeated) = (new, stage.one_event());
        new.dedup = vec![stage.dedup(DedupSpace::IdempotencyKey, state.name())];
        repeated.dedup.clone_from(&new.dedup);
        stage.accept(new).await;
        assert_eq!(kinds(&stage), expected);
        assert!(matches!(stage.accept(repeated).await, Accepted::Repeated { .. }));
        assert_eq!(kinds(&stage), [], "nothing was stored");
    }
}

pub(crate) async fn a_recorded_result_gives_a_live_update_of_the_stored_state(mut stage: Fixture) {
    let new = stage.one_with_permit();
    let (delivered, retrying) = (one(&new, DeliveryState::Delivered), one(&new, DeliveryState::Retrying));
    stage.publish(new).await;
    let carried = stage.only_leased();
    let id = carried.delivery.id;
    stage.recorder.take_live_updates();
    stage.record(carried, retry_at(after(60)), vec![attempt(OutcomeClass::Http, 500)]).await;
    assert_eq!(kinds(&stage), [LiveUpdateKind::Attempt(retrying)]);
    let carried = stage.lease(id, after(60)).await;
    stage.recorder.take_live_updates();
    stage.record(carried, retry_at(after(90)), vec![]).await;
    assert_eq!(kinds(&stage), [LiveUpdateKind::Delivery(retrying)], "no request was made");
    let carried = stage.lease(id, after(90)).await;
    stage.recorder.take_live_updates();
    stage.record(carried, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(kinds(&stage), [LiveUpdateKind::Attempt(delivered)]);
}

/// An action that is refused changes nothing, and gives none.
pub(crate) async fn an_action_gives_a_live_update_of_the_delivery(mut stage: Fixture) {
    let id = stage.waiting().await;
    for state in [Some(DeliveryState::Cancelled), None] {
        stage.recorder.take_live_updates();
        stage.request(id, DeliveryAction::Cancel).await;
        let states = stage.recorder.take_live_updates().into_iter().map(|update| match update.kind {
            LiveUpdateKind::Delivery(delivery) if delivery.delivery == id => Some(delivery.state),
            _ => None,
        });
        assert_eq!(states.collect::<Vec<_>>(), Vec::from_iter(state.map(Some)));
    }
}

pub(crate) async fn each_step_of_a_replay_gives_a_live_update(mut stage: Fixture) {
    stage.one_in(DeliveryState::Dead).await;
    let selection = replays::deliveries(None, None, &[DeliveryState::Dead]);
    let replay = replays::begin(&mut stage, selection).await;
    let of_replay = |stage: &Fixture| {
        let kinds = kinds(stage).into_iter();
        kinds.filter(|kind| matches!(kind, LiveUpdateKind::Replay(..))).collect::<Vec<_>>()
    };
    stage.wait_until_idle().await;
    assert_eq!(of_replay(&stage), [LiveUpdateKind::Replay(replay.id, ReplayState::Running)]);
    for state in [ReplayState::Paused, ReplayState::Running] {
        stage.store().change_replay(stage.app, replay.id, state, after(1), None).await.unwrap();
        stage.wait_until_idle().await;
        assert_eq!(of_replay(&stage), [LiveUpdateKind::Replay(replay.id, state)]);
    }
    replays::finish(&mut stage, &replay).await;
    assert_eq!(of_replay(&stage), [LiveUpdateKind::Replay(replay.id, ReplayState::Finished)]);
}

/// Once, although its health may change at the same time.
pub(crate) async fn an_endpoint_that_a_result_disables_gives_one_live_update(mut stage: Fixture) {
    let carried = stage.leased().await;
    let disable =
        Disabled { reason: DisabledReason::Gone, at: after(1), waiting: WaitingWhenDisabled::Held, by: None };
    let result = counted(carried, retry_at(after(60)), &plain(), after(1));
    stage.store().record_result(DeliveryResult { disable: Some(disable), ..result });
    stage.wait_until_idle().await;
    assert_eq!(about_endpoint(&stage), [LiveUpdate::endpoint(stage.app, stage.endpoint)]);
}

fn kinds(stage: &Fixture) -> Vec<LiveUpdateKind> {
    let updates = stage.recorder.take_live_updates().into_iter();
    updates.inspect(|update| assert_eq!(update.app, stage.app)).map(|update| update.kind).collect()
}

pub(crate) async fn deliveries_that_end_while_waiting_give_a_live_update(mut stage: Fixture) {
    for then in [DueAction::Exhaust, DueAction::Expire] {
        stage.concluded(Verdict::Retry { due: after(60), then }, attempt(OutcomeClass::Http, 500)).await;
    }
    stage.refill(stage.endpoint, 9, after(59)).await;
    assert_eq!(about_endpoint(&stage), [], "nothing ended");
    stage.refill(stage.endpoint, 9, after(60)).await;
    assert_eq!(about_endpoint(&stage), deliveries(&stage));
}

pub(crate) async fn applying_a_state_gives_a_live_update_also_for_a_deleted_endpoint(mut stage: Fixture) {
    stage.waiting().await;
    let (off, on) = (
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Enabled { gives_up_while_held: false },
    );
    for (switch, settle) in [(Some(WaitingWhenDisabled::Held), off), (None, on)] {
        stage.set_availability(stage.endpoint, switch).await;
        for expected in [&deliveries(&stage)[..], &[]] {
            stage.store().apply_to_waiting(stage.endpoint, settle, 9, after(9)).await.unwrap();
            stage.wait_until_idle().await;
            assert_eq!(about_endpoint(&stage), expected);
        }
    }
    assert!(stage.store().remove_endpoint(stage.endpoint, after(9), None).await.unwrap());
    stage
        .store()
        .apply_to_waiting(stage.endpoint, AvailabilityChange::Disabled(Availability::Deleted), 9, after(9))
        .await
        .unwrap();
    stage.wait_until_idle().await;
    assert_eq!(about_endpoint(&stage), deliveries(&stage));
}

pub(crate) async fn advanced_and_released_deliveries_give_a_live_update(mut stage: Fixture) {
    let id = stage.concluded(retry_at(after(300)), attempt(OutcomeClass::Http, 500)).await;
    let first = (NOW, DeliveryId::from_i64(0));
    let recovery =
        AdvanceRetries { endpoint: stage.endpoint, recovered_at: after(10), after: first, most: 9 };
    for expected in [&deliveries(&stage)[..], &[]] {
        stage.store().advance_retries(recovery, after(11)).await.unwrap();
        stage.wait_until_idle().await;
        assert_eq!(about_endpoint(&stage), expected);
    }
    let carried = stage.lease(id, after(11)).await;
    stage.store().release(vec![carried], after(12)).await.unwrap();
    stage.wait_until_idle().await;
    assert_eq!(about_endpoint(&stage), deliveries(&stage));
}

pub(crate) async fn a_change_of_health_gives_one_live_update(mut stage: Fixture) {
    let endpoint = [LiveUpdate::endpoint(stage.app, stage.endpoint)];
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    for failed in 1..=10 {
        record_counted(&mut stage, retry_at(after(60)), &plain()).await;
        let expected = if failed == 10 { &endpoint[..] } else { &[] };
        assert_eq!(about_endpoint(&stage), expected, "failing after ten, and this is {failed}");
    }
    for _ in 0..3 {
        record_counted(&mut stage, Verdict::Delivered, &plain()).await;
    }
    assert_eq!(about_endpoint(&stage), endpoint, "well again");
    // Never ten in a row.
    for (count, verdict) in [(9, EXHAUSTED), (1, Verdict::Delivered), (9, EXHAUSTED)] {
        record_many(&mut stage, count, verdict, &own, after(120)).await;
    }
    assert_eq!(about_endpoint(&stage), []);
    for expected in [&endpoint[..], &[]] {
        evaluate(&stage, &own, after(122)).await;
        assert_eq!(about_endpoint(&stage), expected);
    }
}

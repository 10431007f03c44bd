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

fn deliveries(fixture: &Fixture) -> [LiveUpdate; 1] {
    [LiveUpdate::deliveries(fixture.app, fixture.endpoint)]
}

/// Takes the recorded live updates about the endpoint or several of its deliveries.
fn about_endpoint(fixture: &Fixture) -> Vec<LiveUpdate> {
    let is_about_endpoint = |update: &LiveUpdate| {
        matches!(update.kind, LiveUpdateKind::Endpoint(_) | LiveUpdateKind::Deliveries(_))
    };
    fixture.recorder.take_live_updates().into_iter().filter(is_about_endpoint).collect()
}

/// Live update of a delivery of the fixture's endpoint.
fn one(new: &NewEvent, state: DeliveryState) -> DeliveryUpdate {
    let Delivery { id, event, endpoint, .. } = new.deliveries[0].delivery;
    DeliveryUpdate { delivery: id, event, endpoint, state }
}

pub(crate) async fn a_new_event_and_its_deliveries_give_live_updates(mut fixture: Fixture) {
    for (new, state) in
        [(fixture.one_event(), DeliveryState::Pending), (fixture.one_with_permit(), DeliveryState::InFlight)]
    {
        let expected = [LiveUpdateKind::Event(new.event.id), LiveUpdateKind::Delivery(one(&new, state))];
        let (mut new, mut repeated) = (new, fixture.one_event());
        new.dedup = vec![fixture.dedup(DedupSpace::IdempotencyKey, state.name())];
        repeated.dedup.clone_from(&new.dedup);
        fixture.accept(new).await;
        assert_eq!(kinds(&fixture), expected);
        assert!(matches!(fixture.accept(repeated).await, Accepted::Repeated { .. }));
        assert_eq!(kinds(&fixture), [], "nothing was stored");
    }
}

pub(crate) async fn a_recorded_result_gives_a_live_update_of_the_stored_state(mut fixture: Fixture) {
    let new = fixture.one_with_permit();
    let (delivered, retrying) = (one(&new, DeliveryState::Delivered), one(&new, DeliveryState::Retrying));
    fixture.publish(new).await;
    let leased = fixture.only_leased();
    let id = leased.delivery.id;
    fixture.recorder.take_live_updates();
    fixture.record(leased, retry_at(after(60)), vec![attempt(OutcomeClass::Http, 500)]).await;
    assert_eq!(kinds(&fixture), [LiveUpdateKind::Attempt(retrying)]);
    let leased = fixture.lease(id, after(60)).await;
    fixture.recorder.take_live_updates();
    fixture.record(leased, retry_at(after(90)), vec![]).await;
    assert_eq!(kinds(&fixture), [LiveUpdateKind::Delivery(retrying)], "no request was made");
    let leased = fixture.lease(id, after(90)).await;
    fixture.recorder.take_live_updates();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(kinds(&fixture), [LiveUpdateKind::Attempt(delivered)]);
}

/// An action that is refused changes nothing, and gives none.
pub(crate) async fn an_action_gives_a_live_update_of_the_delivery(mut fixture: Fixture) {
    let id = fixture.waiting().await;
    for state in [Some(DeliveryState::Cancelled), None] {
        fixture.recorder.take_live_updates();
        fixture.request(id, DeliveryAction::Cancel).await;
        let states = fixture.recorder.take_live_updates().into_iter().map(|update| match update.kind {
            LiveUpdateKind::Delivery(delivery) if delivery.delivery == id => Some(delivery.state),
            _ => None,
        });
        assert_eq!(states.collect::<Vec<_>>(), Vec::from_iter(state.map(Some)));
    }
}

pub(crate) async fn each_step_of_a_replay_gives_a_live_update(mut fixture: Fixture) {
    fixture.one_in(DeliveryState::Dead).await;
    let selection = replays::deliveries(None, None, &[DeliveryState::Dead]);
    let replay = replays::begin(&mut fixture, selection).await;
    let of_replay = |fixture: &Fixture| {
        let kinds = kinds(fixture).into_iter();
        kinds.filter(|kind| matches!(kind, LiveUpdateKind::Replay(..))).collect::<Vec<_>>()
    };
    fixture.wait_until_idle().await;
    assert_eq!(of_replay(&fixture), [LiveUpdateKind::Replay(replay.id, ReplayState::Running)]);
    for state in [ReplayState::Paused, ReplayState::Running] {
        fixture.store().change_replay(fixture.app, replay.id, state, after(1), None).await.unwrap();
        fixture.wait_until_idle().await;
        assert_eq!(of_replay(&fixture), [LiveUpdateKind::Replay(replay.id, state)]);
    }
    replays::finish(&mut fixture, &replay).await;
    assert_eq!(of_replay(&fixture), [LiveUpdateKind::Replay(replay.id, ReplayState::Finished)]);
}

/// Once, although its health may change at the same time.
pub(crate) async fn an_endpoint_that_a_result_disables_gives_one_live_update(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let disable =
        Disabled { reason: DisabledReason::Gone, at: after(1), waiting: WaitingWhenDisabled::Held, by: None };
    let result = counted(leased, retry_at(after(60)), &plain(), after(1));
    fixture.store().record_result(DeliveryResult { disable: Some(disable), ..result });
    fixture.wait_until_idle().await;
    assert_eq!(about_endpoint(&fixture), [LiveUpdate::endpoint(fixture.app, fixture.endpoint)]);
}

fn kinds(fixture: &Fixture) -> Vec<LiveUpdateKind> {
    let updates = fixture.recorder.take_live_updates().into_iter();
    updates.inspect(|update| assert_eq!(update.app, fixture.app)).map(|update| update.kind).collect()
}

pub(crate) async fn deliveries_that_end_while_waiting_give_a_live_update(mut fixture: Fixture) {
    for then in [DueAction::Exhaust, DueAction::Expire] {
        fixture.concluded(Verdict::Retry { due: after(60), then }, attempt(OutcomeClass::Http, 500)).await;
    }
    fixture.refill(fixture.endpoint, 9, after(59)).await;
    assert_eq!(about_endpoint(&fixture), [], "nothing ended");
    fixture.refill(fixture.endpoint, 9, after(60)).await;
    assert_eq!(about_endpoint(&fixture), deliveries(&fixture));
}

pub(crate) async fn applying_a_state_gives_a_live_update_also_for_a_deleted_endpoint(mut fixture: Fixture) {
    fixture.waiting().await;
    let (off, on) = (
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Enabled { gives_up_while_held: false },
    );
    for (availability, settle) in [(Some(WaitingWhenDisabled::Held), off), (None, on)] {
        fixture.set_availability(fixture.endpoint, availability).await;
        for expected in [&deliveries(&fixture)[..], &[]] {
            fixture.store().apply_to_waiting(fixture.endpoint, settle, 9, after(9)).await.unwrap();
            fixture.wait_until_idle().await;
            assert_eq!(about_endpoint(&fixture), expected);
        }
    }
    assert!(fixture.store().remove_endpoint(fixture.endpoint, after(9), None).await.unwrap());
    fixture
        .store()
        .apply_to_waiting(fixture.endpoint, AvailabilityChange::Disabled(Availability::Deleted), 9, after(9))
        .await
        .unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(about_endpoint(&fixture), deliveries(&fixture));
}

pub(crate) async fn advanced_and_released_deliveries_give_a_live_update(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(300)), attempt(OutcomeClass::Http, 500)).await;
    let first = (NOW, DeliveryId::from_i64(0));
    let recovery =
        AdvanceRetries { endpoint: fixture.endpoint, recovered_at: after(10), after: first, most: 9 };
    for expected in [&deliveries(&fixture)[..], &[]] {
        fixture.store().advance_retries(recovery, after(11)).await.unwrap();
        fixture.wait_until_idle().await;
        assert_eq!(about_endpoint(&fixture), expected);
    }
    let leased = fixture.lease(id, after(11)).await;
    fixture.store().release(vec![leased], after(12)).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(about_endpoint(&fixture), deliveries(&fixture));
}

pub(crate) async fn a_change_of_health_gives_one_live_update(mut fixture: Fixture) {
    let endpoint = [LiveUpdate::endpoint(fixture.app, fixture.endpoint)];
    let own = contract(&json!({ "degraded_above": "80%", "degraded_window": "24h" }));
    for failed in 1..=10 {
        record_counted(&mut fixture, retry_at(after(60)), &plain()).await;
        let expected = if failed == 10 { &endpoint[..] } else { &[] };
        assert_eq!(about_endpoint(&fixture), expected, "failing after ten, and this is {failed}");
    }
    for _ in 0..3 {
        record_counted(&mut fixture, Verdict::Delivered, &plain()).await;
    }
    assert_eq!(about_endpoint(&fixture), endpoint, "well again");
    // Never ten in a row.
    for (count, verdict) in [(9, EXHAUSTED), (1, Verdict::Delivered), (9, EXHAUSTED)] {
        record_many(&mut fixture, count, verdict, &own, after(120)).await;
    }
    assert_eq!(about_endpoint(&fixture), []);
    for expected in [&endpoint[..], &[]] {
        evaluate(&fixture, &own, after(122)).await;
        assert_eq!(about_endpoint(&fixture), expected);
    }
}

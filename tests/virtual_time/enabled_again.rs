//! Enabling an endpoint with a replay: missed events are sent, once and paced; others are not.

use crate::{
    fixture::{ADMIN, Behaviour, Fixture},
    health::HOUR,
};
use posthaste::{domain::delivery::DeliveryState, service::deliveries::RequestedAction};
use std::time::Duration;

async fn states(stage: &Fixture) -> Vec<DeliveryState> {
    stage.deliveries().await.iter().map(|delivery| delivery.state).collect()
}

/// Publishes so many events, an hour apart.
async fn publish(stage: &Fixture, count: u32) {
    for _ in 0..count {
        stage.publish().await;
        stage.pass(HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn zerofee_replays_what_died_before_it_was_disabled_and_releases_what_was_held() {
    let stage = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    publish(&stage, 3).await;
    stage.set_behaviour(Behaviour::Answer(500));
    publish(&stage, 30).await;
    assert!(stage.entry.endpoint("ep").unwrap().record.disabled.is_some());
    let manual = stage.deliveries().await[0].id.to_string();
    stage.service.act_on_delivery(ADMIN, &stage.entry, &manual, RequestedAction::Cancel).await.unwrap();
    stage.set_behaviour(Behaviour::Answer(200));
    let before = stage.seen().len();
    let (endpoint, replays) =
        stage.service.enable_and_replay(ADMIN, &stage.entry, "ep", Some(5)).await.unwrap();
    assert!(endpoint.record.disabled.is_none());
    assert_eq!(replays.len(), 1, "nothing was published without a delivery");
    assert_eq!((replays[0].replay.total, replays[0].replay.per_second), (10, 5), "the ten that ended");
    stage.pass(HOUR * 9).await;
    let states = states(&stage).await;
    assert_eq!(states.iter().filter(|state| **state == DeliveryState::Delivered).count(), 32);
    assert_eq!(states[0], DeliveryState::Cancelled, "a delivery that a person cancelled stays so");
    assert_eq!(stage.seen().len() - before, 29, "and nothing goes twice");
}

#[tokio::test(start_paused = true)]
async fn bastionary_also_gets_the_events_of_the_time_it_was_disabled() {
    let stage = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    publish(&stage, 73).await;
    assert!(stage.entry.endpoint("ep").unwrap().record.disabled.is_some());
    publish(&stage, 5).await;
    stage.set_behaviour(Behaviour::Answer(200));
    let (_, replays) = stage.service.enable_and_replay(ADMIN, &stage.entry, "ep", None).await.unwrap();
    let kinds: Vec<_> = replays.iter().map(|shown| shown.replay.selection.kind()).collect();
    assert_eq!(kinds, ["replay", "backfill"]);
    assert_eq!(replays.iter().map(|shown| shown.replay.total).collect::<Vec<_>>(), [72, 5]);
    stage.pass(HOUR).await;
    let states = states(&stage).await;
    assert_eq!(
        (states.len(), states.iter().all(|state| *state == DeliveryState::Delivered)),
        (78, true),
        "{states:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn simpaisa_gets_what_was_cancelled_when_it_was_disabled() {
    let stage = Fixture::new("simpaisa", Behaviour::Answer(500)).await;
    publish(&stage, 3).await;
    stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    assert_eq!(states(&stage).await, [DeliveryState::Cancelled; 3]);
    publish(&stage, 2).await;
    stage.set_behaviour(Behaviour::Answer(200));
    let (_, replays) = stage.service.enable_and_replay(ADMIN, &stage.entry, "ep", None).await.unwrap();
    assert_eq!(replays.iter().map(|shown| shown.replay.total).collect::<Vec<_>>(), [3, 2]);
    stage.pass(HOUR).await;
    assert_eq!(states(&stage).await, [DeliveryState::Delivered; 5]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_trouble_missed_nothing_and_an_invalid_pace_changes_nothing() {
    let stage = Fixture::new("standard", Behaviour::Answer(200)).await;
    publish(&stage, 2).await;
    let (_, replays) = stage.service.enable_and_replay(ADMIN, &stage.entry, "ep", None).await.unwrap();
    assert!(replays.is_empty());
    stage.service.disable_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    let refused = stage.service.enable_and_replay(ADMIN, &stage.entry, "ep", Some(0)).await.unwrap_err();
    assert!(refused.to_string().contains("per_second"), "{refused}");
    assert!(stage.entry.endpoint("ep").unwrap().record.disabled.is_some(), "it is still off");
    stage.pass(Duration::from_secs(1)).await;
}

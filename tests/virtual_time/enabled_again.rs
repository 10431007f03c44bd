//! Enabling an endpoint with a replay: missed events are sent, once and paced; others are not.

use crate::{
    fixture::{ADMIN, Behaviour, Fixture},
    health::HOUR,
};
use posthaste::{domain::delivery::DeliveryState, service::deliveries::RequestedAction};
use std::time::Duration;

async fn states(fixture: &Fixture) -> Vec<DeliveryState> {
    fixture.deliveries().await.iter().map(|delivery| delivery.state).collect()
}

/// Publishes so many events, an hour apart.
async fn publish(fixture: &Fixture, count: u32) {
    for _ in 0..count {
        fixture.publish().await;
        fixture.pass(HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn zerofee_replays_what_died_before_it_was_disabled_and_releases_what_was_held() {
    let fixture = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    publish(&fixture, 3).await;
    fixture.set_behaviour(Behaviour::Answer(500));
    publish(&fixture, 30).await;
    assert!(fixture.entry.endpoint("ep").unwrap().record.disabled.is_some());
    let manual = fixture.deliveries().await[0].id.to_string();
    fixture.service.act_on_delivery(ADMIN, &fixture.entry, &manual, RequestedAction::Cancel).await.unwrap();
    fixture.set_behaviour(Behaviour::Answer(200));
    let before = fixture.seen().len();
    let (endpoint, replays) =
        fixture.service.enable_and_replay(ADMIN, &fixture.entry, "ep", Some(5)).await.unwrap();
    assert!(endpoint.record.disabled.is_none());
    assert_eq!(replays.len(), 1, "nothing was published without a delivery");
    assert_eq!((replays[0].replay.total, replays[0].replay.per_second), (10, 5), "the ten that ended");
    fixture.pass(HOUR * 9).await;
    let states = states(&fixture).await;
    assert_eq!(states.iter().filter(|state| **state == DeliveryState::Delivered).count(), 32);
    assert_eq!(states[0], DeliveryState::Cancelled, "a delivery that a person cancelled stays so");
    assert_eq!(fixture.seen().len() - before, 29, "and nothing goes twice");
}

#[tokio::test(start_paused = true)]
async fn bastionary_also_gets_the_events_of_the_time_it_was_disabled() {
    let fixture = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    publish(&fixture, 73).await;
    assert!(fixture.entry.endpoint("ep").unwrap().record.disabled.is_some());
    publish(&fixture, 5).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    let (_, replays) = fixture.service.enable_and_replay(ADMIN, &fixture.entry, "ep", None).await.unwrap();
    let kinds: Vec<_> = replays.iter().map(|shown| shown.replay.selection.kind()).collect();
    assert_eq!(kinds, ["replay", "backfill"]);
    assert_eq!(replays.iter().map(|shown| shown.replay.total).collect::<Vec<_>>(), [72, 5]);
    fixture.pass(HOUR).await;
    let states = states(&fixture).await;
    assert_eq!(
        (states.len(), states.iter().all(|state| *state == DeliveryState::Delivered)),
        (78, true),
        "{states:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn simpaisa_gets_what_was_cancelled_when_it_was_disabled() {
    let fixture = Fixture::new("simpaisa", Behaviour::Answer(500)).await;
    publish(&fixture, 3).await;
    fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    assert_eq!(states(&fixture).await, [DeliveryState::Cancelled; 3]);
    publish(&fixture, 2).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    let (_, replays) = fixture.service.enable_and_replay(ADMIN, &fixture.entry, "ep", None).await.unwrap();
    assert_eq!(replays.iter().map(|shown| shown.replay.total).collect::<Vec<_>>(), [3, 2]);
    fixture.pass(HOUR).await;
    assert_eq!(states(&fixture).await, [DeliveryState::Delivered; 5]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_trouble_missed_nothing_and_an_invalid_pace_changes_nothing() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    publish(&fixture, 2).await;
    let (_, replays) = fixture.service.enable_and_replay(ADMIN, &fixture.entry, "ep", None).await.unwrap();
    assert!(replays.is_empty());
    fixture.service.disable_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    let refused = fixture.service.enable_and_replay(ADMIN, &fixture.entry, "ep", Some(0)).await.unwrap_err();
    assert!(refused.to_string().contains("per_second"), "{refused}");
    assert!(fixture.entry.endpoint("ep").unwrap().record.disabled.is_some(), "it is still off");
    fixture.pass(Duration::from_secs(1)).await;
}

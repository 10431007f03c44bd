//! Bulk replays: a throttled endpoint gets nothing of them, and fresh events keep their pace.

use crate::{
    fixture::{ADMIN, Behaviour, Fixture},
    pacing::limit,
};
use posthaste::{
    runtime::Clock,
    service::{deliveries::RequestedAction, replays::NewReplay},
};
use std::time::Duration;

/// Publishes and delivers so many events, to be replayed.
async fn delivered(stage: &Fixture, count: usize) {
    for _ in 0..count {
        stage.publish().await;
    }
    stage.pass(Duration::from_mins(1)).await;
    assert_eq!(stage.seen().len(), count);
}

async fn replay_all(stage: &Fixture, per_second: u32) {
    let states = Some(vec!["delivered".to_owned()]);
    let new = NewReplay { states, per_second: Some(per_second), ..NewReplay::default() };
    let replay = stage.service.replay_of(&stage.entry, &new).unwrap();
    stage.service.begin_replay(ADMIN, &stage.entry, replay).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bulk_replay_waits_for_a_pause_and_a_manual_one_does_not() {
    let stage = Fixture::new("standard", Behaviour::Answer(200)).await;
    delivered(&stage, 5).await;
    stage.set_behaviour(Behaviour::AnswerLater(429, 30));
    stage.publish().await;
    stage.pass(Duration::from_secs(1)).await;
    stage.set_behaviour(Behaviour::Answer(200));
    replay_all(&stage, 1000).await;
    stage.pass(Duration::from_secs(20)).await;
    assert_eq!(stage.seen().len(), 6, "the endpoint asked for a pause");
    let one = stage.deliveries().await.pop().unwrap().id.to_string();
    stage.service.act_on_delivery(ADMIN, &stage.entry, &one, RequestedAction::Replay).await.unwrap();
    stage.pass(Duration::from_secs(1)).await;
    assert_eq!(stage.seen().len(), 7);
    stage.pass(Duration::from_mins(5)).await;
    assert_eq!(stage.seen().len(), 7 + 1 + 5, "the one that was refused, and all five");
}

#[tokio::test(start_paused = true)]
async fn a_replay_to_an_endpoint_with_a_rate_keeps_fresh_events_waiting_for_a_second_at_most() {
    let stage = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    delivered(&stage, 40).await;
    limit(&stage, 2, 1).await;
    replay_all(&stage, 1000).await;
    for _ in 0..5 {
        stage.pass(Duration::from_secs(2)).await;
        let before = stage.clock.now();
        stage.publish().await;
        stage.pass(Duration::from_secs(2)).await;
        let fresh = stage.deliveries().await.into_iter().find(|one| one.replay_of.is_none()).unwrap();
        let waited = fresh.finished_at.unwrap().since(before);
        assert!(waited <= Duration::from_millis(1500), "{waited:?}");
    }
    stage.pass(Duration::from_mins(2)).await;
    assert_eq!(stage.seen().len(), 40 + 40 + 5);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_no_limited_endpoint() {
    let stage = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    stage.pass(Duration::from_hours(2)).await;
    limit(&stage, 1, 1).await;
    stage.publish().await;
    stage.publish().await;
    stage.pass(Duration::from_millis(500)).await;
    assert_eq!(stage.seen().len(), 0, "no token yet");
    stage.clock.step(-3_600_000);
    stage.pass(Duration::from_secs(15)).await;
    assert_eq!(stage.seen().len(), 2);
}

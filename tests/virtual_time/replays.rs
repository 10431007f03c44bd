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
async fn delivered(fixture: &Fixture, count: usize) {
    for _ in 0..count {
        fixture.publish().await;
    }
    fixture.pass(Duration::from_mins(1)).await;
    assert_eq!(fixture.seen().len(), count);
}

async fn replay_all(fixture: &Fixture, per_second: u32) {
    let states = Some(vec!["delivered".to_owned()]);
    let new = NewReplay { states, per_second: Some(per_second), ..NewReplay::default() };
    let replay = fixture.service.replay_of(&fixture.entry, &new).unwrap();
    fixture.service.begin_replay(ADMIN, &fixture.entry, replay).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bulk_replay_waits_for_a_pause_and_a_manual_one_does_not() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    delivered(&fixture, 5).await;
    fixture.set_behaviour(Behaviour::AnswerLater(429, 30));
    fixture.publish().await;
    fixture.pass(Duration::from_secs(1)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    replay_all(&fixture, 1000).await;
    fixture.pass(Duration::from_secs(20)).await;
    assert_eq!(fixture.seen().len(), 6, "the endpoint asked for a pause");
    let one = fixture.deliveries().await.pop().unwrap().id.to_string();
    fixture.service.act_on_delivery(ADMIN, &fixture.entry, &one, RequestedAction::Replay).await.unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    assert_eq!(fixture.seen().len(), 7);
    fixture.pass(Duration::from_mins(5)).await;
    assert_eq!(fixture.seen().len(), 7 + 1 + 5, "the one that was refused, and all five");
}

#[tokio::test(start_paused = true)]
async fn a_replay_to_an_endpoint_with_a_rate_keeps_fresh_events_waiting_for_a_second_at_most() {
    let fixture = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    delivered(&fixture, 40).await;
    limit(&fixture, 2, 1).await;
    replay_all(&fixture, 1000).await;
    for _ in 0..5 {
        fixture.pass(Duration::from_secs(2)).await;
        let before = fixture.clock.now();
        fixture.publish().await;
        fixture.pass(Duration::from_secs(2)).await;
        let fresh = fixture.deliveries().await.into_iter().find(|one| one.replay_of.is_none()).unwrap();
        let waited = fresh.finished_at.unwrap().since(before);
        assert!(waited <= Duration::from_millis(1500), "{waited:?}");
    }
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(fixture.seen().len(), 40 + 40 + 5);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_no_limited_endpoint() {
    let fixture = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    fixture.pass(Duration::from_hours(2)).await;
    limit(&fixture, 1, 1).await;
    fixture.publish().await;
    fixture.publish().await;
    fixture.pass(Duration::from_millis(500)).await;
    assert_eq!(fixture.seen().len(), 0, "no token yet");
    fixture.clock.step(-3_600_000);
    fixture.pass(Duration::from_secs(15)).await;
    assert_eq!(fixture.seen().len(), 2);
}

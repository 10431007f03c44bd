//! How an endpoint under an adaptive contract is throttled and led back, instant by instant, and that strict contracts do
//! nothing of it.

use crate::fixture::{ADMIN, Behaviour, Fixture, TAKES};
use posthaste::{
    domain::{
        delivery::{Delivery, DeliveryState},
        time::Timestamp,
    },
    runtime::Clock,
    service::{Patch, deliveries::RequestedAction, endpoints::EndpointPatch},
};
use serde_json::json;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

async fn publish(fixture: &Fixture, count: usize) {
    for _ in 0..count {
        fixture.publish().await;
    }
}

/// Milliseconds from `from` to each request since the first `skip`.
fn since(fixture: &Fixture, from: Timestamp, skip: usize) -> Vec<u64> {
    fixture.seen()[skip..].iter().map(|at| at.since(from).as_millis() as u64).collect()
}

/// Returns all deliveries, the oldest first.
async fn deliveries(fixture: &Fixture) -> Vec<Delivery> {
    let mut all = fixture.deliveries().await;
    all.reverse();
    all
}

fn takes_ms() -> u64 {
    TAKES.as_millis() as u64
}

pub(crate) async fn limit(fixture: &Fixture, per_second: u32, burst: u32) {
    let limit = json!({ "per_second": per_second, "burst": burst });
    let rate_limit = Patch::Value(limit.as_object().unwrap().clone());
    let patch = EndpointPatch { rate_limit, ..EndpointPatch::default() };
    fixture.service.change_endpoint(ADMIN, &fixture.entry, "ep", patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ten_failures_open_the_circuit_and_one_is_tried_at_its_times_until_one_succeeds() {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    publish(&fixture, 12).await;
    let opened_at = fixture.clock.now().plus(TAKES);
    fixture.pass(Duration::from_mins(7)).await;
    // After 5 s, and from the end of each one that failed after 10 s, 20 s, … at most 5 min.
    let probes = [5000, 15_250, 35_500, 75_750, 156_000, 316_250];
    assert_eq!(since(&fixture, opened_at, 12), probes);
    let waiting = deliveries(&fixture).await;
    let due = waiting.iter().find(|one| one.due.is_some_and(|due| due <= fixture.clock.now())).unwrap();
    let why = fixture.service.delay_reason(due).unwrap();
    assert!(why.starts_with("the endpoint failed 18 times in a row; one is tried at 20"), "{why}");

    fixture.set_behaviour(Behaviour::Answer(200));
    let seen_before = fixture.seen().len();
    fixture.pass(Duration::from_mins(5)).await;
    let recovery = opened_at.plus(Duration::from_millis(316_250 + 2 * takes_ms() + 300_000));
    let led_back = since(&fixture, Timestamp::from_millis(recovery.as_millis() - 250), seen_before);
    // The probe; then one, two, four, and what is left.
    let step = takes_ms();
    let ramp = [0, step, 2 * step, 2 * step, 3 * step, 3 * step, 3 * step, 3 * step];
    assert_eq!(led_back[..8], ramp);
    assert_eq!(led_back[8..], [4 * step; 4], "no delivery waits for hours of backoff");
    let all = deliveries(&fixture).await;
    assert!(all.iter().all(|one| one.state == DeliveryState::Delivered));
}

#[tokio::test(start_paused = true)]
async fn a_recovery_brings_each_retry_forward_once_and_the_history_says_why() {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    publish(&fixture, 11).await;
    fixture.pass(Duration::from_secs(40)).await;
    let probed = fixture.seen().len() - 11;
    assert_eq!(probed, 3);
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.pass(Duration::from_mins(1)).await;
    let mut notes_of = Vec::new();
    for delivery in deliveries(&fixture).await {
        assert_eq!(delivery.state, DeliveryState::Delivered);
        notes_of.push(fixture.notes(&delivery).await);
    }
    let notes: Vec<String> = notes_of.iter().flatten().flatten().cloned().collect();
    let count = |start: &str| notes.iter().filter(|note| note.starts_with(start)).count();
    assert_eq!(count("a probe: the endpoint had failed 1"), probed + 1, "{notes:?}");
    assert_eq!(count("tried early: the endpoint answers again"), probed, "those that had hours to wait");
    assert_eq!(count("waited 1m"), 11 - probed - 1, "{notes:?}");
    assert!(notes_of.iter().all(|notes| notes[0].is_none()), "nothing on the happy path");
    let before = fixture.seen().len();
    fixture.pass(HOUR * 48).await;
    assert_eq!(fixture.seen().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_fails_again_after_a_recovery_waits_for_its_own_time() {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    publish(&fixture, 10).await;
    // Three probes; their deliveries wait for minutes now.
    fixture.pass(Duration::from_secs(40)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    let probe_at = fixture.seen()[12].plus(TAKES).plus(Duration::from_secs(40));
    let rest = probe_at.plus(TAKES).since(fixture.clock.now());
    fixture.pass(rest + Duration::from_millis(1)).await;
    fixture.set_behaviour(Behaviour::Answer(404));
    fixture.pass(TAKES + Duration::from_millis(20)).await;
    // The first after the probe failed: open again. All others were brought forward; this one was tried since.
    let all = deliveries(&fixture).await;
    let now = fixture.clock.now();
    let waiting: Vec<_> = all.iter().filter(|one| one.due.is_some_and(|due| due > now)).collect();
    assert_eq!(waiting.len(), 1, "{all:?}");
    assert!(waiting[0].due.unwrap() > now.plus(Duration::from_mins(1)), "its schedule goes on");
    assert_eq!(all.iter().filter(|one| one.due.is_some_and(|due| due <= now)).count(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_429_pauses_the_whole_queue_for_as_long_as_it_says_but_not_manual_deliveries() {
    let fixture = Fixture::new("standard", Behaviour::AnswerLater(429, 12)).await;
    fixture.publish().await;
    let begun = fixture.clock.now();
    fixture.pass(Duration::from_secs(1)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    publish(&fixture, 3).await;
    fixture.pass(Duration::from_secs(1)).await;
    assert_eq!(fixture.seen().len(), 1, "nothing automatic");
    let all = deliveries(&fixture).await;
    let why = fixture.service.delay_reason(&all[1]).unwrap();
    assert!(why.starts_with("the endpoint asked for a pause (429) until 20"), "{why}");
    let requested = fixture
        .service
        .act_on_delivery(ADMIN, &fixture.entry, &all[0].id.to_string(), RequestedAction::Retry)
        .await;
    assert_eq!(fixture.service.delay_reason(&requested.unwrap().delivery), None);
    fixture.service.send_test(&fixture.entry, "ep").await.unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    assert_eq!(since(&fixture, begun, 1), [2000, 2000], "a retry and a test by hand pass");
    fixture.pass(Duration::from_mins(1)).await;
    let step = takes_ms();
    let ends = 12_000 + step;
    assert_eq!(since(&fixture, begun, 3), [ends, ends + step, ends + step]);
    let all = deliveries(&fixture).await;
    let notes = fixture.notes(&all[1]).await;
    let waited = "waited 12s longer: the endpoint asked for a pause (429, Retry-After 12)";
    assert_eq!(notes, [Some(waited.to_owned())]);
    assert_eq!(fixture.notes(&all[0]).await, [None, None]);
}

#[tokio::test(start_paused = true)]
async fn answers_that_ask_for_a_pause_are_failures_too_and_open_the_circuit() {
    let fixture = Fixture::new("standard", Behaviour::Answer(503)).await;
    publish(&fixture, 9).await;
    fixture.pass(Duration::from_secs(16)).await;
    let seen = fixture.seen();
    // Nine were out together and made one pause of a second; the tenth failure is the first retry, and it opens the circuit.
    let first_retry = seen[9].since(seen[0]);
    assert!((4000..6500).contains(&first_retry.as_millis()), "{first_retry:?}");
    assert_eq!(seen[10].since(seen[9]), TAKES + Duration::from_secs(5));
    assert_eq!(seen.len(), 11, "one at a time");
}

#[tokio::test(start_paused = true)]
async fn strict_contracts_see_no_pause_and_no_circuit_and_no_ramp() {
    for does in [Behaviour::Answer(500), Behaviour::AnswerLater(429, 600), Behaviour::AnswerLater(503, 1)] {
        let fixture = Fixture::new("zerofee", does).await;
        publish(&fixture, 20).await;
        let begun = fixture.seen()[0];
        fixture.pass(Duration::from_secs(400)).await;
        let step = takes_ms();
        let twenty = |at: u64| std::iter::repeat_n(at, 20);
        let expected: Vec<u64> =
            twenty(0).chain(twenty(60_000 + step)).chain(twenty(360_000 + 2 * step)).collect();
        assert_eq!(since(&fixture, begun, 0), expected);
        for delivery in fixture.deliveries().await {
            assert_eq!(fixture.notes(&delivery).await, [None, None, None]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_distrusted_endpoint_is_probed_at_once_and_before_anything_else() {
    let fixture = Fixture::new("standard", Behaviour::Answer(200)).await;
    let endpoint = fixture.entry.endpoint("ep").unwrap().id();
    fixture.queues.start_half_open(endpoint, fixture.clock.now());
    publish(&fixture, 4).await;
    let begun = fixture.clock.now();
    fixture.pass(Duration::from_secs(2)).await;
    let step = takes_ms();
    assert_eq!(since(&fixture, begun, 0), [0, step, 2 * step, 2 * step]);
    let first = &deliveries(&fixture).await[0];
    let note = "a probe: the endpoint was failing before the last start".to_owned();
    assert_eq!(fixture.notes(first).await, [Some(note)]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_spaces_requests_out_and_fresh_ones_take_turns_with_a_backlog() {
    let fixture = Fixture::new("zerofee", Behaviour::Answer(200)).await;
    fixture.pass(Duration::from_secs(10)).await;
    limit(&fixture, 2, 1).await;
    publish(&fixture, 20).await;
    let begun = fixture.clock.now();
    fixture.pass(Duration::from_millis(2100)).await;
    assert_eq!(since(&fixture, begun, 0), [500, 1000, 1500, 2000]);
    let waits = deliveries(&fixture).await.pop().unwrap();
    let why = fixture.service.delay_reason(&waits).unwrap();
    assert_eq!(why, "the endpoint gets at most 2 per second");
    fixture.publish().await;
    let fresh_at = fixture.clock.now();
    fixture.pass(Duration::from_secs(20)).await;
    let all = deliveries(&fixture).await;
    let finished = all.last().unwrap().finished_at.unwrap();
    assert!(finished.since(fresh_at) < Duration::from_millis(1500), "not behind the sixteen before it");
    assert_eq!(fixture.seen().len(), 21);
    let notes = fixture.notes(&all[19]).await;
    assert_eq!(notes, [Some("waited 11s for the rate limit of 2 per second".to_owned())]);
    assert_eq!(fixture.notes(&all[0]).await, [None]);
}

#[tokio::test(start_paused = true)]
async fn an_event_published_long_after_a_flood_does_not_wait_behind_it() {
    let fixture = Fixture::new("standard", Behaviour::Answer(500)).await;
    limit(&fixture, 20, 5).await;
    publish(&fixture, 900).await;
    // Most of them were published after the first found no token, and all long before the endpoint is up.
    fixture.pass(Duration::from_mins(1)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    let mut longest = Duration::ZERO;
    fixture.pass(Duration::from_secs(30)).await;
    for _ in 0..10 {
        fixture.publish().await;
        let published_at = fixture.clock.now();
        fixture.pass(Duration::from_secs(3)).await;
        let fresh = fixture.delivery().await;
        longest = longest.max(fresh.finished_at.map_or(Duration::MAX, |at| at.since(published_at)));
    }
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    let delivered = fixture.seen().len();
    assert!(delivered < 900, "and the flood is still being drained: {delivered}");
}

async fn move_to(fixture: &Fixture, url: &str) {
    let patch = EndpointPatch { url: Some(url.to_owned()), ..EndpointPatch::default() };
    fixture.service.change_endpoint(ADMIN, &fixture.entry, "ep", patch).await.unwrap();
}

/// Whether an event that is published now is sent at once.
async fn is_prompt(fixture: &Fixture) -> bool {
    fixture.publish().await;
    fixture.pass(TAKES + Duration::from_millis(20)).await;
    fixture.delivery().await.state == DeliveryState::Delivered
}

#[tokio::test(start_paused = true)]
async fn another_address_begins_without_the_pause_and_the_circuit_of_the_old_one() {
    for does in [Behaviour::AnswerLater(429, 600), Behaviour::Answer(500)] {
        let fixture = Fixture::new("standard", does).await;
        publish(&fixture, 12).await;
        fixture.pass(Duration::from_secs(1)).await;
        fixture.set_behaviour(Behaviour::Answer(200));
        assert!(!is_prompt(&fixture).await, "{does:?}");
        move_to(&fixture, "https://new.receiver.example/hook").await;
        assert!(is_prompt(&fixture).await, "{does:?}");
    }
    let fixture = Fixture::new("standard", Behaviour::AnswerLater(503, 600)).await;
    fixture.publish().await;
    fixture.pass(Duration::from_millis(100)).await;
    move_to(&fixture, "https://new.receiver.example/hook").await;
    fixture.pass(TAKES).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    assert!(is_prompt(&fixture).await, "what the old one answers is not held against the new one");
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on_after_a_restart_unless_the_endpoint_moved() {
    let mut fixture = Fixture::new("standard", Behaviour::AnswerLater(429, 600)).await;
    fixture.publish().await;
    let begun = fixture.clock.now();
    fixture.pass(Duration::from_secs(1)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.publish().await;
    fixture.restart(Duration::from_secs(1)).await;
    fixture.publish().await;
    fixture.pass(Duration::from_mins(9)).await;
    assert_eq!(fixture.seen().len(), 1, "nothing was sent");
    let why = fixture.service.delay_reason(&fixture.delivery().await).unwrap();
    assert!(why.starts_with("the endpoint asked for a pause (429) until 20"), "{why}");
    fixture.pass(Duration::from_mins(2)).await;
    assert_eq!(since(&fixture, begun, 1)[0], 600_000 + takes_ms());
    assert_eq!(fixture.seen().len(), 4);

    fixture.set_behaviour(Behaviour::AnswerLater(429, 600));
    fixture.publish().await;
    fixture.pass(Duration::from_secs(1)).await;
    move_to(&fixture, "https://new.receiver.example/hook").await;
    fixture.restart(Duration::from_secs(1)).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    fixture.pass(Duration::from_secs(1)).await;
    assert!(is_prompt(&fixture).await);
}

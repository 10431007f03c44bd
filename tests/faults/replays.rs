//! A large replay whose node is killed in the middle: it continues where it was, and replays no delivery twice.

use crate::harness::{NodeFolder, TestClient, TestReceiver, wait_for, wait_until};
use serde_json::json;
use std::{collections::HashMap, time::Duration};
use tokio::time::{Instant, interval};

const WAIT_LIMIT: Duration = Duration::from_mins(5);
/// The endpoint's limit of deliveries in flight: each kill repeats at most this many.
const IN_FLIGHT: usize = 256;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_a_hundred_thousand_survives_kills_and_sends_each_once() {
    replay_through_kills(100_000, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a million deliveries are sent again, with ten kills"]
async fn a_replay_of_a_million_survives_kills_and_sends_each_once() {
    replay_through_kills(1_000_000, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: prints how long fresh events take alone and beside a replay of a million"]
async fn fresh_events_beside_a_replay_of_a_million() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let node = home.start().await;
    let client = node.client.clone();
    client.make_app("fresh").await;
    client.make_endpoint("fresh", "f", &receiver.url("/fresh"), json!({})).await;
    let path = cancelled(&client, &receiver, 1_000_000, 100).await;
    println!("| fresh events at 50 a second | p50 ms | p99 ms |\n|---|---|---|");
    for round in 1..=3 {
        for (to, name) in [("pause", "alone"), ("resume", "beside a replay at 100 a second")] {
            client.post(&format!("{path}/{to}"), &json!({})).await.expect(200);
            let took = latencies(&client, &receiver, 500).await;
            let at = |part: usize| took[took.len() * part / 100].as_secs_f64() * 1000.0;
            println!("| {round}: {name} | {:.1} | {:.1} |", at(50), at(99));
        }
    }
    let replay = client.get(&path).await.expect(200);
    assert!(replay["replayed"].as_u64().unwrap() > 1000, "the replay proceeded meanwhile: {replay:#}");
}

/// Returns the times from publishing to receipt, sorted.
async fn latencies(client: &TestClient, receiver: &TestReceiver, count: usize) -> Vec<Duration> {
    let before = receiver.count_at("/fresh");
    let (mut sent, mut pace) = (HashMap::new(), interval(Duration::from_millis(20)));
    for _ in 0..count {
        pace.tick().await;
        let at = Instant::now();
        let event =
            client.post("/v1/apps/fresh/events", &json!({ "type": "t", "data": 1 })).await.expect(202);
        sent.insert(event["id"].as_str().unwrap().to_owned(), at);
    }
    wait_until("all arrived", WAIT_LIMIT, async || receiver.count_at("/fresh") >= before + count).await;
    let receipts = receiver.receipts_at("/fresh");
    let mut took: Vec<Duration> =
        receipts.iter().filter_map(|receipt| sent.get(receipt.id()).map(|at| receipt.at - *at)).collect();
    took.sort_unstable();
    took
}

async fn replay_through_kills(count: usize, kills: usize) {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start().await;
    let client = node.client.clone();
    let path = cancelled(&client, &receiver, count, 10_000).await;

    for kill in 1..=kills {
        let reached = count * kill / (kills + 1);
        wait_until("the replay is well under way", WAIT_LIMIT, async || receiver.count_at("/e") >= reached)
            .await;
        node.kill().await;
        node = home.start().await;
    }
    let client = node.client.clone();
    let done = wait_for("the replay is finished", WAIT_LIMIT, async || {
        let replay = client.get(&path).await.expect(200);
        (replay["state"] == "finished").then_some(replay)
    })
    .await;
    assert_eq!((&done["replayed"], &done["refused"]), (&json!(count), &json!(0)), "{done:#}");
    wait_until("everything is delivered", WAIT_LIMIT, async || {
        client.list("/v1/apps/a/deliveries?status=pending").await.is_empty()
            && client.list("/v1/apps/a/deliveries?status=in_flight").await.is_empty()
    })
    .await;
    let mut times: HashMap<String, usize> = HashMap::new();
    for receipt in receiver.receipts_at("/e") {
        *times.entry(receipt.id().to_owned()).or_default() += 1;
    }
    assert_eq!(times.len(), count, "every event arrived");
    let repeated = times.values().filter(|times| **times > 1).count();
    println!("{count} replayed, {kills} kills, {repeated} sent twice");
    // Deliveries in flight, and those queued in memory: sent again after a kill, because they may have arrived.
    assert!(repeated <= kills * 2 * IN_FLIGHT, "{repeated}");
}

/// Makes `count` cancelled deliveries, and a replay of all of them. Returns the replay's path.
async fn cancelled(client: &TestClient, receiver: &TestReceiver, count: usize, per_second: u32) -> String {
    client.make_app("a").await;
    let cancelling = json!({
        "overrides": { "off": { "waiting": "cancelled", "published": "cancelled" } }, "max_in_flight": IN_FLIGHT,
    });
    client.make_endpoint("a", "e", &receiver.url("/e"), cancelling).await;
    client.post("/v1/apps/a/endpoints/e/disable", &json!({})).await.expect(200);
    for batch in 0..count / 1000 {
        let events: Vec<_> = (0..1000).map(|n| json!({ "type": "t", "data": batch * 1000 + n })).collect();
        client.post("/v1/apps/a/events/batch", &json!({ "events": events })).await.expect(200);
    }
    client.post("/v1/apps/a/endpoints/e/enable", &json!({})).await.expect(200);
    let body = json!({ "endpoint_id": "e", "status": ["cancelled"], "per_second": per_second });
    let replay = client.post("/v1/apps/a/replays", &body).await.expect(201);
    assert_eq!(replay["total"], count);
    format!("/v1/apps/a/replays/{}", replay["id"].as_str().unwrap())
}

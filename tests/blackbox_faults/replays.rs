//! A large replay that is killed in the middle: it goes on where it was, and no delivery is sent again twice.

use crate::harness::{Home, Receiver, wait_for, wait_until};
use serde_json::json;
use std::{collections::HashMap, time::Duration};

const LIMIT: Duration = Duration::from_mins(5);
/// What an endpoint may carry at once: at most this many are sent twice by each kill.
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

async fn replay_through_kills(count: usize, kills: usize) {
    let (home, receiver) = (Home::new(), Receiver::start().await);
    let mut node = home.start().await;
    let client = node.client.clone();
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
    let asked = json!({ "endpoint_id": "e", "status": ["cancelled"], "per_second": 10_000 });
    let replay = client.post("/v1/apps/a/replays", &asked).await.expect(201);
    assert_eq!(replay["total"], count);
    let path = format!("/v1/apps/a/replays/{}", replay["id"].as_str().unwrap());

    for kill in 1..=kills {
        let reached = count * kill / (kills + 1);
        wait_until("the replay is well under way", LIMIT, async || receiver.count_at("/e") >= reached).await;
        node.kill().await;
        node = home.start().await;
    }
    let client = node.client.clone();
    let done = wait_for("the replay is finished", LIMIT, async || {
        let replay = client.get(&path).await.expect(200);
        (replay["state"] == "finished").then_some(replay)
    })
    .await;
    assert_eq!((&done["replayed"], &done["refused"]), (&json!(count), &json!(0)), "{done:#}");
    wait_until("everything is delivered", LIMIT, async || {
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
    // In flight, and queued for it in memory: sent again after a kill, because they may have arrived.
    assert!(repeated <= kills * 2 * IN_FLIGHT, "{repeated}");
}

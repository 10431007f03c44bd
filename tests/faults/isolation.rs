//! Endpoints that hang must not slow down the others.

use crate::harness::{Behaviour, NodeFolder, TestClient, TestReceiver, quantile, wait_until};
use serde_json::json;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const ENDPOINTS: usize = 10;
const HUNG: usize = 2;
const PERMITS: usize = 128;
const EVENTS: usize = 300;
const ROUNDS: usize = 4;

fn path(endpoint: usize) -> String {
    format!("/e{endpoint}")
}

/// Publishes to every endpoint at a steady pace. Returns the time of each healthy delivery from the publish to its
/// receipt.
async fn healthy_latencies(client: &TestClient, receiver: &TestReceiver, round: &str) -> Vec<Duration> {
    let mut sent_at = HashMap::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for n in 0..EVENTS {
        ticks.tick().await;
        let id = format!("{round}-{n}");
        sent_at.insert(id.clone(), Instant::now());
        client.publish("a", &json!({ "id": id, "type": "t", "data": n })).await;
    }
    let healthy: Vec<String> = (HUNG..ENDPOINTS).map(path).collect();
    let arrived = || {
        let receipts = receiver.receipts();
        let is_healthy = |path: &String, id: &str| healthy.contains(path) && id.starts_with(round);
        receipts.into_iter().filter(|receipt| is_healthy(&receipt.path, receipt.id())).collect::<Vec<_>>()
    };
    let all = EVENTS * healthy.len();
    wait_until("the healthy ones get everything", WAIT_LIMIT, async || arrived().len() >= all).await;
    let arrived = arrived();
    assert_eq!(arrived.len(), all, "nothing comes twice");
    arrived.iter().map(|receipt| receipt.at - sent_at[receipt.id()]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifth_of_the_endpoints_hanging_does_not_slow_the_others_down() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let node = home.start_with(&["--hands", &PERMITS.to_string()]).await;
    let client = node.client.clone();
    client.make_app("a").await;
    for endpoint in 0..ENDPOINTS {
        let patient = json!({ "overrides": { "timeout": "1m" } });
        client.make_endpoint("a", &format!("e{endpoint}"), &receiver.url(&path(endpoint)), patient).await;
    }
    let normal = healthy_latencies(&client, &receiver, "normal").await;
    for endpoint in 0..HUNG {
        receiver.behave(&path(endpoint), Behaviour::Hang);
    }
    let normal_p99 = quantile(normal, 0.99);
    let promised = Duration::from_millis(50).max(normal_p99 * 2);
    // The best of a few rounds counts, because the machine has other load. Without endpoint queues it would be minutes.
    let mut beside_p99 = Duration::MAX;
    for round in 0..ROUNDS {
        let beside = healthy_latencies(&client, &receiver, &format!("beside-{round}")).await;
        beside_p99 = beside_p99.min(quantile(beside, 0.99));
        if beside_p99 <= promised {
            break;
        }
    }
    let open: Vec<usize> = (0..HUNG).map(|endpoint| receiver.open_most_at(&path(endpoint))).collect();
    println!(
        "p99 of the healthy: {normal_p99:?} normally, {beside_p99:?} beside hanging ones, which had {open:?} requests open"
    );
    assert!(beside_p99 <= promised, "{normal_p99:?} {beside_p99:?}");
    assert!(open.iter().all(|open| *open > 0), "they did not hang: {open:?}");
    assert!(
        open.iter().sum::<usize>() < PERMITS * 3 / 4,
        "hanging ones took too many of {PERMITS} permits: {open:?}"
    );
}

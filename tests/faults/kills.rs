//! `kill -9` again and again under load, at random moments.

use crate::{
    checker::{DeliveryFigures, count_in_flight, dump},
    harness::{Behaviour, NodeFolder, TestNode, TestReceiver, wait_until},
    producer::Producers,
};
use serde_json::json;
use std::time::Duration;

const ENDPOINTS: [&str; 5] = ["one", "two", "three", "four", "shaky"];
const SETTLED_WITHIN: Duration = Duration::from_mins(1);
/// The promise is a second; a busy machine that also compiles must not turn the test red.
const READY_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_kills_under_load_lose_nothing_and_repeat_only_what_was_in_flight() {
    kill_again_and_again(30, 20_261_115).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a thousand kills at random moments take about ten minutes"]
async fn a_thousand_kills_under_load_lose_nothing_and_repeat_only_what_was_in_flight() {
    let seed = fastrand::Rng::new().u64(..);
    kill_again_and_again(1_000, seed).await;
}

async fn kill_again_and_again(kills: usize, seed: u64) {
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (home, receiver, producers) = (NodeFolder::new(), TestReceiver::start().await, Producers::default());
    receiver.behave("/shaky", Behaviour::FailEvery(5));
    let mut node = home.start().await;
    set_up(&node, &receiver).await;
    producers.follow(&node.client);
    let running = producers.start(4, Duration::from_millis(8));
    let (mut interrupted, mut slowest) = (0, Duration::ZERO);
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(random.u64(50..600))).await;
        node.kill().await;
        interrupted += count_in_flight(&home.store());
        node = home.start().await;
        producers.follow(&node.client);
        slowest = slowest.max(node.ready_after);
    }
    producers.finish(running).await;
    wait_until_ended(&node).await;
    assert_eq!(node.stop().await, Some(0));

    let sent = producers.sent();
    let figures = DeliveryFigures::of(&sent, &receiver.receipts(), &dump(&home.store()));
    println!("kills={kills} {figures} in_flight_at_kills={interrupted} slowest_start={slowest:?}");
    println!("unknown to the producers={} refused={:?}", sent.unknown, sent.refused);
    figures.assert_faultless();
    assert_eq!(
        figures.unknown, interrupted,
        "one attempt of unknown outcome for each that was in flight at a kill"
    );
    assert!(figures.duplicates <= interrupted);
    assert!(slowest < READY_WITHIN, "{slowest:?}");
    assert!(
        sent.unknown > 0 && interrupted > 0,
        "no kill met anything under way: the load is too low to show anything"
    );
}

async fn set_up(node: &TestNode, receiver: &TestReceiver) {
    node.client.make_app("a").await;
    let waits = ["50ms", "100ms", "200ms", "400ms", "800ms", "1s", "1s", "1s", "1s"];
    let overrides = json!({ "overrides": { "retry": { "waits": waits, "jitter": "none" } } });
    for endpoint in ENDPOINTS {
        let url = receiver.url(&format!("/{endpoint}"));
        node.client.make_endpoint("a", endpoint, &url, overrides.clone()).await;
    }
}

async fn wait_until_ended(node: &TestNode) {
    wait_until("every delivery has ended", SETTLED_WITHIN, async || {
        node.client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
}

//! Waiting deliveries must slow down neither a start nor other deliveries.

use crate::harness::{NodeFolder, TestReceiver, from_now, wait_until};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const WAIT_LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_waiting_deliveries_do_not_delay_a_start_after_a_kill() {
    start_beside(100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a million deliveries take a few minutes to publish"]
async fn a_million_waiting_deliveries_do_not_delay_a_start_after_a_kill() {
    start_beside(1_000).await;
}

/// Publishes batches of a thousand waiting events; then a kill, a start, and an event that must be sent at once.
async fn start_beside(batches: usize) {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start().await;
    node.client.make_app("a").await;
    for (id, types) in [("later", "later.*"), ("now", "now.*")] {
        let more = json!({ "event_types": [types] });
        node.client.make_endpoint("a", id, &receiver.url(&format!("/{id}")), more).await;
    }
    let idle_kib = node.memory_kib("VmRSS");
    let event = json!({ "type": "later.on", "data": 1, "deliver_at": from_now(Duration::from_hours(24)) });
    let batch = json!({ "events": vec![event; 1000] });
    for _ in 0..batches {
        let answer = node.client.post("/v1/apps/a/events/batch", &batch).await.expect(200);
        assert!(answer["data"].as_array().unwrap().iter().all(|one| one["status"] == 202));
    }
    let full_kib = node.memory_kib("VmRSS");
    node.kill().await;
    let node = home.start().await;
    println!("ready {:?} after a kill with {batches} thousand waiting", node.ready_after);
    println!(
        "resident: {idle_kib} KiB before, {full_kib} KiB after, {} KiB at the next start",
        node.memory_kib("VmRSS")
    );
    // The promise is a second.
    assert!(node.ready_after < Duration::from_secs(5), "{:?}", node.ready_after);
    assert!(full_kib < idle_kib + 96 * 1024, "memory grows with the backlog: {idle_kib} to {full_kib} KiB");
    let sent_at = Instant::now();
    node.client.publish("a", &json!({ "type": "now.please", "data": 1 })).await;
    wait_until("a new event arrives", WAIT_LIMIT, async || receiver.count_at("/now") == 1).await;
    println!("a new event took {:?}", sent_at.elapsed());
    assert_eq!(receiver.count_at("/later"), 0, "waiting deliveries are not sent early");
}

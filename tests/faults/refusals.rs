//! Refusals of the binary: a shared store, and more events than it can hold.

use crate::harness::{NodeFolder, TestClient, TestReceiver, wait_until};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

const WAIT_LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_same_store_is_refused_and_the_first_is_unharmed() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let node = home.start().await;
    node.client.make_app("a").await;
    node.client.make_endpoint("a", "one", &receiver.url("/one"), Value::Null).await;
    for _ in 0..3 {
        let mut second = home.spawn(&[], &["serve"]);
        let code = second.exited().await.code();
        assert_eq!(code, Some(1), "{}", second.log());
        let said = second.log();
        assert!(said.contains("another process already uses the store"), "{said}");
        assert!(said.contains(&home.store().display().to_string()), "it names the store: {said}");
        assert!(!said.contains("posthaste is ready"), "{said}");
    }
    node.client.publish("a", &json!({ "type": "t", "data": 1 })).await;
    wait_until("the first still delivers", WAIT_LIMIT, async || receiver.count_at("/one") == 1).await;
}

/// Floods the node and counts accepted publishes and those refused with 429. The rest of a refused body is read only
/// for a while; a client that still sends by then is cut off, and counted as refused.
async fn flood(client: &TestClient, senders: usize, each: usize, body: Bytes) -> (usize, usize) {
    let mut running = JoinSet::new();
    for _ in 0..senders {
        let (client, body) = (client.clone(), body.clone());
        running.spawn(async move {
            let (mut accepted, mut refused) = (0, 0);
            for _ in 0..each {
                let sent = client.send(Method::POST, "/v1/apps/a/events", &[], body.clone()).await;
                let Ok(answer) = sent else {
                    refused += 1;
                    continue;
                };
                match answer.status {
                    202 => accepted += 1,
                    429 => {
                        assert_eq!(answer.json()["code"], "overloaded");
                        assert!(answer.header("retry-after").parse::<u32>().is_ok(), "{answer:?}");
                        refused += 1;
                    }
                    _ => panic!("{}", answer.text()),
                }
            }
            (accepted, refused)
        });
    }
    let counts = running.join_all().await;
    counts.into_iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_refused_with_429_before_memory_grows_and_accepted_events_arrive() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let flags = ["--accept-queue-max", "8", "--queued-bytes-max", "8MiB"];
    let mut node = home.start_with(&flags).await;
    node.client.make_app("a").await;
    node.client.make_endpoint("a", "one", &receiver.url("/one"), Value::Null).await;
    let idle_kib = node.memory_kib("VmRSS");

    let small = Bytes::from(json!({ "type": "t", "data": "x".repeat(500) }).to_string());
    let (small_accepted, small_refused) = flood(&node.client, 200, 20, small).await;
    let large = Bytes::from(json!({ "type": "t", "data": "x".repeat(768 * 1024) }).to_string());
    let (large_accepted, large_refused) = flood(&node.client, 600, 1, large).await;
    let most_kib = node.memory_kib("VmHWM");
    println!(
        "small: {small_accepted} accepted, {small_refused} refused; large: {large_accepted} accepted, {large_refused} refused"
    );
    println!("memory: idle {idle_kib} KiB, at most {most_kib} KiB");
    assert!(small_accepted > 0 && small_refused > 0, "the flood was none: {small_accepted}, {small_refused}");
    assert!(large_accepted > 0 && large_refused > 0, "the flood was none: {large_accepted}, {large_refused}");
    // All of the large ones together would be 450 MiB.
    assert!(most_kib < idle_kib + 240 * 1024, "idle {idle_kib} KiB, at most {most_kib} KiB");

    let accepted = small_accepted + large_accepted;
    wait_until("everything accepted arrives", WAIT_LIMIT, async || receiver.count_at("/one") >= accepted)
        .await;
    wait_until("and is recorded", WAIT_LIMIT, async || {
        node.client.list("/v1/apps/a/deliveries?status=delivered&limit=100").await.len() == accepted
    })
    .await;
    assert_eq!(receiver.count_at("/one"), accepted, "nothing refused was sent, nothing was sent twice");
    assert_eq!(node.stop().await, Some(0));
}

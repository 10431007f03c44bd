//! A disk that fills up, and a disk whose flush fails: every accepted event must be kept.

use crate::{
    checker::{DeliveryFigures, dump},
    harness::{Namespace, NodeFolder, TestReceiver, from_now, wait_until},
    producer::Producers,
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{ErrorKind, Write},
    time::Duration,
};
use tokio::time::Instant;

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const SMALL_DISK: &str = "/mnt";

/// Writes until the disk is full.
fn fill(path: &str) {
    let mut file = File::create(path).unwrap();
    for size in [64 * 1024, 512] {
        let chunk = vec![b'x'; size];
        let error = loop {
            if let Err(error) = file.write_all(&chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_answered_503_and_with_free_space_publishing_works_again() {
    let inside = Namespace {
        test: "disk::a_full_disk_is_answered_503_and_with_free_space_publishing_works_again",
        prepare: "mount -t tmpfs -o size=24m none /mnt",
    };
    if !inside.enter() {
        return;
    }
    let (mut home, receiver, producers) =
        (NodeFolder::new(), TestReceiver::start().await, Producers::default());
    home.set("STORE", &format!("sqlite:{SMALL_DISK}/posthaste.db"));
    home.set("DISK_FREE_MIN", "0");
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    for endpoint in ["one", "two"] {
        client.make_endpoint("a", endpoint, &receiver.url(&format!("/{endpoint}")), Value::Null).await;
    }
    producers.follow(&client);
    let running = producers.start(4, Duration::from_millis(5));
    wait_until("some are accepted", WAIT_LIMIT, async || producers.sent().accepted.len() > 100).await;

    let filler = format!("{SMALL_DISK}/filler");
    fill(&filler);
    wait_until("publishing is refused", WAIT_LIMIT, async || producers.sent().refused.contains_key(&503))
        .await;
    let large = json!({ "type": "t", "data": "x".repeat(600 * 1024) });
    let refused = client.try_publish("a", &large).await.unwrap();
    assert_eq!(refused.expect(503)["code"], "unavailable");
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert!(refused.header("retry-after").parse::<u32>().is_ok(), "{refused:?}");
    let ready = client.get("/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.text());
    assert!(ready.text().contains("disk is full"), "{}", ready.text());
    assert_eq!(client.get("/v1/apps/a").await.status, 200, "reading goes on");

    std::fs::remove_file(&filler).unwrap();
    let freed_at = Instant::now();
    let before = producers.sent().accepted.len();
    wait_until("publishing works again", WAIT_LIMIT, async || producers.sent().accepted.len() > before + 4)
        .await;
    let took = freed_at.elapsed();
    println!("accepting again {took:?} after there was room; refused: {:?}", producers.sent().refused);
    assert!(took < Duration::from_secs(5), "{took:?}");
    producers.finish(running).await;
    wait_until("everything has ended", WAIT_LIMIT, async || {
        client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
    assert_eq!(client.get("/readyz").await.status, 200);
    assert_eq!(node.stop().await, Some(0), "{}", node.log());

    let figures = DeliveryFigures::of(&producers.sent(), &receiver.receipts(), &dump(&home.store()));
    println!("{figures}");
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert_eq!(producers.sent().refused.keys().collect::<Vec<_>>(), [&503], "nothing but 503 was said");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_a_full_disk_can_be_stopped_and_loses_nothing() {
    let inside = Namespace {
        test: "disk::a_node_on_a_full_disk_can_be_stopped_and_loses_nothing",
        prepare: "mount -t tmpfs -o size=24m none /mnt",
    };
    if !inside.enter() {
        return;
    }
    let (mut home, receiver, producers) =
        (NodeFolder::new(), TestReceiver::start().await, Producers::default());
    home.set("STORE", &format!("sqlite:{SMALL_DISK}/posthaste.db"));
    home.set("DISK_FREE_MIN", "0");
    let mut node = home.start_with(&["--shutdown-grace", "2s"]).await;
    node.client.make_app("a").await;
    node.client.make_endpoint("a", "one", &receiver.url("/one"), Value::Null).await;
    producers.follow(&node.client);
    let running = producers.start(4, Duration::from_millis(5));
    wait_until("some are accepted", WAIT_LIMIT, async || producers.sent().accepted.len() > 100).await;
    let filler = format!("{SMALL_DISK}/filler");
    fill(&filler);
    wait_until("publishing is refused", WAIT_LIMIT, async || producers.sent().refused.contains_key(&503))
        .await;
    let told_at = Instant::now();
    node.term();
    let code = node.exited().await.code();
    println!("stopped after {:?} with {code:?}", told_at.elapsed());
    assert!(told_at.elapsed() < Duration::from_secs(10), "{:?}", told_at.elapsed());

    std::fs::remove_file(&filler).unwrap();
    let mut node = home.start().await;
    producers.follow(&node.client);
    producers.finish(running).await;
    wait_until("everything has ended", WAIT_LIMIT, async || {
        node.client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
    assert_eq!(node.stop().await, Some(0));
    let figures = DeliveryFigures::of(&producers.sent(), &receiver.receipts(), &dump(&home.store()));
    println!("{figures}");
    figures.assert_faultless();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_flush_nothing_is_accepted_until_it_is_started_again() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    // One flush fails; later ones would succeed again, but cannot be trusted.
    let strace = ["strace", "-D", "-f", "-qq", "-o", "/dev/null"];
    let fail = ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO:when=40"];
    let mut node = home.start_under(&[&strace[..], &fail].concat(), &[]).await;
    let client = node.client.clone();
    client.make_app("a").await;
    client.make_endpoint("a", "one", &receiver.url("/one"), Value::Null).await;
    let deliver_at = from_now(Duration::from_secs(3));
    let event = |n: u32| json!({ "id": format!("e{n}"), "type": "t", "data": n, "deliver_at": deliver_at });
    let (mut accepted, mut refused, mut n) = (Vec::new(), Vec::new(), 0);
    while refused.len() < 50 {
        n += 1;
        let answer = client.try_publish("a", &event(n)).await.unwrap();
        match answer.status {
            202 => {
                assert!(refused.is_empty(), "accepted after a failed flush");
                accepted.push(n);
            }
            503 => {
                assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
                refused.push(n);
            }
            _ => panic!("{}", answer.text()),
        }
        assert!(n < 1000, "no flush failed: strace does not inject");
    }
    assert!(!accepted.is_empty());
    assert_eq!(client.get("/readyz").await.status, 503, "others should get the traffic");
    assert!(node.log().contains("a flush failed"), "{}", node.log());
    node.kill().await;

    let node = home.start().await;
    for n in &refused {
        let answer = node.client.try_publish("a", &event(*n)).await.unwrap();
        assert!(matches!(answer.status, 202 | 200), "{}", answer.text());
    }
    let all = accepted.len() + refused.len();
    wait_until("everything arrives", WAIT_LIMIT, async || receiver.count_at("/one") >= all).await;
    println!("{} accepted before the flush failed, {} refused after it", accepted.len(), refused.len());
}

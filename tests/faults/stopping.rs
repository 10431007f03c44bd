//! SIGTERM: accept nothing new, finish deliveries in flight, release the rest without an attempt, exit 0.

use crate::{
    checker::{DeliveryFigures, dump},
    harness::{Behaviour, NodeFolder, TestClient, TestReceiver, attempt_classes, wait_until},
    producer::Producers,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const WAIT_LIMIT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(2);

/// Ten deliveries to each of three endpoints that take two at a time: slow ones that end within the grace period, and
/// ones that hang or drip for ever.
async fn set_up(client: &TestClient, receiver: &TestReceiver) -> Vec<(String, String)> {
    receiver.behave("/slow", Behaviour::Slow(Duration::from_millis(500)));
    receiver.behave("/hung", Behaviour::Hang);
    receiver.behave("/drip", Behaviour::Drip(Duration::from_millis(50)));
    client.make_app("a").await;
    let more = json!({ "max_in_flight": 2, "overrides": { "timeout": "1m" } });
    for endpoint in ["slow", "hung", "drip"] {
        client.make_endpoint("a", endpoint, &receiver.url(&format!("/{endpoint}")), more.clone()).await;
    }
    let mut deliveries = Vec::new();
    for n in 0..10 {
        let published = client.publish("a", &json!({ "type": "t", "data": n })).await;
        for delivery in published["deliveries"].as_array().unwrap() {
            let word = |field: &str| delivery[field].as_str().unwrap().to_owned();
            deliveries.push((word("endpoint_id"), word("id")));
        }
    }
    wait_until("two are open at each", WAIT_LIMIT, async || {
        ["/slow", "/hung", "/drip"].iter().all(|path| receiver.open_at(path) == 2)
    })
    .await;
    deliveries
}

async fn all_delivered(client: &TestClient, count: usize) {
    wait_until("all are delivered", WAIT_LIMIT, async || {
        client.list("/v1/apps/a/deliveries?status=delivered").await.len() == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_finishes_deliveries_in_flight_and_releases_the_rest_unattempted() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start_with(&["--shutdown-grace", "2s"]).await;
    let client = node.client.clone();
    let deliveries = set_up(&client, &receiver).await;

    node.term();
    let told_at = Instant::now();
    wait_until("/readyz turns 503", GRACE, async || client.get("/readyz").await.status == 503).await;
    let refused = client.try_publish("a", &json!({ "type": "t", "data": 1 })).await.unwrap();
    assert_eq!(refused.expect(503)["code"], "unavailable");
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(client.get("/livez").await.status, 200, "a stopping node is still alive");
    assert_eq!(node.exited().await.code(), Some(0), "{}", node.log());
    let took = told_at.elapsed();
    println!("stopped after {took:?} with a grace period of {GRACE:?}");
    assert!(took < GRACE + Duration::from_secs(2), "{took:?}");
    // The slow ones would have had time for eight more.
    let sent = ["/hung", "/drip", "/slow"].map(|path| receiver.count_at(path));
    assert!(sent[0] == 2 && sent[1] == 2 && sent[2] <= 4, "nothing is sent after the signal: {sent:?}");

    receiver.behave("/hung", Behaviour::Ok);
    receiver.behave("/drip", Behaviour::Ok);
    receiver.behave("/slow", Behaviour::Ok);
    let node = home.start().await;
    all_delivered(&node.client, 30).await;
    let mut histories = Vec::new();
    for (endpoint, id) in deliveries {
        let delivery = node.client.delivery("a", &id).await;
        histories.push(format!("{endpoint}: {}", attempt_classes(&delivery).join(", ")));
    }
    histories.sort_unstable();
    let count = |history: &str| histories.iter().filter(|known| *known == history).count();
    assert_eq!(count("slow: ok"), 10, "{histories:?}");
    for endpoint in ["hung", "drip"] {
        assert_eq!(count(&format!("{endpoint}: unknown, ok")), 2, "{histories:?}");
        assert_eq!(count(&format!("{endpoint}: ok")), 8, "{histories:?}");
    }
    assert_eq!(receiver.count_at("/slow"), 10, "what finished in time is not sent again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_sigterm_ends_it_at_once_and_loses_nothing() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start_with(&["--shutdown-grace", "10m"]).await;
    let client = node.client.clone();
    set_up(&client, &receiver).await;
    node.term();
    wait_until("/readyz turns 503", WAIT_LIMIT, async || client.get("/readyz").await.status == 503).await;
    let told_at = Instant::now();
    node.term();
    let code = node.exited().await.code();
    assert_eq!(code, Some(1), "what was in flight is not finished: {}", node.log());
    assert!(told_at.elapsed() < Duration::from_secs(3), "{:?}", told_at.elapsed());

    for path in ["/hung", "/drip", "/slow"] {
        receiver.behave(path, Behaviour::Ok);
    }
    let node = home.start().await;
    all_delivered(&node.client, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_restarts_under_load_repeat_nothing_and_leave_nothing_unknown() {
    let (home, receiver, producers) = (NodeFolder::new(), TestReceiver::start().await, Producers::default());
    let mut node = home.start().await;
    node.client.make_app("a").await;
    for endpoint in ["one", "two"] {
        node.client.make_endpoint("a", endpoint, &receiver.url(&format!("/{endpoint}")), Value::Null).await;
    }
    producers.follow(&node.client);
    let running = producers.start(8, Duration::from_millis(2));
    for _ in 0..10 {
        let enough = receiver.receipts().len() + 200;
        wait_until("some more is delivered", WAIT_LIMIT, async || receiver.receipts().len() > enough).await;
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
        node = home.start().await;
        producers.follow(&node.client);
    }
    producers.finish(running).await;
    wait_until("everything has ended", WAIT_LIMIT, async || {
        node.client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
    assert_eq!(node.stop().await, Some(0));
    let sent = producers.sent();
    let figures = DeliveryFigures::of(&sent, &receiver.receipts(), &dump(&home.store()));
    println!("{figures}; unknown to the producers={} refused={:?}", sent.unknown, sent.refused);
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
}

//! Expired records are deleted while the real binary works, is killed and started again; newer ones are not affected.

use crate::{
    age_store::{age, pages},
    checker::{DeliveryFigures, dump},
    harness::{Behaviour, NodeFolder, TestClient, TestReceiver, wait_until},
    producer::Producers,
};
use serde_json::{Value, json};
use std::time::Duration;

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

async fn only_delivery(client: &TestClient, endpoint: &str) -> Option<Value> {
    client.list(&format!("/v1/apps/a/deliveries?endpoint_id={endpoint}")).await.into_iter().next()
}

async fn detail(client: &TestClient, endpoint: &str) -> Value {
    let id = only_delivery(client, endpoint).await.expect("a delivery")["id"].clone();
    client.get(&format!("/v1/apps/a/deliveries/{}", id.as_str().unwrap())).await.json()
}

async fn is_in(client: &TestClient, endpoint: &str, status: &str) {
    wait_until(&format!("{endpoint} is {status}"), WAIT_LIMIT, async || {
        only_delivery(client, endpoint).await.is_some_and(|delivery| delivery["status"] == status)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_shows_the_remaining_records_after_days_weeks_and_months() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    receiver.behave("/dead", Behaviour::Status(500));
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    let dead = json!({ "retention": { "dead_letters": "forever" }, "retry": { "waits": [] } });
    for (endpoint, event_type, overrides) in [
        ("done", "t.done", json!({ "retention": { "attempts": "10d", "payloads": "2d" } })),
        ("held", "t.held", json!({})),
        ("dead", "t.dead", dead),
    ] {
        let more = json!({ "event_types": [event_type], "overrides": overrides });
        client.make_endpoint("a", endpoint, &receiver.url(&format!("/{endpoint}")), more).await;
    }
    client.post("/v1/apps/a/endpoints/held/disable", &Value::Null).await.expect(200);
    for name in ["done", "held", "dead"] {
        let event = json!({ "id": name, "type": format!("t.{name}"), "data": { "order": 17 } });
        client.try_publish("a", &event).await.unwrap().expect(202);
    }
    is_in(&client, "done", "delivered").await;
    is_in(&client, "dead", "dead").await;
    assert_eq!(detail(&client, "done").await["attempts_expired"], false);
    assert_eq!(node.stop().await, Some(0));

    age(&home.store(), DAY * 11);
    let mut node = home.start().await;
    let client = node.client.clone();
    wait_until("its payload is gone", WAIT_LIMIT, async || {
        client.get("/v1/apps/a/events/done").await.json()["data_erased"] == true
    })
    .await;
    wait_until("its history is gone", WAIT_LIMIT, async || {
        detail(&client, "done").await["attempts_expired"] == true
    })
    .await;
    let shown = detail(&client, "done").await;
    assert_eq!((&shown["attempts"], &shown["attempt_count"]), (&json!([]), &json!(1)));
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("delivered"), &Value::Null));
    let event = client.get("/v1/apps/a/events/dead").await.json();
    assert_eq!((&event["data_erased"], &event["data"]["order"]), (&json!(false), &json!(17)));
    assert_eq!(node.stop().await, Some(0));

    age(&home.store(), DAY * 20);
    let mut node = home.start().await;
    let client = node.client.clone();
    wait_until("the delivered one is gone", WAIT_LIMIT, async || {
        client.get("/v1/apps/a/events/done").await.status == 404
    })
    .await;
    is_in(&client, "held", "expired").await;
    let shown = detail(&client, "held").await;
    assert_eq!((&shown["reason"], &shown["attempts_expired"]), (&json!("retention"), &json!(false)));
    assert_eq!(client.get("/v1/apps/a/events/held").await.json()["data_erased"], true);
    // The log line and the counter follow the commit that the API shows.
    wait_until("it was said", WAIT_LIMIT, async || {
        node.log().contains("the retention of events ended while deliveries of them waited")
    })
    .await;
    wait_until("it was counted", WAIT_LIMIT, async || {
        let metrics = client.get("/metrics").await.text();
        metrics.contains("posthaste_deliveries_expired_by_retention_total 1\n")
            && metrics.contains("posthaste_retention_removed_total{what=\"events\"} 1\n")
    })
    .await;
    assert_eq!(node.stop().await, Some(0));

    age(&home.store(), DAY * 370);
    receiver.behave("/dead", Behaviour::Status(200));
    let node = home.start().await;
    let client = node.client.clone();
    wait_until("its record is gone too", WAIT_LIMIT, async || only_delivery(&client, "held").await.is_none())
        .await;
    let dead_letter = client.list("/v1/apps/a/dead-letters").await.remove(0);
    assert_eq!(dead_letter["expires_at"], Value::Null);
    let id = dead_letter["id"].as_str().unwrap();
    client.post(&format!("/v1/apps/a/dead-letters/{id}/replay"), &Value::Null).await.expect(202);
    is_in(&client, "dead", "delivered").await;
    assert_eq!(detail(&client, "dead").await["attempts"].as_array().unwrap().len(), 2);
}

/// Publishes `count` events of an app whose receiver accepts them all, under the same ids each time.
async fn publish_old(client: &TestClient, count: usize) {
    let pad = "x".repeat(500);
    let event = |n: usize| json!({ "id": format!("old-{n}"), "type": "t", "data": { "pad": pad } });
    for start in (0..count).step_by(1000) {
        let events: Vec<Value> = (start..start + 1000).map(event).collect();
        let answers =
            client.post("/v1/apps/old/events/batch", &json!({ "events": events })).await.expect(200);
        let accepted = |answer: &Value| answer["status"] == 202;
        assert!(
            answers["data"].as_array().unwrap().iter().all(accepted),
            "an id is free again with its event"
        );
    }
    wait_until("all are delivered", WAIT_LIMIT, async || {
        client.list("/v1/apps/old/deliveries?status=pending,retrying,in_flight&limit=1").await.is_empty()
    })
    .await;
}

/// Whether the process has removed events since its start.
async fn has_removed(client: &TestClient) -> bool {
    let metrics = client.get("/metrics").await.text();
    let removed = "posthaste_retention_removed_total{what=\"events\"} ";
    metrics.lines().filter_map(|line| line.strip_prefix(removed)).any(|count| count != "0")
}

async fn old_is_gone(client: &TestClient) {
    wait_until("all that is old is gone", WAIT_LIMIT, async || {
        client.list("/v1/apps/old/events").await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_during_deletion_lose_no_new_events_and_the_file_stays_small() {
    let (home, producers) = (NodeFolder::new(), Producers::default());
    let (fresh, old) = (TestReceiver::start().await, TestReceiver::start().await);
    let mut node = home.start().await;
    node.client.make_app("a").await;
    node.client.make_endpoint("a", "one", &fresh.url("/one"), Value::Null).await;
    node.client.make_app("old").await;
    node.client.make_endpoint("old", "old", &old.url("/old"), Value::Null).await;
    let mut sizes = Vec::new();
    for _ in 0..2 {
        publish_old(&node.client, 4000).await;
        assert_eq!(node.stop().await, Some(0));
        sizes.push(pages(&home.store()));
        age(&home.store(), DAY * 31);
        node = home.start().await;
        if sizes.len() == 1 {
            old_is_gone(&node.client).await;
        }
    }
    producers.follow(&node.client);
    let running = producers.start(2, Duration::from_millis(10));
    let (mut left, mut in_the_middle) = (usize::MAX, 0);
    for _ in 0..6 {
        let client = node.client.clone();
        wait_until("some of it is gone", WAIT_LIMIT, async || left == 0 || has_removed(&client).await).await;
        node.kill().await;
        let now = dump(&home.store()).iter().filter(|row| row.endpoint == "old").count();
        println!("{now} old ones are left");
        assert!(now <= left);
        left = now;
        in_the_middle += usize::from((1..4000).contains(&now));
        node = home.start().await;
        producers.follow(&node.client);
    }
    assert!(in_the_middle > 0, "none of the kills came in the middle of it");
    old_is_gone(&node.client).await;
    producers.finish(running).await;
    wait_until("everything fresh has ended", WAIT_LIMIT, async || {
        node.client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
    assert_eq!(node.stop().await, Some(0));
    let figures = DeliveryFigures::of(&producers.sent(), &fresh.receipts(), &dump(&home.store()));
    println!("{figures}; pages of the file: {sizes:?}");
    figures.assert_faultless();
    assert!(sizes[1] < sizes[0] + sizes[0] / 4, "room is used again: {sizes:?}");
}

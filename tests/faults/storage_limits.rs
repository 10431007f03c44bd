//! Before the disk is full, and at the operator's limit, new events are answered 507; deliveries continue, and publishing
//! works again once there is space.

use crate::{
    age_store::age,
    harness::{Namespace, NodeFolder, TestClient, TestReceiver, from_now, wait_for, wait_until},
};
use serde_json::{Value, json};
use std::time::Duration;

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const SMALL_DISK: &str = "/mnt";

async fn set_up(client: &TestClient, receiver: &TestReceiver) {
    client.make_app("a").await;
    client.make_endpoint("a", "one", &receiver.url("/one"), Value::Null).await;
}

fn event(bytes: usize) -> Value {
    json!({ "type": "t", "data": "x".repeat(bytes) })
}

/// Checks the answers while there is no space, and the operations that still work.
async fn assert_full(client: &TestClient, setting: &str) {
    let refused = client.try_publish("a", &event(10)).await.unwrap();
    let problem = refused.expect(507);
    assert_eq!(problem["code"], "storage_full");
    assert!(problem["detail"].as_str().unwrap().contains(setting), "{problem}");
    assert!(!refused.header("retry-after").is_empty());
    let batch = client.post("/v1/apps/a/events/batch", &json!({ "events": [event(10)] })).await;
    assert_eq!(batch.expect(507)["code"], "storage_full");
    let delivered = client.list("/v1/apps/a/deliveries?status=delivered&limit=1").await.remove(0);
    let delivered = format!("/v1/apps/a/deliveries/{}", delivered["id"].as_str().unwrap());
    client.post(&format!("{delivered}/replay"), &Value::Null).await.expect(507);
    let replay = json!({ "status": ["delivered"] });
    client.post("/v1/apps/a/replays", &replay).await.expect(507);
    let counted = json!({ "status": ["delivered"], "dry_run": true });
    client.post("/v1/apps/a/replays", &counted).await.expect(200);
    let ready = client.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["reasons"][0]["code"]), (503, &json!("storage_full")));
    let metrics = client.get("/metrics").await.text();
    assert!(metrics.contains("posthaste_storage_full 1.0\n"), "{metrics}");
    assert_eq!(client.get("/v1/apps/a").await.status, 200, "reading goes on");
    client.delete(&delivered).await.expect(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nearly_full_disk_refuses_events_but_deliveries_continue() {
    let inside = Namespace {
        test: "room::a_nearly_full_disk_refuses_events_but_deliveries_continue",
        prepare: "mount -t tmpfs -o size=96m none /mnt",
    };
    if !inside.enter() {
        return;
    }
    let (mut home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    home.set("STORE", &format!("sqlite:{SMALL_DISK}/posthaste.db"));
    home.set("DISK_FREE_MIN", "48MiB");
    let node = home.start().await;
    let client = node.client.clone();
    set_up(&client, &receiver).await;
    client.try_publish("a", &event(10)).await.unwrap().expect(202);
    wait_until("the first arrives", WAIT_LIMIT, async || receiver.count_at("/one") == 1).await;
    let later = json!({ "type": "t", "data": 1, "deliver_at": from_now(Duration::from_secs(6)) });
    client.try_publish("a", &later).await.unwrap().expect(202);
    wait_until("the first is recorded", WAIT_LIMIT, async || {
        !client.list("/v1/apps/a/deliveries?status=delivered").await.is_empty()
    })
    .await;

    let filler = format!("{SMALL_DISK}/filler");
    std::fs::write(&filler, vec![b'x'; 60 << 20]).unwrap();
    wait_until("publishing is refused", WAIT_LIMIT, async || {
        client.try_publish("a", &event(10)).await.unwrap().status == 507
    })
    .await;
    assert_full(&client, "disk_free_min").await;
    let before = receiver.count_at("/one");
    wait_until("what waited is delivered", WAIT_LIMIT, async || receiver.count_at("/one") > before).await;
    wait_until("and recorded", WAIT_LIMIT, async || {
        client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
    assert_eq!(client.try_publish("a", &event(10)).await.unwrap().status, 507);

    std::fs::remove_file(&filler).unwrap();
    wait_until("publishing works again", WAIT_LIMIT, async || {
        client.try_publish("a", &event(10)).await.unwrap().status == 202
    })
    .await;
    assert_eq!(client.get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_at_its_limit_accepts_events_again_after_retention_freed_space() {
    let (mut home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    home.set("STORE_BYTES_MAX", "4MiB");
    let mut node = home.start().await;
    let client = node.client.clone();
    set_up(&client, &receiver).await;
    let accepted = wait_for("publishing is refused", WAIT_LIMIT, async || {
        let mut accepted = 0;
        while client.try_publish("a", &event(100 << 10)).await.unwrap().status == 202 {
            accepted += 1;
        }
        Some(accepted)
    })
    .await;
    assert!((25..45).contains(&accepted), "{accepted} times 100 KiB are about 4 MiB");
    wait_until("all are delivered", WAIT_LIMIT, async || receiver.count_at("/one") == accepted).await;
    assert_full(&client, "store_bytes_max").await;
    assert_eq!(node.stop().await, Some(0));

    age(&home.store(), Duration::from_hours(31 * 24));
    let node = home.start().await;
    wait_until("publishing works again", WAIT_LIMIT, async || {
        node.client.try_publish("a", &event(10)).await.unwrap().status == 202
    })
    .await;
}

//! The state of deliveries after a kill of the process.

use crate::harness::{Behaviour, NodeFolder, TestReceiver, attempt_classes, from_now, wait_until};
use serde_json::json;
use std::time::Duration;

const WAIT_LIMIT: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_exactly_the_deliveries_in_flight_have_an_attempt_of_unknown_outcome() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    receiver.behave("/hung", Behaviour::Hang);
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    for (id, types) in [("hung", "hung.*"), ("fine", "fine.*")] {
        client
            .make_endpoint("a", id, &receiver.url(&format!("/{id}")), json!({ "event_types": [types] }))
            .await;
    }
    let mut made = Vec::new();
    for n in 0..30 {
        let event = match n % 3 {
            0 => json!({ "type": "hung.up", "data": n }),
            1 => json!({ "type": "fine.now", "data": n }),
            _ => json!({ "type": "fine.later", "data": n, "deliver_at": from_now(HOUR) }),
        };
        let published = client.publish("a", &event).await;
        made.push((n % 3, published["deliveries"][0]["id"].as_str().unwrap().to_owned()));
    }
    wait_until("ten are hung", WAIT_LIMIT, async || receiver.open_at("/hung") == 10).await;
    wait_until("ten are delivered", WAIT_LIMIT, async || {
        client.list("/v1/apps/a/deliveries?status=delivered").await.len() == 10
    })
    .await;
    node.kill().await;

    receiver.behave("/hung", Behaviour::Ok);
    let node = home.start().await;
    wait_until("twenty are delivered", WAIT_LIMIT, async || {
        node.client.list("/v1/apps/a/deliveries?status=delivered").await.len() == 20
    })
    .await;
    for (kind, id) in &made {
        let delivery = node.client.delivery("a", id).await;
        let expected: &[&str] = [&["unknown", "ok"][..], &["ok"], &[]][*kind];
        assert_eq!(attempt_classes(&delivery), expected, "{delivery:#}");
        if *kind == 0 {
            assert_eq!(delivery["attempts"][0]["number"], json!(null), "it takes no place in the schedule");
            assert_eq!(delivery["attempts"][1]["number"], json!(1));
        }
    }
    assert_eq!(receiver.count_at("/hung"), 20, "each was sent once before and once after");
    assert_eq!(receiver.count_at("/fine"), 10, "what was delivered is not sent again");
}

//! Addresses that the binary must never connect to, tested in a network without a route out.

use crate::harness::{Namespace, NodeFolder, TestReceiver, attempt_classes, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const WAIT_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_address_is_refused_when_written_and_never_connected_to_through_a_name() {
    let inside = Namespace {
        test: "ssrf::a_forbidden_address_is_refused_when_written_and_never_connected_to_through_a_name",
        prepare: "hosts=$(mktemp); printf '%s\\n' '127.0.0.1 localhost' '127.0.0.1 canary.example' \
                  '10.1.2.3 private.example' >\"$hosts\"; \
                  mount --bind \"$hosts\" /etc/hosts; rm \"$hosts\"",
    };
    if !inside.enter() {
        return;
    }
    let (mut home, canary) = (NodeFolder::new(), TestReceiver::start().await);
    home.unset("ALLOW_ADDRESSES");
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    let port = canary.address.port();
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
        "localhost",
        "[fe80::1]",
    ] {
        let endpoint = json!({ "url": format!("http://{host}:{port}/") });
        let refused = client.post("/v1/apps/a/endpoints", &endpoint).await;
        assert_eq!(refused.expect(422)["field"], "url", "{host}");
    }
    for name in ["canary", "private"] {
        client.make_endpoint("a", name, &format!("http://{name}.example:{port}/{name}"), Value::Null).await;
    }
    let published = client.publish("a", &json!({ "type": "t", "data": 1 })).await;
    for delivery in published["deliveries"].as_array().unwrap() {
        let id = delivery["id"].as_str().unwrap();
        wait_until("it was tried", WAIT_LIMIT, async || {
            !client.delivery("a", id).await["attempts"].as_array().unwrap().is_empty()
        })
        .await;
        let delivery = client.delivery("a", id).await;
        assert_eq!(attempt_classes(&delivery), ["address_refused"], "{delivery:#}");
    }
    assert_eq!(canary.connections(), 0, "the canary was reached");
    node.stop().await;

    // The control: the same name, allowed, is reached; so the policy had refused it.
    home.set("ALLOW_ADDRESSES", "127.0.0.1");
    let node = home.start().await;
    node.client.publish("a", &json!({ "type": "t", "data": 2 })).await;
    wait_until("the canary is reached", WAIT_LIMIT, async || canary.count_at("/canary") == 1).await;
    assert_eq!(canary.count_at("/private"), 0);
}

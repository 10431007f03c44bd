//! Information about a process, for its operator only.

use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, text},
    harness::{Behaviour, wait_until},
};
use serde_json::{Value, json};

#[tokio::test]
async fn an_operator_sees_what_the_process_runs_with_and_nobody_else_does() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    own.api.get("/v1/system").await.refused(403, "forbidden");
    app.endpoint("https://hooks.example.com/", json!({ "headers": { "x-a": "1" } })).await;
    let system = server.admin.get("/v1/system").await.is(200);
    assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
    let store = &system["store"];
    assert_eq!((&store["kind"], &store["full"]), (&json!("sqlite"), &Value::Null));
    assert!(store["used_bytes"].as_u64() > Some(0) && store["disk_free_bytes"].is_u64(), "{store}");
    assert_eq!(system["egress"], json!({ "proxy": null, "proxy_resolves": false }));
    let [node] = system["nodes"].as_array().unwrap().as_slice() else { panic!("{}", system["nodes"]) };
    assert_eq!(
        (&node["this"], &node["shards"], &node["lag"]),
        (&json!(true), &json!(256), &json!(0)),
        "{node}"
    );
    assert_eq!((&node["lease_ms"], &node["version"]), (&Value::Null, &system["version"]));
    assert!(node["free_hands"].as_u64() > Some(0) && node["joined_at"] == system["started_at"], "{node}");
    let encryption = &system["encryption"];
    assert_eq!(encryption["rotating"], false);
    assert_eq!(
        encryption["sealed"],
        json!([{ "key": encryption["key"], "count": 2 }]),
        "a secret and the headers"
    );
}

#[tokio::test]
async fn the_proxy_is_shown_without_its_credentials() {
    let proxy = [("PROXY", "socks5://user:marker@proxy.internal:1080"), ("PROXY_RESOLVES", "true")];
    let server = TestServer::start_with(&proxy).await;
    let system = server.admin.get("/v1/system").await;
    let shown = json!({ "proxy": "socks5://proxy.internal:1080", "proxy_resolves": true });
    assert_eq!(system.is(200)["egress"], shown);
    assert!(!system.text().contains("marker"));
    assert_ne!(system.is(200)["started_at"], Value::Null);
}

#[tokio::test]
async fn the_delivery_that_is_overdue_longest_is_shown_with_whose_it_is() {
    let (server, receiver) = (TestServer::start().await, receiver(200).await);
    let app = server.app().await;
    let endpoint = app.endpoint(&receiver.url(HOOK), json!({ "max_in_flight": 1 })).await;
    assert_eq!(server.admin.get("/v1/system").await.is(200)["oldest_overdue"], Value::Null);
    receiver.behave(HOOK, Behaviour::Hang);
    let events: Vec<Value> = (0..200).map(|n| json!({ "type": "a", "data": n })).collect();
    app.post("/events/batch", &json!({ "events": events })).await.is(200);
    wait_until("one is on its way", WAIT_MAX, async || receiver.open_at(HOOK) == 1).await;
    let oldest = server.admin.get("/v1/system").await.is(200)["oldest_overdue"].clone();
    assert_eq!((&oldest["endpoint_id"], oldest["overdue_ms"].is_u64()), (&json!(endpoint), true), "{oldest}");
    let delivery = app.delivery(&text(&oldest["delivery_id"])).await;
    assert_eq!((&delivery["status"], &delivery["next_attempt_at"]), (&json!("pending"), &oldest["due_at"]));
}

//! Ordering as callers see it: set on an endpoint, kept per endpoint or key, blocked by a dead delivery or not.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, quick, receiver, text},
    harness::{Behaviour, TestReceiver, wait_until},
};
use serde_json::{Value, json};
use std::sync::Arc;

const URL: &str = "http://127.0.0.1:9/hook";

/// Returns the id of the delivery to the app's only endpoint.
async fn publish(app: &TestApp, id: &str, key: Option<&str>) -> String {
    let event = json!({ "id": id, "type": "order.changed", "key": key, "data": {} });
    text(&app.post("/events", &event).await.is(202)["deliveries"][0]["id"])
}

/// Prefix of event ids that the receiver refuses for good.
fn refuse(receiver: &TestReceiver, prefix: &'static str) {
    let evaluate = move |id: &str| if id.starts_with(prefix) { 400 } else { 200 };
    receiver.behave(HOOK, Behaviour::Decide(Arc::new(move |receipt| Some(evaluate(receipt.id())))));
}

fn received(receiver: &TestReceiver) -> Vec<String> {
    receiver.receipts().iter().map(|receipt| receipt.id().to_owned()).collect()
}

/// An ordered endpoint whose receiver refuses events that begin with "bad" for good.
async fn ordered(app: &TestApp, receiver: &TestReceiver, more: Value) -> String {
    refuse(receiver, "bad");
    let mut fields = json!({ "ordered": "key", "overrides": { "answers": { "never": ["400"] } } });
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.endpoint(&receiver.url(HOOK), fields).await
}

/// A dead delivery of the key `k`, and a delivery queued behind it.
async fn blocked(app: &TestApp) -> [String; 2] {
    let dead = publish(app, "bad-1", Some("k")).await;
    app.until_is(&dead, "dead").await;
    let behind = publish(app, "good-1", Some("k")).await;
    let waiting = app.delivery(&behind).await;
    assert_eq!((&waiting["status"], &waiting["next_attempt_at"]), (&json!("pending"), &Value::Null));
    [dead, behind]
}

#[tokio::test]
async fn order_is_shown_as_it_was_asked_for_and_what_makes_no_sense_is_refused_by_name() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let shown = |endpoint: &Value| (endpoint["ordered"].clone(), endpoint["on_dead"].clone());
    for (given, expected) in [
        (json!({}), (json!("none"), Value::Null)),
        (json!({ "ordered": "none" }), (json!("none"), Value::Null)),
        (json!({ "ordered": "endpoint" }), (json!("endpoint"), json!("block"))),
        (json!({ "ordered": "key", "on_dead": "skip" }), (json!("key"), json!("skip"))),
        (json!({ "ordered": "key", "on_dead": null }), (json!("key"), json!("block"))),
    ] {
        let mut body = json!({ "url": URL });
        body.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        assert_eq!(shown(&app.post("/endpoints", &body).await.is(201)), expected, "{given}");
    }
    for (given, field) in [
        (json!({ "ordered": "keys" }), "ordered"),
        (json!({ "ordered": true }), "ordered"),
        (json!({ "ordered": "key", "on_dead": "wait" }), "on_dead"),
        (json!({ "on_dead": "block" }), "on_dead"),
        (json!({ "ordered": "none", "on_dead": "skip" }), "on_dead"),
    ] {
        let mut body = json!({ "url": URL });
        body.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        assert_eq!(app.post("/endpoints", &body).await.invalid_field(), field, "{given}");
    }
    app.post("/endpoints", &json!({ "id": "e", "url": URL })).await.is(201);
    for (patch, expected) in [
        (json!({ "ordered": "key" }), ("key", json!("block"))),
        (json!({ "on_dead": "skip" }), ("key", json!("skip"))),
        (json!({ "ordered": "endpoint" }), ("endpoint", json!("skip"))),
        (json!({ "on_dead": null }), ("endpoint", json!("block"))),
        (json!({ "ordered": "none" }), ("none", Value::Null)),
        (json!({ "ordered": "key", "on_dead": "skip" }), ("key", json!("skip"))),
        (json!({ "ordered": null }), ("none", Value::Null)),
    ] {
        let changed = app.patch("/endpoints/e", &patch).await.is(200);
        assert_eq!(shown(&changed), (json!(expected.0), expected.1), "{patch}");
    }
    assert_eq!(app.patch("/endpoints/e", &json!({ "on_dead": "skip" })).await.invalid_field(), "on_dead");
}

#[tokio::test]
async fn a_key_waits_for_its_own_failures_and_for_no_other() {
    let server = TestServer::start().await;
    let (app, receiver) = (server.app().await, receiver(200).await);
    receiver.behave(HOOK, Behaviour::FailFirst { times: 2, status: 500 });
    app.endpoint(&receiver.url(HOOK), json!({ "ordered": "key" })).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        for key in ["a", "b"] {
            ids.push(publish(&app, &format!("{key}{number}"), Some(key)).await);
        }
    }
    for id in &ids {
        let delivered = app.until_is(id, "delivered").await;
        assert_eq!(delivered["attempt_count"], 3);
    }
    for key in ["a", "b"] {
        let of_key: Vec<_> = received(&receiver).into_iter().filter(|id| id.starts_with(key)).collect();
        let expected: Vec<_> = (0..9).map(|n| format!("{key}{}", n / 3)).collect();
        assert_eq!(of_key, expected, "each until it was taken, and then the next");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_ordered_as_a_whole_gets_one_at_a_time() {
    let server = TestServer::start().await;
    let (app, receiver) = (server.app().await, receiver(200).await);
    app.endpoint(&receiver.url(HOOK), json!({ "ordered": "endpoint" })).await;
    let events: Vec<_> = (0..50).map(|n| json!({ "id": format!("e-{n}"), "type": "t", "data": n })).collect();
    app.post("/events/batch", &json!({ "events": events })).await.is(200);
    wait_until("all came", WAIT_MAX, async || receiver.count_at(HOOK) == 50).await;
    assert_eq!(received(&receiver), (0..50).map(|n| format!("e-{n}")).collect::<Vec<_>>());
    assert_eq!(receiver.open_most_at(HOOK), 1);
}

#[tokio::test]
async fn many_keys_are_delivered_at_the_same_time() {
    let server = TestServer::start().await;
    let (app, receiver) = (server.app().await, receiver(200).await);
    receiver.behave(HOOK, Behaviour::Hang);
    app.endpoint(&receiver.url(HOOK), json!({ "ordered": "key", "max_in_flight": 8 })).await;
    for number in 0..24 {
        publish(&app, &format!("e-{number}"), Some(&format!("k-{}", number % 12))).await;
    }
    wait_until("as many as the endpoint takes", WAIT_MAX, async || receiver.open_at(HOOK) == 8).await;
}

#[tokio::test]
async fn a_dead_delivery_blocks_its_key_until_it_is_retried_closed_deleted_or_skipped() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    for way in ["retry", "replay", "close", "delete", "skip", "unordered"] {
        let app = server.app().await;
        let endpoint = ordered(&app, &receiver, json!({})).await;
        let [dead, behind] = blocked(&app).await;
        let other = publish(&app, "good-2", Some("other")).await;
        let keyless = publish(&app, "good-3", None).await;
        app.until_is(&other, "delivered").await;
        app.until_is(&keyless, "delivered").await;
        let queue =
            app.get(&format!("/deliveries?endpoint_id={endpoint}&order=next_attempt_at")).await.is(200);
        assert_eq!(queue["data"][0]["id"], behind, "it waits, and nothing else does");
        match way {
            "retry" | "replay" => {
                refuse(&receiver, "nothing");
                app.act(&format!("/deliveries/{dead}/{way}")).await.is(202);
            }
            "close" => drop(app.act(&format!("/dead-letters/{dead}/close")).await.is(200)),
            "delete" => drop(app.delete(&format!("/deliveries/{dead}")).await),
            _ => {
                let patch =
                    if way == "skip" { json!({ "on_dead": way }) } else { json!({ "ordered": null }) };
                app.patch(&format!("/endpoints/{endpoint}"), &patch).await.is(200);
            }
        }
        app.until_is(&behind, "delivered").await;
    }
}

#[tokio::test]
async fn a_skipped_dead_delivery_blocks_no_other() {
    let server = TestServer::start().await;
    let (app, receiver) = (server.app().await, receiver(200).await);
    ordered(&app, &receiver, json!({ "on_dead": "skip" })).await;
    let dead = publish(&app, "bad-1", Some("k")).await;
    let next = publish(&app, "good-1", Some("k")).await;
    app.until_is(&next, "delivered").await;
    assert_eq!(app.delivery(&dead).await["status"], "dead");
    assert_eq!(received(&receiver), ["bad-1", "good-1"]);
}

#[tokio::test]
async fn positions_are_kept_while_an_endpoint_is_disabled_and_over_a_restart() {
    let mut server = TestServer::start().await;
    let (app, receiver) = (server.app().await, receiver(503).await);
    let more = json!({ "id": "e", "ordered": "key", "overrides": { "retry": { "waits": ["1h"], "jitter": "none" } } });
    app.endpoint(&receiver.url(HOOK), more).await;
    let first = publish(&app, "first", Some("k")).await;
    app.until_is(&first, "retrying").await;
    let second = publish(&app, "second", Some("k")).await;
    app.act("/endpoints/e/disable").await.is(200);
    let third = publish(&app, "third", Some("k")).await;
    server.node.kill().await;
    server.node = server.home.start().await;
    let app = TestApp {
        api: crate::fixture::ApiSession { address: server.node.client.address(), ..app.api },
        ..app
    };
    for id in [&first, &second, &third] {
        assert_eq!(app.delivery(id).await["status"], "held");
    }
    receiver.behave(HOOK, Behaviour::Ok);
    app.patch("/endpoints/e", &json!({ "overrides": quick() })).await.is(200);
    app.act("/endpoints/e/enable").await.is(200);
    app.act(&format!("/deliveries/{first}/retry")).await.is(202);
    app.until_is(&third, "delivered").await;
    assert_eq!(received(&receiver), ["first", "first", "second", "third"]);
}

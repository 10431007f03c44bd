//! Sending limits: set and shown, refused by field, enforced by the node, and explained in words.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, reply, text},
    harness::wait_until,
};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_rate_limit_is_set_shown_taken_away_and_refused_by_the_field() {
    let (server, receiver) = (TestServer::start().await, receiver(200).await);
    let app = server.app().await;
    let id = app.endpoint(&receiver.url(HOOK), json!({ "rate_limit": { "per_second": 5 } })).await;
    let path = format!("/endpoints/{id}");
    assert_eq!(app.get(&path).await.is(200)["rate_limit"], json!({ "per_second": 5, "burst": 5 }));
    for (limit, field) in [
        (json!({ "per_second": 0 }), "rate_limit.per_second"),
        (json!({ "per_second": 100_001 }), "rate_limit.per_second"),
        (json!({ "per_second": 1.5 }), "rate_limit.per_second"),
        (json!({ "burst": 5 }), "rate_limit.per_second"),
        (json!({ "per_second": 5, "burst": 0 }), "rate_limit.burst"),
        (json!("5/s"), "rate_limit"),
    ] {
        assert_eq!(app.patch(&path, &json!({ "rate_limit": limit })).await.invalid_field(), field, "{limit}");
    }
    let unknown = app.patch(&path, &json!({ "rate_limit": { "per_minute": 5 } })).await;
    assert_eq!(unknown.refused(422, "unknown_field").field.as_deref(), Some("rate_limit.per_minute"));
    let patch = json!({ "rate_limit": { "per_second": 9, "burst": 2 } });
    assert_eq!(app.patch(&path, &patch).await.is(200)["rate_limit"], patch["rate_limit"]);
    let gone = app.patch(&path, &json!({ "rate_limit": null })).await.is(200);
    assert_eq!(gone["rate_limit"], Value::Null);
}

#[tokio::test]
async fn an_app_s_limits_are_the_operator_s_to_set_shown_and_taken_away() {
    let server = TestServer::start().await;
    let limits = json!({ "max_in_flight": 7, "rate_limit": { "per_second": 50, "burst": 5 } });
    let new = json!({ "id": "l", "name": "L", "limits": limits });
    let made = server.admin.post("/v1/apps", &new).await.is(201);
    assert_eq!(made["limits"], limits);
    let app = TestApp { id: text(&made["id"]), api: server.admin.clone() };
    let own = server.by_its_key(&app).await;
    own.patch("", &json!({ "limits": null })).await.refused(403, "forbidden");
    for (limits, field) in [
        (json!({ "max_in_flight": 0 }), "limits.max_in_flight"),
        (json!({ "rate_limit": { "per_second": -1 } }), "limits.rate_limit.per_second"),
        (json!({ "rate_limit": 5 }), "limits.rate_limit"),
        (json!(5), "limits"),
    ] {
        assert_eq!(app.patch("", &json!({ "limits": limits })).await.invalid_field(), field, "{limits}");
    }
    assert_eq!(own.get("").await.is(200)["limits"], limits, "an app sees its own");
    assert_eq!(app.patch("", &json!({ "limits": null })).await.is(200)["limits"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_token_or_for_a_pause_says_so() {
    let (server, receiver) = (TestServer::start().await, receiver(200).await);
    let app = server.app().await;
    let slow = json!({ "rate_limit": { "per_second": 1, "burst": 1 } });
    app.endpoint(&receiver.url(HOOK), slow).await;
    let mut published = Vec::new();
    for _ in 0..3 {
        published.push(text(&app.publish("a.b").await["deliveries"][0]["id"]));
    }
    let why = "the endpoint gets at most 1 per second";
    wait_until("one of those that wait says so", WAIT_MAX, async || {
        app.delivery(&published[1]).await["waits_because"] == why
            || app.delivery(&published[2]).await["waits_because"] == why
    })
    .await;
    let sent = app.until_is(&published[2], "delivered").await;
    assert_eq!(sent["waits_because"], Value::Null);
    let note = text(&sent["attempts"][0]["note"]);
    assert!(note.starts_with("waited ") && note.ends_with("for the rate limit of 1 per second"), "{note}");
    // The order of the two that wait is not defined.
    wait_until("all were sent", WAIT_MAX, async || receiver.receipts_at(HOOK).len() == 3).await;
    let times: Vec<_> = receiver.receipts_at(HOOK).iter().map(|receipt| receipt.at).collect();
    assert!(times[2] - times[0] >= Duration::from_millis(1900), "{times:?}");

    let pausing = server.app().await;
    receiver.behave("/pause", reply(429, "retry-after: 3600\r\n", ""));
    pausing.endpoint(&receiver.url("/pause"), json!({ "overrides": {} })).await;
    let first = text(&pausing.publish("a.b").await["deliveries"][0]["id"]);
    pausing.until_is(&first, "retrying").await;
    let has_note = |delivery: &Value| {
        let why = delivery["waits_because"].as_str();
        why.is_some_and(|why| why.starts_with("the endpoint asked for a pause (429) until"))
    };
    // The verdict may be recorded a moment before the endpoint queue is paused: one more request may be sent.
    for _ in 0..3 {
        let next = text(&pausing.publish("a.b").await["deliveries"][0]["id"]);
        let seen = pausing
            .until(&next, "asked to wait or refused", |seen| has_note(seen) || seen["status"] == "retrying")
            .await;
        if has_note(&seen) {
            return;
        }
    }
    panic!("everything is sent to an endpoint that asked for a pause");
}

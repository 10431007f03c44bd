//! Notices: listed for keys that may see them, and sent as operational webhooks to endpoints that subscribe by name.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, pluck, receiver, text},
    harness::{TestReceiver, wait_for},
};
use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};

/// An app with a notice for each dead letter, and the id of one dead letter.
async fn with_a_dead_letter(server: &TestServer, receiver: &TestReceiver) -> (TestApp, String) {
    let app = server.app().await;
    app.patch("", &json!({ "contract": "simpaisa" })).await.is(200);
    let more = json!({ "id": "shop", "overrides": { "retry": { "waits": ["50ms"] }, "https_only": false } });
    app.endpoint(&receiver.url(HOOK), more).await;
    let delivery = app.deliver().await;
    app.until(&delivery, "dead", |delivery| delivery["finished_at"].is_string()).await;
    (app, delivery)
}

#[tokio::test]
async fn a_dead_letter_is_listed_with_its_details() {
    let server = TestServer::start().await;
    let receiver = receiver(503).await;
    let (app, delivery) = with_a_dead_letter(&server, &receiver).await;
    let listed = app.all("/notices").await;
    let [notice] = &listed[..] else { panic!("{listed:#?}") };
    for (field, value) in [
        ("kind", json!("delivery.dead")),
        ("app_id", json!(app.id)),
        ("endpoint_id", json!("shop")),
        ("url", json!(receiver.url(HOOK))),
        ("delivery_id", json!(delivery)),
        ("event_type", json!("payment.created")),
        ("last_error", json!("HTTP 503")),
        ("reason", json!("exhausted")),
        ("count", json!(1)),
        ("mail", json!({ "state": "none", "at": null, "error": null })),
    ] {
        assert_eq!(notice[field], value, "{field}");
    }
    assert!(text(&notice["text"]).contains("is DLQ: 2 attempts failed"), "{notice}");
    let id = text(&notice["id"]);
    assert_eq!(app.get(&format!("/notices/{id}")).await.is(200), *notice);
    app.get("/notices/ntc_0000000000099").await.refused(404, "not_found");
    let replay = text(&app.post("/replays", &json!({ "event_type": "no.such" })).await.is(201)["id"]);
    crate::replays::until_state(&app, &replay, "finished").await;
    let kinds = pluck(&app.all("/notices?limit=1").await, "kind");
    assert_eq!(kinds, ["replay.finished", "delivery.dead"], "the newest first");
    for (filter, count) in [
        ("kind=delivery.dead", 1),
        ("kind=endpoint.disabled", 0),
        ("endpoint_id=shop", 1),
        ("endpoint_id=nobody", 0),
        ("to=2020-01-01T00:00:00Z", 0),
        ("from=2020-01-01T00:00:00Z", 2),
    ] {
        assert_eq!(app.all(&format!("/notices?{filter}")).await.len(), count, "{filter}");
    }
    assert_eq!(app.get("/notices?kind=x").await.invalid_field(), "kind");
    assert_eq!(app.get("/notices?from=yesterday").await.invalid_field(), "from");
}

#[tokio::test]
async fn the_operator_sees_all_apps_and_an_app_sees_its_own() {
    let server = TestServer::start().await;
    let receiver = receiver(503).await;
    let (first, _) = with_a_dead_letter(&server, &receiver).await;
    let (second, _) = with_a_dead_letter(&server, &receiver).await;
    let everywhere = server.admin.get("/v1/notices").await.is(200);
    assert_eq!(pluck(everywhere["data"].as_array().unwrap(), "app_id"), [json!(second.id), json!(first.id)]);
    let one = server.admin.get(&format!("/v1/notices?app_id={}", first.id)).await.is(200);
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
    assert_eq!(server.admin.get("/v1/notices?app_id=nobody").await.is(200)["data"], json!([]));
    let own = server.by_its_key(&first).await;
    assert_eq!(own.all("/notices").await.len(), 1);
    own.api.get("/v1/notices").await.refused(403, "forbidden");
    own.api.get(&second.path("/notices")).await.refused(404, "not_found");
    second.delete("").await.is(204);
    let left = server.admin.get("/v1/notices").await.is(200);
    assert_eq!(
        pluck(left["data"].as_array().unwrap(), "app_id"),
        [json!(first.id)],
        "they go with their app"
    );
}

/// Returns the operational webhook received at this path.
async fn notice_body(receiver: &TestReceiver, path: &str) -> Value {
    wait_for("an operational webhook", WAIT_MAX, async || {
        receiver.receipts_at(path).first().map(|one| serde_json::from_slice(&one.body).unwrap())
    })
    .await
}

#[tokio::test]
async fn notices_are_signed_webhooks_for_those_who_name_them_in_the_app_and_the_operators_app() {
    let server = TestServer::start_with(&[("OPERATOR_APP", "operations")]).await;
    let receiver = receiver(503).await;
    let operations = TestApp { id: "operations".into(), api: server.admin.clone() };
    server.admin.post("/v1/apps", &json!({ "id": "operations", "name": "Operations" })).await.is(201);
    let app = server.app().await;
    let standard = |id: &str, types: Value| json!({ "id": id, "event_types": types, "contract": "standard" });
    let mut body = standard("own", json!(["posthaste.delivery.dead"]));
    body["url"] = json!(receiver.url("/own"));
    let secret = text(&app.post("/endpoints", &body).await.is(201)["secret"]);
    app.endpoint(&receiver.url("/star"), standard("star", json!(["*"]))).await;
    operations.endpoint(&receiver.url("/all"), standard("all", json!(["posthaste.*"]))).await;
    app.patch("", &json!({ "contract": "simpaisa" })).await.is(200);
    let more = json!({ "id": "shop", "event_types": ["payment.*"],
        "overrides": { "retry": { "waits": [] }, "https_only": false } });
    app.endpoint(&receiver.url(HOOK), more).await;
    app.publish("payment.created").await;
    for path in ["/own", "/all"] {
        let body = notice_body(&receiver, path).await;
        assert_eq!(body["type"], "posthaste.delivery.dead", "{path}");
        let data = &body["data"];
        assert_eq!((&data["app_id"], &data["endpoint_id"]), (&json!(app.id), &json!("shop")), "{path}");
        assert_eq!(data["last_error"], "HTTP 503", "{path}");
        assert!(
            text(&data["notice_id"]).starts_with("ntc_") && text(&data["delivery_id"]).starts_with("dlv_")
        );
    }
    let receipt = &receiver.receipts_at("/own")[0];
    let header = |(name, value): (&String, &String)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
    };
    let headers: HeaderMap = receipt.headers.iter().map(header).collect();
    let verified = standardwebhooks::Webhook::new(&secret).unwrap().verify(&receipt.body, &headers);
    verified.expect("an operational webhook is signed like every other");
    let types: Vec<String> = receiver
        .receipts_at("/star")
        .iter()
        .map(|one| text(&serde_json::from_slice::<Value>(&one.body).unwrap()["type"]))
        .collect();
    assert!(types.iter().all(|name| name == "payment.created"), "a star is of the product: {types:?}");
    let listed = app.all("/events").await;
    let operational = listed.iter().filter(|event| event["type"] == "posthaste.delivery.dead").count();
    assert_eq!(operational, 1, "one event for one notice");
}

#[tokio::test]
async fn operational_types_can_be_subscribed_to_and_not_published() {
    let server = TestServer::start_with(&[("UNKNOWN_EVENT_TYPES", "refused")]).await;
    let app = server.app().await;
    for types in
        [json!(["posthaste.endpoint.disabled"]), json!(["posthaste.*"]), json!(["posthaste.endpoint.*", "*"])]
    {
        app.endpoint("http://127.0.0.1:9/", json!({ "event_types": types })).await;
    }
    let event = json!({ "type": "posthaste.endpoint.disabled", "data": {} });
    let refused = app.post("/events", &event).await;
    assert_eq!(refused.invalid_field(), "type");
}

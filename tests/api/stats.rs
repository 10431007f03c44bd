//! Statistics as an operator, an app and a customer see them.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, slow, text},
    harness::{Behaviour, wait_for},
};
use serde_json::{Value, json};

/// Returns the app's statistics once everything is counted.
async fn until_counted(app: &TestApp, attempts: u64) -> Value {
    let look = async || {
        Some(app.get("/stats").await.is(200)).filter(|stats| stats["totals"]["attempts"] == attempts)
    };
    wait_for("all attempts are counted", WAIT_MAX, look).await
}

#[tokio::test]
async fn statistics_show_attempts_over_time_by_outcome_code_endpoint_and_event_type() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let receiver = receiver(200).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "good" })).await;
    app.endpoint(
        &receiver.url("/bad"),
        json!({ "id": "bad", "overrides": slow(), "event_types": ["order.*"] }),
    )
    .await;
    receiver.behave("/bad", Behaviour::Status(503));
    for event_type in ["order.paid", "order.paid", "user.created"] {
        app.publish(event_type).await;
    }
    let stats = until_counted(&app, 5).await;
    let totals = &stats["totals"];
    assert_eq!((&totals["events"], &totals["delivered"], &totals["dead"]), (&json!(3), &json!(3), &json!(0)));
    assert_eq!((&totals["failed"], &totals["success_rate"]), (&json!(2), &json!(0.6)));
    assert!(totals["latency_ms"]["p50"].as_f64() <= totals["latency_ms"]["p99"].as_f64());
    assert_eq!(stats["status_classes"], json!({ "2xx": 3, "5xx": 2 }));
    assert_eq!(stats["failures"], json!([{ "code": "503", "count": 2 }]));
    let worst = &stats["endpoints"][0];
    assert_eq!(
        (&worst["endpoint_id"], &worst["failed"], &worst["events"]),
        (&json!("bad"), &json!(2), &Value::Null)
    );
    assert_eq!(
        (&worst["app_id"], &worst["status"], &worst["url"]),
        (&json!(app.id), &json!("active"), &json!(receiver.url("/bad")))
    );
    let types: Vec<_> = stats["event_types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (text(&each["event_type"]), each["events"].clone()))
        .collect();
    assert_eq!(types, [("order.paid".to_owned(), json!(2)), ("user.created".to_owned(), json!(1))]);
    assert_eq!(
        (&stats["backlog"]["waiting"], stats["backlog"]["oldest_due_at"].is_string()),
        (&json!(2), true)
    );
    let series = stats["series"].as_array().unwrap();
    assert_eq!((stats["step_seconds"].clone(), series.len()), (json!(3600), 25));
    assert_eq!(series.iter().map(|point| point["attempts"].as_u64().unwrap()).sum::<u64>(), 5);
    let everything = server.admin.get("/v1/stats").await.is(200);
    assert_eq!(
        (&everything["totals"]["attempts"], everything["endpoints"].as_array().unwrap().len()),
        (&json!(5), 2)
    );
    let of_other = other.get("/stats").await.is(200);
    assert_eq!((&of_other["totals"]["attempts"], &of_other["endpoints"]), (&json!(0), &json!([])));
    assert_eq!(of_other["totals"]["success_rate"], Value::Null);
}

#[tokio::test]
async fn statistics_of_one_endpoint_one_type_and_any_window_can_be_asked_for() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let receiver = receiver(200).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e" })).await;
    app.endpoint(&receiver.url("/other"), json!({ "id": "other" })).await;
    app.publish("order.paid").await;
    until_counted(&app, 2).await;
    let one = app.get("/stats?endpoint_id=e").await.is(200);
    assert_eq!((&one["totals"]["attempts"], &one["totals"]["events"]), (&json!(1), &Value::Null));
    assert_eq!((one["endpoints"].as_array().unwrap().len(), &one["event_types"]), (1, &json!([])));
    let paid = app.get("/stats?event_type=order.paid").await.is(200);
    assert_eq!((&paid["totals"]["events"], &paid["totals"]["attempts"]), (&json!(1), &json!(2)));
    assert_eq!(app.get("/stats?event_type=no.such").await.is(200)["totals"]["events"], 0);
    let long = app.get("/stats?from=2020-01-01T00:00:00Z").await.is(200);
    assert_eq!((&long["step_seconds"], &long["totals"]["attempts"]), (&json!(86_400), &json!(2)));
    assert!(long["series"].as_array().unwrap().len() <= 402);
    for (query, field) in [
        ("from=yesterday", "from"),
        ("to=5", "to"),
        ("from=2999-01-01T00:00:00Z", "from"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("endpoint_id=e&event_type=order.paid", "event_type"),
    ] {
        assert_eq!(app.get(&format!("/stats?{query}")).await.invalid_field(), field, "{query}");
    }
    for unknown in ["limit=5", "status=dead", "app_id=x"] {
        app.get(&format!("/stats?{unknown}")).await.refused(422, "unknown_field");
    }
    app.get("/stats?endpoint_id=nobody").await.refused(404, "not_found");
    server.by_its_key(&app).await.api.get("/v1/stats").await.refused(403, "forbidden");
}

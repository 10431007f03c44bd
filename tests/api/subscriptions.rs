//! Subscriptions decide which endpoints get an event; test events bypass them.

use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, slow, text},
    harness::{Behaviour, wait_until},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn exact_types_prefixes_and_the_star_get_what_they_say_and_nothing_else() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let endpoints = [
        ("exact", json!(["payment.created"])),
        ("prefix", json!(["payment.*"])),
        ("star", json!(["*"])),
        ("none", Value::Null),
        ("several", json!(["refund.created", "payment.card.*", "x"])),
    ];
    for (id, event_types) in endpoints {
        app.endpoint(&receiver.url(&format!("/{id}")), json!({ "id": id, "event_types": event_types })).await;
    }
    let cases: [(&str, &[&str]); 9] = [
        ("payment.created", &["exact", "prefix"]),
        ("payment.card.declined", &["prefix", "several"]),
        ("payment", &[]),
        ("payments.created", &[]),
        ("Payment.created", &[]),
        ("payment.created.late", &["prefix"]),
        ("refund.created", &["several"]),
        ("x", &["several"]),
        ("x.y", &[]),
    ];
    let mut expected = 0;
    for (event_type, matching) in cases {
        let published = app.publish(event_type).await;
        let deliveries = published["deliveries"].as_array().unwrap();
        let got: BTreeSet<String> =
            deliveries.iter().map(|delivery| text(&delivery["endpoint_id"])).collect();
        let everyone = matching.iter().chain(&["none", "star"]);
        assert_eq!(got, everyone.map(|id| (*id).to_owned()).collect(), "{event_type}");
        expected += deliveries.len();
    }
    wait_until("all arrive", WAIT_MAX, async || receiver.receipts().len() >= expected).await;
    let at_exact: Vec<String> =
        receiver.receipts_at("/exact").iter().map(|one| body(one)["type"].to_string()).collect();
    assert_eq!(at_exact, ["\"payment.created\""]);
}

fn body(receipt: &crate::harness::ReceivedWebhook) -> Value {
    serde_json::from_slice(&receipt.body).unwrap()
}

#[tokio::test]
async fn a_changed_subscription_counts_from_the_next_event() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let id = app.endpoint(&receiver.url(HOOK), json!({ "event_types": ["a"] })).await;
    let wanted = async |event_type: &str| app.publish(event_type).await["deliveries"] != json!([]);
    assert!(wanted("a").await && !wanted("b").await);
    app.patch(&format!("/endpoints/{id}"), &json!({ "event_types": ["b"] })).await.is(200);
    assert!(!wanted("a").await && wanted("b").await);
    app.patch(&format!("/endpoints/{id}"), &json!({ "event_types": null })).await.is(200);
    assert!(wanted("a").await && wanted("b").await);
}

#[tokio::test]
async fn a_test_passes_the_filter_and_reaches_an_endpoint_that_is_off() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "event_types": ["payment.*"] })).await;
    app.endpoint(&receiver.url("/other"), json!({})).await;
    let test = app.act("/endpoints/e/test").await.is(202);
    assert_eq!((&test["event_type"], &test["endpoint_id"]), (&json!("webhook.test"), &json!("e")));
    let delivered = app.until_is(&text(&test["id"]), "delivered").await;
    assert_eq!(delivered["attempts"][0]["status_code"], 200);

    app.act("/endpoints/e/disable").await.is(200);
    let test = app.act("/endpoints/e/test").await.is(202);
    app.until_is(&text(&test["id"]), "delivered").await;
    assert_eq!(app.get("/endpoints/e").await.is(200)["status"], "disabled", "a test does not switch it on");
    let receipts = receiver.receipts();
    assert_eq!(receipts.len(), 2, "no other endpoint got it");
    assert!(receipts.iter().all(|receipt| receipt.path == HOOK && body(receipt)["type"] == "webhook.test"));
    assert_eq!(
        body(&receipts[0])["id"],
        test_event_id(&app.delivery(&text(&test["id"])).await, &receipts[1], &receipts[0])
    );
    app.act("/endpoints/nobody/test").await.refused(404, "not_found");
}

/// Returns the first test's event id, after checking the second's and that the two differ.
fn test_event_id(
    second: &Value,
    second_receipt: &crate::harness::ReceivedWebhook,
    first_receipt: &crate::harness::ReceivedWebhook,
) -> Value {
    assert_eq!(second["event_id"], second_receipt.id());
    assert_ne!(first_receipt.id(), second_receipt.id());
    json!(first_receipt.id())
}

#[tokio::test]
async fn a_test_that_fails_is_shown_with_its_answer() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    receiver.behave(HOOK, Behaviour::Status(418));
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": slow() })).await;
    let test = text(&app.act("/endpoints/e/test").await.is(202)["id"]);
    let tried = app
        .until(&test, "tried", |delivery| delivery["attempt_count"] == 1 && delivery["status"] != "in_flight")
        .await;
    let attempt = &tried["attempts"][0];
    assert_eq!((&attempt["status_code"], &attempt["class"]), (&json!(418), &json!("http")));
    assert_eq!(app.get("/endpoints/e").await.is(200)["status"], "active");
}

#[tokio::test]
async fn a_test_says_nothing_about_the_endpoint_s_health_even_when_it_is_answered_410() {
    let server = TestServer::start().await;
    let receiver = receiver(410).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": slow() })).await;
    let test = text(&app.act("/endpoints/e/test").await.is(202)["id"]);
    assert_eq!(app.until_is(&test, "dead").await["reason"], "refused_by_receiver");
    assert_eq!(app.get("/endpoints/e").await.is(200)["status"], "active");
}

//! Statuses of events and deliveries, in the names of each of the five systems.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, text},
    harness::{Behaviour, from_now, wait_for},
};
use serde_json::{Value, json};
use std::time::Duration;

/// A contract's names for pending, in flight, retrying, delivered, dead and skipped.
const NAMES: [(&str, [&str; 6]); 5] = [
    ("zerofee", ["pending", "pending", "pending", "delivered", "failed", "skipped"]),
    ("bastionary", ["pending", "pending", "pending", "delivered", "dead", "skipped"]),
    ("orientedos", ["pending", "in_flight", "failed", "success", "dead", "skipped"]),
    ("sendnomi", ["pending", "in_flight", "retrying", "delivered", "dead", "skipped"]),
    ("simpaisa", ["PENDING", "DELIVERING", "WAITING_RETRY", "DELIVERED", "DLQ", "skipped"]),
];

impl TestServer {
    /// A new app under a contract, without endpoints.
    async fn app_under(&self, contract: &str) -> TestApp {
        self.admin
            .post("/v1/apps", &json!({ "id": contract, "name": "A", "contract": contract }))
            .await
            .is(201);
        TestApp { id: contract.into(), api: self.admin.clone() }
    }
}

/// Overrides under which the second attempt never comes in a test, and plain HTTP is allowed.
fn slow(retry: &Value) -> Value {
    json!({ "overrides": { "https_only": false, "timeout": "60s", "retry": retry } })
}

impl TestApp {
    async fn publish_as(&self, id: &str, more: Value) -> Value {
        let mut event = json!({ "id": id, "type": "job.done", "data": { "n": 1 } });
        let Value::Object(more) = more else { panic!("fields of an event") };
        event.as_object_mut().unwrap().extend(more);
        self.post("/events", &event).await.is(202)
    }

    async fn status(&self, event: &str) -> Value {
        self.get(&format!("/events/{event}/status")).await.is(200)
    }

    /// Returns the event's status once its only delivery has this state.
    async fn status_when(&self, event: &str, state: &str) -> Value {
        let published = self.get(&format!("/events/{event}")).await.is(200);
        let delivery = text(&published["deliveries"][0]["id"]);
        let shown = self.until_is(&delivery, state).await;
        let status = self.status(event).await;
        assert_eq!(shown["contract_status"], status["status"], "one name wherever it is shown");
        assert_eq!(status["deliveries"][0]["status"], status["status"]);
        assert_eq!(status["deliveries"][0]["next_retry_at"], status["next_retry_at"]);
        status
    }
}

#[tokio::test]
async fn every_system_sees_its_own_names_for_the_same_states() {
    let server = TestServer::start().await;
    for (contract, [pending, in_flight, retrying, delivered, dead, skipped]) in NAMES {
        let receiver = receiver(200).await;
        let app = server.app_under(contract).await;
        app.publish_as("nobody", json!({})).await;
        let status = app.status("nobody").await;
        assert_eq!(
            (&status["status"], &status["reason"]),
            (&json!(skipped), &json!("no_endpoint_subscribes"))
        );
        assert_eq!((&status["delivered"], &status["next_retry_at"]), (&json!(false), &Value::Null));
        let event = app.get("/events/nobody").await.is(200);
        assert_eq!((&event["is_skipped"], &event["reason"]), (&json!(true), &status["reason"]));

        let id = app.endpoint(&receiver.url(HOOK), slow(&json!({ "waits": ["1h"], "jitter": "none" }))).await;
        let later = from_now(Duration::from_hours(1));
        app.publish_as("later", json!({ "deliver_at": later })).await;
        let status = app.status_when("later", "pending").await;
        assert_eq!((&status["status"], &status["next_retry_at"]), (&json!(pending), &json!(later)));

        app.publish_as("good", json!({})).await;
        let status = app.status_when("good", "delivered").await;
        assert_eq!((&status["status"], &status["delivered"]), (&json!(delivered), &json!(true)));
        assert!(status["completed_at"].is_string() && status["next_retry_at"].is_null(), "{status}");

        receiver.behave(HOOK, Behaviour::Hang);
        app.publish_as("hanging", json!({})).await;
        let status = app.status_when("hanging", "in_flight").await;
        assert_eq!((&status["status"], &status["next_retry_at"]), (&json!(in_flight), &Value::Null));

        receiver.behave(HOOK, Behaviour::Status(500));
        app.publish_as("failing", json!({})).await;
        let status = app.status_when("failing", "retrying").await;
        assert_eq!((&status["status"], &status["attempts"]), (&json!(retrying), &json!(1)));
        assert_eq!((&status["last_error"], &status["completed_at"]), (&json!("HTTP 500"), &Value::Null));
        assert!(status["next_retry_at"].is_string(), "{status}");

        let at_once = slow(&json!({ "waits": [], "final_wait": null }));
        app.patch(&format!("/endpoints/{id}"), &at_once).await.is(200);
        app.publish_as("failed", json!({})).await;
        let status = app.status_when("failed", "dead").await;
        assert_eq!((&status["status"], &status["reason"]), (&json!(dead), &json!("exhausted")));
        assert_eq!((&status["delivered"], &status["next_retry_at"]), (&json!(false), &Value::Null));
    }
}

#[tokio::test]
async fn in_orientedos_last_six_hours_there_is_no_next_time() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app_under("orientedos").await;
    app.endpoint(&receiver.url(HOOK), slow(&json!({ "waits": [] }))).await;
    app.publish_as("job", json!({})).await;
    let status = app.status_when("job", "retrying").await;
    assert_eq!((&status["status"], &status["next_retry_at"]), (&json!("failed"), &Value::Null));
    receiver.behave(HOOK, Behaviour::Status(200));
    let delivery = text(&status["deliveries"][0]["id"]);
    app.act(&format!("/deliveries/{delivery}/retry")).await.is(202);
    let status = app.status_when("job", "delivered").await;
    assert_eq!(
        (&status["status"], &status["attempts"]),
        (&json!("success"), &json!(2)),
        "retry now still works"
    );
}

#[tokio::test]
async fn of_several_endpoints_the_worst_speaks_for_the_event_in_its_own_contract_s_names() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    receiver.behave("/ok", Behaviour::Ok);
    let app = server.app_under("simpaisa").await;
    let retry = json!({ "waits": ["1h"], "jitter": "none" });
    let endpoint = async |id: &str, path: &str, contract: &str| {
        let mut body = slow(&retry);
        body["id"] = json!(id);
        body["url"] = json!(receiver.url(path));
        body["contract"] = json!(contract);
        app.post("/endpoints", &body).await.is(201);
    };
    endpoint("fine", "/ok", "simpaisa").await;
    endpoint("odd", HOOK, "orientedos").await;
    app.publish_as("both", json!({})).await;
    let status = wait_for("both were tried", WAIT_MAX, async || {
        Some(app.status("both").await).filter(|status| status["attempts"] == 2)
    })
    .await;
    assert_eq!((&status["status"], &status["delivered"]), (&json!("failed"), &json!(false)));
    let by_endpoint: Vec<_> = status["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["endpoint_id"]), text(&one["status"]), one["delivered"] == true))
        .collect();
    assert_eq!(
        by_endpoint,
        [("fine".into(), "DELIVERED".into(), true), ("odd".into(), "failed".into(), false)]
    );
}

#[tokio::test]
async fn a_dead_letter_says_what_an_inspector_asks_and_outlives_its_endpoint() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app_under("simpaisa").await;
    let url = receiver.url(HOOK);
    let endpoint = app.endpoint(&url, slow(&json!({ "waits": [] }))).await;
    app.publish_as("tx:17.a", json!({})).await;
    app.status_when("tx:17.a", "dead").await;
    app.publish_as("waiting", json!({ "deliver_at": from_now(Duration::from_hours(1)) })).await;
    let dead_letter = async || app.get("/dead-letters").await.is(200)["data"][0].clone();
    let dead = dead_letter().await;
    for (name, value) in [
        ("event_id", json!("tx:17.a")),
        ("event_type", json!("job.done")),
        ("app_id", json!("simpaisa")),
        ("attempt_count", json!(1)),
        ("last_error", json!("HTTP 500")),
        ("url", json!(url)),
        ("status", json!("dead")),
        ("contract_status", json!("DLQ")),
        ("expires_at", Value::Null),
        ("advice", Value::Null),
    ] {
        assert_eq!(dead[name], value, "{name}");
    }
    assert_eq!(dead["failed_at"], dead["finished_at"]);
    assert_eq!(app.get("/events/tx:17.a").await.is(200)["data"], json!({ "n": 1 }), "the payload");

    app.delete(&format!("/endpoints/{endpoint}")).await.is(204);
    assert_eq!(dead_letter().await, dead, "the names are those of the contract of the last attempt");
    assert_eq!(app.status("tx:17.a").await["status"], "DLQ");
    let cancelled = app.status("waiting").await;
    assert_eq!(
        (&cancelled["status"], &cancelled["reason"]),
        (&json!("cancelled"), &json!("endpoint_deleted"))
    );
}

#[tokio::test]
async fn what_never_was_sent_and_what_was_cancelled_have_names_of_their_own() {
    let server = TestServer::start().await;
    let app = server.app_under("simpaisa").await;
    let flat = json!({ "form": "flat", "fields": [{ "name": "event", "from": "type" }] });
    let overrides = json!({ "https_only": false, "body": flat });
    app.endpoint("http://127.0.0.1:9/", json!({ "overrides": overrides })).await;
    app.publish_as("list", json!({ "data": [1] })).await;
    let status = app.status_when("list", "dead").await;
    assert_eq!(
        (&status["status"], &status["reason"]),
        (&json!("SERIALISATION_FAILED"), &json!("serialisation_failed"))
    );
    let published = app.publish_as("off", json!({ "deliver_at": from_now(Duration::from_hours(1)) })).await;
    app.act(&format!("/deliveries/{}/cancel", text(&published["deliveries"][0]["id"]))).await.is(200);
    assert_eq!(app.status_when("off", "cancelled").await["status"], "CANCELLED");
}

#[tokio::test]
async fn a_receiver_that_knows_the_secret_no_more_is_answered_with_advice() {
    let server = TestServer::start().await;
    let receiver = receiver(401).await;
    let app = server.app_under("sendnomi").await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e" })).await;
    app.publish_as("mail", json!({})).await;
    app.status_when("mail", "dead").await;
    let dead_letter = app.get("/dead-letters").await.is(200)["data"][0].clone();
    assert_eq!(
        dead_letter["advice"],
        "The receiver answered 401: its secret may be out of date; rotate the secret."
    );
    assert_eq!(dead_letter["reason"], "refused_by_receiver");
    let delivery = app.delivery(&text(&dead_letter["id"])).await;
    assert_eq!(delivery["advice"], dead_letter["advice"]);
    assert_eq!(
        (&delivery["attempts"][0]["status_code"], &delivery["attempts"][0]["success"]),
        (&json!(401), &json!(false))
    );
    receiver.behave(HOOK, Behaviour::Status(404));
    app.publish_as("other", json!({})).await;
    app.status_when("other", "dead").await;
    assert_eq!(app.get("/dead-letters").await.is(200)["data"][0]["advice"], Value::Null);
}

#[tokio::test]
async fn a_dead_letter_keeps_the_address_that_failed_and_its_expiry_whatever_changes_later() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let once = json!({ "retry": { "waits": [] } });
    let endpoint = app.endpoint(&receiver.url(HOOK), json!({ "overrides": once })).await;
    app.until_is(&app.deliver().await, "dead").await;
    let before = app.get("/dead-letters").await.is(200)["data"][0].clone();
    assert_eq!(before["url"], receiver.url(HOOK));
    let moved = json!({
        "url": receiver.url("/elsewhere"), "overrides": { "retention": { "dead_letters": "1d" } },
    });
    app.patch(&format!("/endpoints/{endpoint}"), &moved).await.is(200);
    let after = app.get("/dead-letters").await.is(200)["data"][0].clone();
    assert_eq!((&after["url"], &after["expires_at"]), (&before["url"], &before["expires_at"]));
}

#[tokio::test]
async fn an_event_whose_deliveries_were_deleted_is_not_called_skipped() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let published = app.publish("payment.created").await;
    let delivery = text(&published["deliveries"][0]["id"]);
    app.until_is(&delivery, "delivered").await;
    app.delete(&format!("/deliveries/{delivery}")).await.is(204);
    let status = app.get(&format!("/events/{}/status", text(&published["id"]))).await.is(200);
    assert_eq!((&status["status"], &status["reason"]), (&json!("deleted"), &json!("deliveries_deleted")));
}

#[tokio::test]
async fn what_arrived_stays_delivered_whatever_becomes_of_its_replay() {
    let server = TestServer::start().await;
    let (receiver, app) = (receiver(200).await, server.app_under("standard").await);
    app.endpoint(&receiver.url(HOOK), slow(&json!({ "waits": [] }))).await;
    app.publish_as("paid", json!({})).await;
    let status = app.status_when("paid", "delivered").await;
    receiver.behave(HOOK, Behaviour::Status(500));
    let first = text(&status["deliveries"][0]["id"]);
    let again = app.act(&format!("/deliveries/{first}/replay")).await.is(202);
    app.until_is(&text(&again["id"]), "dead").await;
    let status = app.status("paid").await;
    assert_eq!((&status["status"], &status["delivered"]), (&json!("delivered"), &json!(true)));
    assert_eq!(status["deliveries"][1]["status"], "dead", "{status:#}");
}

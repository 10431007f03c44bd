//! Deliveries whose payload cannot be rendered or signed: their end, its reason, their delivery after a fix, and that they
//! do not delay others.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, slow, text},
    harness::{Behaviour, wait_until},
    payload_versions::{TYPE, payment, publish, put},
};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the delivery once it is dead; it must have this reason and a single unnumbered attempt with this text.
async fn dead(app: &TestApp, delivery: &str, reason: &str, said: &str) {
    let dead = app.until_is(delivery, "dead").await;
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!(reason), &json!(0)), "{dead:#}");
    let attempt = dead["attempts"].as_array().unwrap().last().unwrap();
    assert_eq!((&attempt["class"], &attempt["number"]), (&json!("local"), &Value::Null), "{dead:#}");
    assert!(text(&attempt["error"]).contains(said), "{dead:#}");
    assert_eq!(dead["last_error"], attempt["error"]);
    let dead_letters = app.get("/dead-letters").await.is(200);
    assert!(
        dead_letters["data"].as_array().unwrap().iter().any(|dead_letter| dead_letter["id"] == *delivery),
        "{dead_letters:#}"
    );
}

async fn replayed(app: &TestApp, delivery: &str, rows: usize) {
    app.act(&format!("/deliveries/{delivery}/replay")).await.is(202);
    let delivered = app.until_is(delivery, "delivered").await;
    let attempts = delivered["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &delivered["attempt_count"]), (rows, &json!(1)), "{delivered:#}");
    assert_eq!((&attempts[rows - 1]["number"], &attempts[rows - 1]["class"]), (&json!(1), &json!("ok")));
    assert_eq!(delivered["last_error"], Value::Null);
}

#[tokio::test]
async fn an_unrenderable_delivery_is_dead_with_a_reason_and_delivered_after_the_fix() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "payload_version": "2023-01-01" })).await;
    let good = r#"{"id":"pay_9","amount":{"value":5}}"#;
    let missing = publish(&app, "payment.created", good).await.remove(0);
    let said = "payment.created has no payload version 2023-01-01; it has 1";
    dead(&app, &missing, "serialisation_failed", said).await;
    app.act(&format!("/deliveries/{missing}/retry")).await.is(202);
    let back = app.until(&missing, "back", |one| one["attempts"].as_array().unwrap().len() == 2).await;
    assert_eq!((&back["status"], &back["reason"]), (&json!("dead"), &json!("serialisation_failed")));
    put(&server, TYPE, &payment(), 201).await;
    replayed(&app, &missing, 3).await;

    let thrown = publish(&app, "payment.created", r#"{"id":"pay_9"}"#).await.remove(0);
    dead(
        &app,
        &thrown,
        "serialisation_failed",
        "payload version 2023-01-01 of payment.created: line 3, column ",
    )
    .await;
    let mismatch =
        publish(&app, "payment.created", r#"{"id":"pay_9","amount":{"value":"5"}}"#).await.remove(0);
    dead(
        &app,
        &mismatch,
        "serialisation_failed",
        "the result does not fit the schema at /amount: value is not of type \"integer\"",
    )
    .await;
    let mut fixed = payment();
    fixed["versions"][0]["function"] = json!("d => ({ id: d.id, amount: Number(d.amount?.value ?? 0) })");
    put(&server, TYPE, &fixed, 200).await;
    for delivery in [thrown, mismatch] {
        replayed(&app, &delivery, 2).await;
    }
    server.admin.delete(TYPE).await.is(204);
    let gone = publish(&app, "payment.created", r#"{"id":"pay_10","amount":{"value":5}}"#).await.remove(0);
    dead(&app, &gone, "serialisation_failed", said).await;
    assert_eq!(receiver.count_at(HOOK), 3, "nothing half made was sent");
}

/// Function that finishes on its sample, and never on an event that requests it.
fn endless(name: &str) -> Value {
    json!({ "name": name, "sample": {}, "versions": [
        { "name": "v1", "function": "data => { while (data.loop); return { made: true } }" },
    ] })
}

const ENDLESS_FUNCTION_WAIT_MAX: Duration = Duration::from_mins(3);

#[tokio::test]
async fn an_endless_function_delays_no_other_delivery() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let (app, neighbour) = (server.app().await, server.app().await);
    for name in ["bad.one", "bad.two", "good.one"] {
        server.admin.post("/v1/event-types", &endless(name)).await.is(201);
    }
    // So long that none of them can end within this test.
    let overrides = json!({ "rendering": { "tries": 10, "timeout": "1m" }, "timeout": "5s" });
    for path in ["/one", "/two"] {
        app.endpoint(&receiver.url(path), json!({ "payload_version": "v1", "overrides": overrides })).await;
    }
    neighbour
        .endpoint(&receiver.url("/next"), json!({ "payload_version": "v1", "overrides": overrides }))
        .await;
    let mut stuck = Vec::new();
    for n in 0..5 {
        for name in ["bad.one", "bad.two"] {
            let event = json!({ "type": name, "data": { "loop": true, "n": n } });
            let published = app.post("/events", &event).await.is(202);
            stuck.extend(published["deliveries"].as_array().unwrap().iter().map(|one| text(&one["id"])));
        }
    }
    // Another app has the same type and version, and never waits, however many bad ones the first app sends.
    for n in 0..20 {
        app.post("/events", &json!({ "type": "bad.one", "data": { "loop": true, "more": n } })).await.is(202);
        let good = json!({ "type": "bad.one", "data": { "n": n } });
        let published = neighbour.post("/events", &good).await.is(202);
        let delivered = neighbour.until_is(&text(&published["deliveries"][0]["id"]), "delivered").await;
        assert_eq!(delivered["attempts"].as_array().unwrap().len(), 1, "{delivered:#}");
    }
    let mut others = Vec::new();
    for n in 0..20 {
        // Other types of the same endpoints, and other events of the same types.
        for name in ["good.one", "unknown.type", "bad.one"] {
            let event = json!({ "type": name, "data": { "n": n } });
            let published = app.post("/events", &event).await.is(202);
            others.extend(
                published["deliveries"].as_array().unwrap().iter().map(|one| (name, text(&one["id"]))),
            );
        }
    }
    for (name, delivery) in &others {
        let end = if *name == "unknown.type" { "dead" } else { "delivered" };
        // Deliveries of the same function and app may be released a few times, each time for longer, while the function is in doubt.
        let within = if *name == "bad.one" { ENDLESS_FUNCTION_WAIT_MAX } else { WAIT_MAX };
        wait_until(&format!("{name} is {end}"), within, async || {
            app.delivery(delivery).await["status"] == end
        })
        .await;
    }
    let put_back = async || {
        let mut rows = Vec::new();
        for delivery in &stuck {
            let now = app.delivery(delivery).await;
            assert!(["in_flight", "pending"].contains(&now["status"].as_str().unwrap()), "{now:#}");
            rows.extend(now["attempts"].as_array().unwrap().clone());
        }
        assert!(rows.iter().all(|row| row["class"] == "local" && row["number"].is_null()), "{rows:#?}");
        rows.iter().any(|row| text(&row["error"]).contains("is being made for another event"))
    };
    wait_until("one that did not get its turn went back", WAIT_MAX, put_back).await;
}

#[tokio::test]
async fn an_endless_function_is_tried_as_often_as_the_contract_says_and_then_failed() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    server.admin.post("/v1/event-types", &endless("bad.one")).await.is(201);
    let overrides = json!({ "rendering": { "tries": 2, "timeout": "200ms" } });
    app.endpoint(&receiver.url(HOOK), json!({ "payload_version": "v1", "overrides": overrides })).await;
    let delivery = publish(&app, "bad.one", r#"{"loop":true}"#).await.remove(0);
    dead(&app, &delivery, "serialisation_failed", "did not finish within 200ms, tried 2 times").await;
    put(&server, "/v1/event-types/bad.one", &json!({ "versions": [{ "name": "v1" }] }), 200).await;
    replayed(&app, &delivery, 2).await;
}

const OWN: &str = r#"
name = "own"
description = "A contract of the operator's own"
timeout = "3s"
body = { fields = [{ name = "data", from = "data" }] }
signature = { header = "X-Own", signs = "{body}", hmac_sha256 = "{signature}", encoding = "hex" }
secret = { key = "text" }
retry = { waits = ["1m"] }
"#;

#[tokio::test]
async fn a_secret_that_cannot_sign_is_reported_and_a_new_one_delivers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, OWN).unwrap();
    let mut server = TestServer::start_with(&[("CONTRACTS_DIR", folder.path().to_str().unwrap())]).await;
    let receiver = receiver(200).await;
    let mut app = server.app().await;
    let more = json!({ "contract": "own", "secret": "a text that is no base64", "overrides": {} });
    let endpoint = app.endpoint(&receiver.url(HOOK), more).await;
    app.until_is(&app.deliver().await, "delivered").await;
    // The operator decides that secrets are base64, with both signing during a rotation; the stored one is not.
    std::fs::write(&file, OWN.replace(r#"key = "text""#, r#"key = "base64", rotation = "both""#)).unwrap();
    assert_eq!(server.node.stop().await, Some(0));
    server.node = server.home.start().await;
    app.api.address = server.node.client.address();
    let delivery = app.deliver().await;
    dead(&app, &delivery, "signing_failed", "cannot sign under its contract: it must be \"\" and base64")
        .await;
    assert_eq!(receiver.count_at(HOOK), 1);
    app.act(&format!("/endpoints/{endpoint}/secret/rotate")).await.is(200);
    replayed(&app, &delivery, 2).await;
    assert_eq!(
        receiver.receipts_at(HOOK)[1].header("x-own").len(),
        64,
        "one signature, of the secret that can"
    );
}

#[tokio::test]
async fn a_retry_after_a_failure_of_the_receiver_is_made_by_the_function_of_that_moment() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    put(&server, TYPE, &payment(), 201).await;
    app.endpoint(&receiver.url(HOOK), json!({ "payload_version": "2023-01-01", "overrides": slow() })).await;
    let delivery = publish(&app, "payment.created", r#"{"id":"pay_9","amount":{"value":5}}"#).await.remove(0);
    app.until_is(&delivery, "retrying").await;
    let mut changed = payment();
    changed["versions"][0]["function"] = json!("d => ({ id: d.id, amount: 0, changed: true })");
    put(&server, TYPE, &changed, 200).await;
    receiver.behave(HOOK, Behaviour::Ok);
    app.act(&format!("/deliveries/{delivery}/retry")).await.is(202);
    app.until_is(&delivery, "delivered").await;
    let last = receiver.receipts_at(HOOK).pop().unwrap();
    assert!(String::from_utf8_lossy(&last.body).contains(r#""changed":true"#), "{last:?}");
}

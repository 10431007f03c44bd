//! Effects of contracts on deliveries, as seen from outside: overrides, and contracts of the operator's own.

use crate::{
    fixture::{HOOK, TestApp, TestServer, receiver, reply, text},
    harness::{Behaviour, NodeFolder},
};
use aws_lc_rs::hmac;
use serde_json::{Value, json};

/// Returns the delivery of an event to an endpoint with these overrides, once it has the state.
async fn deliver_under(app: &TestApp, url: &str, overrides: &Value, state: &str) -> Value {
    let endpoint = app.endpoint(url, json!({ "overrides": overrides })).await;
    let delivery = app.until_is(&app.deliver().await, state).await;
    app.delete(&format!("/endpoints/{endpoint}")).await.is(204);
    delivery
}

#[tokio::test]
async fn a_contract_says_which_answers_are_success_and_which_are_final() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let overrides = json!({
        "answers": { "success": ["2xx", "409"], "never": ["4xx"], "switch_off": ["423"] },
        "retry": { "waits": ["1h"] }, "timeout": "2s",
    });
    for (status, state, reason) in [
        (204, "delivered", Value::Null),
        (409, "delivered", Value::Null),
        (404, "dead", json!("refused_by_receiver")),
        (410, "dead", json!("refused_by_receiver")),
        (500, "retrying", Value::Null),
        (302, "retrying", Value::Null),
    ] {
        receiver.behave(HOOK, Behaviour::Status(status));
        let delivery = deliver_under(&app, &receiver.url(HOOK), &overrides, state).await;
        assert_eq!((&delivery["reason"], &delivery["attempt_count"]), (&reason, &json!(1)), "{status}");
    }
    let id = app.endpoint(&receiver.url(HOOK), json!({ "overrides": overrides })).await;
    let endpoint = async || app.get(&format!("/endpoints/{id}")).await.is(200)["status"].clone();
    receiver.behave(HOOK, Behaviour::Status(410));
    app.until_is(&app.deliver().await, "dead").await;
    assert_eq!(endpoint().await, "active", "410 is nothing special here");
    receiver.behave(HOOK, Behaviour::Status(423));
    app.until_is(&app.deliver().await, "dead").await;
    assert_eq!(endpoint().await, "disabled");
}

#[tokio::test]
async fn a_delivery_expires_at_the_contract_s_age_and_can_be_replayed_afresh() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let overrides =
        json!({ "retry": { "waits": ["300ms", "1h"], "jitter": "none", "give_up_after": "900ms" } });
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": overrides })).await;
    let id = app.deliver().await;
    let expired = app.until_is(&id, "expired").await;
    assert_eq!((&expired["reason"], &expired["attempt_count"]), (&json!("give_up_after"), &json!(2)));
    assert!(expired["finished_at"].is_string() && expired["next_attempt_at"].is_null(), "{expired}");
    app.act(&format!("/deliveries/{id}/retry")).await.is(202);
    let back = app.until(&id, "back", |one| one["attempt_count"] == 3 && one["status"] == "expired").await;
    assert_eq!(back["finished_at"], expired["finished_at"]);
    receiver.behave(HOOK, Behaviour::FailFirst { times: 0, status: 500 });
    app.act(&format!("/deliveries/{id}/replay")).await.is(202);
    assert_eq!(app.until_is(&id, "delivered").await["attempt_count"], 4);
}

#[tokio::test]
async fn a_final_wait_comes_before_the_end_without_another_attempt() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": [], "final_wait": "600ms" } });
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": overrides })).await;
    let id = app.deliver().await;
    let waiting = app.until_is(&id, "retrying").await;
    assert_eq!(waiting["next_attempt_at"], Value::Null, "no attempt is to come");
    let dead = app.until_is(&id, "dead").await;
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!("exhausted"), &json!(1)));
    assert_eq!(receiver.count_at(HOOK), 1);
}

#[tokio::test]
async fn a_contract_can_ignore_retry_after() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave(HOOK, reply(503, "retry-after: 3000\r\n", ""));
    let app = server.app().await;
    let waits = json!(["10s", "2h"]);
    for overrides in [
        json!({ "retry": { "waits": waits, "jitter": "none", "retry_after": "ignore" } }),
        json!({ "retry": { "waits": waits, "jitter": "none" }, "pacing": "strict" }),
    ] {
        let delivery = deliver_under(&app, &receiver.url(HOOK), &overrides, "retrying").await;
        let time = |value: &Value| -> jiff::Timestamp { text(value).parse().unwrap() };
        let wait =
            time(&delivery["next_attempt_at"]).duration_since(time(&delivery["attempts"][0]["started_at"]));
        assert!((10..13).contains(&wait.as_secs()), "{wait:?}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|index| u8::from_str_radix(&text[index..index + 2], 16).unwrap()).collect()
}

const FLAT: &str = r#"
name = "flat"
description = "A contract of the operator's own"
brand = "Flat"
user_agent = "{brand}-Webhooks/1.0"
timeout = "3s"

[body]
form = "flat"
fields = [{ name = "event", from = "type" }]

[headers]
X-Flat-Event = "{type}"
X-Flat-Delivery-Id = "{delivery_id}"

[signature]
header = "X-Flat-Signature"
signs = "{body}"
hmac_sha256 = "sha256={signature}"
encoding = "hex"

[secret]
key = "text"

[retry]
waits = ["1m"]

[off]
published = "none"

[retention]
dead_letters = "forever"
"#;

#[tokio::test]
async fn a_contract_of_the_operator_s_own_shapes_body_headers_and_signature() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flat.toml"), FLAT).unwrap();
    let server = TestServer::start_with(&[("CONTRACTS_DIR", folder.path().to_str().unwrap())]).await;
    let receiver = receiver(200).await;
    server.admin.post("/v1/apps", &json!({ "id": "a", "name": "A", "contract": "flat" })).await.is(201);
    let app = TestApp { id: "a".into(), api: server.admin.clone() };
    let made = app
        .post(
            "/endpoints",
            &json!({ "id": "e", "url": receiver.url(HOOK), "secret": "sixteen bytes or more" }),
        )
        .await
        .is(201);
    assert_eq!((&made["contract"], &made["secret"]), (&Value::Null, &json!("sixteen bytes or more")));
    let published = app.publish_raw(r#"{"type":"job.done","data":{ "n": 1.0, "é":[] }}"#).await.is(202);
    let first = text(&published["deliveries"][0]["id"]);
    app.until_is(&first, "delivered").await;
    let replayed = text(&app.act(&format!("/deliveries/{first}/replay")).await.is(202)["id"]);
    app.until_is(&replayed, "delivered").await;

    let key = hmac::Key::new(hmac::HMAC_SHA256, b"sixteen bytes or more");
    for receipt in receiver.receipts() {
        assert_eq!(receipt.body, r#"{"event":"job.done", "n": 1.0, "é":[] }"#);
        let signature = receipt.header("x-flat-signature").strip_prefix("sha256=").unwrap();
        assert!(hmac::verify(&key, &receipt.body, &unhex(signature)).is_ok(), "{receipt:?}");
        assert_eq!(
            (receipt.header("x-flat-event"), receipt.header("user-agent")),
            ("job.done", "Flat-Webhooks/1.0")
        );
        assert_eq!(receipt.header("x-flat-delivery-id"), first, "a replay carries the id of the root");
    }
    let dead = app.post("/events", &json!({ "type": "x", "data": [1] })).await.is(202);
    let dead = app.until_is(&text(&dead["deliveries"][0]["id"]), "dead").await;
    assert_eq!(
        (&dead["reason"], &dead["last_error"]),
        (
            &json!("serialisation_failed"),
            &json!("the contract sends a flat body, and the event's data is not an object")
        ),
        "a list cannot be flat"
    );
    assert_eq!(app.get("/dead-letters").await.is(200)["data"][0]["expires_at"], Value::Null, "kept for ever");
    app.act("/endpoints/e/disable").await.is(200);
    assert_eq!(app.publish("x").await["deliveries"], json!([]));
}

#[tokio::test]
async fn an_app_s_new_contract_counts_for_the_endpoints_that_name_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flat.toml"), FLAT).unwrap();
    let server = TestServer::start_with(&[("CONTRACTS_DIR", folder.path().to_str().unwrap())]).await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.post("/endpoints", &json!({ "id": "follows", "url": receiver.url("/follows") })).await.is(201);
    app.post("/endpoints", &json!({ "id": "stays", "url": receiver.url("/stays"), "contract": "standard" }))
        .await
        .is(201);
    app.patch("", &json!({ "contract": "flat" })).await.is(200);
    let published = app.publish("x").await;
    for delivery in published["deliveries"].as_array().unwrap() {
        app.until_is(&text(&delivery["id"]), "delivered").await;
    }
    assert_eq!(receiver.receipts_at("/follows")[0].body, r#"{"event":"x","n":1}"#);
    assert_eq!(receiver.receipts_at("/stays")[0].header("x-flat-signature"), "");
}

#[tokio::test]
async fn a_contract_that_cannot_be_read_keeps_the_server_from_starting() {
    let mut home = NodeFolder::new();
    std::fs::write(home.folder().join("odd.toml"), FLAT.replace("hmac_sha256", "hmac_sha265")).unwrap();
    let folder = home.folder().to_str().unwrap().to_owned();
    home.set("CONTRACTS_DIR", &folder);
    let mut node = home.spawn(&[], &["serve"]);
    let code = node.exited().await.code();
    let said = node.log();
    assert!(code.is_some_and(|code| code == 1 || code == 2), "{code:?} {said}");
    assert!(
        said.contains("odd.toml") && said.contains("hmac_sha265") && said.contains("hmac_sha256"),
        "{said}"
    );
}

//! Signing secrets: generated or given, shown to authorised keys, rotated with an overlap, encrypted at rest.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, text},
    harness::{ReceivedWebhook, from_now, wait_until},
};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use std::time::Duration;

fn secret_of(bytes: &[u8]) -> String {
    format!("whsec_{}", BASE64_STANDARD.encode(bytes))
}

/// Whether a receiver that knows only this secret takes the request.
fn passes(receipt: &ReceivedWebhook, secret: &str) -> bool {
    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, receipt.header(name).parse().unwrap());
    }
    Webhook::new(secret).unwrap().verify(&receipt.body, &headers).is_ok()
}

async fn receive_one(app: &TestApp, receiver: &crate::harness::TestReceiver) -> ReceivedWebhook {
    app.until_is(&app.deliver().await, "delivered").await;
    receiver.receipts().pop().unwrap()
}

#[tokio::test]
async fn a_generated_secret_signs_what_is_sent_and_is_shown_again_to_who_asks() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let made = app.post("/endpoints", &json!({ "id": "e", "url": receiver.url(HOOK) })).await.is(201);
    let secret = text(&made["secret"]);
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    assert_eq!(key.len(), 32);
    let shown = app.get("/endpoints/e/secret").await.is(200);
    assert_eq!((&shown["secret"], &shown["secrets"][0]["secret"]), (&json!(secret), &json!(secret)));
    assert_eq!((&shown["secrets"][0]["valid_until"], &shown["secrets"][1]), (&Value::Null, &Value::Null));
    let receipt = receive_one(&app, &receiver).await;
    assert!(passes(&receipt, &secret) && !passes(&receipt, &secret_of(&[1; 32])));
    let other = app.post("/endpoints", &json!({ "url": receiver.url(HOOK) })).await.is(201);
    assert_ne!(other["secret"], made["secret"]);
}

#[tokio::test]
async fn a_given_secret_is_used_and_a_bad_one_is_refused_without_being_repeated() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let given = secret_of(b"twenty-four bytes or more");
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "secret": given })).await;
    assert!(passes(&receive_one(&app, &receiver).await, &given));
    let bad = ["", "whsec_", "whsec_marker-not-base64", "marker", &secret_of(&[7; 23]), &secret_of(&[7; 65])];
    for bad in bad {
        let answers = [
            app.post("/endpoints", &json!({ "url": receiver.url(HOOK), "secret": bad })).await,
            app.post("/endpoints/e/secret/rotate", &json!({ "secret": bad })).await,
        ];
        for answer in answers {
            assert_eq!(answer.invalid_field(), "secret", "{bad}");
            assert!(bad.is_empty() || bad == "whsec_" || !answer.text().contains(bad), "{}", answer.text());
        }
    }
    for length in [24, 64] {
        app.endpoint(&receiver.url(HOOK), json!({ "secret": secret_of(&vec![7; length]) })).await;
    }
}

#[tokio::test]
async fn during_the_overlap_of_a_rotation_both_secrets_sign_and_afterwards_only_the_new_one() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let old = secret_of(&[1; 32]);
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "secret": old })).await;
    let rotated = app.act("/endpoints/e/secret/rotate").await.is(200);
    let new = text(&rotated["secret"]);
    assert_ne!(new, old);
    let [first, second] = rotated["secrets"].as_array().unwrap().as_slice() else { panic!("{rotated}") };
    assert_eq!(
        (&first["secret"], &second["secret"], &second["valid_until"]),
        (&json!(old), &json!(new), &Value::Null)
    );
    let until: jiff::Timestamp = text(&first["valid_until"]).parse().unwrap();
    let from: jiff::Timestamp = text(&second["valid_from"]).parse().unwrap();
    assert_eq!(until.duration_since(from).as_hours(), 24, "unless asked for otherwise");
    assert_eq!(app.get("/endpoints/e/secret").await.is(200), rotated);
    let receipt = receive_one(&app, &receiver).await;
    assert_eq!(receipt.header("webhook-signature").split(' ').count(), 2);
    assert!(passes(&receipt, &old) && passes(&receipt, &new));

    let newest = secret_of(&[3; 32]);
    let rotation = json!({ "secret": newest, "overlap": "200ms" });
    let rotated = app.post("/endpoints/e/secret/rotate", &rotation).await.is(200);
    let ends = text(&rotated["secrets"][1]["valid_until"]);
    wait_until("the overlap is over", WAIT_MAX, async || from_now(Duration::ZERO) > ends).await;
    let receipt = receive_one(&app, &receiver).await;
    assert!(passes(&receipt, &newest) && !passes(&receipt, &new) && !passes(&receipt, &old));
    assert_eq!(receipt.header("webhook-signature").split(' ').count(), 1);
}

#[tokio::test]
async fn a_rotation_has_bounds_and_refuses_what_its_contract_does_not_know() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let secret = secret_of(&[1; 32]);
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "e", "secret": secret })).await;
    let cases = [
        (json!({ "overlap": "31d" }), "overlap"),
        (json!({ "overlap": "1w" }), "overlap"),
        (json!({ "overlap": 5 }), "overlap"),
        (json!({ "effective_at": from_now(Duration::from_mins(1)) }), "effective_at"),
        (json!({ "effective_at": "soon" }), "effective_at"),
        (json!({ "secret": secret }), "secret"),
    ];
    for (rotation, field) in cases {
        assert_eq!(
            app.post("/endpoints/e/secret/rotate", &rotation).await.invalid_field(),
            field,
            "{rotation}"
        );
    }
    let unknown = app.post("/endpoints/e/secret/rotate", &json!({ "overlaps": "1d" })).await;
    assert!(unknown.refused(422, "unknown_field").detail.contains("`overlap`"));
    assert_eq!(app.get("/endpoints/e/secret").await.is(200)["secrets"].as_array().map(Vec::len), Some(1));
    app.post("/endpoints/e/secret/rotate", &json!({ "overlap": "30d" })).await.is(200);
    app.act("/endpoints/nobody/secret/rotate").await.refused(404, "not_found");
}

#[tokio::test]
async fn neither_secrets_nor_header_values_nor_keys_are_in_the_store_or_the_log_as_they_are() {
    let server = TestServer::start_with(&[("LOG_LEVEL", "trace")]).await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    let bytes = *b"marker-of-a-secret-in-32-bytes!!";
    let secret = secret_of(&bytes);
    let more =
        json!({ "id": "e", "secret": secret, "headers": { "authorization": "Bearer marker-of-a-header" } });
    own.endpoint(&receiver.url(HOOK), more).await;
    own.until_is(&own.deliver().await, "dead").await;
    own.act("/endpoints/e/secret/rotate").await.is(200);
    let rotated = text(&own.get("/endpoints/e/secret").await.is(200)["secret"]);

    let mut kept = server.node.log().into_bytes();
    for suffix in ["", "-wal"] {
        let path = format!("{}{suffix}", server.home.store().display());
        kept.extend(std::fs::read(path).unwrap_or_default());
    }
    let holds = |needle: &[u8]| kept.windows(needle.len()).any(|window| window == needle);
    assert!(holds(b"payment.created"), "looked in the right place");
    for needle in [
        &secret[6..],
        "marker-of-a-secret",
        "marker-of-a-header",
        &rotated[6..],
        crate::harness::ADMIN_KEY,
        own.api.key.as_deref().unwrap(),
    ] {
        assert!(!holds(needle.as_bytes()), "{needle}");
    }
}

#[tokio::test]
async fn an_ed25519_secret_is_shown_with_the_public_key_that_verifies_what_it_signed() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let secret = format!("whsk_{}", BASE64_STANDARD.encode([7u8; 32]));
    let endpoint = app.endpoint(&receiver.url(HOOK), json!({ "secret": secret })).await;
    let shown = app.get(&format!("/endpoints/{endpoint}/secret")).await.is(200);
    let public = text(&shown["secrets"][0]["public_key"]);
    let key = BASE64_STANDARD.decode(public.strip_prefix("whpk_").unwrap()).unwrap();
    let receipt = receive_one(&app, &receiver).await;
    let signature = receipt.header("webhook-signature").strip_prefix("v1a,").unwrap();
    let signature = BASE64_STANDARD.decode(signature).unwrap();
    let mut signed = format!("{}.{}.", receipt.id(), receipt.header("webhook-timestamp")).into_bytes();
    signed.extend_from_slice(&receipt.body);
    let key = UnparsedPublicKey::new(&ED25519, key);
    assert!(key.verify(&signed, &signature).is_ok());

    let plain = app.endpoint(&receiver.url("/plain"), json!({})).await;
    let shown = app.get(&format!("/endpoints/{plain}/secret")).await.is(200);
    assert_eq!(shown["secrets"][0]["public_key"], json!(null));
}

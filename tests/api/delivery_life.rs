//! The life of a delivery as seen from outside: every attempt recorded, retried on schedule, ended with a
//! reason.

use crate::{
    fixture::{HOOK, TestServer, pluck, quick, receiver, reply, text},
    harness::{Behaviour, ReceivedWebhook, attempt_classes, from_now},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use std::time::Duration;

fn at(value: &Value) -> Timestamp {
    text(value).parse().unwrap()
}

fn attempts(delivery: &Value) -> &[Value] {
    delivery["attempts"].as_array().unwrap()
}

/// Whether the receipt is signed with the secret, as the standard library of receivers sees it.
fn is_signed(receipt: &ReceivedWebhook, secret: &str) -> bool {
    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, receipt.header(name).parse().unwrap());
    }
    Webhook::new(secret).unwrap().verify(&receipt.body, &headers).is_ok()
}

#[tokio::test]
async fn a_delivery_that_works_is_written_down_with_its_one_attempt() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave(HOOK, reply(201, "x-answer: yes\r\n", "thank you"));
    let app = server.app().await;
    let endpoint = app.post("/endpoints", &json!({ "url": receiver.url(HOOK) })).await.is(201);
    let before = from_now(Duration::ZERO);
    let published = app.publish("payment.created").await;
    let id = text(&published["deliveries"][0]["id"]);
    let delivered = app.until_is(&id, "delivered").await;
    let expected = json!({ "id": id, "event_id": published["id"], "event_type": "payment.created",
        "endpoint_id": endpoint["id"], "status": "delivered", "reason": null, "attempt_count": 1,
        "next_attempt_at": null, "last_error": null, "replay_of": null });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&delivered[name], value, "{name}");
    }
    let [attempt] = attempts(&delivered) else { panic!("{delivered}") };
    let expected = json!({ "number": 1, "status_code": 201, "class": "ok", "error": null, "response_headers": null,
        "response_body": "thank you" });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&attempt[name], value, "{name}");
    }
    assert!(text(&attempt["id"]).starts_with("del_"));
    let timings = &attempt["timings"];
    assert!(timings["connect_ms"].is_f64() && timings["tls_ms"].is_null(), "{timings}");
    let (first_byte, total) =
        (timings["first_byte_ms"].as_f64().unwrap(), timings["total_ms"].as_f64().unwrap());
    assert!(
        first_byte <= total && (attempt["duration_ms"].as_f64().unwrap() - total).abs() <= 0.5,
        "{attempt}"
    );
    assert!(
        text(&delivered["created_at"]) >= before
            && at(&delivered["created_at"]) <= at(&attempt["started_at"])
    );
    assert!(at(&attempt["started_at"]) <= at(&delivered["finished_at"]), "{delivered}");

    let receipt = &receiver.receipts()[0];
    assert_eq!(
        (receipt.id(), receipt.header("content-type")),
        (text(&published["id"]).as_str(), "application/json")
    );
    assert!(receipt.header("user-agent").starts_with("Posthaste/"), "{receipt:?}");
    assert!(is_signed(receipt, &text(&endpoint["secret"])));
}

#[tokio::test]
async fn a_failing_receiver_is_tried_again_on_schedule_until_it_works() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    receiver.behave(HOOK, Behaviour::FailFirst { times: 2, status: 503 });
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": ["300ms", "1100ms", "1h"], "jitter": "none" } });
    let endpoint = json!({ "url": receiver.url(HOOK), "overrides": overrides });
    let secret = text(&app.post("/endpoints", &endpoint).await.is(201)["secret"]);
    let id = app.deliver().await;
    let delivered = app.until_is(&id, "delivered").await;
    assert_eq!(pluck(attempts(&delivered), "number"), [1, 2, 3]);
    assert_eq!(pluck(attempts(&delivered), "status_code"), [503, 503, 200]);
    assert_eq!(attempt_classes(&delivered), ["http", "http", "ok"]);
    assert_eq!(delivered["last_error"], Value::Null, "what is over is no longer an error");
    for (pair, wait_ms) in attempts(&delivered).windows(2).zip([300, 1100]) {
        let gap = at(&pair[1]["started_at"]).duration_since(at(&pair[0]["started_at"]));
        assert!((wait_ms..wait_ms + 1500).contains(&gap.as_millis()), "{gap:?} instead of {wait_ms} ms");
    }
    let receipts = receiver.receipts();
    assert!(
        receipts.iter().all(|receipt| receipt.id() == receipts[0].id() && receipt.body == receipts[0].body)
    );
    for (receipt, attempt) in receipts.iter().zip(attempts(&delivered)) {
        let sent: i64 = receipt.header("webhook-timestamp").parse().unwrap();
        assert!((sent - at(&attempt["started_at"]).as_second()).abs() <= 1, "the time of this attempt");
        assert!(is_signed(receipt, &secret));
    }
    assert_ne!(receipts[0].header("webhook-timestamp"), receipts[2].header("webhook-timestamp"));
}

#[tokio::test]
async fn a_delivery_that_never_works_is_dead_once_its_schedule_is_used_up() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let id = app.deliver().await;
    let dead = app.until_is(&id, "dead").await;
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!("exhausted"), &json!(3)));
    assert_eq!((&dead["last_error"], &dead["next_attempt_at"]), (&json!("HTTP 500"), &Value::Null));
    assert!(at(&dead["finished_at"]) >= at(&attempts(&dead)[2]["started_at"]));
    assert_eq!(receiver.count_at(HOOK), 3);
    let dead_letters = app.get("/dead-letters").await.is(200);
    let dead_letter = &dead_letters["data"][0];
    assert_eq!((&dead_letter["id"], &dead_letter["failed_at"]), (&json!(id), &dead["finished_at"]));
    let kept = at(&dead_letter["expires_at"]).duration_since(at(&dead_letter["failed_at"]));
    assert_eq!(kept.as_hours(), 30 * 24, "as the contract says");
}

#[tokio::test]
async fn of_a_failed_answer_the_headers_and_the_first_kib_are_kept() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let body = "é".repeat(3000);
    receiver.behave(HOOK, reply(422, "x-why: because\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n", &body));
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let dead = app.until_is(&app.deliver().await, "dead").await;
    let attempt = &attempts(&dead)[0];
    assert_eq!(attempt["response_headers"]["x-why"], "because");
    assert_eq!(attempt["response_headers"]["set-cookie"], "a=1, b=2");
    assert_eq!(attempt["response_body"], "é".repeat(512));
    assert_eq!((&attempt["error"], &attempt["status_code"]), (&json!("HTTP 422"), &json!(422)));
}

#[tokio::test]
async fn each_way_of_failing_has_its_class_and_no_status_that_never_came() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave("/hang", Behaviour::Hang);
    receiver.behave("/drip", Behaviour::Drip(Duration::from_millis(20)));
    receiver.behave("/reset", Behaviour::Reset);
    receiver.behave("/garbage", Behaviour::Bytes("hello there\r\n\r\n".into()));
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": [], "jitter": "none" }, "timeout": "400ms" });
    let closed = "http://127.0.0.1:1/".to_owned();
    let cases = [
        (receiver.url("/hang"), "timeout"),
        (receiver.url("/drip"), "timeout"),
        (receiver.url("/reset"), "connect"),
        (receiver.url("/garbage"), "connect"),
        (closed, "connect"),
        (format!("https://{}/", app.api.address), "tls"),
        ("http://nobody.invalid/".into(), "dns"),
    ];
    for (number, (url, class)) in cases.iter().enumerate() {
        let event_type = format!("case{number}");
        app.endpoint(url, json!({ "event_types": [event_type], "overrides": overrides })).await;
        let id = text(&app.publish(&event_type).await["deliveries"][0]["id"]);
        let dead = app.until_is(&id, "dead").await;
        let attempt = &attempts(&dead)[0];
        assert_eq!(
            (&attempt["class"], &dead["reason"]),
            (&json!(class), &json!("exhausted")),
            "{url}: {attempt}"
        );
        assert_eq!((&attempt["number"], dead["attempt_count"].as_u64()), (&json!(1), Some(1)), "{attempt}");
        assert!(attempt["error"].is_string() && dead["last_error"].is_string(), "{attempt}");
    }
}

#[tokio::test]
async fn redirects_are_failures_and_are_never_followed() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", receiver.url("/elsewhere"));
        receiver.behave(HOOK, reply(status, &location, ""));
        let overrides = json!({ "retry": { "waits": [] }, "timeout": "2s" });
        let id = app.endpoint(&receiver.url(HOOK), json!({ "overrides": overrides })).await;
        let dead = app.until_is(&app.deliver().await, "dead").await;
        assert_eq!(
            (&attempts(&dead)[0]["status_code"], &attempts(&dead)[0]["class"]),
            (&json!(status), &json!("http"))
        );
        app.delete(&format!("/endpoints/{id}")).await.is(204);
    }
    assert_eq!(receiver.count_at("/elsewhere"), 0);
}

#[tokio::test]
async fn retry_after_can_lengthen_a_wait_up_to_the_longest_of_the_schedule() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    for (requested, wait_s) in [("30", 30), ("3600", 600), ("0", 5), ("nonsense", 5)] {
        receiver.behave(HOOK, reply(429, &format!("retry-after: {requested}\r\n"), ""));
        let overrides = json!({ "retry": { "waits": ["5s", "10m"], "jitter": "none" }, "timeout": "1s" });
        let endpoint = app.endpoint(&receiver.url(HOOK), json!({ "overrides": overrides })).await;
        let retrying = app.until_is(&app.deliver().await, "retrying").await;
        let wait = at(&retrying["next_attempt_at"]).duration_since(at(&attempts(&retrying)[0]["started_at"]));
        assert!((wait_s..wait_s + 3).contains(&wait.as_secs()), "{requested}: {wait:?}");
        app.delete(&format!("/endpoints/{endpoint}")).await.is(204);
    }
}

#[tokio::test]
async fn in_flight_is_seen_and_bounded_by_the_endpoint() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave(HOOK, Behaviour::Slow(Duration::from_millis(200)));
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "max_in_flight": 2, "overrides": quick() })).await;
    let events = json!({ "events": vec![json!({ "type": "x", "data": 1 }); 20] });
    let published = app.post("/events/batch", &events).await.is(200);
    let deliveries =
        published["data"].as_array().unwrap().iter().map(|one| text(&one["event"]["deliveries"][0]["id"]));
    let states = pluck(&app.all("/deliveries").await, "status");
    assert!(states.contains(&json!("in_flight")) && states.contains(&json!("pending")), "{states:?}");
    for id in deliveries {
        app.until_is(&id, "delivered").await;
    }
    assert_eq!(receiver.open_most_at(HOOK), 2);
}

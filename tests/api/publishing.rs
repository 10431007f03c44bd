//! `POST /v1/apps/{app}/events`: accepted events, their response, and refused ones.

use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, slow, text},
    harness::{Behaviour, from_now, wait_until},
};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn publishing_answers_202_with_exactly_the_documented_shape() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    for id in ["first", "second"] {
        app.endpoint(&receiver.url(HOOK), json!({ "id": id })).await;
    }
    let event = json!({ "id": "order:1.~paid", "type": "payment.created", "data": {}, "created_at": "2026-02-03T04:05:06.7+02:00", "key": "k" });
    let mut published = app.post("/events", &event).await.is(202);
    for delivery in published["deliveries"].as_array_mut().unwrap() {
        let id = text(&delivery["id"].take());
        assert!(id.starts_with("dlv_"), "{id}");
        app.until_is(&id, "delivered").await;
    }
    let deliveries = json!([{ "id": null, "endpoint_id": "first" }, { "id": null, "endpoint_id": "second" }]);
    let expected = json!({ "id": "order:1.~paid", "type": "payment.created", "created_at": "2026-02-03T02:05:06.700Z",
        "deliveries": deliveries });
    assert_eq!(published, expected);

    let ours = app.publish("x").await;
    assert!(text(&ours["id"]).starts_with("evt_"), "{ours}");
    let shown = app.get(&format!("/events/{}", text(&ours["id"]))).await.is(200);
    assert_eq!(shown["created_at"], shown["accepted_at"], "an absent time is the time of acceptance");
    assert_eq!(shown["created_at"], ours["created_at"]);
}

#[tokio::test]
async fn an_event_may_be_called_as_a_part_of_a_path_is() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for id in ["batch", "status", "data", "events", "..."] {
        app.get(&format!("/events/{id}")).await.refused(404, "not_found");
        app.post("/events", &json!({ "id": id, "type": "x", "data": 1 })).await.is(202);
        assert_eq!(app.get(&format!("/events/{id}")).await.is(200)["id"], id);
        assert_eq!(app.get(&format!("/events/{id}/status")).await.is(200)["event_id"], id);
    }
}

#[tokio::test]
async fn event_types_have_a_form_and_reserved_prefixes() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let longest = "a".repeat(128);
    for good in ["payment.created", "A-1:b_c.d", "webhook", "webhooks.x", "posthaste", &longest] {
        app.publish(good).await;
    }
    let too_long = "a".repeat(129);
    let bad = [
        "",
        " ",
        "a b",
        "a/b",
        "ü",
        "a*",
        "payment.*",
        "webhook.test",
        "webhook.",
        "posthaste.x",
        "a\nb",
        &too_long,
    ];
    for bad in bad {
        let answer = app.post("/events", &json!({ "type": bad, "data": 1 })).await;
        assert_eq!(answer.invalid_field(), "type", "{bad:?}");
    }
    for reserved in ["webhook.test", "posthaste.x"] {
        let refused = app.post("/events", &json!({ "type": reserved, "data": 1 })).await.problem();
        assert!(refused.detail.contains("reserved"), "{refused:?}");
    }
}

#[tokio::test]
async fn every_field_outside_its_form_is_named() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let day = Duration::from_hours(24);
    let cases = [
        ("id", json!("a b"), false),
        ("id", json!(""), false),
        ("id", json!("x".repeat(129)), false),
        ("id", json!("x".repeat(128)), true),
        ("id", json!(5), false),
        ("id", json!(null), true),
        ("type", json!(null), false),
        ("type", json!(["a"]), false),
        ("created_at", json!("2026-02-30T00:00:00Z"), false),
        ("created_at", json!(1_700_000_000), false),
        ("created_at", json!("yesterday"), false),
        ("created_at", json!("2026-01-01T00:00:00"), false),
        ("key", json!(""), false),
        ("key", json!("x".repeat(256)), true),
        ("key", json!("x".repeat(257)), false),
        ("key", json!("a\u{0}b"), false),
        ("key", json!("kunde 7, süd"), true),
        ("key", json!({}), false),
        ("deliver_at", json!("soon"), false),
        ("deliver_at", json!(from_now(31 * day)), false),
        ("deliver_at", json!(from_now(29 * day)), true),
        ("deliver_at", json!("2020-01-01T00:00:00Z"), true),
    ];
    for (name, value, is_fine) in cases {
        let mut event = json!({ "type": "a", "data": 1 });
        event[name] = value.clone();
        let answer = app.post("/events", &event).await;
        if is_fine {
            answer.is(202);
        } else {
            assert_eq!(answer.invalid_field(), name, "{value}");
        }
    }
    for missing in ["type", "data"] {
        let mut event = json!({ "type": "a", "data": 1 });
        event.as_object_mut().unwrap().remove(missing);
        assert_eq!(app.post("/events", &event).await.invalid_field(), missing);
    }
    let unknown = app.post("/events", &json!({ "type": "a", "dta": 1 })).await.refused(422, "unknown_field");
    assert_eq!(unknown.field.as_deref(), Some("dta"));
    assert!(unknown.detail.contains("`data`"), "{}", unknown.detail);
}

#[tokio::test]
async fn what_is_not_one_json_object_in_utf_8_is_malformed() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let good = r#"{"type":"a","data":1}"#;
    let bodies = [
        String::new(),
        " ".into(),
        "null".into(),
        "[]".into(),
        "5".into(),
        "\"a\"".into(),
        "{".into(),
        format!("{good}x"),
        format!("{good}{good}"),
        format!("\u{feff}{good}"),
        "{'type':'a','data':1}".into(),
        r#"{"type":"a","data":}"#.into(),
        r#"{"type":"a","data":1,}"#.into(),
        r#"{"type":"a","data":NaN}"#.into(),
        r#"{"type":"a","data":01}"#.into(),
        r#"{"type":"a","data":"\x"}"#.into(),
        "{\"type\":\"a\",\"data\":\"\n\"}".into(),
        r#"{"type":"a","data":1//}"#.into(),
    ];
    for body in bodies {
        let refused = app.publish_raw(&body).await.refused(400, "malformed");
        assert_eq!(refused.field, None, "{body}");
    }
    for bad in [&b"\xff"[..], b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\x80"] {
        let body = [br#"{"type":"a","data":""#, bad, br#""}"#].concat();
        app.publish_raw(&body).await.refused(400, "malformed");
    }
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    app.publish_raw(&utf16).await.refused(400, "malformed");
    for twice in ["type", "data", "id"] {
        let event = json!({ "type": "a", "data": 1, "id": "x" }).to_string();
        let doubled = event.replacen('{', &format!("{{\"{twice}\":\"b\","), 1);
        let refused = app.publish_raw(&doubled).await.refused(400, "malformed");
        assert_eq!(
            refused.field.as_deref(),
            Some(twice),
            "two readers could disagree about which one counts"
        );
    }
    assert_eq!(app.get("/events").await.is(200)["data"], json!([]), "nothing of all that was kept");
    app.publish_raw(format!(" \r\n\t{good}\n ")).await.is(202);
}

#[tokio::test]
async fn an_event_without_subscribers_is_kept_as_skipped() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint("http://127.0.0.1:9/", json!({ "event_types": ["refund.*"] })).await;
    let published = app.publish("payment.created").await;
    assert_eq!(published["deliveries"], json!([]));
    let id = text(&published["id"]);
    let event = app.get(&format!("/events/{id}")).await.is(200);
    assert_eq!((&event["is_skipped"], &event["deliveries"]), (&json!(true), &json!([])));
    let status = app.get(&format!("/events/{id}/status")).await.is(200);
    assert_eq!(
        (&status["status"], &status["delivered"], &status["attempts"]),
        (&json!("skipped"), &json!(false), &json!(0))
    );
    app.endpoint("http://127.0.0.1:9/", json!({})).await;
    assert_eq!(
        app.get(&format!("/events/{id}")).await.is(200)["deliveries"],
        json!([]),
        "later endpoints do not get it"
    );
}

#[tokio::test]
async fn deliver_at_is_not_before_that_time() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let at = from_now(Duration::from_millis(900));
    let event = json!({ "type": "x", "data": 1, "deliver_at": at });
    let delivery = text(&app.post("/events", &event).await.is(202)["deliveries"][0]["id"]);
    let waiting = app.delivery(&delivery).await;
    assert_eq!((&waiting["status"], &waiting["next_attempt_at"]), (&json!("pending"), &json!(at)));
    assert_eq!(receiver.count_at(HOOK), 0);
    let delivered = app.until_is(&delivery, "delivered").await;
    let started = text(&delivered["attempts"][0]["started_at"]);
    assert!(started >= at, "{started} is before {at}");

    let past = json!({ "type": "x", "data": 1, "deliver_at": "2020-01-01T00:00:00Z" });
    let delivery = text(&app.post("/events", &past).await.is(202)["deliveries"][0]["id"]);
    app.until_is(&delivery, "delivered").await;
}

#[tokio::test]
async fn an_event_has_the_worst_status_of_its_deliveries() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    receiver.behave("/ok", Behaviour::Ok);
    let app = server.app().await;
    app.endpoint(&receiver.url("/ok"), json!({})).await;
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": slow(), "id": "bad" })).await;
    let published = app.publish("x").await;
    let path = format!("/events/{}/status", text(&published["id"]));
    let status = async || app.get(&path).await.is(200);
    wait_until("one delivered, one retrying", WAIT_MAX, async || status().await["attempts"] == 2).await;
    let retrying = status().await;
    assert_eq!((&retrying["status"], &retrying["delivered"]), (&json!("retrying"), &json!(false)));
    assert_eq!((&retrying["last_error"], &retrying["completed_at"]), (&json!("HTTP 500"), &Value::Null));

    let bad = text(&published["deliveries"][1]["id"]);
    app.act(&format!("/deliveries/{bad}/cancel")).await.is(200);
    let cancelled = status().await;
    assert_eq!((&cancelled["status"], &cancelled["delivered"]), (&json!("cancelled"), &json!(false)));
    assert!(cancelled["completed_at"].is_string(), "{cancelled}");
    receiver.behave(HOOK, Behaviour::Ok);
    app.act(&format!("/deliveries/{bad}/replay")).await.is(202);
    app.until_is(&bad, "delivered").await;
    let delivered = status().await;
    assert_eq!((&delivered["status"], &delivered["delivered"]), (&json!("delivered"), &json!(true)));
}

#[tokio::test]
async fn erasing_an_event_s_data_keeps_the_record_and_stops_deliveries() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": ["1s"], "jitter": "none" } });
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": overrides })).await;
    let published = app.post("/events", &json!({ "id": "e", "type": "x", "data": "private" })).await.is(202);
    let delivery = text(&published["deliveries"][0]["id"]);
    app.until_is(&delivery, "retrying").await;
    app.delete("/events/e/data").await.is(204);
    let event = app.get("/events/e").await.is(200);
    assert_eq!(
        (&event["data"], &event["data_erased"], &event["type"]),
        (&Value::Null, &json!(true), &json!("x"))
    );
    let dead = app.until_is(&delivery, "dead").await;
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!("serialisation_failed"), &json!(1)));
    assert_eq!(receiver.count_at(HOOK), 1, "an empty request is not what was promised");
    app.delete("/events/nobody/data").await.refused(404, "not_found");
}

//! `POST /v1/apps/{app}/events/batch`: up to 1,000 events, each with its own result, in order.

use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, text},
    harness::wait_until,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_thousand_events_are_each_answered_for_themselves_in_order() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "event_types": ["wanted"] })).await;
    app.post("/events", &json!({ "id": "before", "type": "wanted", "data": 0 })).await.is(202);
    let event = |n: usize| match n % 10 {
        0 => json!({ "id": format!("id{n}"), "type": "wanted", "data": n }),
        1 => json!({ "id": format!("id{}", n - 1), "type": "wanted", "data": n - 1 }),
        2 => json!({ "id": format!("id{}", n - 2), "type": "wanted", "data": "another" }),
        3 => json!({ "type": "not a type", "data": n }),
        4 => json!({ "type": "wanted" }),
        5 => json!([n]),
        6 => json!({ "id": "before", "type": "wanted", "data": 0 }),
        7 => json!({ "type": "wanted", "data": n, "nonsense": 1 }),
        8 => json!({ "type": "unwanted", "data": n }),
        _ => json!({ "type": "wanted", "data": n }),
    };
    let events: Vec<Value> = (0..1000).map(event).collect();
    let answers = app.post("/events/batch", &json!({ "events": events })).await.is(200);
    let answers = answers["data"].as_array().unwrap();
    assert_eq!(answers.len(), 1000);
    for (n, answer) in answers.iter().enumerate() {
        let (event, problem) = (&answer["event"], &answer["problem"]);
        let expected = [202, 200, 409, 422, 422, 400, 200, 422, 202, 202][n % 10];
        assert_eq!(answer["status"], expected, "{n}: {answer}");
        assert_eq!((event.is_object(), problem.is_object()), (expected < 300, expected >= 400), "{answer}");
        match n % 10 {
            0 => assert_eq!(event["id"], format!("id{n}")),
            1 => assert_eq!(event, &answers[n - 1]["event"], "a repetition is the first, deliveries and all"),
            2 => assert_eq!(problem["code"], "published_before"),
            3 => assert_eq!(problem["field"], "type"),
            4 => assert_eq!(problem["field"], "data"),
            5 => assert_eq!(problem["code"], "malformed"),
            6 => assert_eq!(event["id"], "before"),
            7 => assert_eq!(problem["field"], "nonsense"),
            8 => assert_eq!(event["deliveries"], json!([])),
            _ => assert_eq!(event["deliveries"].as_array().map(Vec::len), Some(1)),
        }
    }
    wait_until("201 deliveries", WAIT_MAX, async || receiver.count_at(HOOK) >= 201).await;
    let ids: std::collections::HashSet<String> =
        receiver.receipts().iter().map(|receipt| receipt.id().to_owned()).collect();
    assert_eq!(ids.len(), 201, "100 with an id, 100 without, and the one before");
    assert_eq!(app.all("/events?limit=250").await.len(), 301);
}

#[tokio::test]
async fn more_than_a_thousand_events_or_anything_else_is_refused_whole() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let events = |count: usize| json!({ "events": vec![json!({ "type": "a", "data": 1 }); count] });
    assert_eq!(app.post("/events/batch", &events(1001)).await.invalid_field(), "events");
    for bad in [
        json!({}),
        json!({ "events": {} }),
        json!({ "events": [], "more": 1 }),
        json!({ "event": [] }),
        json!({ "events": null }),
    ] {
        assert_eq!(app.post("/events/batch", &bad).await.invalid_field(), "events", "{bad}");
    }
    for bad in ["", "{", "{\"events\":[}"] {
        let answer = app.api.send("POST", &app.path("/events/batch"), &[], Some(bad.as_bytes())).await;
        answer.refused(400, "malformed");
    }
    let headers = [("Idempotency-Key", "k")];
    let body = events(1).to_string();
    let answer = app.api.send("POST", &app.path("/events/batch"), &headers, Some(body.as_bytes())).await;
    assert_eq!(answer.invalid_field(), "Idempotency-Key", "one key cannot stand for many events");
    assert_eq!(app.all("/events").await.len(), 0);
    assert_eq!(app.post("/events/batch", &events(0)).await.is(200), json!({ "data": [] }));
    let answers = app.post("/events/batch", &events(1000)).await.is(200);
    assert_eq!(answers["data"].as_array().map(Vec::len), Some(1000));
    assert!(text(&answers["data"][999]["event"]["id"]) > text(&answers["data"][0]["event"]["id"]));
}

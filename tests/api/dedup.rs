//! An event published twice is stored once: by the producer's id, and by `Idempotency-Key`.

use crate::{
    fixture::{HOOK, TestApp, TestServer, receiver, text},
    raw_http::ApiResponse,
};
use serde_json::{Value, json};

async fn publish_with_key(app: &TestApp, key: &str, event: &Value) -> ApiResponse {
    let body = event.to_string();
    app.api.send("POST", &app.path("/events"), &[("Idempotency-Key", key)], Some(body.as_bytes())).await
}

#[tokio::test]
async fn the_same_id_gives_the_same_event_and_is_delivered_once() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let event = json!({ "id": "order-1", "type": "a", "data": { "n": 1 } });
    let first = app.post("/events", &event).await.is(202);
    let delivery = text(&first["deliveries"][0]["id"]);
    app.until_is(&delivery, "delivered").await;
    assert_eq!(app.post("/events", &event).await.is(200), first);

    let replayed = text(&app.act(&format!("/deliveries/{delivery}/replay")).await.is(202)["id"]);
    app.until_is(&replayed, "delivered").await;
    app.endpoint(&receiver.url("/other"), json!({})).await;
    assert_eq!(
        app.post("/events", &event).await.is(200),
        first,
        "the deliveries it became, not what came later"
    );
    assert_eq!(receiver.count_at(HOOK), 2, "the first and the replay");
    assert_eq!(app.all("/events").await.len(), 1);
}

#[tokio::test]
async fn another_body_under_a_used_id_or_key_is_refused_with_the_event_that_has_it() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let event = json!({ "id": "order-1", "type": "a", "data": { "n": 1 }, "created_at": "2026-01-01T00:00:00Z", "key": "k",
        "deliver_at": "2026-01-01T00:00:00Z" });
    app.post("/events", &event).await.is(202);
    let keyed = json!({ "type": "a", "data": { "n": 1 } });
    let by_key = publish_with_key(&app, "order-1", &keyed).await.is(202);
    let others = [
        ("type", json!("b")),
        ("data", json!({ "n": 2 })),
        ("created_at", json!("2026-01-01T00:00:00.001Z")),
        ("created_at", Value::Null),
        ("key", json!("other")),
        ("key", Value::Null),
        ("deliver_at", Value::Null),
    ];
    for (name, value) in others {
        let mut other = event.clone();
        other[name] = value.clone();
        let refused = app.post("/events", &other).await.refused(409, "published_before");
        let named = refused.detail.split_whitespace().find_map(|word| word.strip_prefix("evt_"));
        let id = format!("evt_{}", named.unwrap_or_default().trim_end_matches('.'));
        assert_eq!(
            app.get(&format!("/events/{id}")).await.is(200)["id"],
            "order-1",
            "{name}: {}",
            refused.detail
        );
    }
    let spaced = r#"{"id":"order-1","type":"a","data":{"n": 1},"created_at":"2026-01-01T00:00:00Z","key":"k","deliver_at":"2026-01-01T00:00:00Z"}"#;
    app.publish_raw(spaced).await.refused(409, "published_before");
    let refused = publish_with_key(&app, "order-1", &json!({ "type": "a", "data": 2 })).await;
    let detail = refused.refused(409, "published_before").detail;
    assert!(detail.contains(&text(&by_key["id"])), "{detail}");
    assert_eq!(app.all("/events").await.len(), 2);
}

#[tokio::test]
async fn ids_and_idempotency_keys_are_separate_and_each_app_has_its_own() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let event = json!({ "type": "a", "data": 1 });
    let given = json!({ "id": "x", "type": "a", "data": 1 });
    let by_key = publish_with_key(&app, "x", &event).await.is(202);
    app.post("/events", &given).await.is(202);
    other.post("/events", &given).await.is(202);
    assert_ne!(publish_with_key(&other, "x", &event).await.is(202)["id"], by_key["id"]);
    assert_eq!(publish_with_key(&app, "x", &event).await.is(200), by_key);
    app.post("/events", &given).await.is(200);

    let both = json!({ "id": "y", "type": "a", "data": 1 });
    publish_with_key(&app, "z", &both).await.is(202);
    assert_eq!(app.post("/events", &both).await.is(200)["id"], "y", "found by its id alone");
    assert_eq!(publish_with_key(&app, "z", &event).await.is(200)["id"], "y", "found by its key alone");
}

#[tokio::test]
async fn events_without_an_id_or_key_are_never_the_same() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let (first, second) = (app.publish("a").await, app.publish("a").await);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test]
async fn an_idempotency_key_has_a_form() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let event = json!({ "type": "a", "data": 1 });
    let (longest, too_long) = ("k".repeat(256), "k".repeat(257));
    for good in ["!", "{7f9c:x/y}=~", &longest] {
        publish_with_key(&app, good, &event).await.is(202);
    }
    for bad in ["", "a b", "é", &too_long] {
        assert_eq!(publish_with_key(&app, bad, &event).await.invalid_field(), "Idempotency-Key", "{bad:?}");
    }
}

#[tokio::test]
async fn eight_at_once_make_one_event_with_one_delivery() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    for round in 0..5 {
        let (mut publishing, mut answers) = (tokio::task::JoinSet::new(), Vec::new());
        for _ in 0..8 {
            let app = app.clone();
            publishing.spawn(async move {
                let event = json!({ "id": format!("e{round}"), "type": "a", "data": round });
                publish_with_key(&app, &format!("k{round}"), &event).await
            });
        }
        while let Some(answer) = publishing.join_next().await {
            answers.push(answer.unwrap());
        }
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 7, "{statuses:?}");
        assert!(answers.iter().all(|answer| answer.json() == answers[0].json()));
        app.until_is(&text(&answers[0].json()["deliveries"][0]["id"]), "delivered").await;
    }
    assert_eq!(app.all("/deliveries").await.len(), 5);
    assert_eq!(receiver.count_at(HOOK), 5);
}

#[tokio::test]
async fn of_eight_different_bodies_under_one_id_one_wins() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut publishing = tokio::task::JoinSet::new();
    for n in 0..8 {
        let app = app.clone();
        publishing.spawn(async move {
            (n, app.post("/events", &json!({ "id": "e", "type": "a", "data": n })).await)
        });
    }
    let mut winners = Vec::new();
    while let Some(answered) = publishing.join_next().await {
        let (n, answer) = answered.unwrap();
        match answer.status {
            202 => winners.push(n),
            _ => drop(answer.refused(409, "published_before")),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(app.get("/events/e").await.is(200)["data"], winners[0]);
}

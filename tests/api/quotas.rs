//! Quotas: events over them are refused with a `Retry-After`, and other apps are not affected.

use crate::{
    fixture::{TestApp, TestServer, receiver, text},
    harness::wait_until,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

async fn limited(server: &TestServer, quota: Value) -> TestApp {
    let app = server.app().await;
    assert_eq!(
        app.patch("", &json!({ "quota": quota })).await.is(200)["quota"]["bytes_per_second"],
        quota["bytes_per_second"]
    );
    app
}

fn event(n: usize) -> Value {
    json!({ "type": "a.b", "data": { "n": n } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_app_far_over_its_quota_is_refused_and_another_publishes_every_event() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let (greedy, other) = (limited(&server, json!({ "events_per_second": 5 })).await, server.app().await);
    greedy.endpoint(&receiver.url("/greedy"), json!({})).await;
    other.endpoint(&receiver.url("/other"), json!({})).await;
    let begun = Instant::now();
    let flood = async {
        let (mut taken, mut refused) = (0, 0);
        while refused < 200 {
            let answer = greedy.post("/events", &event(refused)).await;
            if answer.status == 202 {
                taken += 1;
                continue;
            }
            let problem = answer.refused(429, "quota_exceeded");
            assert!(problem.detail.contains("events_per_second is 5"), "{}", problem.detail);
            let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert_eq!((wait, &answer.json()["retry_after"]), (1, &json!(1)));
            refused += 1;
        }
        (taken, begun.elapsed())
    };
    let calm = async {
        for n in 0..200 {
            other.post("/events", &event(n)).await.is(202);
        }
    };
    let ((taken, took), ()) = tokio::join!(flood, calm);
    let most = 5.0 * (took.as_secs_f64() + 1.0);
    assert!(f64::from(taken) <= most && taken >= 5, "{taken} taken in {took:?}");
    // A client that waits as long as `Retry-After` says gets through.
    tokio::time::sleep(Duration::from_secs(1)).await;
    greedy.post("/events", &event(0)).await.is(202);
}

#[tokio::test]
async fn each_event_of_a_batch_counts_and_those_over_the_quota_are_answered_so() {
    let server = TestServer::start().await;
    let app = limited(&server, json!({ "events_per_second": 1 })).await;
    let one = json!({ "id": "same", "type": "a.b", "data": 1 });
    app.post("/events", &one).await.is(202);
    // Faster than one per second, even on a busy machine.
    let mut again = app.post("/events", &one).await;
    for _ in 0..50 {
        if again.status != 200 {
            break;
        }
        again = app.post("/events", &one).await;
    }
    again.refused(429, "quota_exceeded");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let events: Vec<Value> = (0..20).map(event).collect();
    let answers = app.post("/events/batch", &json!({ "events": events })).await.is(200);
    let answers = answers["data"].as_array().unwrap();
    assert_eq!(answers.len(), 20);
    assert_eq!(answers[0]["status"], 202, "{}", answers[0]);
    for answer in &answers[1..] {
        assert_eq!((&answer["status"], &answer["problem"]["code"]), (&json!(429), &json!("quota_exceeded")));
        assert_eq!(answer["problem"]["retry_after"], 1, "{answer}");
    }
    assert_eq!(app.all("/events").await.len(), 2, "what was refused is not there");
}

#[tokio::test]
async fn bytes_are_counted_and_one_large_event_is_let_through() {
    let server = TestServer::start().await;
    let app = limited(&server, json!({ "bytes_per_second": 100 })).await;
    let large = json!({ "type": "a.b", "data": "x".repeat(1000) });
    app.post("/events", &large).await.is(202);
    let answer = app.post("/events", &large).await;
    let problem = answer.refused(429, "quota_exceeded");
    assert!(problem.detail.contains("bytes_per_second is 100"), "{}", problem.detail);
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((5..=11).contains(&wait), "the bytes of the first are made up for: {wait}");
    app.patch("", &json!({ "quota": null })).await.is(200);
    app.post("/events", &large).await.is(202);
}

#[tokio::test]
async fn a_quota_is_the_operator_s_to_set_shown_and_taken_away() {
    let server = TestServer::start().await;
    let quota = json!({ "events_per_second": 10, "bytes_per_second": 1000 });
    let made =
        server.admin.post("/v1/apps", &json!({ "id": "q", "name": "Q", "quota": quota })).await.is(201);
    assert_eq!(made["quota"], quota);
    let app = TestApp { id: text(&made["id"]), api: server.admin.clone() };
    let own = server.by_its_key(&app).await;
    own.patch("", &json!({ "quota": null })).await.refused(403, "forbidden");
    for (quota, field) in [
        (json!({ "events_per_second": 0 }), "quota.events_per_second"),
        (json!({ "bytes_per_second": -1 }), "quota.bytes_per_second"),
        (json!({ "bytes_per_second": "1k" }), "quota.bytes_per_second"),
        (json!(5), "quota"),
    ] {
        assert_eq!(app.patch("", &json!({ "quota": quota })).await.invalid_field(), field, "{quota}");
    }
    let unknown = app.patch("", &json!({ "quota": { "events_per_minute": 5 } })).await;
    assert_eq!(unknown.refused(422, "unknown_field").field.as_deref(), Some("quota.events_per_minute"));
    let patched = app.patch("", &json!({ "quota": { "events_per_second": 7 } })).await.is(200);
    assert_eq!(patched["quota"], json!({ "events_per_second": 7, "bytes_per_second": null }));
    assert_eq!(app.patch("", &json!({ "quota": null })).await.is(200)["quota"], Value::Null);
    assert_eq!(own.get("").await.is(200)["quota"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_at_its_limit_is_said_to_be_full_until_something_is_deleted() {
    let server = TestServer::start_with(&[("STORE_BYTES_MAX", "2MiB")]).await;
    let receiver = receiver(200).await;
    let (large, other) = (server.app().await, server.app().await);
    other.endpoint(&receiver.url(crate::fixture::HOOK), json!({})).await;
    let delivery = other.deliver().await;
    other.until_is(&delivery, "delivered").await;
    let event = json!({ "type": "a.b", "data": "x".repeat(50_000) });
    let mut taken = 0;
    let refused = loop {
        let answer = large.post("/events", &event).await;
        if answer.status != 202 {
            break answer;
        }
        taken += 1;
    };
    assert!((20..60).contains(&taken), "{taken} times 50 kB");
    let problem = refused.refused(507, "storage_full");
    assert!(problem.detail.contains("store_bytes_max is 2.0 MiB"), "{}", problem.detail);
    for (path, body) in [
        ("/events/batch".to_owned(), json!({ "events": [event] })),
        (format!("/deliveries/{delivery}/replay"), json!({})),
        ("/replays".to_owned(), json!({ "status": ["delivered"] })),
    ] {
        other.post(&path, &body).await.refused(507, "storage_full");
    }
    server.admin.delete(&format!("/v1/apps/{}", large.id)).await.is(204);
    let limit = Duration::from_mins(1);
    wait_until("there is room again", limit, async || other.post("/events", &event).await.status == 202)
        .await;
}

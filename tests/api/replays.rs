//! Replays of many deliveries: counted first, watched, paused, resumed, cancelled; and backfills.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, text},
    harness::{Behaviour, wait_for},
};
use serde_json::{Value, json};

/// Publishes so many events whose deliveries end dead.
async fn dead(app: &TestApp, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(app.deliver().await);
    }
    for id in &ids {
        app.until_is(id, "dead").await;
    }
    ids
}

pub(crate) async fn until_state(app: &TestApp, replay: &str, state: &str) -> Value {
    wait_for(&format!("the replay is {state}"), WAIT_MAX, async || {
        let replay = app.get(&format!("/replays/{replay}")).await.is(200);
        (replay["state"] == state).then_some(replay)
    })
    .await
}

#[tokio::test]
async fn dead_deliveries_are_counted_then_replayed_once_each() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let endpoint = app.endpoint(&receiver.url(HOOK), json!({})).await;
    let ids = dead(&app, 5).await;
    let body = json!({ "endpoint_id": endpoint, "status": ["dead"], "dry_run": true });
    let counted = app.post("/replays", &body).await.is(200);
    assert_eq!(counted, json!({ "dry_run": true, "total": 5 }));
    assert_eq!(app.all("/replays").await, [] as [Value; 0], "a dry run leaves nothing behind");

    receiver.behave(HOOK, Behaviour::Ok);
    let before = receiver.count_at(HOOK);
    let replay = app.post("/replays", &json!({ "endpoint_id": endpoint })).await.is(201);
    assert_eq!(
        (&replay["kind"], &replay["total"], &replay["endpoint_id"]),
        (&json!("replay"), &json!(5), &json!(endpoint))
    );
    let done = until_state(&app, &text(&replay["id"]), "finished").await;
    assert_eq!((&done["replayed"], &done["refused"], &done["progress"]), (&json!(5), &json!(0), &json!(1.0)));
    assert!(done["finished_at"].is_string(), "{done}");
    for id in &ids {
        app.until_is(id, "delivered").await;
    }
    assert_eq!(receiver.count_at(HOOK) - before, 5);
    assert_eq!(app.all("/replays").await, [done]);
}

#[tokio::test]
async fn a_replay_of_delivered_ones_makes_new_deliveries_and_never_of_its_own() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let id = app.deliver().await;
    app.until_is(&id, "delivered").await;
    for round in 1..=2 {
        let replay = app.post("/replays", &json!({ "status": ["delivered"] })).await.is(201);
        let done = until_state(&app, &text(&replay["id"]), "finished").await;
        assert_eq!(done["replayed"], json!(1), "the first, and no replay of it");
        wait_for("all are delivered", WAIT_MAX, async || {
            (app.all("/deliveries?status=delivered").await.len() == 1 + round).then_some(())
        })
        .await;
    }
    let all = app.all("/deliveries").await;
    assert_eq!(all.iter().filter(|one| one["replay_of"] == json!(id)).count(), 2);
}

#[tokio::test]
async fn a_replay_can_be_paused_resumed_and_cancelled() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    dead(&app, 4).await;
    receiver.behave(HOOK, Behaviour::Ok);
    // At one per second it cannot end before it is paused.
    let replay = app.post("/replays", &json!({ "per_second": 1 })).await.is(201);
    let path = format!("/replays/{}", text(&replay["id"]));
    let paused = app.act(&format!("{path}/pause")).await.is(200);
    assert_eq!(paused["state"], "paused");
    let status = app.get(&path).await.is(200);
    let resumed = app.act(&format!("{path}/resume")).await.is(200);
    assert_eq!((&resumed["state"], &resumed["replayed"]), (&json!("running"), &status["replayed"]));
    let cancelled = app.delete(&path).await.is(200);
    assert_eq!(cancelled["state"], "cancelled");
    assert!(cancelled["replayed"].as_u64().unwrap() < 4, "{cancelled}");
    for action in ["pause", "resume"] {
        let refused = app.act(&format!("{path}/{action}")).await.is(409);
        assert_eq!(refused["detail"], "The replay is cancelled already.");
    }
    app.delete(&path).await.is(409);
}

#[tokio::test]
async fn a_backfill_brings_a_new_endpoint_what_it_missed_and_nothing_twice() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    for event_type in ["payment.created", "payment.failed", "invoice.sent"] {
        assert_eq!(app.publish(event_type).await["deliveries"], json!([]));
    }
    let endpoint = app.endpoint(&receiver.url(HOOK), json!({ "event_types": ["payment.*"] })).await;
    let path = format!("/endpoints/{endpoint}/backfill");
    assert_eq!(app.post(&path, &json!({ "dry_run": true })).await.is(200)["total"], 2);
    let backfill = app.post(&path, &json!({})).await.is(201);
    assert_eq!(backfill["kind"], "backfill");
    until_state(&app, &text(&backfill["id"]), "finished").await;
    wait_for("both are delivered", WAIT_MAX, async || {
        (app.all("/deliveries?status=delivered").await.len() == 2).then_some(())
    })
    .await;
    assert_eq!(receiver.count_at(HOOK), 2);
    assert_eq!(app.post(&path, &json!({ "dry_run": true })).await.is(200)["total"], 0);
    let events = app.all("/events").await;
    assert_eq!(events.iter().filter(|event| event["is_skipped"] == true).count(), 1, "only the invoice");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_field() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for (body, field) in [
        (json!({ "status": ["pending"] }), "status"),
        (json!({ "status": [] }), "status"),
        (json!({ "endpoint_id": "nobody" }), "endpoint_id"),
        (json!({ "event_type": "not a type" }), "event_type"),
        (json!({ "per_second": 0 }), "per_second"),
        (json!({ "per_second": 10_001 }), "per_second"),
        (json!({ "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z" }), "to"),
        (json!({ "from": "yesterday" }), "from"),
        (json!({ "statsu": ["dead"] }), "statsu"),
    ] {
        let answer = app.post("/replays", &body).await;
        assert!(answer.status == 422 || answer.status == 400, "{body}: {}", answer.status);
        assert_eq!(answer.json()["field"], field, "{body}");
    }
    app.get("/replays/rpl_0000000000000").await.is(404);
    app.post("/endpoints/nobody/backfill", &json!({})).await.is(404);
}

#[tokio::test]
async fn a_replay_takes_only_what_is_of_its_time_and_its_app() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let (app, other) = (server.app().await, server.app().await);
    for one in [&app, &other] {
        one.endpoint(&receiver.url(HOOK), json!({})).await;
        dead(one, 2).await;
    }
    let count = async |body: Value| app.post("/replays", &body).await.is(200)["total"].clone();
    assert_eq!(count(json!({ "dry_run": true })).await, 2);
    assert_eq!(count(json!({ "dry_run": true, "to": "2020-01-01T00:00:00Z" })).await, 0);
    assert_eq!(count(json!({ "dry_run": true, "from": "2020-01-01T00:00:00Z" })).await, 2);
    assert_eq!(count(json!({ "dry_run": true, "event_type": "other.type" })).await, 0);
    let replay = app.post("/replays", &json!({ "per_second": 1 })).await.is(201);
    let stranger = server.by_its_key(&other).await;
    let path = format!("/v1/apps/{}/replays/{}", app.id, text(&replay["id"]));
    stranger.api.get(&path).await.is(404);
    stranger.api.delete(&path).await.is(404);
    let own = format!("/replays/{}", text(&replay["id"]));
    stranger.get(&own).await.is(404);
}

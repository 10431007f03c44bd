//! Manual actions on a delivery: retry, replay, cancel, close, delete; and when they are refused.

use crate::{
    fixture::{HOOK, TestApp, TestServer, pluck, receiver, slow, text},
    harness::{Behaviour, TestReceiver, from_now},
};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_retry_is_one_extra_attempt_and_leaves_the_schedule_unchanged() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": slow() })).await;
    let id = app.deliver().await;
    let before = app.until_is(&id, "retrying").await;
    assert!(before["next_attempt_at"].is_string(), "{before}");
    let requested = app.act(&format!("/deliveries/{id}/retry")).await.is(202);
    assert_eq!(
        (&requested["id"], &requested["status"], &requested["next_attempt_at"]),
        (&json!(id), &json!("pending"), &Value::Null)
    );
    let after = app.until(&id, "back", |one| one["attempt_count"] == 2 && one["status"] == "retrying").await;
    assert_eq!(after["next_attempt_at"], before["next_attempt_at"], "its place in the schedule is unchanged");

    receiver.behave(HOOK, Behaviour::Ok);
    app.act(&format!("/deliveries/{id}/retry")).await.is(202);
    let delivered = app.until_is(&id, "delivered").await;
    assert_eq!(pluck(delivered["attempts"].as_array().unwrap(), "number"), [1, 2, 3]);
    assert_eq!(delivered["next_attempt_at"], Value::Null);
}

#[tokio::test]
async fn a_retry_of_something_that_ended_returns_there_when_it_fails() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let id = app.deliver().await;
    let dead = app.until_is(&id, "dead").await;
    app.act(&format!("/deliveries/{id}/retry")).await.is(202);
    let again =
        app.until(&id, "dead again", |one| one["attempt_count"] == 4 && one["status"] == "dead").await;
    assert_eq!((&again["reason"], &again["finished_at"]), (&dead["reason"], &dead["finished_at"]));

    receiver.behave(HOOK, Behaviour::Ok);
    app.act(&format!("/deliveries/{id}/retry")).await.is(202);
    let delivered = app.until_is(&id, "delivered").await;
    assert_eq!((&delivered["reason"], &delivered["attempt_count"]), (&Value::Null, &json!(5)));
    assert_eq!(app.get("/dead-letters").await.is(200)["data"], json!([]), "it is no dead letter any more");
}

#[tokio::test]
async fn a_replay_of_a_dead_letter_is_the_same_delivery_on_a_fresh_schedule() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let id = app.deliver().await;
    app.until_is(&id, "dead").await;
    let requested = app.act(&format!("/dead-letters/{id}/replay")).await.is(202);
    assert_eq!(
        (&requested["id"], &requested["status"], &requested["reason"]),
        (&json!(id), &json!("pending"), &Value::Null)
    );
    assert_eq!((&requested["finished_at"], &requested["replay_of"]), (&Value::Null, &Value::Null));
    let dead = app.until(&id, "dead again", |one| one["attempt_count"] == 6 && one["status"] == "dead").await;
    assert_eq!(
        pluck(dead["attempts"].as_array().unwrap(), "number"),
        [1, 2, 3, 4, 5, 6],
        "numbering continues"
    );

    receiver.behave(HOOK, Behaviour::Ok);
    app.act(&format!("/deliveries/{id}/replay")).await.is(202);
    assert_eq!(app.until_is(&id, "delivered").await["attempt_count"], 7);
    assert_eq!(app.all("/deliveries").await.len(), 1, "no delivery was made beside it");
    let ids: Vec<String> = receiver.receipts().iter().map(|receipt| receipt.id().to_owned()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_replay_of_a_delivered_one_makes_a_new_delivery_and_leaves_the_old_alone() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let published = app.publish("x").await;
    let first = text(&published["deliveries"][0]["id"]);
    let before = app.until_is(&first, "delivered").await;
    let requested = app.act(&format!("/deliveries/{first}/replay")).await.is(202);
    let second = text(&requested["id"]);
    assert_eq!((&requested["replay_of"], &requested["event_id"]), (&json!(first), &published["id"]));
    assert_ne!(first, second);
    let again = app.until_is(&second, "delivered").await;
    assert_eq!((&again["attempt_count"], &again["attempts"][0]["number"]), (&json!(1), &json!(1)));
    assert_eq!(app.delivery(&first).await, before);
    let third = text(&app.act(&format!("/deliveries/{second}/replay")).await.is(202)["id"]);
    assert_eq!(app.until_is(&third, "delivered").await["replay_of"], second);
    let event = app.get(&format!("/events/{}", text(&published["id"]))).await.is(200);
    let mut shown = pluck(event["deliveries"].as_array().unwrap(), "id");
    shown.sort_by_key(ToString::to_string);
    assert_eq!(shown, [json!(first), json!(second), json!(third)]);
    assert!(receiver.receipts().iter().all(|receipt| receipt.id() == text(&published["id"])));
}

#[tokio::test]
async fn a_closed_dead_letter_is_listed_only_when_asked_for() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let (closed, open) = (app.deliver().await, app.deliver().await);
    for id in [&closed, &open] {
        app.until_is(id, "dead").await;
    }
    let answer = app.act(&format!("/dead-letters/{closed}/close")).await.is(200);
    assert_eq!((&answer["status"], &answer["reason"]), (&json!("dead"), &json!("closed")));
    let listed = async |query: &str| pluck(&app.all(&format!("/dead-letters{query}")).await, "id");
    assert_eq!(listed("").await, [json!(open)]);
    assert_eq!(listed("?closed=false").await, [json!(open)]);
    assert_eq!(listed("?closed=true").await.len(), 2);
    assert_eq!(app.get("/dead-letters?closed=maybe").await.invalid_field(), "closed");
    receiver.behave(HOOK, Behaviour::Ok);
    app.act(&format!("/dead-letters/{open}/replay")).await.is(202);
    app.until_is(&open, "delivered").await;
    for action in ["replay", "close"] {
        app.act(&format!("/dead-letters/{open}/{action}")).await.refused(404, "not_found");
    }
}

/// Creates deliveries of an app in every state that a test can bring about, by the name of the state.
async fn one_of_each(app: &TestApp, receiver: &TestReceiver) -> Vec<(&'static str, String)> {
    let endpoint = async |name: &str, overrides: Value| {
        app.endpoint(
            &receiver.url(&format!("/{name}")),
            json!({ "id": name, "event_types": [name], "overrides": overrides }),
        )
        .await;
    };
    let publish = async |name: &str| text(&app.publish(name).await["deliveries"][0]["id"]);
    for (path, behaviour) in [
        ("/dead", Behaviour::Status(500)),
        ("/retrying", Behaviour::Status(500)),
        ("/in_flight", Behaviour::Hang),
    ] {
        receiver.behave(path, behaviour);
    }
    endpoint("delivered", slow()).await;
    endpoint("dead", json!({ "retry": { "waits": [] } })).await;
    endpoint("retrying", slow()).await;
    endpoint("in_flight", json!({ "timeout": "30s" })).await;
    endpoint("held", slow()).await;
    endpoint("pending", slow()).await;
    endpoint("cancelled", slow()).await;
    app.act("/endpoints/held/disable").await.is(200);
    let later = json!({ "data": 1, "deliver_at": from_now(Duration::from_hours(1)) });
    let mut all = Vec::new();
    for name in ["delivered", "dead", "retrying", "in_flight", "held"] {
        all.push((name, publish(name).await));
    }
    for name in ["pending", "cancelled"] {
        let mut event = later.clone();
        event["type"] = json!(name);
        all.push((name, text(&app.post("/events", &event).await.is(202)["deliveries"][0]["id"])));
    }
    app.act(&format!("/deliveries/{}/cancel", all[6].1)).await.is(200);
    for (state, id) in &all {
        app.until_is(id, state).await;
    }
    all
}

#[tokio::test]
async fn what_a_state_does_not_allow_is_refused_and_changes_nothing() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let all = one_of_each(&app, &receiver).await;
    let refused = |state: &str, action: &str| match action {
        "retry" => ["pending", "held", "in_flight", "delivered"].contains(&state),
        "cancel" => ["in_flight", "delivered", "dead", "cancelled"].contains(&state),
        _ => ["pending", "held", "in_flight", "retrying"].contains(&state),
    };
    for (state, id) in &all {
        let before = app.delivery(id).await;
        for action in
            ["retry", "replay", "cancel", "delete"].into_iter().filter(|action| refused(state, action))
        {
            let answer = match action {
                "delete" => app.delete(&format!("/deliveries/{id}")).await,
                action => app.act(&format!("/deliveries/{id}/{action}")).await,
            };
            let problem = answer.refused(409, "wrong_state");
            assert!(problem.detail.contains(state), "{action} of {state}: {}", problem.detail);
        }
        assert_eq!(app.delivery(id).await, before, "{state}");
    }
    for (state, id) in all.iter().filter(|(state, _)| *state != "dead") {
        for action in ["replay", "close"] {
            let answer = app.act(&format!("/dead-letters/{id}/{action}")).await;
            assert_eq!(answer.refused(404, "not_found").detail, "There is no such dead letter.", "{state}");
        }
    }
}

#[tokio::test]
async fn waiting_deliveries_can_be_cancelled_and_ended_ones_deleted() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let all = one_of_each(&app, &receiver).await;
    for (state, id) in all.iter().filter(|(state, _)| ["pending", "held", "retrying"].contains(state)) {
        let cancelled = app.act(&format!("/deliveries/{id}/cancel")).await.is(200);
        assert_eq!(
            (&cancelled["status"], &cancelled["reason"]),
            (&json!("cancelled"), &json!("by_hand")),
            "{state}"
        );
        assert!(
            cancelled["finished_at"].is_string() && cancelled["next_attempt_at"].is_null(),
            "{cancelled}"
        );
    }
    for (state, id) in all.iter().filter(|(state, _)| *state != "in_flight") {
        app.delete(&format!("/deliveries/{id}")).await.is(204);
        app.get(&format!("/deliveries/{id}")).await.refused(404, "not_found");
        app.delete(&format!("/deliveries/{id}")).await.refused(404, "not_found");
        app.act(&format!("/deliveries/{id}/retry")).await.refused(404, "not_found");
        let listed = pluck(&app.all("/deliveries").await, "id");
        assert!(!listed.contains(&json!(id)), "{state}");
    }
    assert_eq!(app.all("/events").await.len(), all.len(), "the events stay");
}

#[tokio::test]
async fn a_replayed_cancelled_one_is_delivered() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let event = json!({ "type": "x", "data": 1, "deliver_at": from_now(Duration::from_hours(1)) });
    for action in ["replay", "retry"] {
        let id = text(&app.post("/events", &event).await.is(202)["deliveries"][0]["id"]);
        app.act(&format!("/deliveries/{id}/cancel")).await.is(200);
        app.act(&format!("/deliveries/{id}/{action}")).await.is(202);
        let delivered = app.until_is(&id, "delivered").await;
        assert_eq!(
            (&delivered["reason"], &delivered["attempt_count"]),
            (&Value::Null, &json!(1)),
            "{action}"
        );
    }
}

#[tokio::test]
async fn invalid_ids_are_not_found() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let wrong = [
        "nobody",
        "dlv_",
        "dlv_0000000000000",
        "dlv_zzzzzzzzzzzzz",
        "evt_0ahxcf13g0000",
        "dlv_0AHXCF13G0001",
        "%00",
        "%ff",
        "dlv_0ahxcf13g0001%20",
    ];
    for id in wrong {
        app.get(&format!("/deliveries/{id}")).await.refused(404, "not_found");
        for action in ["retry", "replay", "cancel"] {
            app.act(&format!("/deliveries/{id}/{action}")).await.refused(404, "not_found");
        }
        app.get(&format!("/events/{id}")).await.refused(404, "not_found");
        app.get(&format!("/endpoints/{id}")).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn of_eight_retries_at_once_one_is_made() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": { "retry": { "waits": [] }, "timeout": "1s" } }))
        .await;
    let id = app.deliver().await;
    app.until_is(&id, "dead").await;
    receiver.behave(HOOK, Behaviour::Hang);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (app, path) = (app.clone(), format!("/deliveries/{id}/retry"));
        asking.spawn(async move { app.act(&path).await.status });
    }
    let mut statuses = asking.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409, 409, 409, 409, 409, 409, 409]);
    let back = app.until(&id, "back", |one| one["attempt_count"] == 2 && one["status"] == "dead").await;
    assert_eq!(back["attempts"][1]["class"], "timeout");
    assert_eq!(receiver.count_at(HOOK), 2);
}

//! Endpoint health as an operator sees it: its values, disabling by a rule, and enabling with a replay of what was missed.

use crate::{
    event_type_rules::restarted,
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, quick, receiver, slow, text},
    harness::{Behaviour, wait_for},
    replays::until_state,
};
use serde_json::{Value, json};

/// Returns the endpoint's health once it fulfils the condition.
async fn until(app: &TestApp, what: &str, reached: impl Fn(&Value) -> bool) -> Value {
    let look = async || Some(app.get("/endpoints/e/health").await.is(200)).filter(&reached);
    wait_for(what, WAIT_MAX, look).await
}

/// Overrides for a single attempt per delivery, and further ones.
fn once(more: &Value) -> Value {
    let mut overrides = json!({ "retry": { "waits": [] }, "timeout": "1s" });
    overrides.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    overrides
}

#[tokio::test]
async fn an_endpoint_shows_its_windows_its_failures_and_since_when() {
    let mut server = TestServer::start().await;
    let receiver = receiver(200).await;
    let mut app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": slow() })).await;
    let fresh = app.get("/endpoints/e/health").await.is(200);
    assert_eq!(
        (&fresh["state"], &fresh["windows"]["72h"]["success_rate"]),
        (&json!("healthy"), &Value::Null)
    );
    assert_eq!(fresh["since"], app.get("/endpoints/e").await.is(200)["created_at"]);
    for _ in 0..3 {
        let id = app.deliver().await;
        app.until_is(&id, "delivered").await;
    }
    receiver.behave(HOOK, Behaviour::Status(503));
    for _ in 0..11 {
        let id = app.deliver().await;
        app.until_is(&id, "retrying").await;
    }
    let failing = until(&app, "all is counted", |health| health["windows"]["1h"]["attempts"] == 14).await;
    assert_eq!((&failing["state"], &failing["consecutive_failures"]), (&json!("failing"), &json!(11)));
    assert_eq!((&failing["last_error"], &failing["failed_events_in_a_row"]), (&json!("HTTP 503"), &json!(0)));
    for (earlier, later) in [("last_success_at", "first_failure_at"), ("first_failure_at", "since")] {
        assert!(text(&failing[earlier]) <= text(&failing[later]), "{failing}");
    }
    assert!(failing["off_at"].is_string() && failing["warned_at"].is_null(), "{failing}");
    for window in ["1h", "24h", "72h"] {
        let window = &failing["windows"][window];
        assert_eq!((&window["failed"], &window["success_rate"]), (&json!(11), &json!(0.214)));
        let latency = &window["latency_ms"];
        assert!(latency["p50"].as_f64() <= latency["p99"].as_f64() && latency["p50"].as_f64() > Some(0.0));
    }
    assert_eq!(app.get("/endpoints/e").await.is(200)["status"], "degraded");
    assert_eq!(app.get("/endpoints").await.is(200)["data"][0]["status"], "degraded");
    restarted(&mut server, &mut app).await;
    let again = app.get("/endpoints/e/health").await.is(200);
    for field in ["state", "since", "consecutive_failures", "first_failure_at", "last_success_at", "windows"]
    {
        assert_eq!(again[field], failing[field], "{field} after a restart");
    }
    receiver.behave(HOOK, Behaviour::Ok);
    for _ in 0..3 {
        let id = app.deliver().await;
        app.until_is(&id, "delivered").await;
    }
    let failed = |health: &Value| health["consecutive_failures"] == 0 && health["state"] != "failing";
    until(&app, "it is not failing any longer", failed).await;
    app.get("/endpoints/nobody/health").await.refused(404, "not_found");
}

#[tokio::test]
async fn zerofee_is_disabled_after_ten_failures_and_enabled_with_a_replay() {
    let mut server = TestServer::start().await;
    let receiver = receiver(500).await;
    let mut app = server.app().await;
    app.endpoint(
        &receiver.url(HOOK),
        json!({ "id": "e", "contract": "zerofee", "overrides": once(&json!({})) }),
    )
    .await;
    let mut missed = Vec::new();
    for _ in 0..10 {
        let id = app.deliver().await;
        app.until_is(&id, "dead").await;
        missed.push(id);
    }
    let off = app.get("/endpoints/e").await.is(200);
    assert_eq!(
        (&off["status"], &off["disabled_reason"], &off["disabled_by"]),
        (&json!("disabled"), &json!("auto_disabled_failures"), &json!("posthaste"))
    );
    let held = app.deliver().await;
    app.until_is(&held, "held").await;
    restarted(&mut server, &mut app).await;
    assert_eq!(app.get("/endpoints/e").await.is(200), off, "a restart changes nothing");
    let health = app.get("/endpoints/e/health").await.is(200);
    assert_eq!((&health["state"], &health["since"]), (&json!("disabled"), &off["disabled_at"]));
    assert_eq!((&health["failed_events_in_a_row"], &health["off_at"]), (&json!(10), &Value::Null));

    receiver.behave(HOOK, Behaviour::Ok);
    for (wrong, field) in [
        (json!({ "replay": "yes" }), "replay"),
        (json!({ "replay": { "per_second": 0 } }), "per_second"),
        (json!({ "replay": { "speed": 1 } }), "replay.speed"),
        (json!({ "reply": true }), "reply"),
    ] {
        let refused = app.post("/endpoints/e/enable", &wrong).await;
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!(field)), "{}", refused.text());
    }
    assert_eq!(app.get("/endpoints/e").await.is(200)["status"], "disabled", "a refusal does nothing");
    let on = app.post("/endpoints/e/enable", &json!({ "replay": { "per_second": 50 } })).await.is(200);
    assert_eq!((&on["status"], &on["disabled_by"]), (&json!("active"), &Value::Null));
    let replays = on["replays"].as_array().unwrap();
    assert_eq!((replays.len(), &replays[0]["total"], &replays[0]["per_second"]), (1, &json!(10), &json!(50)));
    assert!(replays[0]["missed_since"].as_str() <= off["disabled_at"].as_str());
    until_state(&app, &text(&replays[0]["id"]), "finished").await;
    for id in missed.iter().chain([&held]) {
        app.until_is(id, "delivered").await;
    }
    let actions: Vec<_> = app.all("/audit").await.iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions[..2], [json!("endpoint.enabled"), json!("replay.begun")]);
    let health = app.get("/endpoints/e/health").await.is(200);
    assert_eq!((&health["state"], &health["failed_events_in_a_row"]), (&json!("healthy"), &json!(0)));
}

#[tokio::test]
async fn contracts_that_make_no_delivery_while_off_get_the_events_of_that_time_by_a_backfill() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    for (contract, lost) in [("bastionary", "held"), ("simpaisa", "cancelled")] {
        receiver.behave(HOOK, Behaviour::Status(500));
        let app = server.app().await;
        let mut overrides = slow();
        overrides["https_only"] = json!(false);
        app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "contract": contract, "overrides": overrides }))
            .await;
        let waiting = app.deliver().await;
        app.until(&waiting, "tried", |delivery| delivery["attempt_count"] == 1).await;
        let key = server.by_its_key(&app).await;
        let off = key.act("/endpoints/e/disable").await.is(200);
        assert!(text(&off["disabled_by"]).starts_with("key_"), "{off}");
        app.until_is(&waiting, lost).await;
        let published = app.publish("payment.created").await;
        assert_eq!(published["deliveries"], json!([]), "{contract}");
        receiver.behave(HOOK, Behaviour::Ok);
        let on = app.post("/endpoints/e/enable", &json!({ "replay": true })).await.is(200);
        let begun: Vec<_> = on["replays"].as_array().unwrap().iter().map(|one| text(&one["kind"])).collect();
        assert_eq!(begun, ["replay", "backfill"], "{contract}");
        for replay in on["replays"].as_array().unwrap() {
            until_state(&app, &text(&replay["id"]), "finished").await;
        }
        let event = text(&published["id"]);
        let delivered = async || {
            let deliveries = app.all(&format!("/deliveries?event_id={event}")).await;
            deliveries.first().filter(|delivery| delivery["status"] == "delivered").map(|_| ())
        };
        wait_for("the event of that time is delivered", WAIT_MAX, delivered).await;
        if lost == "cancelled" {
            app.until_is(&waiting, "delivered").await;
        }
    }
}

#[tokio::test]
async fn a_rule_holds_what_is_in_flight_and_what_waits() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let rules = json!({ "health": { "off_after_failed_events": 1, "off_reason": "one_is_enough" } });
    let mut overrides = quick();
    overrides.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": overrides })).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(app.deliver().await);
    }
    until(&app, "it is off", |health| health["state"] == "disabled").await;
    for id in &ids {
        app.until(id, "dead or held", |one| one["status"] == "dead" || one["status"] == "held").await;
    }
    assert_eq!(app.get("/endpoints/e").await.is(200)["disabled_reason"], "one_is_enough");
    receiver.behave(HOOK, Behaviour::Ok);
    app.post("/endpoints/e/enable", &json!({ "replay": true })).await.is(200);
    for id in &ids {
        app.until_is(id, "delivered").await;
    }
}

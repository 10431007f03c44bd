//! Disabled endpoints: manually or by a 410; what happens to their deliveries.

use crate::{
    fixture::{HOOK, TestServer, receiver, slow, text},
    harness::Behaviour,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_410_disables_the_endpoint_ends_its_own_delivery_and_holds_the_others() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": slow() })).await;
    let (first, second) = (app.deliver().await, app.deliver().await);
    let due = app.until_is(&first, "retrying").await["next_attempt_at"].clone();
    app.until_is(&second, "retrying").await;
    receiver.behave(HOOK, Behaviour::Status(410));
    let refused = app.deliver().await;
    let dead = app.until_is(&refused, "dead").await;
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!("refused_by_receiver"), &json!(1)));
    for waiting in [&first, &second] {
        assert_eq!(app.until_is(waiting, "held").await["next_attempt_at"], Value::Null);
    }
    let endpoint = app.get("/endpoints/e").await.is(200);
    assert_eq!((&endpoint["status"], &endpoint["disabled_reason"]), (&json!("disabled"), &json!("gone")));
    assert_eq!(endpoint["disabled_by"], "receiver");
    assert!(endpoint["disabled_at"].is_string());
    let published = app.deliver().await;
    assert_eq!(app.delivery(&published).await["status"], "held");
    assert_eq!(receiver.count_at(HOOK), 3);

    receiver.behave(HOOK, Behaviour::Ok);
    let on = app.act("/endpoints/e/enable").await.is(200);
    assert_eq!(
        (&on["status"], &on["disabled_reason"], &on["disabled_at"]),
        (&json!("active"), &Value::Null, &Value::Null)
    );
    app.until_is(&published, "delivered").await;
    let released = app.until_is(&first, "retrying").await;
    assert_eq!(released["next_attempt_at"], due, "its own time is later");
    assert_eq!(app.delivery(&refused).await["status"], "dead");
}

#[tokio::test]
async fn deliveries_to_a_disabled_endpoint_are_held_and_sent_when_it_is_enabled() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e" })).await;
    let off = app.act("/endpoints/e/disable").await.is(200);
    assert_eq!((&off["status"], &off["disabled_reason"]), (&json!("disabled"), &json!("by_hand")));
    assert_eq!(off["disabled_by"], "settings");
    assert_eq!(
        app.act("/endpoints/e/disable").await.is(200)["disabled_at"],
        off["disabled_at"],
        "off already"
    );
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(app.deliver().await);
    }
    for id in &held {
        let delivery = app.delivery(id).await;
        assert_eq!((&delivery["status"], &delivery["next_attempt_at"]), (&json!("held"), &Value::Null));
    }
    assert_eq!(receiver.count_at(HOOK), 0);
    app.act("/endpoints/e/enable").await.is(200);
    for id in &held {
        app.until_is(id, "delivered").await;
    }
    assert_eq!(receiver.count_at(HOOK), 5);
    app.act("/endpoints/e/enable").await.is(200);
    for action in ["enable", "disable"] {
        app.act(&format!("/endpoints/nobody/{action}")).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn a_contract_can_cancel_waiting_deliveries_or_create_none() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let mut overrides = slow();
    overrides["off"] = json!({ "waiting": "cancelled", "published": "cancelled" });
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": overrides })).await;
    let waiting = app.deliver().await;
    app.until_is(&waiting, "retrying").await;
    app.act("/endpoints/e/disable").await.is(200);
    let published = app.deliver().await;
    for id in [&waiting, &published] {
        let cancelled = app.until_is(id, "cancelled").await;
        assert_eq!(cancelled["reason"], "endpoint_off");
        assert!(cancelled["finished_at"].is_string());
    }
    overrides["off"]["published"] = json!("none");
    app.patch("/endpoints/e", &json!({ "overrides": overrides })).await.is(200);
    let skipped = app.publish("x").await;
    assert_eq!(skipped["deliveries"], json!([]));
    assert_eq!(app.get(&format!("/events/{}", text(&skipped["id"]))).await.is(200)["is_skipped"], true);
}

#[tokio::test]
async fn a_delivery_in_flight_when_its_endpoint_is_disabled_is_held_if_it_fails_and_delivered_if_it_succeeds()
{
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave("/hang", Behaviour::Hang);
    receiver.behave("/slow", Behaviour::Slow(std::time::Duration::from_millis(500)));
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": ["1h"] }, "timeout": "800ms" });
    for name in ["hang", "slow"] {
        let more = json!({ "id": name, "event_types": [name], "overrides": overrides });
        app.endpoint(&receiver.url(&format!("/{name}")), more).await;
    }
    let publish = async |name: &str| text(&app.publish(name).await["deliveries"][0]["id"]);
    let (hang, slow) = (publish("hang").await, publish("slow").await);
    for id in [&hang, &slow] {
        app.until_is(id, "in_flight").await;
    }
    for name in ["hang", "slow"] {
        app.act(&format!("/endpoints/{name}/disable")).await.is(200);
    }
    app.until_is(&slow, "delivered").await;
    let held = app.until_is(&hang, "held").await;
    assert_eq!((&held["attempt_count"], &held["last_error"].is_string()), (&json!(1), &true));
}

#[tokio::test]
async fn a_retry_or_replay_to_a_disabled_endpoint_is_held_until_it_is_enabled() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e" })).await;
    let (retried, replayed) = (app.deliver().await, app.deliver().await);
    for id in [&retried, &replayed] {
        app.until_is(id, "dead").await;
    }
    receiver.behave(HOOK, Behaviour::Ok);
    let delivered = app.deliver().await;
    app.until_is(&delivered, "delivered").await;
    app.act("/endpoints/e/disable").await.is(200);
    assert_eq!(app.act(&format!("/deliveries/{retried}/retry")).await.is(202)["status"], "held");
    assert_eq!(app.act(&format!("/deliveries/{replayed}/replay")).await.is(202)["status"], "held");
    let copy = app.act(&format!("/deliveries/{delivered}/replay")).await.is(202);
    assert_eq!((&copy["status"], &copy["replay_of"]), (&json!("held"), &json!(delivered)));
    app.act(&format!("/deliveries/{retried}/retry")).await.refused(409, "wrong_state");
    let sent = receiver.count_at(HOOK);
    app.act("/endpoints/e/enable").await.is(200);
    for id in [&retried, &replayed, &text(&copy["id"])] {
        app.until_is(id, "delivered").await;
    }
    assert_eq!(receiver.count_at(HOOK), sent + 3);
}

#[tokio::test]
async fn a_delivery_in_flight_when_its_endpoint_is_deleted_ends_with_its_response_or_is_cancelled() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave("/hang", Behaviour::Hang);
    receiver.behave("/slow", Behaviour::Slow(std::time::Duration::from_millis(500)));
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": ["1h"] }, "timeout": "800ms" });
    let mut deliveries = Vec::new();
    for name in ["hang", "slow"] {
        let more = json!({ "id": name, "event_types": [name], "overrides": overrides });
        app.endpoint(&receiver.url(&format!("/{name}")), more).await;
        deliveries.push(text(&app.publish(name).await["deliveries"][0]["id"]));
    }
    for (name, id) in ["hang", "slow"].into_iter().zip(&deliveries) {
        app.until_is(id, "in_flight").await;
        app.delete(&format!("/endpoints/{name}")).await.is(204);
    }
    let cancelled = app.until_is(&deliveries[0], "cancelled").await;
    assert_eq!((&cancelled["reason"], &cancelled["attempt_count"]), (&json!("endpoint_deleted"), &json!(1)));
    app.until_is(&deliveries[1], "delivered").await;
}

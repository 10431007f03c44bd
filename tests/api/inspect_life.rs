//! The life of an inspection: one at a time, on disabled endpoints, through restarts and deletions; pings and health
//! addresses.

use crate::{
    fixture::{ApiSession, HOOK, TestApp, TestServer, WAIT_MAX, text},
    harness::{Behaviour, TestReceiver, wait_until},
    inspect::{HEALTH, check, endpoint_at, findings, inspect, until_ended},
    verifier::PERFECT,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// An endpoint whose receiver does not respond for longer than any test takes.
async fn hanging(app: &TestApp, receiver: &TestReceiver) -> String {
    receiver.behave(HOOK, Behaviour::Hang);
    let more = json!({ "overrides": { "timeout": "60s" }, "health_url": receiver.url(HEALTH) });
    app.endpoint(&receiver.url(HOOK), more).await
}

async fn start(app: &TestApp, endpoint: &str) -> String {
    text(&app.act(&format!("/endpoints/{endpoint}/inspect")).await.is(202)["id"])
}

async fn status(app: &TestApp, inspection: &str) -> Value {
    app.get(&format!("/inspections/{inspection}")).await.is(200)["status"].clone()
}

async fn until_called(receiver: &TestReceiver, times: usize) {
    wait_until("the receiver is called", WAIT_MAX, async || receiver.count_at(HOOK) == times).await;
}

#[tokio::test]
async fn an_endpoint_has_one_inspection_at_a_time() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = hanging(&app, &receiver).await;
    let first = start(&app, &endpoint).await;
    for action in ["inspect", "ping"] {
        let refused =
            app.act(&format!("/endpoints/{endpoint}/{action}")).await.refused(409, "conflict").detail;
        assert!(refused.contains(&first), "{refused}");
    }
    assert_eq!(app.all(&format!("/endpoints/{endpoint}/inspections")).await.len(), 1);
}

#[tokio::test]
async fn a_410_is_reported_and_disables_no_endpoint() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    for contract in ["standard", "sendnomi"] {
        let endpoint = endpoint_at(&app, &receiver, contract, PERFECT).await;
        receiver.behave(HOOK, Behaviour::Status(410));
        let inspection = inspect(&app, &endpoint).await;
        assert_eq!(findings(&inspection)["correct_delivery"], "failed");
        assert!(text(&check(&inspection, "correct_delivery")["advice"]).contains("gone"));
        let shown = app.get(&format!("/endpoints/{endpoint}")).await.is(200);
        assert_eq!((&shown["status"], &shown["disabled_reason"]), (&json!("active"), &Value::Null));
    }
}

#[tokio::test]
async fn a_disabled_endpoint_is_inspected_and_stays_disabled() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", PERFECT).await;
    let off = app.act(&format!("/endpoints/{endpoint}/disable")).await.is(200);
    let inspection = inspect(&app, &endpoint).await;
    assert_eq!(inspection["report"]["summary"]["passed"], 8, "{inspection:#}");
    assert_eq!(app.get(&format!("/endpoints/{endpoint}")).await.is(200), off);
}

#[tokio::test]
async fn running_inspections_of_a_dead_node_are_interrupted_and_waiting_ones_run() {
    let mut server = TestServer::start().await;
    let receiver = TestReceiver::start().await;
    let app = server.app().await;
    let mut inspections = Vec::new();
    for _ in 0..3 {
        let endpoint = hanging(&app, &receiver).await;
        inspections.push((start(&app, &endpoint).await, endpoint));
    }
    // Two inspections of an app run at once; the third waits.
    until_called(&receiver, 2).await;
    assert_eq!(status(&app, &inspections[2].0).await, "waiting");
    server.node.kill().await;
    receiver.behave(HOOK, Behaviour::Ok);
    server.node = server.home.start().await;
    let api = ApiSession { address: server.node.client.address(), ..app.api.clone() };
    let app = TestApp { api, ..app };
    for (id, endpoint) in &inspections[..2] {
        let interrupted = app.get(&format!("/inspections/{id}")).await.is(200);
        assert_eq!((&interrupted["status"], &interrupted["report"]), (&json!("interrupted"), &Value::Null));
        assert!(interrupted["finished_at"].is_string());
        let again = start(&app, endpoint).await;
        assert_eq!(until_ended(&app, &again).await["status"], "finished");
    }
    assert_eq!(until_ended(&app, &inspections[2].0).await["status"], "finished");
}

#[tokio::test]
async fn a_node_stops_at_once_in_the_middle_of_an_inspection() {
    let mut server = TestServer::start().await;
    let receiver = TestReceiver::start().await;
    let app = server.app().await;
    let endpoint = hanging(&app, &receiver).await;
    start(&app, &endpoint).await;
    until_called(&receiver, 1).await;
    let begun = Instant::now();
    assert_eq!(server.node.stop().await, Some(0));
    assert!(begun.elapsed() < WAIT_MAX, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn deleting_the_endpoint_cancels_its_inspection() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = hanging(&app, &receiver).await;
    let id = start(&app, &endpoint).await;
    until_called(&receiver, 1).await;
    app.delete(&format!("/endpoints/{endpoint}")).await.is(204);
    let cancelled = app.get(&format!("/inspections/{id}")).await.is(200);
    assert_eq!((&cancelled["status"], &cancelled["endpoint_id"]), (&json!("cancelled"), &json!(endpoint)));
    app.act(&format!("/endpoints/{endpoint}/inspect")).await.refused(404, "not_found");
}

#[tokio::test]
async fn deleting_the_app_removes_its_inspections() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = hanging(&app, &receiver).await;
    let id = start(&app, &endpoint).await;
    until_called(&receiver, 1).await;
    app.delete("").await.is(204);
    app.get(&format!("/inspections/{id}")).await.refused(404, "not_found");
}

#[tokio::test]
async fn an_app_whose_receivers_hang_leaves_room_for_the_others() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let (app, other) = (server.app().await, server.app().await);
    for _ in 0..10 {
        let endpoint = hanging(&app, &receiver).await;
        start(&app, &endpoint).await;
    }
    let good = TestReceiver::start().await;
    let endpoint = endpoint_at(&other, &good, "standard", PERFECT).await;
    inspect(&other, &endpoint).await;
    assert_eq!(receiver.count_at(HOOK), 2, "of one app two at once");
}

#[tokio::test]
async fn a_ping_asks_the_health_address_and_nothing_else() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", PERFECT).await;
    let path = format!("/endpoints/{endpoint}/ping");
    for (status, finding) in [(204, "passed"), (302, "failed"), (500, "failed")] {
        receiver.behave(HEALTH, Behaviour::Status(status));
        let ordered = app.act(&path).await.is(202);
        assert_eq!((&ordered["kind"], &ordered["status"]), (&json!("ping"), &json!("waiting")));
        let ended = until_ended(&app, &text(&ordered["id"])).await;
        assert_eq!(ended["report"]["checks"].as_array().map(Vec::len), Some(1));
        let health = check(&ended, "health_address");
        assert_eq!((&health["finding"], &health["status_code"]), (&json!(finding), &json!(status)));
    }
    assert_eq!((receiver.count_at(HOOK), receiver.count_at(HEALTH)), (0, 3));
    app.patch(&format!("/endpoints/{endpoint}"), &json!({ "health_url": null })).await.is(200);
    assert_eq!(app.act(&path).await.invalid_field(), "health_url");
    assert_eq!(receiver.count_at(HEALTH), 3);
}

#[tokio::test]
async fn a_health_address_is_checked_as_the_url_is() {
    let server = TestServer::start_with(&[("HTTPS_ONLY", "true")]).await;
    let app = server.app().await;
    let create = async |health: &str| {
        app.post("/endpoints", &json!({ "url": "https://127.0.0.1/", "health_url": health })).await
    };
    for refused in
        ["http://127.0.0.1/", "https://10.0.0.1/", "https://localhost/", "https://u:p@example.com/", "x", ""]
    {
        assert_eq!(create(refused).await.invalid_field(), "health_url", "{refused}");
    }
    let created = create("HTTPS://EXAMPLE.com").await.is(201);
    assert_eq!(created["health_url"], "https://example.com/");
    let path = format!("/endpoints/{}", text(&created["id"]));
    let patch = async |health: Value| app.patch(&path, &json!({ "health_url": health })).await;
    assert_eq!(patch(json!("https://192.168.1.1/")).await.invalid_field(), "health_url");
    assert_eq!(patch(json!(5)).await.invalid_field(), "health_url");
    assert_eq!(app.get(&path).await.is(200)["health_url"], "https://example.com/");
    assert_eq!(patch(json!("https://127.0.0.1/up")).await.is(200)["health_url"], "https://127.0.0.1/up");
    assert_eq!(patch(Value::Null).await.is(200)["health_url"], Value::Null);
}

#[tokio::test]
async fn an_app_key_inspects_its_own_app() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", PERFECT).await;
    let own = server.by_its_key(&app).await;
    let inspection = inspect(&own, &endpoint).await;
    let listed = own.all(&format!("/endpoints/{endpoint}/inspections")).await;
    assert_eq!(listed, [inspection]);
}

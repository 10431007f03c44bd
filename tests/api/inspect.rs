//! Inspection results of receivers with and without gaps: a perfect one under every contract, and a single gap at a time.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, text},
    harness::{Behaviour, TestReceiver, wait_for},
    verifier::{PERFECT, ReceiverBehaviour, receiver_with},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

pub(crate) const HEALTH: &str = "/health";
const PROBES: [&str; 6] =
    ["correct_delivery", "tampered_body", "old_timestamp", "unknown_signature", "repeated_id", "odd_json"];

/// Returns the inspection once it has ended in any way.
pub(crate) async fn until_ended(app: &TestApp, id: &str) -> Value {
    wait_for("the inspection ends", WAIT_MAX, async || {
        let inspection = app.get(&format!("/inspections/{id}")).await.is(200);
        (!["waiting", "running"].contains(&inspection["status"].as_str()?)).then_some(inspection)
    })
    .await
}

pub(crate) async fn inspect(app: &TestApp, endpoint: &str) -> Value {
    let ordered = app.act(&format!("/endpoints/{endpoint}/inspect")).await.is(202);
    assert_eq!((&ordered["kind"], &ordered["endpoint_id"]), (&json!("inspect"), &json!(endpoint)));
    let ended = until_ended(app, &text(&ordered["id"])).await;
    assert_eq!(ended["status"], "finished", "{ended}");
    ended
}

/// The finding of every check, by its name.
pub(crate) fn findings(inspection: &Value) -> BTreeMap<String, String> {
    let checks = inspection["report"]["checks"].as_array().expect("a report");
    checks.iter().map(|check| (text(&check["name"]), text(&check["finding"]))).collect()
}

/// The findings of a perfect receiver, except these.
fn all_passed_but(others: &[(&str, &str)]) -> BTreeMap<String, String> {
    let names = PROBES.into_iter().chain(["answer_time", "health_address"]);
    let passed = names.map(|name| (name.to_owned(), "passed".to_owned()));
    passed.chain(others.iter().map(|(name, finding)| ((*name).to_owned(), (*finding).to_owned()))).collect()
}

pub(crate) fn check<'a>(inspection: &'a Value, name: &str) -> &'a Value {
    let checks = inspection["report"]["checks"].as_array().expect("a report");
    checks.iter().find(|check| check["name"] == name).expect("a check")
}

/// An endpoint with a health address at a receiver with these habits.
pub(crate) async fn endpoint_at(
    app: &TestApp,
    receiver: &TestReceiver,
    contract: &'static str,
    habits: ReceiverBehaviour,
) -> String {
    let new = json!({
        "url": receiver.url(HOOK), "contract": contract, "health_url": receiver.url(HEALTH),
        "overrides": { "timeout": "2s", "https_only": false },
    });
    let endpoint = app.post("/endpoints", &new).await.is(201);
    receiver.behave(HOOK, receiver_with(contract, &text(&endpoint["secret"]), habits));
    text(&endpoint["id"])
}

async fn inspected(habits: ReceiverBehaviour) -> Value {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", habits).await;
    inspect(&app, &endpoint).await
}

#[tokio::test]
async fn a_perfect_receiver_passes_everything_under_every_contract() {
    let server = TestServer::start().await;
    for contract in ["standard", "zerofee", "bastionary", "orientedos", "sendnomi", "simpaisa"] {
        let (app, receiver) = (server.app().await, TestReceiver::start().await);
        let endpoint = endpoint_at(&app, &receiver, contract, PERFECT).await;
        let inspection = inspect(&app, &endpoint).await;
        let is_timeless = ["orientedos", "simpaisa"].contains(&contract);
        let others: &[_] = if is_timeless { &[("old_timestamp", "does_not_apply")] } else { &[] };
        assert_eq!(findings(&inspection), all_passed_but(others), "{inspection:#}");
        let report = &inspection["report"];
        let applying = if is_timeless { 7 } else { 8 };
        assert_eq!((&report["contract"], &report["summary"]["passed"]), (&json!(contract), &json!(applying)));
        let probes = receiver.receipts_at(HOOK);
        assert_eq!(probes.len(), if is_timeless { 5 } else { 6 });
        for probe in &probes {
            assert_eq!(probe.header("posthaste-inspection"), text(&inspection["id"]));
            assert!(String::from_utf8_lossy(&probe.body).contains("webhook.test"));
        }
        let health = &receiver.receipts_at(HEALTH)[0];
        assert_eq!((health.method.as_str(), health.body.len()), ("GET", 0));
        assert_eq!(health.header("posthaste-inspection"), text(&inspection["id"]));
        for list in ["/deliveries", "/events", "/dead-letters"] {
            assert_eq!(app.all(list).await, Vec::<Value>::new(), "an inspection leaves nothing in {list}");
        }
    }
    let metrics = server.admin.get("/metrics").await.text();
    let counts: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("posthaste_attempts_total")).collect();
    assert!(!counts.is_empty() && counts.iter().all(|line| line.ends_with(" 0")), "{counts:?}");
}

#[tokio::test]
async fn only_the_repeated_probe_carries_ids_that_came_before() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "bastionary", PERFECT).await;
    inspect(&app, &endpoint).await;
    inspect(&app, &endpoint).await;
    let bodies: Vec<Value> = receiver
        .receipts_at(HOOK)
        .iter()
        .map(|receipt| serde_json::from_slice(&receipt.body).unwrap())
        .collect();
    for name in ["id", "delivery_id"] {
        let ids: BTreeSet<String> = bodies.iter().map(|body| text(&body[name])).collect();
        assert_eq!((bodies.len(), ids.len()), (12, 10), "{name}");
    }
    assert_eq!(bodies[0], bodies[4]);
}

#[tokio::test]
async fn a_receiver_that_verifies_nothing_fails_every_forged_probe() {
    let inspection = inspected(ReceiverBehaviour { verifies: false, has_tolerance: false, ..PERFECT }).await;
    let failed = [("tampered_body", "failed"), ("old_timestamp", "failed"), ("unknown_signature", "failed")];
    assert_eq!(findings(&inspection), all_passed_but(&failed));
    let advice = text(&check(&inspection, "tampered_body")["advice"]);
    assert!(advice.contains("bytes of the body as they came"), "{advice}");
    assert_eq!(check(&inspection, "tampered_body")["status_code"], 200);
}

#[tokio::test]
async fn a_receiver_that_rewrites_the_body_before_verifying_fails_on_odd_json_alone() {
    let inspection = inspected(ReceiverBehaviour { rewrites: true, ..PERFECT }).await;
    assert_eq!(findings(&inspection), all_passed_but(&[("odd_json", "failed")]));
    let advice = text(&check(&inspection, "odd_json")["advice"]);
    assert!(advice.contains("before parsing"), "{advice}");
}

#[tokio::test]
async fn a_receiver_without_a_tolerance_fails_on_the_old_timestamp_alone() {
    let inspection = inspected(ReceiverBehaviour { has_tolerance: false, ..PERFECT }).await;
    assert_eq!(findings(&inspection), all_passed_but(&[("old_timestamp", "failed")]));
}

#[tokio::test]
async fn a_receiver_that_answers_a_bad_signature_with_500_is_advised_to_use_4xx() {
    let inspection = inspected(ReceiverBehaviour { to_forged: Some(500), ..PERFECT }).await;
    let failed = [("tampered_body", "failed"), ("unknown_signature", "failed")];
    assert_eq!(findings(&inspection), all_passed_but(&failed));
    let advice = text(&check(&inspection, "unknown_signature")["advice"]);
    assert!(advice.contains("that protects you") && advice.contains("only a 4xx"), "{advice}");
}

#[tokio::test]
async fn a_receiver_that_refuses_duplicates_is_advised_to_answer_them_with_success() {
    let inspection = inspected(ReceiverBehaviour { to_repeated: 409, ..PERFECT }).await;
    assert_eq!(findings(&inspection), all_passed_but(&[("repeated_id", "failed")]));
    let advice = text(&check(&inspection, "repeated_id")["advice"]);
    assert!(advice.contains("must be answered with 2xx"), "{advice}");
}

#[tokio::test]
async fn a_receiver_that_hangs_on_forged_requests_costs_their_deadlines_and_no_more() {
    let begun = Instant::now();
    let inspection = inspected(ReceiverBehaviour { to_forged: None, ..PERFECT }).await;
    let failed = [("tampered_body", "failed"), ("unknown_signature", "failed")];
    assert_eq!(findings(&inspection), all_passed_but(&failed));
    let came_back = text(&check(&inspection, "tampered_body")["came_back"]);
    assert!(came_back.contains("timed out after 2 s"), "{came_back}");
    println!("two probes of 2 s each: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_receiver_that_hangs_altogether_is_left_after_the_first_and_its_health_is_asked_all_the_same() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", PERFECT).await;
    receiver.behave(HOOK, Behaviour::Hang);
    receiver.behave(HEALTH, Behaviour::Status(503));
    let inspection = inspect(&app, &endpoint).await;
    let mut expected = all_passed_but(&[("health_address", "failed")]);
    for (name, finding) in &mut expected {
        if name != "health_address" {
            *finding = if name == "correct_delivery" { "failed" } else { "unknown" }.to_owned();
        }
    }
    assert_eq!(findings(&inspection), expected);
    assert_eq!(receiver.count_at(HOOK), 1);
    let report = text(&check(&inspection, "odd_json")["came_back"]);
    assert!(
        report.contains("the correct delivery was not accepted") && report.contains("timed out"),
        "{report}"
    );
}

#[tokio::test]
async fn without_a_health_address_the_check_does_not_apply_and_says_how_it_could() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", PERFECT).await;
    app.patch(&format!("/endpoints/{endpoint}"), &json!({ "health_url": null })).await.is(200);
    let inspection = inspect(&app, &endpoint).await;
    assert_eq!(findings(&inspection), all_passed_but(&[("health_address", "does_not_apply")]));
    assert!(text(&check(&inspection, "health_address")["advice"]).contains("health_url"));
    assert_eq!(
        inspection["report"]["summary"],
        json!({ "passed": 7, "failed": 0, "does_not_apply": 1, "unknown": 0 })
    );
}

#[tokio::test]
async fn the_endpoint_s_own_headers_go_to_its_url_and_not_to_its_health_address() {
    let (server, receiver) = (TestServer::start().await, TestReceiver::start().await);
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", PERFECT).await;
    let headers = json!({ "headers": { "authorization": "Bearer of-the-receiver" } });
    app.patch(&format!("/endpoints/{endpoint}"), &headers).await.is(200);
    inspect(&app, &endpoint).await;
    let authorised = |path| {
        let receipts = receiver.receipts_at(path);
        receipts.iter().filter(|receipt| !receipt.header("authorization").is_empty()).count()
    };
    assert_eq!((authorised(HOOK), authorised(HEALTH)), (6, 0));
}

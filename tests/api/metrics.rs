//! `/metrics`, `/livez` and `/readyz`.

use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, text},
    harness::{Behaviour, from_now, wait_until},
    raw_http::ApiResponse,
};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

/// Returns the samples of a scrape by name and labels; fails on anything that is not in the text format.
fn parse(scrape: &ApiResponse) -> BTreeMap<String, f64> {
    let text = scrape.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            match words.as_slice() {
                ["TYPE", name, kind] => {
                    assert!(["counter", "gauge", "histogram"].contains(kind), "{line}");
                    assert!(types.insert((*name).to_owned(), (*kind).to_owned()).is_none(), "{line}");
                }
                ["HELP" | "UNIT", _, _] | ["EOF"] => {}
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let family = name.split('{').next().unwrap();
        let is_known = ["", "_total", "_bucket", "_sum", "_count"]
            .iter()
            .any(|end| family.strip_suffix(end).is_some_and(|base| types.contains_key(base)));
        assert!(is_known && family.starts_with("posthaste_"), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(name.to_owned(), value).is_none(), "twice: {line}");
    }
    for name in types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
        let bucket = format!("{name}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(sample, count)| {
                Some((sample.strip_prefix(&bucket)?.strip_suffix("\"}")?.parse().unwrap(), *count))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name} is not cumulative");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, samples[&format!("{name}_count")])), "{name}");
    }
    samples
}

#[tokio::test]
async fn metrics_can_be_scraped_without_a_key_and_move_with_what_happens() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave("/bad", Behaviour::Status(500));
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "event_types": ["good"] })).await;
    app.endpoint(&receiver.url("/bad"), json!({ "event_types": ["bad"] })).await;
    app.endpoint(
        "http://127.0.0.1:1/",
        json!({ "event_types": ["closed"], "overrides": { "retry": { "waits": [] } } }),
    )
    .await;
    let scrape = server.with_key(None).get("/metrics").await;
    assert!(
        scrape.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    let before = parse(&scrape);
    for (event_type, end) in
        [("good", "delivered"), ("good", "delivered"), ("bad", "dead"), ("closed", "dead")]
    {
        let id = text(&app.publish(event_type).await["deliveries"][0]["id"]);
        app.until_is(&id, end).await;
    }
    let later = json!({ "type": "good", "data": 1, "deliver_at": from_now(Duration::from_secs(2)) });
    let id = text(&app.post("/events", &later).await.is(202)["deliveries"][0]["id"]);
    app.until_is(&id, "delivered").await;
    app.publish("nobody.wants.it").await;
    let event = json!({ "id": "once", "type": "unwanted", "data": 1 });
    app.post("/events", &event).await.is(202);
    app.post("/events", &event).await.is(200);
    app.post("/events", &json!({ "type": "a b", "data": 1 })).await.refused(422, "invalid");
    let after = parse(&server.with_key(None).get("/metrics").await);
    let moved = |name: &str| (after[name] - before[name]).round() as i64;
    assert_eq!(moved("posthaste_events_accepted_total"), 7, "neither what was refused nor what was repeated");
    assert_eq!(moved("posthaste_attempts_total{class=\"ok\"}"), 3);
    assert_eq!(moved("posthaste_attempts_total{class=\"http\"}"), 3);
    assert_eq!(moved("posthaste_attempts_total{class=\"connect\"}"), 1);
    assert_eq!(moved("posthaste_delivery_seconds_count"), 3);
    assert!(moved("posthaste_accept_seconds_count") >= 6);
    assert!(moved("posthaste_commit_seconds_count") >= 4);
    assert!(moved("posthaste_commit_commands_sum") >= 10);
    let waited_s = after["posthaste_delivery_seconds_sum"];
    assert!(waited_s < 1.9, "in seconds, and from when it was due: {waited_s}");
}

#[tokio::test]
async fn what_is_in_flight_and_what_waits_is_counted() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave("/hang", Behaviour::Hang);
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "event_types": ["later"], "id": "later" })).await;
    app.endpoint(
        &receiver.url("/hang"),
        json!({ "event_types": ["hang"], "overrides": { "timeout": "2s", "retry": { "waits": [] } } }),
    )
    .await;
    let metric = async |name: &str| parse(&server.with_key(None).get("/metrics").await)[name];
    let reads = async |name: &str, value: f64| {
        wait_until(&format!("{name} is {value}"), 3 * WAIT_MAX, async || {
            metric(name).await.to_bits() == value.to_bits()
        })
        .await;
    };
    let at = from_now(Duration::from_hours(1));
    for _ in 0..3 {
        app.post("/events", &json!({ "type": "later", "data": 1, "deliver_at": at })).await.is(202);
    }
    reads("posthaste_deliveries_waiting", 3.0).await;
    assert!(metric("posthaste_oldest_overdue_seconds").await < 0.001);
    app.publish("hang").await;
    reads("posthaste_deliveries_in_flight", 1.0).await;
    reads("posthaste_deliveries_in_flight", 0.0).await;
}

#[tokio::test]
async fn probes_answer_without_a_key() {
    let server = TestServer::start().await;
    let nobody = server.with_key(None);
    for path in ["/livez", "/readyz"] {
        assert_eq!(nobody.get(path).await.is(200), json!({ "status": "ok", "reasons": [] }));
    }
}

#[tokio::test]
async fn a_store_that_cannot_write_is_the_reason_for_not_being_ready_until_it_can_again() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let blocker = rusqlite::Connection::open(server.home.store()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = app.post("/events", &json!({ "id": "e", "type": "a", "data": 1 })).await;
    refused.refused(503, "unavailable");
    assert!(refused.header("retry-after").is_some());
    let ready = server.with_key(None).get("/readyz").await;
    let reasons = ready.is(503);
    assert_eq!(
        (&reasons["status"], &reasons["reasons"][0]["code"]),
        (&json!("unavailable"), &json!("store")),
        "{reasons}"
    );
    assert!(reasons["reasons"][0]["detail"].is_string());
    server.with_key(None).get("/livez").await.is(200);
    app.get("").await.is(200);

    blocker.execute_batch("ROLLBACK").unwrap();
    app.post("/events", &json!({ "id": "e", "type": "a", "data": 1 })).await.is(202);
    server.with_key(None).get("/readyz").await.is(200);
}

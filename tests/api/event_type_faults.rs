//! Hostile data and expensive schemas where schemas are enforced: bounded in time, refused with a reason, no effect on others.

use crate::{
    fixture::{TestServer, WAIT_MAX},
    payload_versions::put,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Matches texts at once; numbers take for ever, as there are a thousand million ways to be wrong.
fn endless() -> Value {
    let mut defs = json!({ "a0": { "type": "string" } });
    for n in 1..=30 {
        let next = format!("#/$defs/a{}", n - 1);
        defs[format!("a{n}")] = json!({ "anyOf": [{ "$ref": next }, { "$ref": next }] });
    }
    let schema = json!({ "$defs": defs, "$ref": "#/$defs/a30" });
    json!({ "versions": [{ "name": "1", "schema": schema }], "enforce_schema": true })
}

fn event(name: &str, data: &str) -> Vec<u8> {
    format!(r#"{{"type":"{name}","data":{data}}}"#).into_bytes()
}

#[tokio::test]
async fn an_endless_check_is_refused_in_time_and_delays_no_other_app_or_type() {
    let server = TestServer::start().await;
    let (hostile, other) = (server.app().await, server.app().await);
    put(&server, "/v1/event-types/slow.one", &endless(), 201).await;
    hostile.publish_raw(event("slow.one", r#""a""#)).await.is(202);
    let begun = Instant::now();
    let attack = tokio::spawn({
        let hostile = hostile.clone();
        async move {
            let tried = (0..8).map(|_| hostile.publish_raw(event("slow.one", "1")));
            let mut answers = Vec::new();
            for answer in tried {
                answers.push(answer.await);
            }
            answers
        }
    });
    while !attack.is_finished() {
        let round = Instant::now();
        other.publish("other.type").await;
        other.publish_raw(event("slow.one", r#""b""#)).await.is(202);
        hostile.publish("other.type").await;
        assert!(round.elapsed() < WAIT_MAX, "{:?}", round.elapsed());
    }
    for answer in attack.await.unwrap() {
        if answer.status == 429 {
            continue;
        }
        let problem = answer.refused(422, "schema_mismatch");
        assert_eq!(problem.field.as_deref(), Some("data"));
        assert!(problem.detail.contains("in time"), "{problem:?}");
    }
    println!("eight endless checks: {:?}", begun.elapsed());
    assert_eq!(hostile.all("/events?event_type=slow.one").await.len(), 1);
}

#[tokio::test]
async fn odd_data_under_enforcement_is_refused_or_accepted_and_never_an_internal_error() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let schema = json!({ "type": ["object", "array"], "additionalProperties": { "pattern": "^(a+)+$" }, "uniqueItems": true });
    let strict = json!({ "versions": [{ "name": "1", "schema": schema }], "enforce_schema": true });
    put(&server, "/v1/event-types/strict.one", &strict, 201).await;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let many: Vec<String> = (0..60_000).map(|n| n.to_string()).collect();
    for (data, status) in [
        (nested(128), 202),
        (format!(r#"{{"a":"{}"}}"#, "a".repeat(100_000)), 202),
        (format!(r#"{{"a":"{}!"}}"#, "a".repeat(100_000)), 422),
        (format!("[{}]", many.join(",")), 202),
        (format!("[{},7]", many.join(",")), 422),
        (r#"{"a":"aa","a":"b"}"#.into(), 422),
        (r#"{"a":1e400}"#.into(), 422),
        ("[12345678901234567890123,0.1000000000000000055]".into(), 202),
        (r#"{"\u0000\ud83d\ude00":"a"}"#.into(), 202),
        ("null".into(), 422),
    ] {
        let answer = app.publish_raw(event("strict.one", &data)).await;
        assert_eq!(answer.status, status, "{data:.80}: {}", answer.text());
    }
}

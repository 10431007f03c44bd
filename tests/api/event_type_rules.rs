//! The operator's rules for event types: enforced schemas, archived types, unknown types. Refused events are not stored,
//! events accepted before a rule stay, and a restart changes nothing.

use crate::{
    fixture::{HOOK, TestApp, TestServer, receiver, slow, text},
    payload_versions::{TYPE, payment, publish, put},
};
use serde_json::{Value, json};

/// `payment()` with an enforced schema for published data.
fn enforced() -> Value {
    let mut document = payment();
    document["versions"][1]["schema"] = json!({
        "type": "object", "required": ["id", "amount"],
        "properties": { "amount": { "properties": { "value": { "type": "integer" } } } },
    });
    document["enforce_schema"] = json!(true);
    document
}

async fn stored(app: &TestApp) -> usize {
    app.all("/events").await.len()
}

pub(crate) async fn restarted(server: &mut TestServer, app: &mut TestApp) {
    assert_eq!(server.node.stop().await, Some(0));
    server.node = server.home.start().await;
    server.admin.address = server.node.client.address();
    app.api.address = server.node.client.address();
}

#[tokio::test]
async fn data_that_does_not_fit_an_enforced_schema_is_refused_by_its_place_and_not_stored() {
    let mut server = TestServer::start().await;
    let mut app = server.app().await;
    let shown = put(&server, TYPE, &enforced(), 201).await;
    assert_eq!((&shown["enforce_schema"], &shown["archived_at"]), (&json!(true), &Value::Null));
    for round in 0..2 {
        for (data, said) in [
            (
                json!({ "id": 1, "amount": { "value": "5" } }),
                "at /amount/value: value is not of type \"integer\"",
            ),
            (json!({ "id": 1 }), "at /: \"amount\" is a required property"),
            (json!("text"), "at /: value is not of type \"object\""),
        ] {
            let refused = app.post("/events", &json!({ "type": "payment.created", "data": data })).await;
            let problem = refused.refused(422, "schema_mismatch");
            assert_eq!(problem.field.as_deref(), Some("data"));
            let detail = problem.detail;
            assert!(
                detail.contains(said) && detail.contains("(payment.created, version 2024-01-01)"),
                "{detail}"
            );
        }
        assert_eq!(stored(&app).await, round);
        let good = json!({ "type": "payment.created", "data": { "id": 1, "amount": { "value": 5 } } });
        app.post("/events", &good).await.is(202);
        restarted(&mut server, &mut app).await;
    }
    let unfit = json!({ "type": "payment.created", "data": 1 });
    app.post("/events", &json!({ "type": "other", "data": 1 })).await.is(202);
    put(&server, TYPE, &payment(), 200).await;
    app.post("/events", &unfit).await.is(202);
}

#[tokio::test]
async fn in_a_batch_only_what_breaks_a_rule_is_refused() {
    let server = TestServer::start_with(&[("UNKNOWN_EVENT_TYPES", "refused")]).await;
    let app = server.app().await;
    put(&server, TYPE, &enforced(), 201).await;
    put(&server, "/v1/event-types/old.one", &json!({ "archived": true }), 201).await;
    put(&server, "/v1/event-types/free.one", &json!({}), 201).await;
    let good = json!({ "id": 1, "amount": { "value": 5 } });
    // So long that it is validated on a separate thread.
    let long = json!({ "id": "x".repeat(50_000), "amount": { "value": "5" } });
    let event = |name: &str, data: &Value| json!({ "type": name, "data": data });
    let batch = json!({ "events": [
        event("payment.created", &good), event("payment.created", &json!({})), event("old.one", &good),
        event("free.one", &json!(1)), event("fre.one", &good), event("payment.created", &long), event("a b", &good),
    ] });
    let answer = app.post("/events/batch", &batch).await.is(200);
    let codes: Vec<_> =
        answer["data"].as_array().unwrap().iter().map(|one| &one["problem"]["code"]).collect();
    let none = Value::Null;
    let (unfit, archived, unknown) =
        (json!("schema_mismatch"), json!("event_type_archived"), json!("unknown_event_type"));
    assert_eq!(codes, [&none, &unfit, &archived, &none, &unknown, &unfit, &json!("invalid")], "{answer:#}");
    assert!(
        text(&answer["data"][4]["problem"]["detail"]).contains("did you mean \"free.one\"?"),
        "{answer:#}"
    );
    assert_eq!(stored(&app).await, 2);
}

#[tokio::test]
async fn an_archived_type_takes_no_new_events_and_those_there_are_go_on() {
    let mut server = TestServer::start().await;
    let receiver = receiver(500).await;
    let mut app = server.app().await;
    put(&server, TYPE, &payment(), 201).await;
    let endpoint = json!({ "event_types": ["payment.created"], "overrides": slow() });
    app.endpoint(&receiver.url(HOOK), endpoint.clone()).await;
    let data = r#"{"id":"pay_1","amount":{"value":5}}"#;
    let delivery = publish(&app, "payment.created", data).await.remove(0);
    app.until_is(&delivery, "retrying").await;
    let archived = server.admin.act(&format!("{TYPE}/archive")).await.is(200);
    assert_eq!(server.admin.act(&format!("{TYPE}/archive")).await.is(200), archived, "it is so already");
    restarted(&mut server, &mut app).await;
    let event = json!({ "type": "payment.created", "data": { "id": "new" } });
    let refused = app.post("/events", &event).await.refused(422, "event_type_archived");
    assert_eq!(refused.field.as_deref(), Some("type"));
    assert!(refused.detail.contains(&text(&archived["archived_at"])), "{refused:?}");
    receiver.behave(HOOK, crate::harness::Behaviour::Ok);
    app.act(&format!("/deliveries/{delivery}/retry")).await.is(202);
    app.until_is(&delivery, "delivered").await;
    let replay = text(&app.act(&format!("/deliveries/{delivery}/replay")).await.is(202)["id"]);
    app.until_is(&replay, "delivered").await;
    app.endpoint(&receiver.url("/later"), endpoint).await;
    let listed = async |query: &str| {
        let page = server.admin.get(&format!("/v1/event-types{query}")).await.is(200);
        page["data"].as_array().unwrap().len()
    };
    assert_eq!(
        (listed("").await, listed("?archived=true").await, listed("?archived=false").await),
        (0, 1, 0)
    );
    assert_eq!(server.admin.get(TYPE).await.is(200)["archived_at"], archived["archived_at"]);
    let kept = put(&server, TYPE, &json!({ "archived": true, "description": "d" }), 200).await;
    assert_eq!(kept["archived_at"], archived["archived_at"], "it stays archived since then");
    server.admin.act(&format!("{TYPE}/unarchive")).await.is(200);
    app.post("/events", &event).await.is(202);
    server.admin.act("/v1/event-types/nothing/archive").await.refused(404, "not_found");
    let own = server.by_its_key(&app).await.api;
    own.act(&format!("{TYPE}/archive")).await.refused(403, "forbidden");
}

#[tokio::test]
async fn the_same_event_gets_the_same_answer_whatever_rule_came_in_between() {
    let server = TestServer::start().await;
    let app = server.app().await;
    put(&server, TYPE, &payment(), 201).await;
    let send = async |id: &str, data: Value, key: &str| {
        let body = json!({ "id": id, "type": "payment.created", "data": data }).to_string();
        app.api.send("POST", &app.path("/events"), &[("idempotency-key", key)], Some(body.as_bytes())).await
    };
    let first = send("e1", json!(1), "k1").await.is(202);
    put(&server, TYPE, &enforced(), 200).await;
    assert_eq!(send("e1", json!(1), "k1").await.is(200), first);
    send("e1", json!(2), "k1").await.refused(409, "published_before");
    send("e2", json!(1), "k2").await.refused(422, "schema_mismatch");
    server.admin.act(&format!("{TYPE}/archive")).await.is(200);
    assert_eq!(send("e1", json!(1), "k1").await.is(200), first);
    let batch = json!({ "events": [{ "id": "e1", "type": "payment.created", "data": 1 }] });
    let answer = app.post("/events/batch", &batch).await.is(200);
    assert_eq!((&answer["data"][0]["status"], &answer["data"][0]["event"]), (&json!(200), &first));
}

#[tokio::test]
async fn unknown_types_are_refused_where_the_operator_says_so_and_tests_are_not() {
    let server = TestServer::start_with(&[("UNKNOWN_EVENT_TYPES", "refused")]).await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    put(&server, TYPE, &payment(), 201).await;
    let refused = app.post("/events", &json!({ "type": "payment.craeted", "data": 1 })).await;
    let problem = refused.refused(422, "unknown_event_type");
    assert_eq!(problem.field.as_deref(), Some("type"));
    assert!(problem.detail.ends_with("did you mean \"payment.created\"?"), "{problem:?}");
    let far = app.post("/events", &json!({ "type": "invoice.sent", "data": 1 })).await;
    let far = far.refused(422, "unknown_event_type");
    assert!(!far.detail.contains("did you mean"), "{far:?}");
    app.post("/events", &json!({ "type": "payment.created", "data": 1 })).await.is(202);
    assert_eq!(app.post("/events", &json!({ "type": "webhook.x", "data": 1 })).await.invalid_field(), "type");

    let subscribe = |types: Value| json!({ "url": receiver.url(HOOK), "event_types": types });
    let unknown = app.post("/endpoints", &subscribe(json!(["payment.*", "payment.creatd"]))).await;
    let unknown = unknown.refused(422, "unknown_event_type");
    assert_eq!(unknown.field.as_deref(), Some("event_types[1]"), "{unknown:?}");
    let allowed = subscribe(json!(["payment.created", "invoice.*", "webhook.test", "*"]));
    let endpoint = text(&app.post("/endpoints", &allowed).await.is(201)["id"]);
    let path = format!("/endpoints/{endpoint}");
    app.patch(&path, &json!({ "event_types": ["nothing.such"] })).await.refused(422, "unknown_event_type");
    server.admin.delete(TYPE).await.is(204);
    app.patch(&path, &json!({ "description": "what it subscribes to stays" })).await.is(200);
    let test = text(&app.act(&format!("{path}/test")).await.is(202)["id"]);
    app.until_is(&test, "delivered").await;
    app.post("/events", &json!({ "type": "payment.created", "data": 1 }))
        .await
        .refused(422, "unknown_event_type");
}

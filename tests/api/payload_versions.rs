//! Payload versions: the version each endpoint gets, errors when a type is saved, and access rights.

use crate::fixture::{HOOK, TestApp, TestServer, receiver, text};
use serde_json::{Value, json};

pub(crate) const TYPE: &str = "/v1/event-types/payment.created";

/// As published: `{ id, amount: { value, currency } }`; the older version had the amount flat.
pub(crate) fn payment() -> Value {
    json!({
        "description": "A payment was made",
        "sample": { "id": "pay_1", "amount": { "value": 1250, "currency": "EUR" } },
        "versions": [
            { "name": "2023-01-01", "function": "data => ({\n  id: data.id,\n  amount: data.amount.value,\n})",
              "schema": { "required": ["id", "amount"], "properties": { "amount": { "type": "integer" } } } },
            { "name": "2024-01-01", "description": "as published" },
        ],
    })
}

pub(crate) async fn put(server: &TestServer, path: &str, document: &Value, status: u16) -> Value {
    server.admin.send("PUT", path, &[], Some(document.to_string().as_bytes())).await.is(status)
}

pub(crate) async fn publish(app: &TestApp, event_type: &str, data: &str) -> Vec<String> {
    let published = app
        .publish_raw(format!(
            r#"{{"id":"e.{}","type":"{event_type}","created_at":"2026-11-15T09:30:00Z","data":{data}}}"#,
            data.len()
        ))
        .await
        .is(202);
    published["deliveries"].as_array().unwrap().iter().map(|delivery| text(&delivery["id"])).collect()
}

#[tokio::test]
async fn each_endpoint_gets_the_version_it_is_pinned_to_whatever_its_contract() {
    let mut server = TestServer::start().await;
    let receiver = receiver(200).await;
    let mut app = server.app().await;
    put(&server, TYPE, &payment(), 201).await;
    for (path, contract, version) in [
        ("/old", "standard", json!("2023-01-01")),
        ("/new", "standard", json!("2024-01-01")),
        ("/plain", "standard", Value::Null),
        ("/sorted", "zerofee", json!("2023-01-01")),
        ("/flat", "orientedos", json!("2023-01-01")),
        ("/sim-old", "simpaisa", json!("2023-01-01")),
        ("/sim-plain", "simpaisa", Value::Null),
    ] {
        let more =
            json!({ "contract": contract, "payload_version": version, "overrides": { "https_only": false } });
        let id = app.endpoint(&receiver.url(path), more).await;
        assert_eq!(app.get(&format!("/endpoints/{id}")).await.is(200)["payload_version"], version);
    }
    // The catalogue is read again at a start.
    assert_eq!(server.node.stop().await, Some(0));
    server.node = server.home.start().await;
    app.api.address = server.node.client.address();
    let data = r#"{ "id":"pay_9",  "amount":{"value":1.0e3,"currency":"EUR"} }"#;
    for delivery in publish(&app, "payment.created", data).await {
        app.until_is(&delivery, "delivered").await;
    }
    let body = |path: &str| String::from_utf8(receiver.receipts_at(path)[0].body.to_vec()).unwrap();
    let old = r#"{"id":"pay_9","amount":1000}"#;
    let about = r#""type":"payment.created","timestamp":"2026-11-15T09:30:00.000Z""#;
    let id = format!("e.{}", data.len());
    assert_eq!(body("/old"), format!(r#"{{"id":"{id}",{about},"data":{old}}}"#));
    for as_published in ["/new", "/plain"] {
        assert_eq!(body(as_published), format!(r#"{{"id":"{id}",{about},"data":{data}}}"#), "byte for byte");
    }
    assert!(body("/sorted").contains(r#""data":{"amount":1000,"id":"pay_9"}"#), "{}", body("/sorted"));
    assert_eq!(body("/flat"), r#"{"event":"payment.created","id":"pay_9","amount":1000}"#);
    assert!(
        body("/sim-old").ends_with(&format!(r#""version":"2023-01-01","data":{old}}}"#)),
        "{}",
        body("/sim-old")
    );
    assert!(
        body("/sim-plain").ends_with(&format!(r#""version":"2024-01-01","data":{data}}}"#)),
        "the newest's name"
    );
}

#[tokio::test]
async fn a_type_without_versions_has_version_one_and_a_test_goes_out_under_any() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let more = |version: Value| json!({ "contract": "simpaisa", "payload_version": version, "overrides": { "https_only": false } });
    let endpoint = app.endpoint(&receiver.url(HOOK), more(json!("1"))).await;
    let path = format!("/endpoints/{endpoint}");
    let sent = async || {
        let receipts = receiver.receipts_at(HOOK);
        let body: Value = serde_json::from_slice(&receipts.last().unwrap().body).unwrap();
        (body["version"].clone(), body["data"].clone())
    };
    app.until_is(&app.deliver().await, "delivered").await;
    assert_eq!(sent().await, (json!("1"), json!({ "n": 1 })));
    app.patch(&path, &json!({ "payload_version": "2024-01-01" })).await.is(200);
    let test = text(&app.act(&format!("{path}/test")).await.is(202)["id"]);
    app.until_is(&test, "delivered").await;
    assert_eq!(sent().await.0, "2024-01-01");
    app.patch(&path, &json!({ "payload_version": null })).await.is(200);
    app.until_is(&app.deliver().await, "delivered").await;
    assert_eq!(sent().await.0, "1");
    for bad in [json!("a b"), json!(""), json!("x".repeat(65)), json!(5)] {
        let refused = app.patch(&path, &json!({ "payload_version": bad })).await;
        assert_eq!(refused.invalid_field(), "payload_version", "{bad}");
    }
}

#[tokio::test]
async fn a_bad_function_is_refused_by_its_place_line_and_message_and_the_saved_one_stays() {
    let server = TestServer::start().await;
    put(&server, TYPE, &payment(), 201).await;
    let with = |function: &str| {
        let mut document = payment();
        document["versions"][1]["function"] = json!(function);
        document
    };
    let refusals = [
        (with("data => {\n  return data.a.b\n}"), "versions[1].function", "line 2, column 10: TypeError"),
        (with("data => {\n\n  return )\n}"), "versions[1].function", "line 3"),
        (with("data => { for (;;); }"), "versions[1].function", "did not finish in time"),
        (with("5"), "versions[1].function", "must be one function"),
        (with("data => undefined"), "versions[1].function", "returned undefined"),
        (json!({ "versions": [{ "name": "1", "function": "d => d" }] }), "sample", "is missing"),
        (
            json!({ "sample": {}, "versions": [{ "name": "1", "function": "d => d", "schema": { "required": ["id"] } }] }),
            "versions[0].function",
            "the result does not fit the schema at /: \"id\" is a required property",
        ),
        (
            json!({ "versions": [{ "name": "1", "schema": { "$ref": "https://example.com/a.json" } }] }),
            "versions[0].schema",
            "nothing is fetched",
        ),
        (json!({ "versions": [{ "name": "1" }, { "name": "1" }] }), "versions[1].name", "earlier version"),
        (json!({ "versions": [{ "nmae": "1" }] }), "versions[0].nmae", "did you mean `name`?"),
        (json!({ "versions": [5] }), "versions[0]", "must be an object"),
        (json!({ "versions": {} }), "versions", "must be a list"),
        (json!({ "sample": { "id": 1 }, "smaple": 1 }), "smaple", "did you mean `sample`?"),
    ];
    for (document, field, said) in refusals {
        let answer = server.admin.send("PUT", TYPE, &[], Some(document.to_string().as_bytes())).await;
        let problem = answer.is(422);
        assert_eq!(problem["field"], field, "{document}");
        assert!(text(&problem["detail"]).contains(said), "{problem}");
    }
    let kept = server.admin.get(TYPE).await.is(200);
    assert_eq!(kept["versions"][0]["function"], payment()["versions"][0]["function"]);
    assert_eq!(kept["sample"], payment()["sample"]);
}

#[tokio::test]
async fn the_catalogue_is_the_operator_s_and_apps_may_read_and_try() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await.api;
    let mut new = payment();
    new["name"] = json!("payment.created");
    own.post("/v1/event-types", &new).await.refused(403, "forbidden");
    let made = server.admin.post("/v1/event-types", &new).await.is(201);
    server.admin.post("/v1/event-types", &new).await.refused(409, "conflict");
    for n in 0..3 {
        server.admin.post("/v1/event-types", &json!({ "name": format!("type.{n}") })).await.is(201);
    }
    let page = own.get("/v1/event-types?limit=2").await.is(200);
    assert_eq!(page["data"][0], made);
    let rest =
        own.get(&format!("/v1/event-types?limit=2&cursor={}", text(&page["next_cursor"]))).await.is(200);
    assert_eq!((&rest["data"][1]["name"], &rest["next_cursor"]), (&json!("type.2"), &Value::Null));
    for (method, path) in [("PUT", TYPE), ("DELETE", TYPE)] {
        own.send(method, path, &[], Some(b"{}")).await.refused(403, "forbidden");
    }
    assert_eq!(put(&server, TYPE, &json!({}), 200).await["versions"], json!([]));
    server.admin.delete(TYPE).await.is(204);
    own.get(TYPE).await.refused(404, "not_found");
    server.admin.delete(TYPE).await.refused(404, "not_found");
    let reserved = server.admin.send("PUT", "/v1/event-types/webhook.test", &[], Some(b"{}")).await;
    assert_eq!(reserved.invalid_field(), "name");
}

#[tokio::test]
async fn a_version_can_be_tried_before_it_is_pinned_or_saved() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await.api;
    put(&server, TYPE, &payment(), 201).await;
    let path = format!("{TYPE}/try");
    let tried = own.post(&path, &json!({ "version": "2023-01-01" })).await.is(200);
    assert_eq!(tried, json!({ "version": "2023-01-01", "data": { "id": "pay_1", "amount": 1250 } }));
    let as_published = json!({ "version": "2024-01-01", "data": { "any": 1 } });
    assert_eq!(own.post(&path, &as_published).await.is(200), as_published);
    for (trial, field, said) in [
        (r#"{"version":"2023-01-01","data":{"id":1}}"#, "function", "line 3, column "),
        (r#"{"version":"2023-01-01","data":{"id":1,"amount":{"value":"x"}}}"#, "function", "at /amount"),
        (
            r#"{"version":"2023-01-01","data":{"id":12345678901234567890}}"#,
            "function",
            "12345678901234567890",
        ),
        (r#"{"version":"1999"}"#, "version", "it has 2023-01-01, 2024-01-01"),
        ("{}", "version", "is missing"),
    ] {
        let problem = own.send("POST", &path, &[], Some(trial.as_bytes())).await.is(422);
        assert_eq!(problem["field"], field, "{problem}");
        assert!(text(&problem["detail"]).contains(said), "{problem}");
    }
    let draft = json!({ "function": "d => d.n + 1", "schema": { "type": "integer" }, "data": { "n": 1 } });
    own.post(&path, &draft).await.refused(403, "forbidden");
    assert_eq!(server.admin.post(&path, &draft).await.is(200)["data"], 2);
    assert_eq!(server.admin.post("/v1/event-types/not.yet/try", &draft).await.is(200)["data"], 2);
    own.post("/v1/event-types/not.yet/try", &json!({ "version": "1" })).await.refused(404, "not_found");
}

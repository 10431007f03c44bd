//! Importing event types: all or none, every problem by its place, idempotent, and a dry run changes nothing.

use crate::fixture::{TestServer, text};
use serde_json::{Value, json};

const IMPORT: &str = "/v1/event-types/import";

fn file() -> Value {
    json!({ "event_types": [
        { "name": "payment.created", "description": "A payment", "sample": { "id": 1.50 }, "enforce_schema": true,
          "versions": [{ "name": "1", "schema": { "required": ["id"] } }] },
        { "name": "payment.failed", "archived": true },
        { "name": "import" },
    ] })
}

async fn names(server: &TestServer) -> Vec<String> {
    let page = server.admin.get("/v1/event-types?archived=true").await.is(200);
    page["data"].as_array().unwrap().iter().map(|one| text(&one["name"])).collect()
}

#[tokio::test]
async fn an_import_adds_and_changes_and_the_same_again_changes_nothing() {
    let server = TestServer::start().await;
    server.admin.post("/v1/event-types", &json!({ "name": "stays" })).await.is(201);
    server
        .admin
        .post("/v1/event-types", &json!({ "name": "payment.failed", "description": "d" }))
        .await
        .is(201);
    let mut rehearsal = file();
    rehearsal["dry_run"] = json!(true);
    let would = json!({ "dry_run": true, "added": ["payment.created", "import"], "unchanged": [],
        "changed": [{ "name": "payment.failed", "fields": ["archived_at", "description"] }] });
    assert_eq!(server.admin.post(IMPORT, &rehearsal).await.is(200), would);
    assert_eq!(names(&server).await, ["stays", "payment.failed"], "nothing was done");
    let mut done = would.clone();
    done["dry_run"] = json!(false);
    assert_eq!(server.admin.post(IMPORT, &file()).await.is(200), done);
    assert_eq!(names(&server).await, ["stays", "payment.failed", "payment.created", "import"]);
    let before = server.admin.get("/v1/event-types?archived=true").await.is(200);
    let entries = server.admin.get("/v1/audit").await.is(200)["data"].as_array().unwrap().len();
    let nothing = json!({ "dry_run": false, "added": [], "changed": [],
        "unchanged": ["payment.created", "payment.failed", "import"] });
    let mut spelled = file().to_string();
    spelled = spelled.replace(r#"{"id":1.5}"#, r#"{ "id" : 15e-1 }"#);
    let again = server.admin.send("POST", IMPORT, &[], Some(spelled.as_bytes())).await.is(200);
    assert_eq!(again, nothing);
    assert_eq!(server.admin.get("/v1/event-types?archived=true").await.is(200), before);
    let log = server.admin.get("/v1/audit").await.is(200);
    assert_eq!(log["data"].as_array().unwrap().len(), entries, "{log:#}");
    // A type of this name is as good as any other.
    let path = "/v1/event-types/import";
    assert_eq!(server.admin.get(path).await.is(200)["name"], "import");
    server.admin.act(&format!("{path}/archive")).await.is(200);
    server.admin.send("PUT", path, &[], Some(b"{}")).await.is(200);
    server.admin.delete(path).await.is(204);
}

#[tokio::test]
async fn one_wrong_type_rejects_the_import_and_every_wrong_one_is_named_by_its_place() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let list = json!({ "event_types": [
        { "name": "good.one" },
        { "nmae": "b" },
        { "name": "a b" },
        5,
        { "name": "bad.schema", "versions": [{ "name": "1", "schema": { "type": 5 } }] },
        { "name": "good.one" },
        { "name": "bad.sample", "sample": 1, "enforce_schema": true,
          "versions": [{ "name": "1", "schema": { "type": "string" } }] },
        { "name": "bad.function", "sample": 1, "versions": [{ "name": "1", "function": "d => d.a.b" }] },
        { "name": "bad.rule", "enforce_schema": true },
    ] });
    let refused = server.admin.post(IMPORT, &list).await.is(422);
    let fields: Vec<_> =
        refused["errors"].as_array().unwrap().iter().map(|one| text(&one["field"])).collect();
    let expected = [
        "event_types[1].nmae",
        "event_types[2].name",
        "event_types[3]",
        "event_types[4].versions[0].schema",
        "event_types[5].name",
        "event_types[6].sample",
        "event_types[7].versions[0].function",
        "event_types[8].enforce_schema",
    ];
    assert_eq!(fields, expected, "{refused:#}");
    assert_eq!((&refused["field"], &refused["code"]), (&json!(fields[0]), &json!("invalid")));
    assert!(text(&refused["detail"]).ends_with("(and 7 more)"), "{refused:#}");
    assert!(text(&refused["errors"][4]["detail"]).contains("event_types[0]"), "{refused:#}");
    assert_eq!(names(&server).await, Vec::<String>::new());
    for (body, status) in [("{", 400), ("{}", 422), (r#"{"event_types":[],"dryrun":true}"#, 422), ("[]", 422)]
    {
        server.admin.send("POST", IMPORT, &[], Some(body.as_bytes())).await.is(status);
    }
    server.by_its_key(&app).await.api.post(IMPORT, &file()).await.refused(403, "forbidden");
}

#[tokio::test]
async fn a_whole_catalogue_goes_in_at_once_although_it_is_larger_than_an_event_may_be() {
    let server = TestServer::start().await;
    let types: Vec<_> = (0..2000)
        .map(|n| json!({ "name": format!("type.{n}"), "sample": { "text": "x".repeat(1000) } }))
        .collect();
    let answer = server.admin.post(IMPORT, &json!({ "event_types": types })).await.is(200);
    assert_eq!(answer["added"].as_array().unwrap().len(), 2000);
    let more = json!({ "event_types": [{ "name": "one.more" }, { "name": "type.1" }] });
    server.admin.post(IMPORT, &more).await.refused(409, "conflict");
    let huge = json!({ "event_types": [{ "name": "a", "sample": "x".repeat(17 << 20) }] });
    server.admin.post(IMPORT, &huge).await.refused(413, "too_large");
}

//! The audit log: every kind of change leaves one entry, a refused one none, and no secret is ever in it.

use crate::{
    fixture::{HOOK, TestApp, TestServer, pluck, quick, receiver, slow, text},
    harness::TestReceiver,
    raw_http::ApiResponse,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Operations without an audit entry: they change nothing of interest to an operator.
const NOT_IN_THE_LOG: [&str; 6] = [
    "POST /v1/apps/{app}/events",
    "POST /v1/apps/{app}/events/batch",
    "POST /v1/apps/{app}/endpoints/{endpoint}/test",
    "POST /v1/apps/{app}/endpoints/{endpoint}/inspect",
    "POST /v1/apps/{app}/endpoints/{endpoint}/ping",
    "POST /v1/event-types/{type}/try",
];

/// Counts the log's entries during the test.
struct AuditCounter {
    server: TestServer,
    entries: usize,
    done: BTreeSet<String>,
}

impl AuditCounter {
    async fn open() -> Self {
        let server = TestServer::start().await;
        Self { server, entries: 0, done: BTreeSet::new() }
    }

    async fn log(&self) -> Vec<Value> {
        let log = TestApp { id: String::new(), api: self.server.admin.clone() };
        let (mut entries, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = log.api.get(&format!("/v1/audit?limit=5{cursor}")).await.is(200);
            entries.extend(page["data"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next_cursor"].as_str() else { return entries };
            cursor = format!("&cursor={next}");
        }
    }

    /// Checks that the operation left exactly this entry, about this object.
    async fn left_entry(
        &mut self,
        operation: &str,
        answer: &ApiResponse,
        action: &str,
        thing: &str,
    ) -> Value {
        assert!((200..300).contains(&answer.status), "{operation}: {}", answer.text());
        let log = self.log().await;
        assert_eq!(log.len(), self.entries + 1, "{operation}: {log:#?}");
        self.entries += 1;
        self.done.insert(operation.to_owned());
        assert_eq!((&log[0]["action"], &log[0]["thing"]), (&json!(action), &json!(thing)), "{operation}");
        log[0].clone()
    }

    async fn left_nothing(&self, what: &str) {
        let log = self.log().await;
        assert_eq!(log.len(), self.entries, "{what}: {:#?}", log.first());
    }
}

const IN_APP: &str = "/v1/apps/{app}";

#[tokio::test]
async fn every_kind_of_change_leaves_exactly_one_entry() {
    let mut book = AuditCounter::open().await;
    let bad = receiver(500).await;
    let admin = book.server.admin.clone();
    let made = admin.post("/v1/apps", &json!({ "id": "a", "name": "A" })).await;
    let entry = book.left_entry("POST /v1/apps", &made, "app.created", "a").await;
    assert_eq!(
        (&entry["key_id"], &entry["scope"], &entry["app_id"]),
        (&json!("settings"), &json!("admin"), &json!("a"))
    );
    let changed =
        admin.patch("/v1/apps/a", &json!({ "name": "B", "quota": { "events_per_second": 900 } })).await;
    let entry = book.left_entry("PATCH /v1/apps/{app}", &changed, "app.changed", "a").await;
    assert_eq!(entry["detail"], json!({ "fields": ["name", "quota"] }));
    let key = admin.post("/v1/keys", &json!({ "scope": "app", "app_id": "a", "name": "ci" })).await;
    let id = text(&key.json()["id"]);
    let entry = book.left_entry("POST /v1/keys", &key, "key.created", &id).await;
    assert_eq!((&entry["app_id"], &entry["detail"]), (&json!("a"), &json!({ "scope": "app" })));
    let app = TestApp { id: "a".into(), api: book.server.with_key(text(&key.json()["key"])) };
    let links = format!("{IN_APP}/portal-links");
    let link = app.post("/portal-links", &json!({})).await;
    let link_id = text(&link.json()["id"]);
    let entry = book.left_entry(&format!("POST {links}"), &link, "portal_link.created", &link_id).await;
    assert_eq!(entry["detail"], json!({ "scope": "portal" }));
    let revoked = app.delete(&format!("/portal-links/{link_id}")).await;
    book.left_entry(&format!("DELETE {links}/{{link}}"), &revoked, "portal_link.revoked", &link_id).await;
    change_endpoints(&mut book, &app, &id).await;
    change_deliveries(&mut book, &app, &bad).await;
    change_replays(&mut book, &app).await;
    change_event_types(&mut book).await;
    let revoked = admin.delete(&format!("/v1/keys/{id}")).await;
    book.left_entry("DELETE /v1/keys/{key}", &revoked, "key.revoked", &id).await;
    let deleted = admin.delete("/v1/apps/a").await;
    assert_eq!(deleted.status, 204);
    let log = book.log().await;
    let ours = log.iter().filter(|entry| !entry["thing"].as_str().unwrap().starts_with("a.b")).count();
    assert_eq!(ours, 1, "the log of an app goes with it; its end stays");
    assert_eq!(
        (&log[0]["action"], &log[0]["thing"], &log[0]["app_id"]),
        (&json!("app.deleted"), &json!("a"), &Value::Null)
    );
    book.done.insert("DELETE /v1/apps/{app}".to_owned());

    let described = admin.description.operations();
    let changing =
        described.filter(|operation| operation.path.starts_with("/v1/") && operation.method != "get");
    let mut missing: BTreeSet<String> =
        changing.map(|operation| format!("{} {}", operation.method.to_uppercase(), operation.path)).collect();
    missing.retain(|name| !book.done.contains(name) && !NOT_IN_THE_LOG.contains(&name.as_str()));
    assert!(missing.is_empty(), "nobody has seen these leave an entry: {missing:#?}");
}

async fn change_endpoints(book: &mut AuditCounter, app: &TestApp, key: &str) {
    let one = format!("{IN_APP}/endpoints/{{endpoint}}");
    let made = app.post("/endpoints", &json!({ "id": "e", "url": "http://127.0.0.1:9/" })).await;
    let entry = book.left_entry("POST /v1/apps/{app}/endpoints", &made, "endpoint.created", "e").await;
    assert_eq!(
        (&entry["key_id"], &entry["key_name"], &entry["scope"]),
        (&json!(key), &json!("ci"), &json!("app"))
    );
    let patch = json!({ "url": "http://127.0.0.1:9/new", "headers": { "X-Token": "t" }, "description": "d" });
    let changed = app.patch("/endpoints/e", &patch).await;
    let entry = book.left_entry(&format!("PATCH {one}"), &changed, "endpoint.changed", "e").await;
    assert_eq!(entry["detail"], json!({ "fields": ["description", "url", "headers"] }));
    for (action, word) in [("disable", "endpoint.disabled"), ("enable", "endpoint.enabled")] {
        let switched = app.act(&format!("/endpoints/e/{action}")).await;
        book.left_entry(&format!("POST {one}/{action}"), &switched, word, "e").await;
    }
    let rotated = app.act("/endpoints/e/secret/rotate").await;
    book.left_entry(&format!("POST {one}/secret/rotate"), &rotated, "secret.rotated", "e").await;
    let deleted = app.delete("/endpoints/e").await;
    book.left_entry(&format!("DELETE {one}"), &deleted, "endpoint.deleted", "e").await;
}

async fn change_deliveries(book: &mut AuditCounter, app: &TestApp, bad: &TestReceiver) {
    for (id, overrides) in [("dies", quick()), ("waits", slow())] {
        let endpoint = json!({ "id": id, "url": bad.url(HOOK), "event_types": [id], "overrides": overrides });
        let made = app.post("/endpoints", &endpoint).await;
        book.left_entry("POST /v1/apps/{app}/endpoints", &made, "endpoint.created", id).await;
    }
    let publish = async |event_type: &str, status: &str| {
        let id = text(&app.publish(event_type).await["deliveries"][0]["id"]);
        app.until_is(&id, status).await;
        id
    };
    let dead = publish("dies", "dead").await;
    let one = format!("{IN_APP}/deliveries/{{delivery}}");
    for (action, word) in [("retry", "delivery.retried"), ("replay", "delivery.replayed")] {
        let requested = app.act(&format!("/deliveries/{dead}/{action}")).await;
        book.left_entry(&format!("POST {one}/{action}"), &requested, word, &dead).await;
        app.until_is(&dead, "dead").await;
    }
    let dead_letter = format!("{IN_APP}/dead-letters/{{delivery}}");
    let replayed = app.act(&format!("/dead-letters/{dead}/replay")).await;
    book.left_entry(&format!("POST {dead_letter}/replay"), &replayed, "delivery.replayed", &dead).await;
    app.until_is(&dead, "dead").await;
    let closed = app.act(&format!("/dead-letters/{dead}/close")).await;
    book.left_entry(&format!("POST {dead_letter}/close"), &closed, "delivery.closed", &dead).await;
    let waiting = publish("waits", "retrying").await;
    let cancelled = app.act(&format!("/deliveries/{waiting}/cancel")).await;
    book.left_entry(&format!("POST {one}/cancel"), &cancelled, "delivery.cancelled", &waiting).await;
    let deleted = app.delete(&format!("/deliveries/{waiting}")).await;
    book.left_entry(&format!("DELETE {one}"), &deleted, "delivery.deleted", &waiting).await;
    let erased = app.post("/events", &json!({ "id": "private", "type": "other", "data": 1 })).await;
    erased.is(202);
    let erased = app.delete("/events/private/data").await;
    book.left_entry("DELETE /v1/apps/{app}/events/{event}/data", &erased, "event.erased", "private").await;
}

async fn change_replays(book: &mut AuditCounter, app: &TestApp) {
    let one = format!("{IN_APP}/replays/{{replay}}");
    let begun = app.post("/replays", &json!({ "per_second": 1, "status": ["cancelled"] })).await;
    let id = text(&begun.is(201)["id"]);
    let entry = book.left_entry("POST /v1/apps/{app}/replays", &begun, "replay.begun", &id).await;
    assert_eq!(entry["detail"], json!({ "kind": "replay", "total": 0 }));
    // A replay that does not end before it can be paused.
    for _ in 0..3 {
        let delivery = text(&app.publish("waits").await["deliveries"][0]["id"]);
        app.until_is(&delivery, "retrying").await;
        let cancelled = app.act(&format!("/deliveries/{delivery}/cancel")).await;
        book.left_entry("", &cancelled, "delivery.cancelled", &delivery).await;
    }
    let begun = app.post("/replays", &json!({ "per_second": 1, "status": ["cancelled"] })).await;
    let id = text(&begun.is(201)["id"]);
    book.left_entry("POST /v1/apps/{app}/replays", &begun, "replay.begun", &id).await;
    for (action, word) in [("pause", "replay.paused"), ("resume", "replay.resumed")] {
        let changed = app.act(&format!("/replays/{id}/{action}")).await;
        book.left_entry(&format!("POST {one}/{action}"), &changed, word, &id).await;
    }
    let cancelled = app.delete(&format!("/replays/{id}")).await;
    book.left_entry(&format!("DELETE {one}"), &cancelled, "replay.cancelled", &id).await;
    let backfill = app.act("/endpoints/waits/backfill").await;
    let id = text(&backfill.is(201)["id"]);
    let operation = "POST /v1/apps/{app}/endpoints/{endpoint}/backfill";
    let entry = book.left_entry(operation, &backfill, "replay.begun", &id).await;
    assert_eq!(entry["detail"]["kind"], "backfill");
}

async fn change_event_types(book: &mut AuditCounter) {
    let admin = book.server.admin.clone();
    let made = admin.post("/v1/event-types", &json!({ "name": "a.b", "description": "d" })).await;
    let entry = book.left_entry("POST /v1/event-types", &made, "event_type.created", "a.b").await;
    assert_eq!(entry["app_id"], Value::Null);
    let put = json!({ "description": "e", "sample": { "n": 1 } }).to_string();
    let put = admin.send("PUT", "/v1/event-types/a.b", &[], Some(put.as_bytes())).await;
    let entry = book.left_entry("PUT /v1/event-types/{type}", &put, "event_type.changed", "a.b").await;
    assert_eq!(entry["detail"], json!({ "fields": ["description", "sample"] }));
    for (action, word) in [("archive", "event_type.archived"), ("unarchive", "event_type.unarchived")] {
        let changed = admin.act(&format!("/v1/event-types/a.b/{action}")).await;
        book.left_entry(&format!("POST /v1/event-types/{{type}}/{action}"), &changed, word, "a.b").await;
        admin.act(&format!("/v1/event-types/a.b/{action}")).await.is(200);
        book.left_nothing("it was so already").await;
    }
    let list = json!({ "event_types": [{ "name": "a.b", "description": "e" }] });
    let imported = admin.post("/v1/event-types/import", &list).await;
    let entry = book.left_entry("POST /v1/event-types/import", &imported, "event_type.changed", "a.b").await;
    assert_eq!(entry["detail"], json!({ "fields": ["sample"] }));
    let deleted = admin.delete("/v1/event-types/a.b").await;
    book.left_entry("DELETE /v1/event-types/{type}", &deleted, "event_type.deleted", "a.b").await;
}

#[tokio::test]
async fn what_is_refused_and_what_changes_nothing_leaves_no_entry() {
    let mut book = AuditCounter::open().await;
    let (app, other) = (book.server.app().await, book.server.app().await);
    let (own, stranger) = (book.server.by_its_key(&app).await, book.server.by_its_key(&other).await);
    own.endpoint("http://127.0.0.1:9/", json!({ "id": "e", "overrides": slow() })).await;
    book.entries = 5;
    book.left_nothing("two apps, two keys and an endpoint").await;
    let delivery = text(&own.publish("a.b").await["deliveries"][0]["id"]);
    own.post("/events/batch", &json!({ "events": [] })).await.is(200);
    own.act("/endpoints/e/test").await.is(202);
    book.left_nothing("publishing").await;
    own.patch("/endpoints/e", &json!({ "description": null })).await.is(200);
    own.act("/endpoints/e/enable").await.is(200);
    app.patch("", &json!({ "name": "An app" })).await.is(200);
    own.post("/replays", &json!({ "dry_run": true })).await.is(200);
    book.left_nothing("what is so already").await;
    own.until_is(&delivery, "retrying").await;
    let admin = &book.server.admin;
    let nobody = book.server.with_key(None);
    for (answer, status) in [
        (admin.post("/v1/apps", &json!({ "id": app.id, "name": "A" })).await, 409),
        (admin.post("/v1/keys", &json!({ "scope": "root" })).await, 422),
        (admin.delete("/v1/keys/key_0000000000000").await, 409),
        (app.patch("", &json!({ "name": "" })).await, 422),
        (own.patch("", &json!({ "name": "B" })).await, 403),
        (own.patch("/endpoints/e", &json!({ "overrides": { "https_only": false } })).await, 403),
        (own.patch("/endpoints/e", &json!({ "url": "nowhere" })).await, 422),
        (own.post("/endpoints", &json!({ "id": "e", "url": "http://127.0.0.1:9/" })).await, 409),
        (own.post("/endpoints/e/secret/rotate", &json!({ "secret": "short" })).await, 422),
        (own.delete("/endpoints/other").await, 404),
        (own.act(&format!("/deliveries/{delivery}/replay")).await, 409),
        (own.delete(&format!("/deliveries/{delivery}")).await, 409),
        (own.act(&format!("/dead-letters/{delivery}/close")).await, 404),
        (own.post("/replays", &json!({ "per_second": 0 })).await, 422),
        (own.delete("/events/nothing/data").await, 404),
        (stranger.api.delete(&app.path("/endpoints/e")).await, 404),
        (nobody.delete(&app.path("/endpoints/e")).await, 401),
    ] {
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    book.left_nothing("what was refused").await;
}

#[tokio::test]
async fn no_secret_is_ever_in_the_log() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let key = server.admin.post("/v1/keys", &json!({ "scope": "app", "app_id": app.id })).await.is(201);
    let secrets = [
        "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz".to_owned(),
        "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4".to_owned(),
        "Bearer t0ken-of-the-receiver".to_owned(),
        "passw0rd-in-the-url".to_owned(),
        text(&key["key"]),
    ];
    let more = json!({ "id": "e", "secret": secrets[0], "headers": { "Authorization": secrets[2] } });
    app.endpoint(&format!("http://127.0.0.1:9/?k={}", secrets[3]), more).await;
    app.post("/endpoints/e/secret/rotate", &json!({ "secret": secrets[1] })).await.is(200);
    app.patch("/endpoints/e", &json!({ "headers": { "Authorization": format!("{}2", secrets[2]) } }))
        .await
        .is(200);
    app.patch("/endpoints/e", &json!({ "metadata": { "note": secrets[3] } })).await.is(200);
    let log = server.admin.get("/v1/audit").await;
    assert_eq!(log.is(200)["data"].as_array().unwrap().len(), 6);
    for secret in &secrets {
        assert!(!log.text().contains(secret.as_str()), "{secret} is in {}", log.text());
    }
}

#[tokio::test]
async fn apps_see_their_own_part_of_the_log_and_filters_combine() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let own = server.by_its_key(&app).await;
    let endpoint = json!({ "id": "e", "url": "http://127.0.0.1:9/" });
    own.post("/endpoints", &endpoint).await.is(201);
    app.patch("/endpoints/e", &json!({ "description": "d" })).await.is(200);
    other.post("/endpoints", &endpoint).await.is(201);
    let key = server.admin.post("/v1/keys", &json!({ "scope": "read", "app_id": app.id })).await.is(201);
    let reader = TestApp { id: app.id.clone(), api: server.with_key(text(&key["key"])) };
    let actions = |rows: &[Value]| pluck(rows, "action");
    let expected = ["key.created", "endpoint.changed", "endpoint.created", "key.created", "app.created"];
    for key in [&own, &reader, &app] {
        let rows = key.all("/audit?limit=2").await;
        assert_eq!(actions(&rows), expected, "newest first");
        assert!(rows.iter().all(|row| row["app_id"] == json!(app.id)), "{rows:#?}");
    }
    assert_eq!(other.all("/audit").await.len(), 2);
    own.api.get("/v1/audit").await.refused(403, "forbidden");
    reader.api.get("/v1/audit").await.refused(403, "forbidden");
    own.api.get(&other.path("/audit")).await.refused(404, "not_found");

    let find = async |query: &str| {
        actions(server.admin.get(&format!("/v1/audit?{query}")).await.is(200)["data"].as_array().unwrap())
    };
    let by_key = text(&own.all("/audit?action=endpoint.created").await[0]["key_id"]);
    assert_eq!(find(&format!("key_id={by_key}")).await, ["endpoint.created"]);
    assert_eq!(
        find(&format!("app_id={}&key_id=settings&action=endpoint.changed", app.id)).await,
        ["endpoint.changed"]
    );
    assert_eq!(find(&format!("app_id={}", other.id)).await.len(), 2);
    for nothing in ["app_id=nobody", "key_id=nobody", "from=2100-01-01T00:00:00Z", "to=2020-01-01T00:00:00Z"]
    {
        assert!(find(nothing).await.is_empty(), "{nothing}");
    }
    assert_eq!(find("from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z").await.len(), 7);
    assert_eq!(server.admin.get("/v1/audit?action=exploded").await.invalid_field(), "action");
    assert_eq!(
        own.get("/audit?app_id=b").await.refused(422, "unknown_field").field.as_deref(),
        Some("app_id")
    );
}

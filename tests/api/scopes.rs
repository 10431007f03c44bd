//! Keys with a narrow scope, keys that expire, and the time of a key's last use.

use crate::{
    fixture::{TestApp, TestServer, WAIT_MAX, text},
    harness::{from_now, wait_until},
};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the app, used with a new key of this scope.
async fn by_key_of(server: &TestServer, app: &TestApp, scope: &str) -> TestApp {
    let made = server.admin.post("/v1/keys", &json!({ "scope": scope, "app_id": app.id })).await.is(201);
    assert_eq!((&made["scope"], &made["app_id"]), (&json!(scope), &json!(app.id)));
    TestApp { id: app.id.clone(), api: server.with_key(text(&made["key"])) }
}

/// Every described operation under `/v1`, with names that exist where that is possible.
pub(crate) fn operations(server: &TestServer, app: &TestApp) -> Vec<(String, String)> {
    let described = server.admin.description.operations();
    let under_v1 = described.filter(|operation| operation.path.starts_with("/v1/"));
    let named = under_v1.map(|operation| {
        let path = operation.path.replace("{app}", &app.id).replace("{endpoint}", "e");
        (operation.method.to_uppercase(), path.replace(['{', '}'], ""))
    });
    named.collect()
}

#[tokio::test]
async fn a_publish_key_publishes_in_its_app_and_does_nothing_else() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "e" })).await;
    let own = by_key_of(&server, &app, "publish").await;
    own.publish("a.b").await;
    let batch = json!({ "events": [{ "type": "a.b", "data": 1 }] });
    assert_eq!(own.post("/events/batch", &batch).await.is(200)["data"][0]["status"], 202);
    for (method, path) in operations(&server, &app) {
        let is_publishing =
            method == "POST" && (path.ends_with("/events") || path.ends_with("/events/batch"));
        if is_publishing || path == "/v1/session" {
            continue;
        }
        let refused = own.api.send(&method, &path, &[], None).await.refused(403, "forbidden");
        assert!(refused.detail.contains("\"publish\""), "{method} {path}: {}", refused.detail);
    }
    own.api
        .post(&other.path("/events"), &json!({ "type": "a.b", "data": 1 }))
        .await
        .refused(404, "not_found");
    own.api.get(&other.path("")).await.refused(404, "not_found");
    assert_eq!(app.get("/endpoints/e").await.is(200)["status"], "active", "nothing was done");
}

#[tokio::test]
async fn a_read_key_looks_at_everything_in_its_app_but_secrets_and_changes_nothing() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
    let token = "Bearer t0ken-of-the-receiver";
    let more = json!({ "id": "e", "secret": secret, "headers": { "Authorization": token } });
    app.endpoint("http://127.0.0.1:9/", more).await;
    app.publish("a.b").await;
    let own = by_key_of(&server, &app, "read").await;
    let mut looked = 0;
    for (method, path) in operations(&server, &app) {
        // Describes the key itself; finds objects that it may read; has no end.
        if path == "/v1/session" || path.starts_with("/v1/find/") || path == app.path("/stream") {
            continue;
        }
        let answer = own.api.send(&method, &path, &[], None).await;
        let in_app =
            path.strip_prefix(&app.path("")).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if method == "GET" && in_app && !path.ends_with("/secret") {
            assert!([200, 404].contains(&answer.status), "{path}: {}", answer.text());
            let said = answer.text();
            assert!(!said.contains(secret) && !said.contains("t0ken"), "{path}: {said}");
            looked += usize::from(answer.status == 200);
        } else {
            let refused = answer.refused(403, "forbidden");
            assert!(refused.detail.contains("\"read\""), "{method} {path}: {}", refused.detail);
        }
    }
    assert!(looked >= 7, "{looked}");
    own.api.send("HEAD", &own.path("/events"), &[], None).await.is(200);
    own.api.get(&other.path("/events")).await.refused(404, "not_found");
    own.api.delete(&other.path("/endpoints/e")).await.refused(404, "not_found");
    own.get("/endpoints/e/secret").await.refused(403, "forbidden");
    assert_eq!(app.get("/endpoints/e/secret").await.is(200)["secret"], secret);
}

#[tokio::test]
async fn a_key_that_expires_works_until_then_and_says_afterwards_that_it_expired() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let make = async |expires_at: &str| {
        let key = json!({ "scope": "app", "app_id": app.id, "expires_at": expires_at });
        server.admin.post("/v1/keys", &key).await
    };
    for past in ["2020-01-01T00:00:00Z", "yesterday"] {
        assert_eq!(make(past).await.invalid_field(), "expires_at", "{past}");
    }
    let (soon, later) = (from_now(Duration::from_millis(1500)), from_now(Duration::from_hours(1)));
    let (soon, later) = (make(&soon).await.is(201), make(&later).await.is(201));
    let (first, second) = (server.with_key(text(&soon["key"])), server.with_key(text(&later["key"])));
    first.get(&app.path("")).await.is(200);
    wait_until("the key expires", WAIT_MAX, async || first.get(&app.path("")).await.status == 401).await;
    let refused = first.get(&app.path("")).await.refused(401, "unauthorized");
    assert_eq!(refused.detail, format!("This key expired at {}.", text(&soon["expires_at"])));
    second.get(&app.path("")).await.is(200);
    let listed = server.admin.get(&format!("/v1/keys/{}", text(&soon["id"]))).await.is(200);
    assert_eq!(listed["expires_at"], soon["expires_at"], "an expired key is still shown");
}

#[tokio::test]
async fn the_last_use_is_shown_at_once_survives_a_stop_and_costs_no_write_per_request() {
    let mut server = TestServer::start().await;
    let app = server.app().await;
    let made = server.admin.post("/v1/keys", &json!({ "scope": "read", "app_id": app.id })).await.is(201);
    let path = format!("/v1/keys/{}", text(&made["id"]));
    assert_eq!(server.admin.get(&path).await.is(200)["last_used_at"], Value::Null);
    let holder = server.with_key(text(&made["key"]));
    let commits = async || server.node.client.metric("posthaste_commit_seconds_count").await;
    let before = commits().await;
    for _ in 0..100 {
        holder.get(&app.path("")).await.is(200);
    }
    assert!(
        commits().await - before < 10.0,
        "{} commits for 100 requests that only look",
        commits().await - before
    );
    let used_at = server.admin.get(&path).await.is(200)["last_used_at"].clone();
    assert!(used_at.as_str() >= made["created_at"].as_str(), "{used_at}");
    server.admin.delete(&path).await.is(204);
    assert_eq!(server.node.stop().await, Some(0));
    let node = server.home.start().await;
    let shown = node.client.get(&path).await.expect(200);
    let last = text(&shown["last_used_at"]);
    assert!(last >= text(&used_at), "{last} is what it was, or a second newer");
    assert_ne!(shown["revoked_at"], Value::Null);
}

#[tokio::test]
async fn revoked_keys_are_listed_only_when_asked_for() {
    let server = TestServer::start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(text(&server.admin.post("/v1/keys", &json!({ "scope": "admin" })).await.is(201)["id"]));
    }
    server.admin.delete(&format!("/v1/keys/{}", ids[1])).await.is(204);
    let list = async |query: &str| {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.admin.get(&format!("/v1/keys?limit=1{query}{cursor}")).await.is(200);
            found.extend(page["data"].as_array().unwrap().iter().map(|key| text(&key["id"])));
            let Some(next) = page["next_cursor"].as_str() else { return found };
            cursor = format!("&cursor={next}");
        }
    };
    let settings = "key_0000000000000".to_owned();
    let [first, second, third] = <[String; 3]>::try_from(ids).unwrap();
    let working = [settings.clone(), first.clone(), third.clone()];
    assert_eq!(list("").await, working);
    assert_eq!(list("&revoked=false").await, working);
    assert_eq!(list("&revoked=true").await, [settings, first, second.clone(), third]);
    let revoked = server.admin.get(&format!("/v1/keys/{second}")).await.is(200);
    assert!(revoked["revoked_at"].is_string() && revoked.get("key").is_none(), "{revoked}");
    assert_eq!(server.admin.get("/v1/keys?revoked=maybe").await.invalid_field(), "revoked");
}

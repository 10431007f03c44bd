//! API keys: their rights, shown once, revoked at once.

use crate::{
    fixture::{TestServer, WAIT_MAX, pluck, text},
    harness::{ADMIN_KEY, wait_until},
    raw_http::RawConnection,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

#[tokio::test]
async fn without_a_valid_key_the_answer_is_401_and_says_how() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let nobody = server.with_key(None);
    let requested = format!("Bearer {ADMIN_KEY}");
    let basic = format!("Basic {ADMIN_KEY}");
    let longer = format!("{requested}x");
    let padded = format!("bearer  {ADMIN_KEY}");
    for wrong in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some(ADMIN_KEY),
        Some(&basic),
        Some(&longer),
        Some(&requested[..requested.len() - 1]),
    ] {
        let headers: Vec<(&str, &str)> = wrong.map(|value| ("authorization", value)).into_iter().collect();
        for (method, path) in [
            ("GET", "/v1/apps"),
            ("POST", &app.path("/events")),
            ("GET", "/v1/apps/nobody"),
            ("GET", "/v1/keys"),
        ] {
            let answer = nobody.send(method, path, &headers, None).await;
            answer.refused(401, "unauthorized");
            assert!(
                answer.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer")),
                "{answer:?}"
            );
        }
    }
    for good in [&requested, &padded] {
        nobody.send("GET", "/v1/apps", &[("authorization", good)], None).await.is(200);
    }
}

#[tokio::test]
async fn an_app_key_does_everything_in_its_app_and_nothing_of_the_operator_s() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let own = server.by_its_key(&app).await;
    assert_eq!(own.get("").await.is(200)["id"], app.id);
    let seen = own.api.get("/v1/apps").await.is(200);
    assert_eq!(pluck(seen["data"].as_array().unwrap(), "id"), [json!(app.id)], "of all apps its own");
    own.endpoint("http://127.0.0.1:9/", json!({ "id": "e" })).await;
    own.patch("/endpoints/e", &json!({ "description": "mine" })).await.is(200);
    own.act("/endpoints/e/secret/rotate").await.is(200);
    own.act("/endpoints/e/disable").await.is(200);
    own.publish("x").await;
    own.post("/events/batch", &json!({ "events": [] })).await.is(200);
    own.get("/deliveries").await.is(200);
    own.delete("/endpoints/e").await.is(204);

    let key = json!({ "scope": "app", "app_id": app.id });
    for answer in [
        own.api.post("/v1/apps", &json!({ "name": "A" })).await,
        own.api.post("/v1/keys", &key).await,
        own.api.post("/v1/keys", &json!({ "scope": "admin" })).await,
        own.api.get("/v1/keys").await,
        own.api.delete("/v1/keys/key_0000000000000").await,
        own.patch("", &json!({ "name": "B" })).await,
        own.delete("").await,
    ] {
        answer.refused(403, "forbidden");
    }
    assert_eq!(other.get("").await.is(200)["name"], "An app");
}

#[tokio::test]
async fn a_revoked_key_stops_working_at_once_on_open_connections_too() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let made = server.admin.post("/v1/keys", &json!({ "scope": "app", "app_id": app.id })).await.is(201);
    let holder = server.with_key(text(&made["key"]));
    let mut wire = RawConnection::open(holder.address).await;
    let ask = async |wire: &mut RawConnection| {
        holder.send_on(wire, "GET", &app.path(""), &[], None).await.unwrap().status
    };
    assert_eq!(ask(&mut wire).await, 200);
    let path = format!("/v1/keys/{}", text(&made["id"]));
    server.admin.delete(&path).await.is(204);
    assert_eq!(ask(&mut wire).await, 401);
    server.admin.delete(&path).await.refused(404, "not_found");
    let listed = server.admin.get("/v1/keys").await.is(200);
    assert!(!pluck(listed["data"].as_array().unwrap(), "id").contains(&made["id"]));
}

#[tokio::test]
async fn a_key_is_shown_once_and_known_by_its_first_characters() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let made = server
        .admin
        .post("/v1/keys", &json!({ "scope": "app", "app_id": app.id, "name": "checkout" }))
        .await
        .is(201);
    let key = text(&made["key"]);
    assert!(key.len() >= 40 && key.starts_with(&text(&made["prefix"])), "{made}");
    assert_eq!(
        (&made["scope"], &made["app_id"], &made["name"]),
        (&json!("app"), &json!(app.id), &json!("checkout"))
    );
    let listed = server.admin.get("/v1/keys").await;
    assert!(!listed.text().contains(&key) && !listed.text().contains(ADMIN_KEY), "{}", listed.text());
    let shown =
        listed.is(200)["data"].as_array().unwrap().iter().find(|one| one["id"] == made["id"]).cloned();
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("key");
    assert_eq!(shown, Some(expected));
}

#[tokio::test]
async fn a_second_admin_key_can_do_everything_and_the_one_of_the_settings_cannot_be_revoked() {
    let server = TestServer::start().await;
    let made = server.admin.post("/v1/keys", &json!({ "scope": "admin" })).await.is(201);
    assert_eq!((&made["scope"], &made["app_id"]), (&json!("admin"), &Value::Null));
    let second = server.with_key(text(&made["key"]));
    second.post("/v1/apps", &json!({ "name": "A" })).await.is(201);
    let keys = second.get("/v1/keys").await.is(200);
    for key in keys["data"].as_array().unwrap().iter().filter(|key| key["id"] != made["id"]) {
        second.delete(&format!("/v1/keys/{}", text(&key["id"]))).await.refused(409, "conflict");
    }
    second.delete(&format!("/v1/keys/{}", text(&made["id"]))).await.is(204);
    second.get("/v1/apps").await.refused(401, "unauthorized");
    server.admin.get("/v1/apps").await.is(200);
}

#[tokio::test]
async fn a_key_outside_its_form_is_refused_by_the_field() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let cases = [
        (json!({}), "scope"),
        (json!({ "scope": "root" }), "scope"),
        (json!({ "scope": "app" }), "app_id"),
        (json!({ "scope": "app", "app_id": "nobody" }), "app_id"),
        (json!({ "scope": "admin", "app_id": app.id }), "app_id"),
        (json!({ "scope": "app", "app_id": app.id, "name": "" }), "name"),
        (json!({ "scope": "app", "app_id": app.id, "name": "x".repeat(201) }), "name"),
    ];
    for (key, field) in cases {
        assert_eq!(server.admin.post("/v1/keys", &key).await.invalid_field(), field, "{key}");
    }
    let unknown = server.admin.post("/v1/keys", &json!({ "scope": "app", "app": app.id })).await;
    assert_eq!(unknown.refused(422, "unknown_field").field.as_deref(), Some("app"));
    for id in ["nobody", "key_zzzzzzzzzzzzz", "key_0000000000001"] {
        server.admin.delete(&format!("/v1/keys/{id}")).await.refused(404, "not_found");
    }
}

/// Sends a request and hangs up without waiting for the answer.
async fn ask_and_hang_up(server: &TestServer, method: &str, path: &str, body: &str) {
    let mut stream = TcpStream::connect(server.admin.address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {ADMIN_KEY}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_key_is_revoked_although_the_client_hangs_up_before_the_answer() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for _ in 0..20 {
        let new = json!({ "scope": "app", "app_id": app.id });
        let made = server.admin.post("/v1/keys", &new).await.is(201);
        ask_and_hang_up(&server, "DELETE", &format!("/v1/keys/{}", text(&made["id"])), "").await;
        let holder = server.with_key(text(&made["key"]));
        wait_until("the key is refused", WAIT_MAX, async || holder.get(&app.path("")).await.status == 401)
            .await;
    }
}

#[tokio::test]
async fn what_is_named_events_is_changed_to_the_end_too() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "events" })).await;
    for round in (0..20).map(|round| round.to_string()) {
        let body = format!("{{\"description\":\"{round}\"}}");
        ask_and_hang_up(&server, "PATCH", &app.path("/endpoints/events"), &body).await;
        wait_until("the change is in force", WAIT_MAX, async || {
            app.get("/endpoints/events").await.is(200)["description"] == round.as_str()
        })
        .await;
    }
}

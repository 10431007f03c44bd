//! Portal links: what a customer can and cannot do with one, its expiry and its revocation.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, pluck, quick, receiver, text},
    harness::wait_until,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Creates a link, and returns it with the app used with its token.
async fn linked(server: &TestServer, app: &TestApp, more: Value) -> (Value, TestApp) {
    let made = app.post("/portal-links", &more).await.is(201);
    let customer = TestApp { id: app.id.clone(), api: server.with_key(text(&made["token"])) };
    (made, customer)
}

#[tokio::test]
async fn a_link_leads_to_the_portal_with_its_token_in_the_fragment_and_is_shown_once() {
    let server = TestServer::start_with(&[("PUBLIC_URL", "https://hooks.example.com/")]).await;
    let app = server.app().await;
    let theme =
        json!({ "name": "Bakery", "logo_url": "https://CDN.bakery.example/logo.svg", "accent": "#1A73E8" });
    let (made, customer) = linked(&server, &app, json!({ "expires_in": "2h", "theme": theme })).await;
    let (id, token) = (text(&made["id"]), text(&made["token"]));
    assert_eq!(made["url"], format!("https://hooks.example.com/portal/{id}#key={token}"));
    let shown =
        json!({ "name": "Bakery", "logo_url": "https://cdn.bakery.example/logo.svg", "accent": "#1a73e8" });
    assert_eq!((&made["theme"], &made["read_only"]), (&shown, &json!(false)));
    let session = customer.api.get("/v1/session").await.is(200);
    assert_eq!(session["app"], json!({ "id": app.id, "name": "An app", "livemode": true }));
    assert_eq!((&session["scope"], &session["theme"]), (&json!("portal"), &shown));
    assert_eq!(session["expires_at"], made["expires_at"]);
    let (plain, _) = linked(&server, &app, json!({})).await;
    let listed = app.all("/portal-links").await;
    assert_eq!(pluck(&listed, "id"), [made["id"].clone(), plain["id"].clone()]);
    assert!(listed.iter().all(|link| link.get("token").is_none() && link.get("url").is_none()), "{listed:?}");
    assert!(!server.node.log().contains(&token[10..]), "it is in no log");
    let keys = server.admin.get("/v1/keys?revoked=true&limit=250").await.is(200);
    assert!(!keys.to_string().contains(&id), "it is no key: {keys}");
    server.admin.get(&format!("/v1/keys/{id}")).await.refused(404, "not_found");
    server.admin.delete(&format!("/v1/keys/{id}")).await.refused(404, "not_found");
}

#[tokio::test]
async fn what_a_link_may_not_be_is_refused_by_its_field() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for (bad, field) in [
        (json!({ "expires_in": "59s" }), "expires_in"),
        (json!({ "expires_in": "8d" }), "expires_in"),
        (json!({ "expires_in": 3600 }), "expires_in"),
        (json!({ "read_only": "yes" }), "read_only"),
        (json!({ "theme": { "accent": "red" } }), "theme.accent"),
        (json!({ "theme": { "logo_url": "http://cdn.example.com/l.svg" } }), "theme.logo_url"),
        (json!({ "theme": { "logo_url": "javascript:alert(1)" } }), "theme.logo_url"),
        (json!({ "theme": { "name": "" } }), "theme.name"),
        (json!({ "theme": { "name": 5 } }), "theme.name"),
        (json!({ "theme": "dark" }), "theme"),
    ] {
        assert_eq!(app.post("/portal-links", &bad).await.invalid_field(), field, "{bad}");
    }
    let unknown = app.post("/portal-links", &json!({ "theme": { "colour": "#123456" } })).await;
    assert_eq!(unknown.refused(422, "unknown_field").field.as_deref(), Some("theme.colour"));
    assert_eq!(app.all("/portal-links").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_customer_looks_after_endpoints_and_deliveries_and_leaves_a_trace() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let (made, customer) = linked(&server, &app, json!({ "theme": { "name": "Bakery" } })).await;
    let endpoint = json!({
        "id": "shop", "url": receiver.url(HOOK), "event_types": ["order.*"], "overrides": { "timeout": "2s" },
        "headers": { "X-Shop": "17" },
    });
    let endpoint = customer.post("/endpoints", &endpoint).await.is(201);
    assert!(endpoint["secret"].is_string());
    let entry = app.get("/audit").await.is(200)["data"][0].clone();
    assert_eq!(
        (&entry["action"], &entry["scope"], &entry["key_id"], &entry["key_name"]),
        (&json!("endpoint.created"), &json!("portal"), &made["id"], &json!("Bakery"))
    );
    app.patch("/endpoints/shop", &json!({ "overrides": quick(), "metadata": { "tier": "internal" } }))
        .await
        .is(200);
    let changed =
        customer.patch("/endpoints/shop", &json!({ "overrides": { "timeout": "3s" } })).await.is(200);
    let mut kept = quick();
    kept["timeout"] = json!("3s");
    assert_eq!((&changed["overrides"], &changed["metadata"]), (&kept, &Value::Null));
    let id = text(&app.publish("order.paid").await["deliveries"][0]["id"]);
    customer.until_is(&id, "dead").await;
    assert_eq!(customer.all("/dead-letters").await.len(), 1);
    customer.act(&format!("/deliveries/{id}/retry")).await.is(202);
    customer.until_is(&id, "dead").await;
    customer.act(&format!("/dead-letters/{id}/replay")).await.is(202);
    customer.until_is(&id, "dead").await;
    customer.act("/endpoints/shop/test").await.is(202);
    customer.get("/endpoints/shop/secret").await.is(200);
    customer.act("/endpoints/shop/secret/rotate").await.is(200);
    let replay = customer.post("/replays", &json!({ "endpoint_id": "shop", "dry_run": true })).await;
    assert!(replay.status == 200, "{}", replay.text());
    assert_eq!(customer.act("/endpoints/shop/disable").await.is(200)["status"], "disabled");
    customer.delete("/endpoints/shop").await.is(204);
}

#[tokio::test]
async fn a_customer_sets_nothing_that_is_the_app_s_or_the_operator_s() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let (_, customer) = linked(&server, &app, json!({})).await;
    let url = "http://127.0.0.1:9/";
    app.endpoint(url, json!({ "id": "e", "metadata": { "note": "ours" } })).await;
    for (field, value) in [
        ("contract", json!("zerofee")),
        ("max_in_flight", json!(1000)),
        ("rate_limit", json!({ "per_second": 1000 })),
        ("ordered", json!("endpoint")),
        ("on_dead", json!("skip")),
        ("metadata", json!({ "a": 1 })),
        ("tls", json!({ "ca": "x" })),
        ("overrides.retry.waits", json!({ "retry": { "waits": ["1s"] } })),
        ("overrides.https_only", json!({ "https_only": false })),
    ] {
        let name = field.split('.').next().unwrap();
        let create = customer.post("/endpoints", &json!({ "url": url, name: value })).await;
        assert_eq!(create.refused(403, "forbidden").field.as_deref(), Some(field));
        let change = customer.patch("/endpoints/e", &json!({ name: value })).await;
        assert_eq!(change.refused(403, "forbidden").field.as_deref(), Some(field));
    }
    customer.post("/events", &json!({ "type": "x", "data": 1 })).await.refused(403, "forbidden");
    customer.post("/portal-links", &json!({})).await.refused(403, "forbidden");
    assert_eq!(app.all("/endpoints").await[0]["metadata"], json!({ "note": "ours" }));
    assert!(!customer.get("/endpoints").await.text().contains("ours"));
    for closed in ["/v1/contracts/standard", "/v1/contracts"] {
        customer.api.get(closed).await.refused(403, "forbidden");
    }
    let event_type =
        json!({ "name": "x", "sample": 1, "versions": [{ "name": "v1", "function": "data => data + 1" }] });
    server.admin.post("/v1/event-types", &event_type).await.is(201);
    let types = customer.api.get("/v1/event-types").await.is(200);
    assert_eq!(types["data"][0]["versions"][0]["function"], Value::Null, "{types}");
}

#[tokio::test]
async fn every_operation_that_is_not_opened_to_customers_is_closed_to_them() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "e" })).await;
    let (_, customer) = linked(&server, &app, json!({})).await;
    let (_, reader) = linked(&server, &app, json!({ "read_only": true })).await;
    let (mut open, mut looks) = (0, 0);
    for (method, path) in crate::scopes::operations(&server, &app) {
        if path.ends_with("/stream") {
            continue;
        }
        for (who, name) in [(&customer, "portal"), (&reader, "portal_read")] {
            let answer = who.api.send(&method, &path, &[], Some(b"{\"url\": 5, \"from\": 5}")).await;
            let is_closed = answer.status == 403;
            if is_closed {
                let refused = answer.refused(403, "forbidden");
                assert!(
                    refused.detail.contains(&format!("\"{name}\"")),
                    "{method} {path}: {}",
                    refused.detail
                );
            } else if name == "portal" {
                open += 1;
            } else {
                assert_eq!(method, "GET", "{path}");
                assert!(!path.ends_with("/secret") && !answer.text().contains("whsec_"), "{path}");
                looks += 1;
            }
        }
    }
    assert_eq!((open, looks), (41, 21), "say in api/scope.rs what a customer needs");
}

#[tokio::test]
async fn a_link_ends_at_once_when_it_is_revoked_and_by_itself_when_it_expires() {
    let mut server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let stranger = server.by_its_key(&other).await;
    let (made, customer) = linked(&server, &app, json!({})).await;
    let (kept, still) = linked(&server, &app, json!({ "read_only": true })).await;
    let path = format!("/portal-links/{}", text(&made["id"]));
    stranger.api.delete(&app.path(&path)).await.refused(404, "not_found");
    stranger.delete(&path).await.refused(404, "not_found");
    customer.delete(&path).await.refused(403, "forbidden");
    customer.get("/endpoints").await.is(200);
    let owner = server.by_its_key(&app).await;
    owner.delete(&path).await.is(204);
    customer.get("/endpoints").await.refused(401, "unauthorized");
    owner.delete(&path).await.refused(404, "not_found");
    assert_eq!(pluck(&app.all("/portal-links").await, "id"), [kept["id"].clone()]);
    assert_eq!(server.node.stop().await, Some(0));
    let node = server.home.start().await;
    let again = |token: &Value| node.client.with_key(&text(token));
    assert_eq!(again(&made["token"]).get("/v1/session").await.status, 401);
    let session = again(&kept["token"]).get("/v1/session").await.expect(200);
    assert_eq!((&session["scope"], &session["read_only"]), (&json!("portal_read"), &json!(true)));
    drop(still);
}

#[tokio::test]
#[ignore = "soak: the shortest link works for a minute"]
async fn an_expired_link_is_reported_as_expired() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let (made, customer) = linked(&server, &app, json!({ "expires_in": "1m" })).await;
    let limit = Duration::from_mins(1) + WAIT_MAX;
    wait_until("it expires", limit, async || customer.get("/endpoints").await.status == 401).await;
    let refused = customer.get("/endpoints").await.refused(401, "unauthorized");
    assert_eq!(refused.detail, format!("This key expired at {}.", text(&made["expires_at"])));
}

#[tokio::test]
async fn a_customer_sees_the_contract_as_it_holds_for_an_endpoint() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let overrides = json!({ "timeout": "7s" });
    server
        .admin
        .patch(&app.path(""), &json!({ "contract": "zerofee", "overrides": overrides }))
        .await
        .is(200);
    app.post("/endpoints", &json!({ "id": "e", "url": "http://127.0.0.1:9/" })).await.is(201);
    let (_, customer) = linked(&server, &app, json!({})).await;
    let reader = server.admin.post("/v1/keys", &json!({ "scope": "read", "app_id": app.id })).await.is(201);
    let reader = TestApp { id: app.id.clone(), api: server.with_key(text(&reader["key"])) };
    for who in [&customer, &reader, &app] {
        let holds = who.get("/endpoints/e/contract").await.is(200);
        assert_eq!((&holds["name"], &holds["document"]["timeout"]), (&json!("zerofee"), &json!("7s")));
    }
    customer.get("/endpoints/nobody/contract").await.refused(404, "not_found");
}

#[tokio::test]
async fn stored_headers_do_not_follow_a_customer_to_another_address() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let (url, other) = ("http://127.0.0.1:9/", json!({ "url": "http://127.0.0.1:9/mine" }));
    app.endpoint(url, json!({ "id": "e", "headers": { "authorization": "Bearer ours" } })).await;
    let (_, customer) = linked(&server, &app, json!({})).await;
    assert_eq!(customer.patch("/endpoints/e", &other).await.invalid_field(), "headers");
    customer.patch("/endpoints/e", &json!({ "url": url, "description": "the same place" })).await.is(200);
    let without = json!({ "url": other["url"], "headers": null });
    assert_eq!(customer.patch("/endpoints/e", &without).await.is(200)["headers"], json!({}));
    app.patch("/endpoints/e", &json!({ "headers": { "authorization": "Bearer ours" } })).await.is(200);
    app.patch("/endpoints/e", &json!({ "url": url })).await.is(200);
}

#[tokio::test]
async fn a_customer_does_not_see_who_disabled_an_endpoint() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "e" })).await;
    let (_, customer) = linked(&server, &app, json!({})).await;
    let by_app = server.by_its_key(&app).await;
    let shown = by_app.act("/endpoints/e/disable").await.is(200);
    assert!(text(&shown["disabled_by"]).starts_with("key_"), "{shown}");
    assert_eq!(customer.get("/endpoints/e").await.is(200)["disabled_by"], Value::Null);
}

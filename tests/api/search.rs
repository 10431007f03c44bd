//! Search by any id, within the rights of the key; and the latest attempts at an endpoint.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, text},
    harness::wait_until,
};
use serde_json::{Value, json};

/// Returns the kind and app that an id is found as.
async fn found(app: &TestApp, id: &str) -> Vec<(String, Option<String>)> {
    let finds = app.api.get(&format!("/v1/find/{id}")).await.is(200);
    let one = |found: &Value| (text(&found["kind"]), found["app_id"].as_str().map(str::to_owned));
    finds["data"].as_array().unwrap().iter().map(one).collect()
}

#[tokio::test]
async fn any_id_is_found_only_by_keys_that_may_read_it() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let (app, other) = (server.app().await, server.app().await);
    let endpoint = app.endpoint(&receiver.url(HOOK), json!({})).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "shop", "event_types": ["none"] })).await;
    let event = json!({ "id": "order-1", "type": "x", "data": 1 });
    let published = app.post("/events", &event).await.is(202);
    let delivery = text(&published["deliveries"][0]["id"]);
    let dead = app.until_is(&delivery, "dead").await;
    let attempt = text(&dead["attempts"][0]["id"]);
    let replay = app.post("/replays", &json!({ "endpoint_id": endpoint })).await.is(201);
    let inspection = app.act("/endpoints/shop/inspect").await.is(202);
    wait_until("a notice", WAIT_MAX, async || !app.all("/notices").await.is_empty()).await;
    let notice = text(&app.all("/notices").await[0]["id"]);
    let key = server.admin.post("/v1/keys", &json!({ "scope": "app", "app_id": app.id })).await.is(201);
    let link = app.post("/portal-links", &json!({})).await.is(201);
    let entry = app.get("/audit").await.is(200)["data"][0]["id"].clone();
    let here = |kind: &str| vec![(kind.to_owned(), Some(app.id.clone()))];
    let in_apps = [
        ("endpoint", endpoint),
        ("endpoint", "shop".into()),
        ("event", "order-1".into()),
        ("delivery", delivery.clone()),
        ("delivery", attempt),
        ("replay", text(&replay["id"])),
        ("inspection", text(&inspection["id"])),
        ("notice", notice),
    ];
    let customer = TestApp { id: app.id.clone(), api: server.with_key(text(&link["token"])) };
    let own = server.by_its_key(&app).await;
    let stranger = server.by_its_key(&other).await;
    for (kind, id) in &in_apps {
        for who in [&app, &own, &customer] {
            assert_eq!(found(who, id).await, here(kind), "{id}");
        }
        assert_eq!(found(&stranger, id).await, [], "{id}");
    }
    let found_inspection = own.api.get(&format!("/v1/find/{}", text(&inspection["id"]))).await.is(200);
    assert_eq!(found_inspection["data"][0]["endpoint_id"], "shop");
    let plain = app.post("/events", &json!({ "type": "none-too", "data": 1 })).await.is(202);
    assert_eq!(found(&app, &text(&plain["id"])).await, here("event"), "by our own id");
    for (kind, id) in [("app", &app.id), ("audit_entry", &text(&entry))] {
        assert_eq!(found(&own, id).await, here(kind));
        assert_eq!((found(&customer, id).await, found(&stranger, id).await), (vec![], vec![]), "{kind}");
    }
    for (kind, id) in [("key", &key["id"]), ("portal_link", &link["id"])] {
        assert_eq!(found(&app, &text(id)).await, here(kind));
        assert_eq!((found(&customer, &text(id)).await, found(&own, &text(id)).await), (vec![], vec![]));
    }
    assert_eq!(found(&own, "standard").await, [("contract".to_owned(), None)]);
    assert_eq!(found(&app, "dlv_0000000000001").await, []);
    let publisher =
        server.admin.post("/v1/keys", &json!({ "scope": "publish", "app_id": app.id })).await.is(201);
    let publisher = server.with_key(text(&publisher["key"]));
    publisher.get(&format!("/v1/find/{delivery}")).await.refused(403, "forbidden");
}

#[tokio::test]
async fn one_id_may_be_several_things_and_all_of_them_are_named() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    for one in [&app, &other] {
        one.endpoint("http://127.0.0.1:9/", json!({ "id": "same", "event_types": ["none"] })).await;
        one.post("/events", &json!({ "id": "same", "type": "x", "data": 1 })).await.is(202);
    }
    let all = found(&app, "same").await;
    for kind in ["endpoint", "event"] {
        for one in [&app, &other] {
            assert!(all.contains(&(kind.to_owned(), Some(one.id.clone()))), "{all:?}");
        }
    }
    assert_eq!(all.len(), 4);
}

#[tokio::test]
async fn the_latest_attempts_at_an_endpoint_are_its_own_newest_first() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "shop" })).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "other" })).await;
    let published = app.publish("x").await;
    for delivery in published["deliveries"].as_array().unwrap() {
        app.until_is(&text(&delivery["id"]), "dead").await;
    }
    let attempts = app.all("/endpoints/shop/attempts").await;
    let of_delivery = published["deliveries"].as_array().unwrap();
    let own = of_delivery.iter().find(|one| one["endpoint_id"] == "shop").unwrap();
    assert!(attempts.len() > 1);
    assert!(attempts.iter().all(|attempt| attempt["delivery_id"] == own["id"]), "{attempts:?}");
    let numbers: Vec<u64> = attempts.iter().map(|attempt| attempt["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a > b), "{numbers:?}");
    assert_eq!(attempts[0]["status_code"], 500);
    app.get("/endpoints/nobody/attempts").await.refused(404, "not_found");
}

//! `/v1/apps`: creating, reading, changing and deleting apps.

use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, pluck, receiver, text},
    harness::{Behaviour, wait_until, wait_until_after},
};
use serde_json::{Value, json};

#[tokio::test]
async fn an_app_keeps_the_id_it_was_given_and_gets_one_of_ours_otherwise() {
    let server = TestServer::start().await;
    let longest = "x".repeat(128);
    for id in ["merchant:17.a~b-C_9", "0", longest.as_str()] {
        let app = server.admin.post("/v1/apps", &json!({ "id": id, "name": "A" })).await.is(201);
        assert_eq!(app["id"], id);
        assert_eq!(server.admin.get(&format!("/v1/apps/{id}")).await.is(200), app);
    }
    let ours = server.admin.post("/v1/apps", &json!({ "name": "A" })).await.is(201);
    assert!(text(&ours["id"]).starts_with("app_"), "{ours}");
    let again = server.admin.post("/v1/apps", &json!({ "name": "A" })).await.is(201);
    assert_ne!(ours["id"], again["id"]);
}

#[tokio::test]
async fn a_taken_app_id_is_refused_and_the_first_app_stays_as_it_was() {
    let server = TestServer::start().await;
    let first = server.admin.post("/v1/apps", &json!({ "id": "a", "name": "First" })).await.is(201);
    let refused = server.admin.post("/v1/apps", &json!({ "id": "a", "name": "Second" })).await;
    assert_eq!(refused.refused(409, "id_taken").field.as_deref(), Some("id"));
    assert_eq!(server.admin.get("/v1/apps/a").await.is(200), first);
}

#[tokio::test]
async fn every_field_of_an_app_is_shown_as_it_was_given() {
    let server = TestServer::start().await;
    let given = json!({
        "id": "a", "name": "Corner Bäckerei", "contract": "standard", "livemode": false, "id_prefix": "msg",
        "contact_email": "ops@bakery.example", "metadata": { "plan": "gold", "n": [1, { "x": null }] },
    });
    let app = server.admin.post("/v1/apps", &given).await.is(201);
    for (name, value) in given.as_object().unwrap() {
        assert_eq!(&app[name], value, "{name}");
    }
    assert_eq!(app["created_at"], app["updated_at"]);
    let bare = server.admin.post("/v1/apps", &json!({ "name": "B" })).await.is(201);
    assert_eq!((&bare["livemode"], &bare["contract"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn a_patch_takes_away_what_is_null_and_leaves_what_is_absent() {
    let server = TestServer::start().await;
    let given = json!({ "id": "a", "name": "A", "contract": "standard", "contact_email": "a@b.example",
        "metadata": { "x": 1 }, "livemode": false });
    let before = server.admin.post("/v1/apps", &given).await.is(201);
    assert_eq!(server.admin.patch("/v1/apps/a", &json!({})).await.is(200)["name"], "A");

    wait_until_after(&text(&before["updated_at"])).await;
    let patch = json!({ "name": "B", "contact_email": null, "contract": null });
    let after = server.admin.patch("/v1/apps/a", &patch).await.is(200);
    assert_eq!(
        (&after["name"], &after["contact_email"], &after["contract"]),
        (&json!("B"), &Value::Null, &Value::Null)
    );
    assert_eq!((&after["metadata"], &after["livemode"]), (&json!({ "x": 1 }), &json!(false)), "absent stays");
    assert!(text(&after["updated_at"]) > text(&before["updated_at"]));
    assert_eq!(after["created_at"], before["created_at"]);

    let cleared =
        server.admin.patch("/v1/apps/a", &json!({ "metadata": null, "livemode": true })).await.is(200);
    assert_eq!((&cleared["metadata"], &cleared["livemode"]), (&Value::Null, &json!(true)));
    assert_eq!(server.admin.get("/v1/apps/a").await.is(200), cleared);
    for name in ["name", "livemode"] {
        let refused = server.admin.patch("/v1/apps/a", &json!({ name: null })).await;
        assert_eq!(refused.invalid_field(), name, "there is nothing to take away");
    }
}

#[tokio::test]
async fn an_app_outside_its_limits_is_refused_by_the_field() {
    let server = TestServer::start().await;
    let metadata = |bytes: usize| json!({ "m": "x".repeat(bytes - r#"{"m":""}"#.len()) });
    let cases = [
        ("id", json!(""), false),
        ("id", json!("a b"), false),
        ("id", json!("a/b"), false),
        ("id", json!("ü"), false),
        ("id", json!("x".repeat(129)), false),
        ("id", json!(7), false),
        ("name", json!("x".repeat(200)), true),
        ("name", json!("x".repeat(201)), false),
        ("name", json!(""), false),
        ("name", json!("a\nb"), false),
        ("name", json!(null), false),
        ("name", json!(1), false),
        ("contract", json!("standart"), false),
        ("livemode", json!("yes"), false),
        ("id_prefix", json!("msg2"), true),
        ("id_prefix", json!("Msg"), false),
        ("id_prefix", json!("m_"), false),
        ("id_prefix", json!("abcdefghijklmnopq"), false),
        ("contact_email", json!("nobody"), false),
        ("contact_email", json!("a@b.c\r\nBcc: x@y.z"), false),
        ("metadata", metadata(8 * 1024), true),
        ("metadata", metadata(8 * 1024 + 1), false),
        ("metadata", json!([]), false),
    ];
    for (name, value, is_fine) in cases {
        let mut app = json!({ "name": "A" });
        app[name] = value.clone();
        let answer = server.admin.post("/v1/apps", &app).await;
        if is_fine {
            answer.is(201);
        } else {
            assert_eq!(answer.invalid_field(), name, "{value}");
        }
    }
    let hint = server.admin.post("/v1/apps", &json!({ "name": "A", "contract": "standart" })).await;
    assert!(hint.problem().detail.contains("`standard`"), "{hint:?}");
    assert_eq!(server.admin.post("/v1/apps", &json!({})).await.invalid_field(), "name");
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_nearest_name() {
    let server = TestServer::start().await;
    let refused = server.admin.post("/v1/apps", &json!({ "nmae": "A" })).await.refused(422, "unknown_field");
    assert_eq!(refused.field.as_deref(), Some("nmae"));
    assert!(refused.detail.contains("did you mean `name`?"), "{}", refused.detail);
    let app = server.app().await;
    let fixed = app.patch("", &json!({ "id_prefix": "msg" })).await.refused(422, "unknown_field");
    assert_eq!(fixed.field.as_deref(), Some("id_prefix"), "a prefix cannot be changed later");
    assert_eq!(
        app.patch("", &json!({ "id": "b" })).await.refused(422, "unknown_field").field.as_deref(),
        Some("id")
    );
}

#[tokio::test]
async fn events_carry_the_prefix_of_their_app() {
    let server = TestServer::start().await;
    let app = json!({ "id": "a", "name": "A", "id_prefix": "msg" });
    server.admin.post("/v1/apps", &app).await.is(201);
    let published = server.admin.post("/v1/apps/a/events", &json!({ "type": "x", "data": 1 })).await.is(202);
    let id = text(&published["id"]);
    assert!(id.starts_with("msg_"), "{id}");
    assert_eq!(server.admin.get(&format!("/v1/apps/a/events/{id}")).await.is(200)["id"], published["id"]);
}

#[tokio::test]
async fn a_deleted_app_is_gone_with_everything_in_it() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let (app, other) = (server.app().await, server.app().await);
    let own = server.by_its_key(&app).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e" })).await;
    let event = json!({ "id": "once", "type": "x", "data": "payload-to-be-forgotten" });
    let delivery = text(&app.post("/events", &event).await.is(202)["deliveries"][0]["id"]);
    app.until_is(&delivery, "delivered").await;
    other.post("/events", &event).await.is(202);

    app.delete("").await.is(204);
    for path in [
        "",
        "/endpoints",
        "/endpoints/e",
        "/endpoints/e/secret",
        "/events",
        "/events/once",
        "/deliveries",
        &format!("/deliveries/{delivery}"),
        "/dead-letters",
    ] {
        app.get(path).await.refused(404, "not_found");
    }
    app.delete("").await.refused(404, "not_found");
    app.post("/events", &event).await.refused(404, "not_found");
    own.get("").await.refused(401, "unauthorized");
    let known = server.admin.get("/v1/keys").await.is(200);
    assert!(!pluck(known["data"].as_array().unwrap(), "app_id").contains(&json!(app.id)), "{known}");

    server.admin.post("/v1/apps", &json!({ "id": app.id, "name": "Anew" })).await.is(201);
    assert_eq!(app.get("/events").await.is(200)["data"], json!([]), "a new app of the same name is empty");
    assert_eq!(app.get("/deliveries").await.is(200)["data"], json!([]));
    app.post("/events", &event).await.is(202);
    assert_eq!(
        other.get("/events/once").await.is(200)["data"],
        "payload-to-be-forgotten",
        "others keep theirs"
    );
}

#[tokio::test]
async fn the_rows_of_a_deleted_app_leave_the_store() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let (app, other) = (server.app().await, server.app().await);
    for one in [&app, &other] {
        one.endpoint(&receiver.url(HOOK), json!({})).await;
        let delivery = one.deliver().await;
        one.until_is(&delivery, "dead").await;
    }
    let store = rusqlite::Connection::open(server.home.store()).unwrap();
    let count = |table: &str| -> i64 {
        store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let all = || ["apps", "endpoints", "secrets", "events", "deliveries", "attempts"].map(count);
    assert_eq!(all(), [2, 2, 2, 2, 2, 6]);
    app.delete("").await.is(204);
    wait_until("its rows are gone", WAIT_MAX, async || all() == [1, 1, 1, 1, 1, 3]).await;
    assert_eq!(other.all("/deliveries").await.len(), 1);
}

#[tokio::test]
async fn an_app_deleted_while_its_deliveries_are_in_flight_leaves_nothing_behind() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave(HOOK, Behaviour::Hang);
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "overrides": { "timeout": "700ms" } })).await;
    let id = app.deliver().await;
    app.until_is(&id, "in_flight").await;
    app.delete("").await.is(204);
    let store = rusqlite::Connection::open(server.home.store()).unwrap();
    let count = |table: &str| -> i64 {
        store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let limit = 2 * WAIT_MAX;
    wait_until("its request is over", limit, async || receiver.open_at(HOOK) == 0).await;
    let tables = ["apps", "endpoints", "events", "deliveries", "attempts", "app_deletions"];
    wait_until("nothing is left", limit, async || tables.map(count) == [0; 6]).await;
    server.app().await.publish("x").await;
}

#[tokio::test]
async fn of_eight_at_once_one_gets_the_id() {
    let server = TestServer::start().await;
    let mut making = tokio::task::JoinSet::new();
    for n in 0..8 {
        let admin = server.admin.clone();
        making.spawn(async move {
            admin.post("/v1/apps", &json!({ "id": "a", "name": format!("app {n}") })).await
        });
    }
    let mut made = Vec::new();
    while let Some(answer) = making.join_next().await {
        let answer = answer.unwrap();
        match answer.status {
            201 => made.push(answer.json()),
            _ => drop(answer.refused(409, "id_taken")),
        }
    }
    assert_eq!(made.len(), 1);
    assert_eq!(server.admin.get("/v1/apps/a").await.is(200), made[0]);
}

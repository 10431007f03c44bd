//! `/v1/apps/{app}/endpoints`: creating, reading, changing and deleting endpoints.

use crate::{
    fixture::{HOOK, TestServer, receiver, slow, text},
    harness::{Behaviour, from_now},
};
use serde_json::{Value, json};
use std::time::Duration;

const URL: &str = "http://127.0.0.1:9/hook";

#[tokio::test]
async fn an_endpoint_keeps_the_id_it_was_given_and_gets_one_of_ours_otherwise() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    for id in ["eu.hooks:1~a-B_2", &"x".repeat(128)] {
        let made = app.post("/endpoints", &json!({ "id": id, "url": URL })).await.is(201);
        assert_eq!(made["id"], id);
        other.post("/endpoints", &json!({ "id": id, "url": URL })).await.is(201);
        let taken = app.post("/endpoints", &json!({ "id": id, "url": URL })).await;
        assert_eq!(taken.refused(409, "id_taken").field.as_deref(), Some("id"));
    }
    let ours = app.post("/endpoints", &json!({ "url": URL })).await.is(201);
    assert!(text(&ours["id"]).starts_with("ep_"), "{ours}");
}

#[tokio::test]
async fn a_new_endpoint_shows_what_was_given_and_its_secret_this_once() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let given = json!({
        "id": "e", "url": URL, "event_types": ["payment.*", "refund.created"], "contract": "standard",
        "overrides": { "timeout": "5s", "retry": { "waits": ["1s"] } }, "max_in_flight": 3,
        "description": "Accounting – süd", "metadata": { "team": 7 },
    });
    let mut made = app.post("/endpoints", &given).await.is(201);
    for (name, value) in given.as_object().unwrap() {
        assert_eq!(&made[name], value, "{name}");
    }
    assert_eq!(
        (&made["status"], &made["disabled_reason"], &made["disabled_at"]),
        (&json!("active"), &Value::Null, &Value::Null)
    );
    assert!(text(&made["secret"]).starts_with("whsec_"));
    made.as_object_mut().unwrap().remove("secret");
    assert_eq!(app.get("/endpoints/e").await.is(200), made);
    assert_eq!(app.get("/endpoints").await.is(200)["data"], json!([made]));

    let bare = app.post("/endpoints", &json!({ "url": "HTTP://127.0.0.1:9" })).await.is(201);
    assert_eq!((&bare["event_types"], &bare["url"]), (&json!(["*"]), &json!("http://127.0.0.1:9/")));
}

#[tokio::test]
async fn a_patch_of_an_endpoint_tells_null_from_absent() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let given = json!({ "id": "e", "url": URL, "event_types": ["a"], "overrides": { "timeout": "5s" },
        "max_in_flight": 3, "description": "D", "metadata": { "x": 1 }, "headers": { "x-team": "7" }, "contract": "standard" });
    app.post("/endpoints", &given).await.is(201);
    let before = app.get("/endpoints/e").await.is(200);

    let moved = app.patch("/endpoints/e", &json!({ "url": "http://127.0.0.1:9/moved" })).await.is(200);
    let mut expected = before.clone();
    expected["url"] = json!("http://127.0.0.1:9/moved");
    expected["updated_at"] = moved["updated_at"].clone();
    assert_eq!(moved, expected, "what is absent stays");

    let nothing = json!({ "event_types": null, "overrides": null, "max_in_flight": null, "description": null,
        "metadata": null, "headers": null, "contract": null });
    let cleared = app.patch("/endpoints/e", &nothing).await.is(200);
    for name in ["overrides", "max_in_flight", "description", "metadata", "contract"] {
        assert_eq!(cleared[name], Value::Null, "{name}");
    }
    assert_eq!((&cleared["event_types"], &cleared["headers"]), (&json!(["*"]), &json!({})));
    assert_eq!(app.get("/endpoints/e").await.is(200), cleared);
    assert_eq!(app.patch("/endpoints/e", &json!({ "url": null })).await.invalid_field(), "url");
    app.patch("/endpoints/nobody", &json!({ "url": URL })).await.refused(404, "not_found");
}

#[tokio::test]
async fn an_endpoint_outside_its_limits_is_refused_by_the_field() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let types = |count: usize| json!(vec!["payment.created"; count]);
    let path = |length: usize| json!(format!("http://127.0.0.1:9/{}", "p".repeat(length - 19)));
    let cases = [
        ("id", json!("a b"), "id"),
        ("id", json!(""), "id"),
        ("id", json!("x".repeat(129)), "id"),
        ("url", json!(""), "url"),
        ("url", json!("ftp://127.0.0.1/"), "url"),
        ("url", json!("127.0.0.1:9"), "url"),
        ("url", json!("http://user:pass@127.0.0.1/"), "url"),
        ("url", json!("http://127.0.0.1/#x"), "url"),
        ("url", json!("http://127.0.0.1:0/"), "url"),
        ("url", json!("http://127.0.0.1\\@x/"), "url"),
        ("url", path(2048), ""),
        ("url", path(2049), "url"),
        ("url", json!("http://localhost/"), "url"),
        ("event_types", json!([]), "event_types"),
        ("event_types", types(500), ""),
        ("event_types", types(501), "event_types"),
        ("event_types", json!("a"), "event_types"),
        ("event_types", json!(["ok", "pay*"]), "event_types[1]"),
        ("event_types", json!(["*.x"]), "event_types[0]"),
        ("contract", json!("none"), "contract"),
        ("max_in_flight", json!(0), "max_in_flight"),
        ("max_in_flight", json!(1), ""),
        ("max_in_flight", json!(1024), ""),
        ("max_in_flight", json!(1025), "max_in_flight"),
        ("max_in_flight", json!(-1), "max_in_flight"),
        ("max_in_flight", json!(1.5), "max_in_flight"),
        ("description", json!("x".repeat(1000)), ""),
        ("description", json!("x".repeat(1001)), "description"),
        ("metadata", json!({ "m": "x".repeat(8 * 1024) }), "metadata"),
        ("metadata", json!("m"), "metadata"),
        ("overrides", json!([]), "overrides"),
        ("headers", json!(["x"]), "headers"),
        ("overrides", json!({ "timeout": "61s" }), "overrides.timeout"),
        ("overrides", json!({ "timeout": "9ms" }), "overrides.timeout"),
        ("overrides", json!({ "retry": { "waits": ["1s", "soon"] } }), "overrides.retry.waits[1]"),
        ("overrides", json!({ "retry": { "waits": vec!["1s"; 32] } }), ""),
        ("overrides", json!({ "retry": { "waits": vec!["1s"; 33] } }), "overrides.retry.waits"),
        ("overrides", json!({ "retry": { "jitter": "half" } }), "overrides.retry.jitter"),
        ("overrides", json!({ "name": "mine" }), "overrides.name"),
    ];
    for (name, value, field) in cases {
        let mut endpoint = json!({ "url": URL });
        endpoint[name] = value.clone();
        let answer = app.post("/endpoints", &endpoint).await;
        match field {
            "" => drop(answer.is(201)),
            field => assert_eq!(answer.invalid_field(), field, "{value}"),
        }
    }
    assert_eq!(app.post("/endpoints", &json!({})).await.invalid_field(), "url");
}

#[tokio::test]
async fn unknown_fields_of_endpoints_and_overrides_are_refused_with_the_nearest_name() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint(URL, json!({ "id": "e" })).await;
    let cases = [
        (json!({ "url": URL, "event_type": ["a"] }), "event_type", "`event_types`"),
        (
            json!({ "url": URL, "overrides": { "retry": { "wait": ["1s"] } } }),
            "overrides.retry.wait",
            "`waits`",
        ),
        (json!({ "url": URL, "overrides": { "time_out": "1s" } }), "overrides.time_out", "`timeout`"),
    ];
    for (body, field, near) in cases {
        for answer in [app.post("/endpoints", &body).await, app.patch("/endpoints/e", &body).await] {
            let refused = answer.refused(422, "unknown_field");
            assert_eq!(refused.field.as_deref(), Some(field));
            assert!(refused.detail.contains(near), "{}", refused.detail);
        }
    }
    for fixed in ["id", "secret"] {
        let refused = app.patch("/endpoints/e", &json!({ fixed: "x" })).await.refused(422, "unknown_field");
        assert_eq!(refused.field.as_deref(), Some(fixed), "not changed by a patch");
    }
}

#[tokio::test]
async fn waiting_deliveries_follow_an_endpoint_to_its_new_url_and_schedule() {
    let server = TestServer::start().await;
    let (old, new) = (receiver(500).await, receiver(200).await);
    let app = server.app().await;
    let overrides = json!({ "retry": { "waits": ["1s"], "jitter": "none" }, "timeout": "1s" });
    let id = app.endpoint(&old.url(HOOK), json!({ "overrides": overrides })).await;
    let delivery = app.deliver().await;
    app.until_is(&delivery, "retrying").await;
    app.patch(&format!("/endpoints/{id}"), &json!({ "url": new.url(HOOK) })).await.is(200);
    let delivered = app.until_is(&delivery, "delivered").await;
    assert_eq!(delivered["attempt_count"], 2);
    assert_eq!((old.count_at(HOOK), new.count_at(HOOK)), (1, 1));
}

#[tokio::test]
async fn deleting_an_endpoint_cancels_what_waits_and_keeps_its_history() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e", "overrides": slow() })).await;
    let done = app.deliver().await;
    app.until_is(&done, "delivered").await;
    receiver.behave(HOOK, Behaviour::Status(500));
    let retrying = app.deliver().await;
    app.until_is(&retrying, "retrying").await;
    let event = json!({ "type": "x", "data": 1, "deliver_at": from_now(Duration::from_hours(1)) });
    let pending = text(&app.post("/events", &event).await.is(202)["deliveries"][0]["id"]);

    app.delete("/endpoints/e").await.is(204);
    for path in ["/endpoints/e", "/endpoints/e/secret"] {
        app.get(path).await.refused(404, "not_found");
    }
    app.delete("/endpoints/e").await.refused(404, "not_found");
    assert_eq!(app.get("/endpoints").await.is(200)["data"], json!([]));
    for waiting in [&retrying, &pending] {
        let cancelled = app.until_is(waiting, "cancelled").await;
        assert_eq!(
            (&cancelled["reason"], &cancelled["endpoint_id"]),
            (&json!("endpoint_deleted"), &json!("e"))
        );
        assert_eq!(cancelled["next_attempt_at"], Value::Null);
        for action in ["retry", "replay"] {
            app.act(&format!("/deliveries/{waiting}/{action}")).await.refused(409, "wrong_state");
        }
    }
    let kept = app.delivery(&done).await;
    assert_eq!((&kept["status"], &kept["endpoint_id"]), (&json!("delivered"), &json!("e")));
    assert_eq!(kept["attempts"].as_array().map(Vec::len), Some(1));
    app.act(&format!("/deliveries/{done}/replay")).await.refused(409, "wrong_state");
    assert_eq!(app.all("/deliveries").await.len(), 3);
    assert_eq!(app.publish("x").await["deliveries"], json!([]), "nobody wants it any more");
}

#[tokio::test]
async fn the_id_of_a_deleted_endpoint_stays_its_own_because_its_history_is_kept() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "e" })).await;
    let delivery = app.deliver().await;
    app.until_is(&delivery, "delivered").await;
    app.delete("/endpoints/e").await.is(204);
    app.post("/endpoints", &json!({ "id": "e", "url": URL })).await.refused(409, "id_taken");
    assert_eq!(app.all("/deliveries").await[0]["endpoint_id"], "e");
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_kept() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint(URL, json!({ "id": "e" })).await;
    let changes = [
        json!({ "description": "D" }),
        json!({ "metadata": { "m": 1 } }),
        json!({ "max_in_flight": 7 }),
        json!({ "event_types": ["a"] }),
        json!({ "url": "http://127.0.0.1:9/moved" }),
        json!({ "headers": { "x-a": "1" } }),
        json!({ "overrides": { "timeout": "7s" } }),
        json!({ "contract": "standard" }),
    ];
    let mut changing = tokio::task::JoinSet::new();
    for change in changes.clone() {
        let app = app.clone();
        changing.spawn(async move { app.patch("/endpoints/e", &change).await.is(200) });
    }
    let rotating = app.act("/endpoints/e/secret/rotate").await.is(200);
    while let Some(changed) = changing.join_next().await {
        changed.unwrap();
    }
    let endpoint = app.get("/endpoints/e").await.is(200);
    for (name, value) in
        changes.iter().flat_map(|change| change.as_object().unwrap()).filter(|(name, _)| *name != "headers")
    {
        assert_eq!(&endpoint[name], value, "{name} was lost");
    }
    assert!(endpoint["headers"].get("x-a").is_some());
    assert_eq!(app.get("/endpoints/e/secret").await.is(200)["secret"], rotating["secret"]);
}

//! Lists: complete cursors without repetition, combined filters, and refused parameters.

use crate::{
    fixture::{HOOK, TestApp, TestServer, pluck, receiver, slow, text},
    harness::{Behaviour, from_now},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// Reads a list in pages of three, with `between` done after each page.
async fn read_through(app: &TestApp, list: &str, between: impl AsyncFn()) -> Vec<String> {
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let sign = if list.contains('?') { '&' } else { '?' };
        let page = app.api.get(&format!("{list}{sign}limit=3{cursor}")).await.is(200);
        let rows = page["data"].as_array().unwrap();
        assert!(rows.len() <= 3);
        seen.extend(pluck(rows, "id").iter().map(text));
        let Some(next) = page["next_cursor"].as_str() else { return seen };
        cursor = format!("&cursor={next}");
        between().await;
    }
}

fn all_once(seen: &[String], known: &[String], list: &str) {
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "{list} repeats something");
    for id in known {
        assert!(distinct.contains(id), "{list} lost {id}");
    }
}

#[tokio::test]
async fn every_list_is_complete_and_without_repetition_while_rows_are_added() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    app.endpoint(
        &receiver.url(HOOK),
        json!({ "event_types": ["x"], "overrides": { "retry": { "waits": [] }, "pacing": "strict" } }),
    )
    .await;
    let add = async || {
        app.endpoint("http://127.0.0.1:9/", json!({ "event_types": ["never"] })).await;
        server.app().await;
        server.admin.post("/v1/keys", &json!({ "scope": "admin" })).await.is(201);
        let id = text(&app.publish("x").await["deliveries"][0]["id"]);
        app.until_is(&id, "dead").await;
    };
    for _ in 0..8 {
        add().await;
    }
    let lists = ["/events", "/deliveries", "/dead-letters", "/endpoints"].map(|rest| app.path(rest));
    for list in lists.iter().map(String::as_str).chain(["/v1/apps", "/v1/keys"]) {
        let known = read_through(&app, list, async || {}).await;
        assert!(known.len() >= 8, "{list}: {known:?}");
        all_once(&read_through(&app, list, &add).await, &known, list);
    }
}

#[tokio::test]
async fn lists_have_their_documented_order() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    for id in ["a", "b", "c"] {
        app.endpoint(&receiver.url(HOOK), json!({ "id": id, "event_types": [id] })).await;
    }
    assert_eq!(pluck(&app.all("/endpoints").await, "id"), ["a", "b", "c"], "in order of creation");
    for id in ["first", "second", "third"] {
        app.post("/events", &json!({ "id": id, "type": "a", "data": 1 })).await.is(202);
    }
    assert_eq!(pluck(&app.all("/events").await, "id"), ["third", "second", "first"], "the newest first");
    assert_eq!(pluck(&app.all("/deliveries").await, "event_id"), ["third", "second", "first"]);
    assert_eq!(pluck(&app.all("/deliveries?limit=2").await, "event_id"), ["third", "second", "first"]);
}

type Filter = Box<dyn Fn(&Value) -> bool>;

#[tokio::test]
async fn filters_of_deliveries_combine() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    receiver.behave("/bad", Behaviour::Status(500));
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "good", "overrides": slow() })).await;
    app.endpoint(&receiver.url("/bad"), json!({ "id": "bad", "event_types": ["a.*"], "overrides": slow() }))
        .await;
    let mut expected = Vec::new();
    for (n, event_type) in ["a.x", "a.y", "b"].into_iter().enumerate() {
        let event = json!({ "id": format!("e{n}"), "type": event_type, "data": n });
        for delivery in app.post("/events", &event).await.is(202)["deliveries"].as_array().unwrap() {
            let status = if delivery["endpoint_id"] == "bad" { "retrying" } else { "delivered" };
            expected.push(app.until_is(&text(&delivery["id"]), status).await);
        }
    }
    let matching = |wanted: &dyn Fn(&Value) -> bool| -> BTreeSet<String> {
        expected.iter().filter(|one| wanted(one)).map(|one| text(&one["id"])).collect()
    };
    let cases: [(&str, Filter); 9] = [
        ("", Box::new(|_| true)),
        ("?status=retrying", Box::new(|one| one["status"] == "retrying")),
        ("?status=retrying,delivered", Box::new(|_| true)),
        ("?status=dead", Box::new(|_| false)),
        ("?endpoint_id=good", Box::new(|one| one["endpoint_id"] == "good")),
        ("?event_id=e1", Box::new(|one| one["event_id"] == "e1")),
        ("?event_type=a.x", Box::new(|one| one["event_type"] == "a.x")),
        (
            "?event_type=a.x&status=delivered&endpoint_id=good",
            Box::new(|one| one["event_id"] == "e0" && one["endpoint_id"] == "good"),
        ),
        ("?event_id=nobody", Box::new(|_| false)),
    ];
    for (query, wanted) in cases {
        for limit in ["", "limit=1"] {
            let sign = if query.is_empty() { "?" } else { "&" };
            let listed = app.all(&format!("/deliveries{query}{sign}{limit}")).await;
            let found: BTreeSet<String> = listed.iter().map(|one| text(&one["id"])).collect();
            assert_eq!(found, matching(&*wanted), "{query} {limit}");
        }
    }
}

#[tokio::test]
async fn from_is_included_and_to_is_not() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint("http://127.0.0.1:9/", json!({ "overrides": slow() })).await;
    let mut times = Vec::new();
    for _ in 0..3 {
        let published = app.publish("x").await;
        times.push(text(&app.delivery(&text(&published["deliveries"][0]["id"])).await["created_at"]));
        crate::harness::wait_until("another millisecond", Duration::from_secs(5), async || {
            from_now(Duration::ZERO) > *times.last().unwrap()
        })
        .await;
    }
    for list in ["/events", "/deliveries"] {
        let count = async |query: String| app.all(&format!("{list}?{query}")).await.len();
        assert_eq!(count(format!("from={}", times[1])).await, 2, "{list}");
        assert_eq!(count(format!("to={}", times[1])).await, 1, "{list}");
        assert_eq!(count(format!("from={}&to={}", times[1], times[2])).await, 1, "{list}");
        assert_eq!(count(format!("from={}&to={}", times[2], times[0])).await, 0, "{list}");
        for bad in ["from=yesterday", "to=2026", "from="] {
            let field = bad.split('=').next().unwrap();
            assert_eq!(app.get(&format!("{list}?{bad}")).await.invalid_field(), field);
        }
    }
}

#[tokio::test]
async fn what_waits_can_be_listed_by_its_next_attempt() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    for id in ["one", "two"] {
        app.endpoint(&receiver.url(HOOK), json!({ "id": id })).await;
    }
    let done = app.publish("x").await;
    for delivery in done["deliveries"].as_array().unwrap() {
        app.until_is(&text(&delivery["id"]), "delivered").await;
    }
    for minutes in [50, 10, 30, 20, 40] {
        let at = from_now(Duration::from_secs(60 * minutes));
        app.post("/events", &json!({ "type": "later", "data": minutes, "deliver_at": at })).await.is(202);
    }
    for limit in [1, 3, 50] {
        let listed = app.all(&format!("/deliveries?order=next_attempt_at&limit={limit}")).await;
        let times: Vec<String> = pluck(&listed, "next_attempt_at").iter().map(text).collect();
        assert_eq!(times.len(), 10, "only what waits, all of it");
        assert!(times.is_sorted(), "{times:?}");
        let ids: BTreeSet<String> = pluck(&listed, "id").iter().map(text).collect();
        assert_eq!(ids.len(), 10);
    }
    assert_eq!(app.all("/deliveries?order=next_attempt_at&endpoint_id=two&limit=2").await.len(), 5);
    assert_eq!(app.all("/deliveries?order=next_attempt_at&event_type=x").await.len(), 0);
    assert_eq!(app.get("/deliveries?order=created_at").await.invalid_field(), "order");
}

#[tokio::test]
async fn limits_have_bounds_and_wrong_parameters_are_named() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let lists = ["/events", "/deliveries", "/dead-letters", "/endpoints"].map(|rest| app.path(rest));
    for list in lists.iter().map(String::as_str).chain(["/v1/apps", "/v1/keys"]) {
        for good in ["limit=1", "limit=250"] {
            app.api.get(&format!("{list}?{good}")).await.is(200);
        }
        for bad in ["limit=0", "limit=251", "limit=-1", "limit=x", "limit=", "limit=1&limit=1"] {
            assert_eq!(app.api.get(&format!("{list}?{bad}")).await.invalid_field(), "limit", "{list}?{bad}");
        }
        let unknown = app.api.get(&format!("{list}?limt=1")).await.refused(422, "unknown_field");
        assert_eq!(unknown.field.as_deref(), Some("limt"));
        assert!(unknown.detail.contains("`limit`"), "{}", unknown.detail);
    }
    for bad in ["status=gone", "status=dead,", "status="] {
        assert_eq!(app.get(&format!("/deliveries?{bad}")).await.invalid_field(), "status", "{bad}");
    }
    let mut events = Vec::new();
    events.resize(60, json!({ "type": "a", "data": 1 }));
    app.post("/events/batch", &json!({ "events": events })).await.is(200);
    let page = app.get("/events").await.is(200);
    assert_eq!(page["data"].as_array().map(Vec::len), Some(50), "unless asked for otherwise");
    assert_eq!(
        app.get("/events?limit=250").await.is(200)["next_cursor"],
        Value::Null,
        "the end has no cursor"
    );
}

#[tokio::test]
async fn a_cursor_that_was_changed_or_belongs_elsewhere_is_refused() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    for one in [&app, &other] {
        for _ in 0..3 {
            one.publish("a").await;
        }
    }
    let cursor = text(&app.get("/events?limit=1&event_type=a").await.is(200)["next_cursor"]);
    app.get(&format!("/events?limit=2&event_type=a&cursor={cursor}")).await.is(200);
    for index in 0..cursor.len() {
        let mut changed = cursor.clone().into_bytes();
        changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let refused =
            app.get(&format!("/events?event_type=a&cursor={changed}")).await.refused(400, "invalid_cursor");
        assert_eq!(refused.field.as_deref(), Some("cursor"));
    }
    for (one, path) in [
        (&app, format!("/events?cursor={cursor}")),
        (&app, format!("/events?event_type=b&cursor={cursor}")),
        (&app, format!("/deliveries?event_type=a&cursor={cursor}")),
        (&other, format!("/events?event_type=a&cursor={cursor}")),
        (&app, "/events?event_type=a&cursor=".into()),
        (&app, "/events?event_type=a&cursor=%00".into()),
    ] {
        one.get(&path).await.refused(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn a_filter_that_fits_few_comes_back_short_with_a_cursor_and_finds_them_in_the_end() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.publish("rare").await;
    let events = json!({ "events": vec![json!({ "type": "common", "data": 1 }); 1000] });
    for _ in 0..11 {
        app.post("/events/batch", &events).await.is(200);
    }
    let first = app.get("/events?event_type=rare").await.is(200);
    assert_eq!(first["data"], json!([]), "a page looks at no more than 10,000");
    assert!(first["next_cursor"].is_string());
    assert_eq!(app.all("/events?event_type=rare").await.len(), 1);
}

#[tokio::test]
async fn dead_letters_are_listed_by_endpoint_the_last_that_died_first() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let mut died = Vec::new();
    for id in ["one", "two"] {
        let more = json!({ "id": id, "event_types": [id], "overrides": { "retry": { "waits": [] } } });
        app.endpoint(&receiver.url(HOOK), more).await;
        for _ in 0..2 {
            let delivery = text(&app.publish(id).await["deliveries"][0]["id"]);
            app.until_is(&delivery, "dead").await;
            died.insert(0, json!(delivery));
        }
    }
    assert_eq!(pluck(&app.all("/dead-letters?limit=1").await, "id"), died);
    assert_eq!(pluck(&app.all("/dead-letters?endpoint_id=one").await, "id"), died[2..]);
    assert_eq!(app.all("/dead-letters?endpoint_id=nobody").await.len(), 0);
    app.delete("/endpoints/one").await.is(204);
    assert_eq!(app.all("/dead-letters").await.len(), 4, "the history of a deleted endpoint stays");
}

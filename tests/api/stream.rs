//! Streams of live updates: prompt, only for authorised keys, without content, and closed when the key is revoked.

use crate::{
    fixture::{ApiSession, HOOK, TestApp, TestServer, WAIT_MAX, quick, receiver, slow, text},
    harness::{from_now, wait_for},
    raw_http::head,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

/// A client of a stream.
struct StreamClient {
    stream: TcpStream,
    text: String,
}

impl StreamClient {
    /// Waits until the stream reports that it is open.
    async fn open(api: &ApiSession, path: &str) -> Self {
        let mut tail = Self::ask(api, path).await;
        tail.read_until(|text| text.contains("\r\n\r\n") && text.contains("\n:\n\n")).await;
        let lower = tail.text.to_ascii_lowercase();
        assert!(lower.starts_with("http/1.1 200"), "{}", tail.text);
        assert!(lower.contains("content-type: text/event-stream\r\n"), "{}", tail.text);
        assert!(lower.contains("cache-control: no-store\r\n"), "{}", tail.text);
        tail
    }

    async fn ask(api: &ApiSession, path: &str) -> Self {
        let mut stream = TcpStream::connect(api.address).await.unwrap();
        let head = head("GET", path, api.key.as_deref(), &[("accept", "text/event-stream")]);
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    async fn read_until(&mut self, is_enough: impl Fn(&str) -> bool) {
        let reading = async {
            while !is_enough(&self.text) {
                assert!(self.read().await > 0, "it ended: {}", self.text);
            }
        };
        let in_time = timeout(WAIT_MAX, reading).await;
        assert!(in_time.is_ok(), "waited in vain: {}", self.text);
    }

    async fn read(&mut self) -> usize {
        let mut bytes = vec![0; 64 * 1024];
        let read = self.stream.read(&mut bytes).await.unwrap_or(0);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        read
    }

    fn live_updates(&self) -> Vec<Value> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Reads until a live update has all of these members.
    async fn live_update(&mut self, wanted: Value) -> Value {
        let fits = |text: &str| {
            let tail = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let updates = tail.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            updates.into_iter().find(|update| {
                wanted.as_object().unwrap().iter().all(|(name, value)| update.get(name) == Some(value))
            })
        };
        self.read_until(|text| fits(text).is_some()).await;
        fits(&self.text).unwrap()
    }

    /// How long it takes until the server ends the stream.
    async fn ended(&mut self) -> Duration {
        let begun = Instant::now();
        let reading = async { while self.read().await > 0 {} };
        assert!(timeout(WAIT_MAX, reading).await.is_ok(), "it goes on: {}", self.text);
        begun.elapsed()
    }
}

async fn read_key(server: &TestServer, app: &TestApp) -> (String, ApiSession) {
    let made = server.admin.post("/v1/keys", &json!({ "scope": "read", "app_id": app.id })).await.is(201);
    (text(&made["id"]), server.with_key(text(&made["key"])))
}

#[tokio::test]
async fn changes_of_an_event_are_streamed_at_once_and_without_its_content() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "shop" })).await;
    let (_, watcher) = read_key(&server, &app).await;
    let mut tail = StreamClient::open(&watcher, &app.path("/stream")).await;
    let begun = Instant::now();
    let event = json!({ "id": "order-1", "type": "order.paid", "data": { "card": "4711-payload" } });
    let published = app.post("/events", &event).await.is(202);
    let delivery = text(&published["deliveries"][0]["id"]);
    let ended = json!({ "kind": "attempt", "delivery_id": delivery, "state": "delivered" });
    let update = tail.live_update(ended).await;
    let shown = app.delivery(&delivery).await;
    assert_eq!(shown["status"], "delivered", "whoever looks because of a hint finds what it is about");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((&update["app_id"], &update["endpoint_id"]), (&json!(app.id), &json!("shop")));
    let ours = text(&update["event_id"]);
    assert_eq!(app.get(&format!("/events/{ours}")).await.is(200)["id"], "order-1", "{ours} is the event");
    tail.live_update(json!({ "kind": "event", "event_id": ours })).await;
    tail.live_update(json!({ "kind": "delivery", "delivery_id": delivery, "state": "in_flight" })).await;
    assert!(!tail.text.contains("4711-payload") && !tail.text.contains("127.0.0.1"), "{}", tail.text);
}

#[tokio::test]
async fn retries_actions_endpoints_and_replays_are_streamed() {
    let server = TestServer::start().await;
    let receiver = receiver(500).await;
    let app = server.app().await;
    let mut tail = StreamClient::open(&app.api, &app.path("/stream")).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "dies", "event_types": ["a"], "overrides": quick() }))
        .await;
    tail.live_update(json!({ "kind": "endpoint", "endpoint_id": "dies" })).await;
    app.endpoint(&receiver.url(HOOK), json!({ "id": "waits", "event_types": ["b"], "overrides": slow() }))
        .await;
    let dead = text(&app.publish("a").await["deliveries"][0]["id"]);
    tail.live_update(json!({ "kind": "attempt", "delivery_id": dead, "state": "retrying" })).await;
    tail.live_update(json!({ "kind": "attempt", "delivery_id": dead, "state": "dead" })).await;
    let waits = text(&app.publish("b").await["deliveries"][0]["id"]);
    tail.live_update(json!({ "kind": "attempt", "delivery_id": waits, "state": "retrying" })).await;
    app.act(&format!("/deliveries/{waits}/cancel")).await.is(200);
    tail.live_update(json!({ "kind": "delivery", "delivery_id": waits, "state": "cancelled" })).await;
    let replay = text(&app.post("/replays", &json!({ "event_type": "a" })).await.is(201)["id"]);
    tail.live_update(json!({ "kind": "replay", "replay_id": replay, "state": "running" })).await;
    tail.live_update(json!({ "kind": "replay", "replay_id": replay, "state": "finished" })).await;
    let held = text(&app.publish("b").await["deliveries"][0]["id"]);
    tail.live_update(json!({ "kind": "attempt", "delivery_id": held, "state": "retrying" })).await;
    app.act("/endpoints/waits/disable").await.is(200);
    let is_about_several =
        |update: &Value| update["kind"] == "delivery" && update.get("delivery_id").is_none();
    wait_for("what was held is told", WAIT_MAX, async || {
        timeout(Duration::from_millis(50), tail.read()).await.ok();
        tail.live_updates()
            .into_iter()
            .find(|update| is_about_several(update) && update["endpoint_id"] == "waits")
    })
    .await;
    assert_eq!(app.delivery(&held).await["status"], "held", "whoever looks finds it so");
    let before = tail.live_updates().len();
    app.delete("/endpoints/waits").await.is(204);
    wait_for("its end is told", WAIT_MAX, async || {
        timeout(Duration::from_millis(50), tail.read()).await.ok();
        let new = tail.live_updates().split_off(before);
        new.into_iter().find(|update| update["kind"] == "endpoint")
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_of_one_app_and_only_an_admin_key_watches_all() {
    let server = TestServer::start().await;
    let (app, other) = (server.app().await, server.app().await);
    let own = server.by_its_key(&app).await;
    let mut mine = StreamClient::open(&own.api, &app.path("/stream")).await;
    let mut all = StreamClient::open(&server.admin, "/v1/stream").await;
    own.api.get(&other.path("/stream")).await.refused(404, "not_found");
    own.api.get("/v1/stream").await.refused(403, "forbidden");
    server.with_key(None).get(&app.path("/stream")).await.refused(401, "unauthorized");
    other.publish("x").await;
    app.publish("x").await;
    mine.live_update(json!({ "kind": "event", "app_id": app.id })).await;
    all.live_update(json!({ "kind": "event", "app_id": app.id })).await;
    all.live_update(json!({ "kind": "event", "app_id": other.id })).await;
    assert!(!mine.text.contains(&other.id), "{}", mine.text);
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked_or_expires_or_its_app_is_deleted() {
    let server = TestServer::start().await;
    let (app, brief) = (server.app().await, server.app().await);
    let (id, watcher) = read_key(&server, &app).await;
    let soon = json!({ "scope": "read", "app_id": app.id, "expires_at": from_now(Duration::from_secs(2)) });
    let made = server.admin.post("/v1/keys", &soon).await.is(201);
    let mut expiring = StreamClient::open(&server.with_key(text(&made["key"])), &app.path("/stream")).await;
    let mut revoked = StreamClient::open(&watcher, &app.path("/stream")).await;
    let mut deleted = StreamClient::open(&server.admin, &brief.path("/stream")).await;
    let mut kept = StreamClient::open(&server.admin, &app.path("/stream")).await;
    server.admin.delete(&format!("/v1/keys/{id}")).await.is(204);
    server.admin.delete(&brief.path("")).await.is(204);
    revoked.ended().await;
    deleted.ended().await;
    expiring.ended().await;
    watcher.get(&app.path("/stream")).await.refused(401, "unauthorized");
    app.publish("x").await;
    kept.live_update(json!({ "kind": "event" })).await;
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_and_does_not_wait_for_them() {
    let mut server = TestServer::start().await;
    let app = server.app().await;
    let mut tail = StreamClient::open(&app.api, &app.path("/stream")).await;
    let stopping = server.node.stop();
    let (code, took) = tokio::join!(stopping, tail.ended());
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(tail.text.ends_with("0\r\n\r\n"), "the body has an end: {:?}", tail.text);
}

#[tokio::test]
async fn an_app_has_so_many_streams_and_places_come_back() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(StreamClient::open(&app.api, &app.path("/stream")).await);
    }
    let full = app.get("/stream").await;
    let refused = full.refused(429, "too_many_streams");
    assert!(refused.detail.contains("32"), "{}", refused.detail);
    assert!(full.header("retry-after").is_some());
    open.pop();
    let freed = wait_for("the place is free again", WAIT_MAX, async || {
        let mut tail = StreamClient::ask(&app.api, &app.path("/stream")).await;
        tail.read().await;
        tail.text.starts_with("HTTP/1.1 200").then_some(tail)
    });
    freed.await;
}

#[tokio::test]
async fn a_client_that_misses_updates_is_notified_of_the_gap() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut tail = StreamClient::open(&app.api, &app.path("/stream")).await;
    let events: Vec<Value> = (0..1000).map(|n| json!({ "type": "x", "data": n })).collect();
    app.post("/events/batch", &json!({ "events": events })).await.is(200);
    tail.live_update(json!({ "kind": "lagged" })).await;
    assert!(tail.live_updates().len() < 1000, "{}", tail.live_updates().len());
    let last = app.publish("x").await;
    tail.live_update(json!({ "kind": "event", "event_id": last["id"] })).await;
}

#[tokio::test]
#[ignore = "soak: longer than the server's patience with connections that say nothing"]
async fn a_quiet_stream_stays_open_with_keep_alives() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut tail = StreamClient::open(&app.api, &app.path("/stream")).await;
    let watching = async { while tail.read().await > 0 {} };
    assert!(timeout(Duration::from_secs(100), watching).await.is_err(), "it ended: {}", tail.text);
    assert!(tail.text.matches("\n:\n\n").count() >= 7, "{}", tail.text);
    app.publish("x").await;
    tail.live_update(json!({ "kind": "event" })).await;
}

//! A node with one app under one contract, and an event whose data a careless deliverer would change.

use crate::{
    article_receiver::ArticleReceiver,
    harness::{NodeFolder, TestClient, TestNode, wait_for},
};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const WAIT_MAX: Duration = Duration::from_secs(30);

/// Unsorted keys at two depths, spaces, é, an emoji, `<`, U+2028, numbers that would not survive being read.
pub(crate) const DATA: &str = "{ \"z\": \"é 😀 < \u{2028} \\/ \\u00e9\", \"n\": {\"y\": 1.0, \"x\": 1e5, \"w\": [-0, 12345678901234567890, { \"b\":1, \"a\":2 } ]},\n\"a\": null }";

pub(crate) struct Fixture {
    pub(crate) client: TestClient,
    _home: NodeFolder,
    _node: TestNode,
}

/// An event as the API answered to it, and the id of its only delivery.
pub(crate) struct Published {
    pub(crate) id: String,
    /// With milliseconds.
    pub(crate) created_at: String,
    pub(crate) delivery: String,
}

impl Fixture {
    /// The app is `merchant-7` and not live. `more` is merged into it.
    pub(crate) async fn start(contract: &str, more: Value) -> Self {
        let home = NodeFolder::new();
        let node = home.start().await;
        let mut app = json!({ "id": "merchant-7", "name": "M", "contract": contract, "livemode": false });
        if let (Some(app), Value::Object(more)) = (app.as_object_mut(), more) {
            app.extend(more);
        }
        node.client.post("/v1/apps", &app).await.expect(201);
        Self { client: node.client.clone(), _home: home, _node: node }
    }

    /// Where events of these types go, with this secret and quick retries. Plain HTTP, which one contract forbids.
    pub(crate) async fn endpoint(&self, id: &str, url: &str, types: &[&str], secret: &str) {
        let overrides = json!({
            "https_only": false,
            "retry": { "waits": ["100ms", "100ms"], "jitter": "none" },
        });
        let more = json!({ "event_types": types, "secret": secret, "overrides": overrides });
        self.client.make_endpoint("merchant-7", id, url, more).await;
    }

    /// Two endpoints at the article: `good.event` is answered as it deserves, `bad.event` with 500.
    pub(crate) async fn two_endpoints(&self, article: &ArticleReceiver, secret: &str) {
        self.endpoint("good", &article.url("/hook"), &["good.event"], secret).await;
        self.endpoint("bad", &article.url("/answer/500"), &["bad.event"], secret).await;
    }

    /// Publishes the data byte for byte; `id` is the producer's own, if there is one.
    pub(crate) async fn publish(&self, event_type: &str, id: Option<&str>, data: &str) -> Published {
        let id = id.map(|id| format!(r#""id":"{id}","#)).unwrap_or_default();
        let event = format!(r#"{{{id}"type":"{event_type}","data":{data}}}"#);
        let answer = self.client.send(Method::POST, "/v1/apps/merchant-7/events", &[], event).await.unwrap();
        let answer = answer.expect(202);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        assert_eq!(answer["deliveries"].as_array().unwrap().len(), 1, "{answer}");
        Published {
            id: text(&answer["id"]),
            created_at: text(&answer["created_at"]),
            delivery: text(&answer["deliveries"][0]["id"]),
        }
    }

    /// Returns the delivery with its attempts, once it has this status.
    pub(crate) async fn until(&self, delivery: &str, status: &str) -> Value {
        wait_for(&format!("{delivery} is {status}"), WAIT_MAX, async || {
            Some(self.client.delivery("merchant-7", delivery).await).filter(|now| now["status"] == status)
        })
        .await
    }

    /// Replays a delivery; returns the id of the delivery that is created or restarted.
    pub(crate) async fn replay(&self, delivery: &str) -> String {
        let answer =
            self.client.post(&format!("/v1/apps/merchant-7/deliveries/{delivery}/replay"), &json!({})).await;
        assert!(answer.status < 300, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }
}

/// When an attempt of a delivery's detail started, in milliseconds and as the second that signatures carry.
pub(crate) fn started(delivery: &Value, attempt: usize) -> (i64, String) {
    let at: jiff::Timestamp = delivery["attempts"][attempt]["started_at"].as_str().unwrap().parse().unwrap();
    (at.as_millisecond(), at.as_second().to_string())
}

/// The product's own user agent.
pub(crate) fn own_agent() -> String {
    format!("Posthaste/{}", env!("CARGO_PKG_VERSION"))
}

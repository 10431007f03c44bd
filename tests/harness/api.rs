//! API calls that nearly every test makes, as methods of the client.

use super::http::{TestAnswer, TestClient};
use http::Method;
use serde_json::{Value, json};
use std::io;

impl TestClient {
    pub(crate) async fn make_app(&self, id: &str) {
        self.post("/v1/apps", &json!({ "id": id, "name": id })).await.expect(201);
    }

    /// Creates an endpoint and returns it with its secret. `more` is merged into the request.
    pub(crate) async fn make_endpoint(&self, app: &str, id: &str, url: &str, more: Value) -> Value {
        let mut endpoint = json!({ "id": id, "url": url });
        if let (Some(endpoint), Value::Object(more)) = (endpoint.as_object_mut(), more) {
            endpoint.extend(more);
        }
        self.post(&format!("/v1/apps/{app}/endpoints"), &endpoint).await.expect(201)
    }

    /// An error means that the outcome is unknown.
    pub(crate) async fn try_publish(&self, app: &str, event: &Value) -> io::Result<TestAnswer> {
        self.send(Method::POST, &format!("/v1/apps/{app}/events"), &[], event.to_string()).await
    }

    /// Publishes an event that must be accepted, and returns the answer.
    pub(crate) async fn publish(&self, app: &str, event: &Value) -> Value {
        self.try_publish(app, event).await.unwrap().expect(202)
    }

    /// A delivery with its attempts.
    pub(crate) async fn delivery(&self, app: &str, id: &str) -> Value {
        self.get(&format!("/v1/apps/{app}/deliveries/{id}")).await.expect(200)
    }

    /// Fetches a whole list, page by page. `path` may have a query.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let sign = if path.contains('?') { '&' } else { '?' };
            let page = match &cursor {
                None => self.get(path).await,
                Some(cursor) => self.get(&format!("{path}{sign}cursor={cursor}")).await,
            };
            let page = page.expect(200);
            all.extend(page["data"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return all,
            }
        }
    }

    /// The value of a metric line that starts with this name (and labels, if given).
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{text}")).parse().unwrap()
    }
}

/// The classes of a delivery's attempts, the oldest first.
pub(crate) fn attempt_classes(delivery: &Value) -> Vec<&str> {
    let attempts = delivery["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["class"].as_str().unwrap()).collect()
}

//! A running server with helpers for apps, endpoints, events, and waiting for the state of a delivery. Every response is
//! checked against the description of the API.

use crate::{
    description::Description,
    harness::{ADMIN_KEY, Behaviour, NodeFolder, TestNode, TestReceiver, wait_for},
    raw_http::{ApiResponse, RawConnection, head},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// The path that the receivers of these tests are called at.
pub(crate) const HOOK: &str = "/hook";
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(15);

pub(crate) struct TestServer {
    pub(crate) home: NodeFolder,
    pub(crate) node: TestNode,
    pub(crate) admin: ApiSession,
    apps: AtomicU32,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with settings besides or instead of the usual ones.
    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut home = NodeFolder::new();
        for (name, value) in settings {
            home.set(name, value);
        }
        let node = home.start().await;
        let address = node.client.address();
        let mut wire = RawConnection::open(address).await;
        assert!(wire.send(head("GET", "/openapi.json", None, &[]).as_bytes()).await);
        let document = wire.answer().await.expect("a description").is(200);
        let description = Arc::new(Description(document));
        let admin = ApiSession { address, key: Some(ADMIN_KEY.to_owned()), description };
        Self { home, node, admin, apps: AtomicU32::new(0) }
    }

    pub(crate) fn with_key(&self, key: impl Into<Option<String>>) -> ApiSession {
        ApiSession { key: key.into(), ..self.admin.clone() }
    }

    /// Creates an app, used with the admin key.
    pub(crate) async fn app(&self) -> TestApp {
        let id = format!("app-{}", self.apps.fetch_add(1, Ordering::Relaxed) + 1);
        self.admin.post("/v1/apps", &json!({ "id": id, "name": "An app" })).await.is(201);
        TestApp { id, api: self.admin.clone() }
    }

    /// Returns the app, used with a key of its own.
    pub(crate) async fn by_its_key(&self, app: &TestApp) -> TestApp {
        let key = self.admin.post("/v1/keys", &json!({ "scope": "app", "app_id": app.id })).await.is(201);
        TestApp { id: app.id.clone(), api: self.with_key(text(&key["key"])) }
    }
}

/// The API with one key, or none.
#[derive(Clone)]
pub(crate) struct ApiSession {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
    pub(crate) description: Arc<Description>,
}

impl ApiSession {
    pub(crate) async fn get(&self, path: &str) -> ApiResponse {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> ApiResponse {
        self.send("POST", path, &[], Some(body.to_string().as_bytes())).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> ApiResponse {
        self.send("PATCH", path, &[], Some(body.to_string().as_bytes())).await
    }

    pub(crate) async fn delete(&self, path: &str) -> ApiResponse {
        self.send("DELETE", path, &[], None).await
    }

    /// A POST that needs no body.
    pub(crate) async fn act(&self, path: &str) -> ApiResponse {
        self.send("POST", path, &[], None).await
    }

    /// Any request on a connection of its own.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> ApiResponse {
        let mut wire = RawConnection::open(self.address).await;
        let answer = self.send_on(&mut wire, method, path, headers, body).await;
        answer.unwrap_or_else(|| panic!("{method} {path}: the connection was closed"))
    }

    pub(crate) async fn send_on(
        &self,
        wire: &mut RawConnection,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Option<ApiResponse> {
        let length = body.map(|body| body.len().to_string());
        let mut headers = headers.to_vec();
        if let Some(length) = &length {
            headers.extend([("content-type", "application/json"), ("content-length", length)]);
        }
        let mut bytes = head(method, path, self.key.as_deref(), &headers).into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        // A server that refuses early may close during the upload; it responds all the same.
        wire.send(&bytes).await;
        let answer = wire.answer_to(method).await?;
        self.description.check(method, path, &answer);
        Some(answer)
    }
}

/// An app, and the key that its requests use.
#[derive(Clone)]
pub(crate) struct TestApp {
    pub(crate) id: String,
    pub(crate) api: ApiSession,
}

impl TestApp {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/apps/{}{rest}", self.id)
    }

    pub(crate) async fn get(&self, rest: &str) -> ApiResponse {
        self.api.get(&self.path(rest)).await
    }

    pub(crate) async fn post(&self, rest: &str, body: &Value) -> ApiResponse {
        self.api.post(&self.path(rest), body).await
    }

    pub(crate) async fn patch(&self, rest: &str, body: &Value) -> ApiResponse {
        self.api.patch(&self.path(rest), body).await
    }

    pub(crate) async fn delete(&self, rest: &str) -> ApiResponse {
        self.api.delete(&self.path(rest)).await
    }

    pub(crate) async fn act(&self, rest: &str) -> ApiResponse {
        self.api.act(&self.path(rest)).await
    }

    /// Creates an endpoint for every type, with quick retries, unless `more` says otherwise; returns its id.
    pub(crate) async fn endpoint(&self, url: &str, more: Value) -> String {
        let mut body = json!({ "url": url, "overrides": quick() });
        let Value::Object(more) = more else { panic!("fields of an endpoint") };
        body.as_object_mut().expect("an object").extend(more);
        text(&self.post("/endpoints", &body).await.is(201)["id"])
    }

    /// Publishes an event that exactly one endpoint subscribes to; returns the id of its delivery.
    pub(crate) async fn deliver(&self) -> String {
        let published = self.publish("payment.created").await;
        assert_eq!(published["deliveries"].as_array().map(Vec::len), Some(1), "{published}");
        text(&published["deliveries"][0]["id"])
    }

    pub(crate) async fn publish(&self, event_type: &str) -> Value {
        self.post("/events", &json!({ "type": event_type, "data": { "n": 1 } })).await.is(202)
    }

    pub(crate) async fn publish_raw(&self, body: impl AsRef<[u8]>) -> ApiResponse {
        self.api.send("POST", &self.path("/events"), &[], Some(body.as_ref())).await
    }

    pub(crate) async fn delivery(&self, id: &str) -> Value {
        self.get(&format!("/deliveries/{id}")).await.is(200)
    }

    /// Returns the delivery's detail once it has this status.
    pub(crate) async fn until_is(&self, id: &str, status: &str) -> Value {
        self.until(id, status, |delivery| delivery["status"] == status).await
    }

    pub(crate) async fn until(&self, id: &str, what: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let what = format!("the delivery is {what}");
        wait_for(&what, WAIT_MAX, async || Some(self.delivery(id).await).filter(&reached)).await
    }

    /// Returns all entries of a list, read page by page.
    pub(crate) async fn all(&self, rest: &str) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{rest}{cursor}")).await.is(200);
            rows.extend(page["data"].as_array().expect("a page").iter().cloned());
            let Some(next) = page["next_cursor"].as_str() else { return rows };
            cursor = format!("{}cursor={next}", if rest.contains('?') { '&' } else { '?' });
        }
    }
}

/// Overrides under which a delivery's whole life takes a fraction of a second, however many fail.
pub(crate) fn quick() -> Value {
    json!({ "retry": { "waits": ["100ms", "100ms"], "jitter": "none" }, "timeout": "1s", "pacing": "strict" })
}

/// As `quick`, but the first retry is so far off that it never comes in a test, not even early.
pub(crate) fn slow() -> Value {
    json!({ "retry": { "waits": ["1h", "1h"], "jitter": "none" }, "timeout": "1s", "pacing": "strict" })
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

/// A receiver that answers every request with this status.
pub(crate) async fn receiver(status: u16) -> TestReceiver {
    let receiver = TestReceiver::start().await;
    receiver.behave(HOOK, Behaviour::Status(status));
    receiver
}

/// An answer with headers and a body, after which the connection is closed.
pub(crate) fn reply(status: u16, headers: &str, body: &str) -> Behaviour {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n");
    Behaviour::Bytes((head + body).into())
}

/// Returns a property of each value.
pub(crate) fn pluck(rows: &[Value], name: &str) -> Vec<Value> {
    rows.iter().map(|row| row[name].clone()).collect()
}

//! A small HTTP client: one server, one key, kept-alive connections, no retries of its own.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::net::TcpStream;

/// The default deadline of an answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// Cheap to clone; clones share their connections.
#[derive(Clone)]
pub(crate) struct TestClient {
    address: SocketAddr,
    key: String,
    deadline: Duration,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

#[derive(Debug)]
pub(crate) struct TestAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl TestAnswer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the body of an answer with this status; any other fails the test.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

impl TestClient {
    pub(crate) fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: key.to_owned(), deadline: ANSWER_DEADLINE, idle: Arc::default() }
    }

    /// Returns a client of the same server with another deadline.
    pub(crate) fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// Returns a client of the same server with another key; an empty one sends no `Authorization` at all.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn get(&self, path: &str) -> TestAnswer {
        self.send(Method::GET, path, &[], Bytes::new()).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(Method::POST, path, &[], body.to_string()).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(Method::PATCH, path, &[], body.to_string()).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> TestAnswer {
        self.send(Method::DELETE, path, &[], Bytes::new()).await.unwrap()
    }

    /// Sends a request. An error means that the outcome is unknown: the server may have executed it.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> io::Result<TestAnswer> {
        let mut request =
            Request::builder().method(method).uri(path).header("host", self.address.to_string());
        if !self.key.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.key));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.into();
        if !body.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(body)).unwrap();
        tokio::time::timeout(self.deadline, self.exchange(request)).await?
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> io::Result<TestAnswer> {
        let mut connection = self.connection().await?;
        let answer = connection.send_request(request).await.map_err(io::Error::other)?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        self.idle.lock().unwrap().push(connection);
        Ok(TestAnswer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    async fn connection(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        loop {
            let Some(mut idle) = self.idle.lock().unwrap().pop() else { break };
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

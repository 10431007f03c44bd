//! Calls of a server's API that answer JSON.

use crate::http::{self, Client};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use serde_json::Value;

pub struct Api {
    authority: String,
    client: Client,
    /// Sent with each call.
    headers: Vec<(String, String)>,
}

impl Api {
    /// The server of this URL, whatever the URL's path.
    pub fn of(url: &str, headers: Vec<(String, String)>) -> Result<Self> {
        let (authority, _) = http::authority(url)?;
        Ok(Self { client: Client::to(&authority), authority, headers })
    }

    pub fn with_key(url: &str, key: &str) -> Result<Self> {
        let of = |name: HeaderName, value: &str| (name.to_string(), value.to_owned());
        Self::of(url, vec![of(AUTHORIZATION, &format!("Bearer {key}")), of(CONTENT_TYPE, "application/json")])
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let text = self.call("POST", path, body.to_string()).await?;
        serde_json::from_str(&text).with_context(|| format!("{path} did not answer JSON: {text}"))
    }

    pub async fn get(&self, path: &str) -> Result<String> {
        self.call("GET", path, String::new()).await
    }

    /// Calls a path, or a whole URL of the same server. Anything but 2xx is an error.
    pub async fn call(&self, method: &str, path: &str, body: String) -> Result<String> {
        let path = if path.starts_with('/') { path.parse()? } else { http::authority(path)?.1 };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method.parse()?;
        *request.uri_mut() = path;
        request.headers_mut().insert(HOST, HeaderValue::try_from(&self.authority)?);
        for (name, value) in &self.headers {
            request.headers_mut().insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        let called = format!("{method} {}", request.uri());
        let response = self.client.request(request).await.context(called.clone())?;
        let text = String::from_utf8_lossy(response.body()).into_owned();
        ensure!(response.status().is_success(), "{called} answered {}: {text}", response.status());
        Ok(text)
    }
}

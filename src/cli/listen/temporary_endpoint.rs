//! A temporary endpoint on a running server: created at the start, deleted at the end of the command.

use super::super::api_client::{ApiCall, ServerClient, path};
use crate::config::ClientSettings;
use anyhow::Context;
use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

pub(super) struct TemporaryEndpoint {
    client: ServerClient,
    app: String,
    id: String,
    pub(super) secret: String,
}

impl TemporaryEndpoint {
    pub(super) async fn make(
        settings: &ClientSettings,
        app: &str,
        address: SocketAddr,
        events: &[String],
        contract: &str,
    ) -> anyhow::Result<Self> {
        let client = ServerClient::new(settings)?;
        let mut endpoint = Map::new();
        endpoint.insert("url".into(), json!(format!("http://{address}/")));
        endpoint.insert("contract".into(), json!(contract));
        endpoint.insert("description".into(), json!("posthaste listen, for as long as it runs"));
        if !events.is_empty() {
            endpoint.insert("event_types".into(), json!(events));
        }
        let body = Bytes::from(Value::Object(endpoint).to_string());
        let path = path("/v1/apps/{app}/endpoints", &[app])?;
        let made = client.call(&ApiCall { body, ..ApiCall::new(Method::POST, path) }).await;
        let made: Value = made.and_then(|made| made.json()).context(
            "cannot make an endpoint that leads here (`posthaste dev` may call this machine; `serve` takes the settings \
             allow_addresses and https_only)",
        )?;
        let text = |name: &str| made[name].as_str().map(str::to_owned);
        let (id, secret) =
            text("id").zip(text("secret")).context("the server's answer is not an endpoint")?;
        eprintln!("made the endpoint {id} of {app}; it is deleted at the end");
        Ok(Self { client, app: app.to_owned(), id, secret })
    }

    pub(super) async fn delete(self) -> anyhow::Result<()> {
        let path = path("/v1/apps/{app}/endpoints/{endpoint}", &[&self.app, &self.id])?;
        let deleted = self.client.call(&ApiCall::new(Method::DELETE, path)).await;
        deleted.with_context(|| format!("cannot delete the endpoint {} of {}", self.id, self.app))?;
        eprintln!("deleted the endpoint {}", self.id);
        Ok(())
    }
}

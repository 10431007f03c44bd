//! `posthaste dev`: the server with a sample app and a sample receiver, and commands to paste next.

use super::{StartedNode, dashboard_at, open_store, sample_receiver, until_second_signal};
use crate::{
    api::HAS_DASHBOARD,
    config::{self, Settings},
    runtime::{Shutdown, ShutdownHandle},
    service::{
        Caller, Error, Patch, Service,
        apps::NewApp,
        endpoints::{EndpointPatch, NewEndpoint},
    },
};
use anyhow::Context;
use std::io::Write;

const SAMPLE_APP: &str = "sample";
const SAMPLE_ENDPOINT: &str = "sample-receiver";

pub async fn dev(settings: Settings) -> anyhow::Result<()> {
    until_second_signal(async |handle, stop| run_samples(&settings, handle, stop).await).await
}

async fn run_samples(settings: &Settings, handle: ShutdownHandle, stop: Shutdown) -> anyhow::Result<()> {
    open_store::sqlite_path(settings, "dev", "give a file, or use serve")?;
    let node = StartedNode::start(settings, true).await?;
    let service = node.service.clone();
    let receiver = sample_receiver::start(Box::new(move || sample_secrets(&service)));
    let receiver = receiver.await.context("cannot start the sample receiver")?;
    create_samples(&node.service, &format!("http://{receiver}")).await?;
    let key = node.admin_key.clone().unwrap_or_default();
    // A closed terminal is no reason to fail.
    let _ = std::io::stdout().write_all(welcome(&dashboard_at(node.address), &key).as_bytes());
    node.run(handle, stop, settings.shutdown_grace).await
}

/// Creates the sample app and points its endpoint at this run's receiver.
async fn create_samples(service: &Service, receiver: &str) -> anyhow::Result<()> {
    let (url, health_url) = (format!("{receiver}/webhooks"), format!("{receiver}/health"));
    let admin = Caller::OPERATOR;
    let app = NewApp { uid: Some(SAMPLE_APP.into()), name: "Sample app".into(), ..NewApp::default() };
    match service.add_app(admin, app).await {
        Ok(_) | Err(Error::IdTaken(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let entry = service.app(admin, SAMPLE_APP)?;
    let new = NewEndpoint {
        uid: Some(SAMPLE_ENDPOINT.into()),
        url: url.clone(),
        health_url: Some(health_url.clone()),
        description: Some("Verifies and prints what it receives; refuses every third event once".into()),
        ..NewEndpoint::default()
    };
    match service.add_endpoint(admin, &entry, new).await {
        Ok(_) => Ok(()),
        Err(Error::IdTaken(_)) => {
            let patch = EndpointPatch {
                url: Some(url),
                health_url: Patch::Value(health_url),
                ..EndpointPatch::default()
            };
            service.change_endpoint(admin, &entry, SAMPLE_ENDPOINT, patch).await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the current secrets of the sample endpoint.
fn sample_secrets(service: &Service) -> Vec<String> {
    let endpoint =
        service.app(Caller::OPERATOR, SAMPLE_APP).ok().and_then(|entry| entry.endpoint(SAMPLE_ENDPOINT));
    endpoint.map(|one| one.secrets.iter().map(|secret| secret.text.clone()).collect()).unwrap_or_default()
}

fn welcome(address: &str, key: &str) -> String {
    // The name under which this program was called, so that the printed commands work when pasted.
    let program = config::program();
    let dashboard = if HAS_DASHBOARD {
        format!("  dashboard   {address}/#key={key}")
    } else {
        "  dashboard   not in this build (--no-default-features)".to_owned()
    };
    format!(
        r#"
Posthaste is running at {address}

  admin key   {key}
{dashboard}

Publish an event (paste this into another terminal):

  curl -s {address}/v1/apps/{SAMPLE_APP}/events \
    -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \
    -d '{{"type": "order.created", "data": {{"order": 1, "total": "12.50"}}}}'

The sample receiver prints below what reaches it. It refuses every third event once: watch it being tried again.

What became of it, with every attempt:

  curl -s {address}/v1/apps/{SAMPLE_APP}/deliveries -H "Authorization: Bearer {key}"

The same as a table (`--help` has more, and `profile set default --server URL` keeps address and key):

  POSTHASTE_URL={address} POSTHASTE_KEY={key} {program} deliveries list --app {SAMPLE_APP}

Which protections a receiver has (the sample has them all):

  POSTHASTE_URL={address} POSTHASTE_KEY={key} {program} inspect {SAMPLE_APP} {SAMPLE_ENDPOINT}

Next: {address}/openapi.json describes the API, {address}/metrics counts, README.md has the rest. Ctrl-C stops.

"#
    )
}

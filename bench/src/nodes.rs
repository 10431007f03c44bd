//! Measures the throughput of all nodes of one database together, while more waits than they can send.

use crate::{
    api::Api,
    children, clock,
    load::Bench,
    messages::{Arrivals, Behaviour, ReceiverOrder, TargetEndpoint},
    payload, prefill,
    server::{BenchStore, Keys, NodeProcess, Product, StoreKind},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{cell::Cell, path::Path, time::Duration};
use tokio::process::Command;

const ENDPOINTS: usize = 16;
/// The receiver's own time, which is all that limits how much a permit delivers.
const ANSWER_AFTER_MS: u64 = 50;
/// Permits of each node, so few that they are the limit and not the processors.
const PERMITS: &str = "64";
/// Settings that have given a node its permits, the newest first. A program knows one of them.
const PERMITS_SETTINGS: &[&str] = &["DELIVERIES_IN_FLIGHT_MAX", "HANDS"];
const BATCH: usize = 500;
/// How much waits at least.
const BACKLOG: u64 = 4000;
const EVENTS_MAX: usize = 200_000;
const BEFORE: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(15);
const REST_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Deliveries per second of so many nodes. Fails if something of it was lost or came twice.
pub async fn delivered_per_second(product: &Product<'_>, bench: &Bench, count: usize) -> Result<f64> {
    let store = BenchStore::fresh(product, StoreKind::Postgres).await?;
    let keys = Keys::random();
    let setting = permits_setting(product.binary).await?;
    let mut nodes = vec![];
    for _ in 0..count {
        let mut node = NodeProcess::new(product, &store, &keys, &[(setting, PERMITS)])?;
        node.start().await?;
        nodes.push(node);
    }
    let apis: Vec<Api> =
        nodes.iter().map(|node| Api::with_key(&node.base, &keys.admin)).collect::<Result<_>>()?;
    let transfer = format!("n{:x}", clock::now_ns());
    let mut endpoints = vec![TargetEndpoint::of(0, Behaviour::AcceptAfter(ANSWER_AFTER_MS)); ENDPOINTS];
    make_endpoints(&apis[0], &format!("{}/{transfer}", bench.receiver_url), &mut endpoints).await?;
    for api in &apis {
        let known =
            || async { api.get(&format!("/v1/apps/nodes/endpoints/sink-{}", ENDPOINTS - 1)).await.ok() };
        children::wait_for(REST_WITHIN, known).await.context("a node does not see the endpoints")?;
    }
    bench.begin(&transfer, EVENTS_MAX, endpoints, bench.target.signature.clone()).await?;

    let published = Cell::new(0);
    let is_over = Cell::new(false);
    let window = async {
        tokio::time::sleep(BEFORE).await;
        let before = (clock::now_ns(), bench.counts().await?.distinct);
        tokio::time::sleep(MEASURED).await;
        let after = (clock::now_ns(), bench.counts().await?.distinct);
        is_over.set(true);
        Ok((after.1 - before.1) as f64 / clock::seconds_between(before.0, after.0))
    };
    let publishing = publish(&apis, bench, &published, &is_over);
    let (rate, ()) = tokio::try_join!(window, publishing)?;
    see_everything_arrive(bench, published.get()).await?;
    for node in &mut nodes {
        node.stop().await?;
    }
    Ok(rate)
}

/// The setting's name as the program's own list of settings has it.
async fn permits_setting(binary: &Path) -> Result<&'static str> {
    let output = Command::new(binary).arg("config-doc").kill_on_drop(true).output().await?;
    let settings = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = PERMITS_SETTINGS.iter().find(|name| settings.contains(&format!("`POSTHASTE_{name}`")));
    known.copied().with_context(|| format!("config-doc names none of {}", PERMITS_SETTINGS.join(", ")))
}

async fn make_endpoints(api: &Api, url: &str, endpoints: &mut [TargetEndpoint]) -> Result<()> {
    api.post("/v1/apps", &json!({"id": "nodes", "name": "nodes"})).await?;
    for (number, endpoint) in endpoints.iter_mut().enumerate() {
        let types = [format!("bench.{number}")];
        let body =
            json!({"id": format!("sink-{number}"), "url": format!("{url}/{number}"), "event_types": types});
        let made = api.post("/v1/apps/nodes/endpoints", &body).await?;
        endpoint.secret = made["secret"].as_str().map(str::to_owned);
    }
    Ok(())
}

/// To the nodes in turn, each event for one of the endpoints.
async fn publish(apis: &[Api], bench: &Bench, published: &Cell<usize>, is_over: &Cell<bool>) -> Result<()> {
    while !is_over.get() && published.get() < EVENTS_MAX {
        if published.get() as u64 - bench.counts().await?.distinct > BACKLOG {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        let first = published.get();
        let events: Result<Vec<Value>> = (first..first + BATCH).map(|number| event(number, bench)).collect();
        prefill::batch(&apis[first / BATCH % apis.len()], "nodes", events?).await?;
        published.set(first + BATCH);
    }
    Ok(())
}

fn event(number: usize, bench: &Bench) -> Result<Value> {
    let data: Value = serde_json::from_str(&payload::render(number, bench.options.payload_bytes))?;
    Ok(json!({"type": format!("bench.{}", number % ENDPOINTS), "data": data}))
}

async fn see_everything_arrive(bench: &Bench, published: usize) -> Result<()> {
    let all = || async { (bench.counts().await.ok()?.distinct >= published as u64).then_some(()) };
    children::wait_for(REST_WITHIN, all).await.context("nodes: not everything was delivered")?;
    let counts = bench.counts().await?;
    let arrivals: Arrivals = bench.receiver.ask(&ReceiverOrder::Arrivals).await?;
    let arrived = (0..published).all(|event| arrivals.first_ns[event * ENDPOINTS + event % ENDPOINTS] > 0);
    let is_right =
        arrived && counts.duplicates == 0 && counts.bad_signatures == 0 && counts.bad_requests == 0;
    ensure!(is_right, "nodes: something was lost, repeated or wrongly signed: {counts:?}");
    Ok(())
}

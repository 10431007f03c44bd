//! Fills a store before a measurement: deliveries that wait, and endpoints to which nothing is published.

use crate::{api::Api, clock};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const BATCH: usize = 1000;
const ENDPOINTS_PER_APP: usize = 100;
/// Address without a listener; no request is ever sent there.
const NOWHERE: &str = "http://127.0.0.1:9/";
/// Beyond any measurement, within what a store keeps.
const LATER_SECONDS: i64 = 29 * 86_400;

/// Endpoints that want nothing of what a measurement publishes, a hundred to an app.
pub async fn endpoints(api: &Api, count: usize) -> Result<()> {
    let mut app = String::new();
    for number in 0..count {
        if number % ENDPOINTS_PER_APP == 0 {
            app = id(&api.post("/v1/apps", &json!({"name": format!("other {number}")})).await?)?;
        }
        let endpoint = json!({"url": NOWHERE, "event_types": ["other.event"]});
        api.post(&format!("/v1/apps/{app}/endpoints"), &endpoint).await?;
    }
    Ok(())
}

/// Deliveries that are due in a month.
pub async fn waiting(api: &Api, count: usize) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let app = id(&api.post("/v1/apps", &json!({"name": "waiting"})).await?)?;
    api.post(&format!("/v1/apps/{app}/endpoints"), &json!({"url": NOWHERE})).await?;
    let due = clock::rfc3339(clock::unix_seconds() + LATER_SECONDS);
    let event = json!({"type": "waiting.event", "data": padding(), "deliver_at": due});
    publish(api, &app, &event, count).await
}

/// Cancelled deliveries in the app `again`, whose endpoint leads to this URL.
pub async fn cancelled(api: &Api, count: usize, url: &str) -> Result<()> {
    api.post("/v1/apps", &json!({"id": "again", "name": "again"})).await?;
    let off = json!({"off": {"waiting": "cancelled", "published": "cancelled"}});
    api.post("/v1/apps/again/endpoints", &json!({"id": "sink", "url": url, "overrides": off})).await?;
    api.post("/v1/apps/again/endpoints/sink/disable", &json!({})).await?;
    publish(api, "again", &json!({"type": "replayed.event", "data": padding()}), count).await?;
    api.post("/v1/apps/again/endpoints/sink/enable", &json!({})).await?;
    Ok(())
}

async fn publish(api: &Api, app: &str, event: &Value, count: usize) -> Result<()> {
    for start in (0..count).step_by(BATCH) {
        batch(api, app, vec![event.clone(); BATCH.min(count - start)]).await?;
    }
    Ok(())
}

/// Publishes at most a thousand events at once, all of which must be accepted.
pub async fn batch(api: &Api, app: &str, events: Vec<Value>) -> Result<()> {
    let answer = api.post(&format!("/v1/apps/{app}/events/batch"), &json!({"events": events})).await?;
    let accepted = |item: &Value| item["status"] == 202;
    let items = answer["data"].as_array().context("a batch answers a list")?;
    ensure!(items.iter().all(accepted), "not all events of a batch were accepted: {answer}");
    Ok(())
}

fn id(answer: &Value) -> Result<String> {
    Ok(answer["id"].as_str().with_context(|| format!("no id in {answer}"))?.to_owned())
}

fn padding() -> Value {
    json!({"pad": "x".repeat(480)})
}

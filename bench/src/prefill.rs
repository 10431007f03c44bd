//! Fills a store before a measurement: deliveries that wait, and endpoints to which nothing is published.

use crate::api::Api;
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
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let event =
        json!({"type": "waiting.event", "data": padding(), "deliver_at": rfc3339(now + LATER_SECONDS)});
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

/// Seconds since 1970 in UTC, by Howard Hinnant's calendar arithmetic.
fn rfc3339(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here, so that the day that is not in every year is the last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_794_959_999), "2026-11-17T23:59:59Z");
    }
}

//! Attempts in a delivery's history; the receiver's answer is shown as text.

use super::{
    ApiState,
    auth::AppRequest,
    query::{PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        id::{AttemptId, DeliveryId},
        outcome::{OutcomeClass, Timings},
    },
    service::paging::{AttemptRow, Page},
};
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// One HTTP request.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Attempt)]
pub(super) struct AttemptView {
    id: String,
    /// Counts those that say something about the receiver, extra ones included (retries by hand, probes ahead of their time);
    /// null for the others (`stale_connection`, `local`, `unknown`, and what was waited out because most receivers fell
    /// silent at once: `note` says so).
    number: Option<u32>,
    #[schema(format = DateTime)]
    started_at: String,
    duration_ms: u32,
    timings: TimingsView,
    /// Null if no answer came.
    status_code: Option<u16>,
    /// Whether the contract counts the answer as success.
    success: bool,
    /// `ok`, `http`, `timeout`, `dns`, `connect`, `tls`, `stale_connection`, `address_refused`, `local` or `unknown`.
    class: &'static str,
    error: Option<String>,
    /// Why it was made when it was, where its schedule does not say: a probe, tried early, kept waiting.
    note: Option<String>,
    /// Where it went; only of failed attempts.
    url: Option<String>,
    /// Only of failed attempts.
    response_headers: Option<BTreeMap<String, String>>,
    /// The first KiB, as text.
    response_body: Option<String>,
}

/// An attempt with the delivery that it was made for.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EndpointAttempt, example = json!(endpoint_example()))]
pub(super) struct EndpointAttemptView {
    delivery_id: String,
    #[serde(flatten)]
    attempt: AttemptView,
}

/// Where the time went, in milliseconds; null for what did not happen.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Timings)]
#[expect(clippy::struct_field_names, reason = "the unit belongs to the names that callers see")]
pub(super) struct TimingsView {
    dns_ms: Option<f64>,
    connect_ms: Option<f64>,
    tls_ms: Option<f64>,
    first_byte_ms: Option<f64>,
    total_ms: f64,
}

impl AttemptView {
    pub(super) fn of(delivery: DeliveryId, past: AttemptRow) -> Self {
        let AttemptRow { position, number, attempt } = past;
        let outcome = attempt.outcome;
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in &outcome.response_headers {
            let value = String::from_utf8_lossy(value);
            let entry = headers.entry(name.clone()).or_default();
            if !entry.is_empty() {
                entry.push_str(", ");
            }
            entry.push_str(&value);
        }
        let body = &outcome.response_body;
        Self {
            id: AttemptId { delivery, position }.to_string(),
            number,
            started_at: attempt.started_at.rfc3339_millis(),
            duration_ms: (outcome.timings.total_us + 500) / 1000,
            timings: TimingsView::of(outcome.timings),
            status_code: outcome.status,
            success: outcome.class == OutcomeClass::Ok,
            class: outcome.class.name(),
            error: outcome.error,
            note: attempt.note,
            url: attempt.url,
            response_headers: (!headers.is_empty()).then_some(headers),
            response_body: (!body.is_empty()).then(|| String::from_utf8_lossy(body).into_owned()),
        }
    }
}

/// List the latest attempts at an endpoint
///
/// The newest first, at most 50: of its newest deliveries, of those in flight and of those that wait for another attempt.
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints/{endpoint}/attempts", tag = "Endpoints",
    responses((status = 200, description = "The attempts", body = PageView<EndpointAttemptView>)),
)]
pub(super) async fn list_endpoint_attempts(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let page = Page { rows: api.service.recent_attempts(&entry, &path_id).await?, next: None };
    let view = |(delivery, past): (DeliveryId, AttemptRow)| EndpointAttemptView {
        delivery_id: delivery.to_string(),
        attempt: AttemptView::of(delivery, past),
    };
    response::ok(&query.page_view(&api.service, page, view))
}

pub(super) fn example() -> Value {
    json!({
        "id": "del_01jd2s3c8g0011", "number": 1, "started_at": "2026-11-15T09:30:00.004Z", "duration_ms": 87,
        "timings": { "dns_ms": 2.1, "connect_ms": 11.4, "tls_ms": 24.9, "first_byte_ms": 86.0, "total_ms": 86.7 },
        "status_code": 500, "success": false, "class": "http", "error": "HTTP 500", "note": null,
        "url": "https://hooks.bakery.example/in",
        "response_headers": { "content-type": "text/plain" }, "response_body": "try later",
    })
}

fn endpoint_example() -> Value {
    let mut attempt = example();
    attempt["delivery_id"] = json!("dlv_01jd2s3c8g001");
    attempt
}

impl TimingsView {
    fn of(timings: Timings) -> Self {
        let ms = |us: u32| f64::from(us) / 1000.0;
        Self {
            dns_ms: timings.dns_us.map(ms),
            connect_ms: timings.connect_us.map(ms),
            tls_ms: timings.tls_us.map(ms),
            first_byte_ms: timings.first_byte_us.map(ms),
            total_ms: ms(timings.total_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        contract::ContractHash,
        outcome::{Attempt, Outcome},
        time::Timestamp,
    };
    use bytes::Bytes;

    #[test]
    fn any_answer_of_a_receiver_is_shown_as_text() {
        let outcome = Outcome {
            response_body: Bytes::from_static(b"a\xff\0b"),
            response_headers: vec![
                ("set-cookie".into(), Bytes::from_static(b"a=1")),
                ("set-cookie".into(), Bytes::from_static(b"\xfe")),
            ],
            timings: Timings { total_us: 1_499, ..Timings::default() },
            ..Outcome::failed(OutcomeClass::Http, "odd")
        };
        let attempt = Attempt {
            started_at: Timestamp::from_millis(0),
            outcome,
            contract: ContractHash([0; 16]),
            endpoint_revision: 1,
            url: None,
            note: None,
        };
        let past = AttemptRow { position: 3, number: None, attempt };
        let view = serde_json::to_value(AttemptView::of(DeliveryId::from_i64(9), past)).unwrap();
        assert_eq!(view["response_body"], "a\u{fffd}\0b");
        assert_eq!(view["response_headers"]["set-cookie"], "a=1, \u{fffd}");
        assert_eq!((&view["duration_ms"], &view["timings"]["total_ms"]), (&json!(1), &json!(1.499)));
        assert_eq!(view["id"], format!("{}3", DeliveryId::from_i64(9).with_prefix("del")));
        assert_eq!(view["number"], Value::Null);
    }
}

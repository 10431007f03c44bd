//! `/v1/apps/{app}/endpoints/{endpoint}/health`

use super::{
    ApiState,
    auth::AppRequest,
    response::{self, ApiResult},
};
use crate::{
    domain::{statistics::Counters, time::Timestamp},
    service::health::EndpointHealth,
};
use axum::extract::State;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// How an endpoint is, and why.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EndpointHealth, example = json!({
    "state": "failing", "since": "2026-11-15T09:30:00.000Z", "consecutive_failures": 31, "failed_events_in_a_row": 3,
    "first_failure_at": "2026-11-13T08:00:00.000Z", "last_success_at": "2026-11-13T07:59:00.000Z", "last_error": "HTTP 503",
    "warned_at": "2026-11-15T20:00:00.000Z", "off_at": "2026-11-18T08:00:00.000Z",
    "windows": {
        "1h": { "attempts": 0, "failed": 0, "success_rate": null, "delivered": 0, "dead": 0, "latency_ms": { "p50": null, "p90": null, "p99": null } },
        "24h": { "attempts": 12, "failed": 12, "success_rate": 0.0, "delivered": 0, "dead": 1, "latency_ms": { "p50": 20.5, "p90": 31.2, "p99": 32.8 } },
        "72h": { "attempts": 912, "failed": 31, "success_rate": 0.966, "delivered": 881, "dead": 3, "latency_ms": { "p50": 10.2, "p90": 15.1, "p99": 30.9 } },
    },
}))]
struct EndpointHealthView {
    /// `healthy`; `degraded`: too much of it failed, as its contract says, else over half of the last hour's attempts;
    /// `failing`: ten attempts in a row failed; or `disabled`.
    state: &'static str,
    #[schema(format = DateTime)]
    since: String,
    /// Attempts.
    consecutive_failures: u32,
    /// In the order of their end; only a delivered one starts the count afresh.
    failed_events_in_a_row: u32,
    /// The first since the last success.
    #[schema(format = DateTime)]
    first_failure_at: Option<String>,
    /// As far back as statistics are kept, 30 days.
    #[schema(format = DateTime)]
    last_success_at: Option<String>,
    last_error: Option<String>,
    /// When its owner was told that it will be switched off.
    #[schema(format = DateTime)]
    warned_at: Option<String>,
    /// When it will be switched off if nothing succeeds; later if there is trouble of our own meanwhile.
    #[schema(format = DateTime)]
    #[serde(rename = "off_at")]
    disables_at: Option<String>,
    /// `1h`, `24h` and `72h`, up to now. The last two begin with a whole hour.
    windows: BTreeMap<&'static str, WindowView>,
}

/// Attempts within some time. Tests and faults of our own are not among them.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = HealthWindow)]
struct WindowView {
    attempts: u64,
    failed: u64,
    /// From 0 to 1; null without attempts.
    success_rate: Option<f64>,
    /// Deliveries that ended so.
    delivered: u64,
    /// The same, as far as the receiver is to blame; statistics count all.
    dead: u64,
    latency_ms: LatencyView,
}

/// What attempts took, right within a factor of two.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Latency)]
pub(super) struct LatencyView {
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
}

impl LatencyView {
    pub(super) fn of(counters: &Counters) -> Self {
        let ms = |percent| counters.percentile(percent).map(|took| rounded(took.as_secs_f64() * 1000.0));
        Self { p50: ms(50), p90: ms(90), p99: ms(99) }
    }
}

/// Rounds to three decimal places.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

impl WindowView {
    fn of(counters: &Counters) -> Self {
        Self {
            attempts: counters.attempts(),
            failed: counters.failed,
            success_rate: counters.success_rate().map(rounded),
            delivered: counters.delivered,
            dead: counters.dead_by_receiver(),
            latency_ms: LatencyView::of(counters),
        }
    }
}

impl EndpointHealthView {
    fn of(shown: EndpointHealth) -> Self {
        let EndpointHealth { state, since, health, disables_at, last_success_at, windows } = shown;
        let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339_millis);
        Self {
            state,
            since: since.rfc3339_millis(),
            consecutive_failures: health.consecutive_failures,
            failed_events_in_a_row: health.failed_events,
            first_failure_at: time(health.first_failure.map(|moment| moment.at)),
            last_success_at: time(last_success_at),
            last_error: health.last_error,
            warned_at: time(health.warned_at.map(|moment| moment.at)),
            disables_at: time(disables_at),
            windows: windows.iter().map(|(name, counters)| (*name, WindowView::of(counters))).collect(),
        }
    }
}

/// Get an endpoint's health
///
/// What happened since its last success, what its contract's rules make of it, and what was counted. A second behind at most.
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints/{endpoint}/health", tag = "Endpoints",
    responses((status = 200, description = "How it is", body = EndpointHealthView)),
)]
pub(super) async fn get_endpoint_health(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    response::ok(&EndpointHealthView::of(api.service.endpoint_health(&entry, &path_id).await?))
}

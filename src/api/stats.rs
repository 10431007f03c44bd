//! `/v1/stats` and `/v1/apps/{app}/stats`: counters over time.

use super::{
    ApiState,
    auth::{AppRequest, Authenticated},
    endpoint_view::status,
    health::{LatencyView, rounded},
    problem::Problem,
    query::Query,
    response::{self, ApiResult},
};
use crate::{
    domain::{statistics::Counters, time::Timestamp},
    service::statistics::{EndpointStatistics, StatisticsQuery, StatisticsReport},
};
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// Failure kinds that are listed; less frequent ones are left out.
const FAILURES_MAX: usize = 20;

/// Which time.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameters that both have")]
struct StatsParameters {
    /// At this time or later; a day before `to` if it is not given.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Before this time; now if it is not given.
    #[param(format = DateTime)]
    to: Option<String>,
    /// Only events of this type, and their deliveries.
    event_type: Option<String>,
}

/// What was counted of events, deliveries and attempts. Tests are not among them, and no attempts that failed by a fault of our
/// own; but a delivery that died of one is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Stats, example = json!({
    "from": "2026-11-15T09:00:00.000Z", "to": "2026-11-15T10:00:00.000Z", "step_seconds": 3600,
    "totals": {
        "events": 40, "delivered": 39, "dead": 0, "expired": 0, "attempts": 43, "failed": 4, "success_rate": 0.907,
        "latency_ms": { "p50": 10.2, "p90": 15.1, "p99": 30.9 },
    },
    "backlog": { "waiting": 1, "held": 0, "oldest_due_at": "2026-11-15T10:05:00.000Z" },
    "status_classes": { "2xx": 39, "5xx": 3, "none": 1 },
    "failures": [{ "code": "503", "count": 3 }, { "code": "timeout", "count": 1 }],
    "endpoints": [{
        "app_id": "bakery", "endpoint_id": "shop", "url": "https://hooks.bakery.example/in", "status": "active",
        "events": null, "delivered": 39, "dead": 0, "expired": 0, "attempts": 43, "failed": 4, "success_rate": 0.907,
        "latency_ms": { "p50": 10.2, "p90": 15.1, "p99": 30.9 },
    }],
    "event_types": [{
        "event_type": "order.paid", "events": 40, "delivered": 39, "dead": 0, "expired": 0, "attempts": 43, "failed": 4,
        "success_rate": 0.907, "latency_ms": { "p50": 10.2, "p90": 15.1, "p99": 30.9 },
    }],
    "series": [{
        "at": "2026-11-15T09:00:00.000Z", "events": 40, "delivered": 39, "dead": 0, "expired": 0, "attempts": 43, "failed": 4,
        "success_rate": 0.907, "latency_ms": { "p50": 10.2, "p90": 15.1, "p99": 30.9 },
    }],
}))]
struct StatsView {
    /// Where the first point begins: at or before what was asked for, by the width of the rows that are kept. Minutes are kept
    /// for three hours, hours for 30 days, days for 400.
    #[schema(format = DateTime)]
    from: String,
    /// Where the last point ends.
    #[schema(format = DateTime)]
    to: String,
    /// How much time a point stands for.
    step_seconds: i64,
    totals: CountersView,
    backlog: BacklogView,
    /// Attempts by what was answered: `2xx`, `3xx`, `4xx`, `5xx`, `other`, and `none` where no answer came.
    status_classes: BTreeMap<&'static str, u64>,
    /// What failed attempts were answered, or their class where no answer came; the most common first.
    failures: Vec<FailureView>,
    /// The one that fails most first, at most 50; of more than 5,000 endpoints the rest is not looked at. Totals and series are
    /// of all. Empty with `event_type`.
    endpoints: Vec<EndpointStatsView>,
    /// The busiest first, at most 50. Beyond 200 types in a day the rest is counted together, as `*`. Empty with `endpoint_id`.
    event_types: Vec<EventTypeStatsView>,
    /// One point after the other, also where nothing happened.
    series: Vec<PointView>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Counted)]
struct CountersView {
    /// Published. Null of an endpoint: events have none.
    events: Option<u64>,
    /// Deliveries that ended so; what was cancelled is not counted.
    delivered: u64,
    /// The same, whatever they died of.
    dead: u64,
    /// The same: too old, or no longer kept.
    expired: u64,
    attempts: u64,
    failed: u64,
    /// Of attempts, from 0 to 1; null without any.
    success_rate: Option<f64>,
    latency_ms: LatencyView,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = StatsPoint)]
struct PointView {
    #[schema(format = DateTime)]
    at: String,
    #[serde(flatten)]
    counted: CountersView,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EndpointStats)]
struct EndpointStatsView {
    app_id: String,
    endpoint_id: String,
    url: String,
    /// `active`, `degraded` or `disabled`.
    status: &'static str,
    #[serde(flatten)]
    counted: CountersView,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventTypeStats)]
struct EventTypeStatsView {
    event_type: String,
    #[serde(flatten)]
    counted: CountersView,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = FailureCount)]
struct FailureView {
    /// For example `503` or `timeout`.
    code: String,
    count: u64,
}

/// What is not delivered yet, at this moment: of the endpoint, the app or all of them.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Backlog)]
struct BacklogView {
    /// Deliveries; counted up to 100,000.
    waiting: u64,
    /// The same, of endpoints that are off; of more than 5,000 endpoints the rest is not looked at.
    held: u64,
    /// Of what waits: when the first is or was due.
    #[schema(format = DateTime)]
    oldest_due_at: Option<String>,
}

impl CountersView {
    fn of(counters: &Counters) -> Self {
        Self {
            events: Some(counters.events),
            delivered: counters.delivered,
            dead: counters.dead,
            expired: counters.expired,
            attempts: counters.attempts(),
            failed: counters.failed,
            success_rate: counters.success_rate().map(rounded),
            latency_ms: LatencyView::of(counters),
        }
    }
}

impl EndpointStatsView {
    fn of(counted: EndpointStatistics) -> Self {
        let EndpointStatistics { app, endpoint, is_in_trouble, counters } = counted;
        Self {
            app_id: app,
            endpoint_id: endpoint.record.uid.clone(),
            url: endpoint.record.settings.url.clone(),
            status: status(&endpoint, is_in_trouble),
            counted: CountersView { events: None, ..CountersView::of(&counters) },
        }
    }
}

fn status_class(status: Option<u16>) -> &'static str {
    match status.map(|status| status / 100) {
        Some(2) => "2xx",
        Some(3) => "3xx",
        Some(4) => "4xx",
        Some(5) => "5xx",
        Some(_) => "other",
        None => "none",
    }
}

impl StatsView {
    fn of(shown: StatisticsReport, is_of_endpoint: bool) -> Self {
        let StatisticsReport { span, totals, series, endpoints, event_types, backlog } = shown;
        let counted = |counters: &Counters| {
            let counted = CountersView::of(counters);
            CountersView { events: counted.events.filter(|_| !is_of_endpoint), ..counted }
        };
        let mut status_classes = BTreeMap::new();
        for (ending, count) in &totals.result_counts {
            *status_classes.entry(status_class(ending.status())).or_default() += count;
        }
        let failures = totals.failures().into_iter().take(FAILURES_MAX);
        let point = |(at, counters): &(Timestamp, Counters)| PointView {
            at: at.rfc3339_millis(),
            counted: counted(counters),
        };
        let of_type = |(event_type, counters): (String, Counters)| EventTypeStatsView {
            event_type,
            counted: CountersView::of(&counters),
        };
        Self {
            from: span.from.rfc3339_millis(),
            to: span.to.rfc3339_millis(),
            step_seconds: span.step,
            totals: counted(&totals),
            backlog: BacklogView {
                waiting: backlog.waiting,
                held: backlog.held,
                oldest_due_at: backlog.oldest_due.map(Timestamp::rfc3339_millis),
            },
            status_classes,
            failures: failures.map(|(ending, count)| FailureView { code: ending.name(), count }).collect(),
            endpoints: endpoints.into_iter().map(EndpointStatsView::of).collect(),
            event_types: event_types.into_iter().map(of_type).collect(),
            series: series.iter().map(point).collect(),
        }
    }
}

fn statistics_query(query: &Query) -> Result<StatisticsQuery, Problem> {
    Ok(StatisticsQuery {
        from: query.time("from")?,
        to: query.time("to")?,
        endpoint: query.owned("endpoint_id"),
        event_type: query.owned("event_type"),
    })
}

/// Get the statistics of all apps
///
/// Needs an admin key. A second behind at most, but for the backlog, which is as it is now.
#[utoipa::path(
    get, path = "/v1/stats", tag = "Statistics", params(StatsParameters),
    responses((status = 200, description = "What was counted", body = StatsView)),
)]
pub(super) async fn get_stats(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read_without_paging(&uri, &["from", "to", "event_type"])?;
    let shown = api.service.statistics(caller, statistics_query(&query)?).await?;
    response::ok(&StatsView::of(shown, false))
}

/// Get an app's statistics
///
/// A second behind at most, but for the backlog, which is as it is now.
#[utoipa::path(
    get, path = "/v1/apps/{app}/stats", tag = "Statistics",
    params(
        ("endpoint_id" = Option<String>, Query, description = "Only of this endpoint; not together with `event_type`."),
        StatsParameters,
    ),
    responses((status = 200, description = "What was counted", body = StatsView)),
)]
pub(super) async fn get_app_stats(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read_without_paging(&uri, &["from", "to", "endpoint_id", "event_type"])?;
    let search = statistics_query(&query)?;
    let is_of_endpoint = search.endpoint.is_some();
    response::ok(&StatsView::of(api.service.statistics_of(&entry, search).await?, is_of_endpoint))
}

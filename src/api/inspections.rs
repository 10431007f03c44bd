//! `…/endpoints/{endpoint}/inspect`, `ping` and `inspections`: which protections a receiver has.

use super::{
    ApiState,
    auth::AppRequest,
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        inspection::{InspectionCheck, InspectionFinding, InspectionKind, InspectionReport},
        time::Timestamp,
    },
    service::inspections::NamedInspection,
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A receiver that was or is to be inspected.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Inspection, example = json!(example()))]
pub(super) struct InspectionView {
    id: String,
    endpoint_id: String,
    /// `inspect`, or `ping`: the health address alone.
    kind: &'static str,
    /// `waiting`, `running`, `finished`, `interrupted` (the server stopped in the middle) or `cancelled` (the endpoint was
    /// deleted).
    status: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    /// There once it is finished.
    report: Option<ReportView>,
}

/// What came of an inspection.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = InspectionReport)]
pub(super) struct ReportView {
    /// The contract that the endpoint had.
    contract: String,
    summary: SummaryView,
    checks: Vec<CheckView>,
}

/// How many checks were found so.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = InspectionSummary)]
pub(super) struct SummaryView {
    passed: usize,
    failed: usize,
    does_not_apply: usize,
    unknown: usize,
}

/// One thing that a receiver should do.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = InspectionCheck)]
pub(super) struct CheckView {
    /// `correct_delivery`, `tampered_body`, `old_timestamp`, `unknown_signature`, `repeated_id`, `odd_json`, `answer_time` or
    /// `health_address`.
    name: &'static str,
    title: &'static str,
    /// `passed`, `failed`, `does_not_apply` or `unknown`.
    finding: &'static str,
    status_code: Option<u16>,
    duration_ms: Option<u32>,
    /// What was sent, in words.
    sent: String,
    came_back: String,
    /// Why it matters.
    why: String,
    /// What to do, where there is something to do.
    advice: Option<String>,
}

impl InspectionView {
    fn of(shown: NamedInspection) -> Self {
        let NamedInspection { inspection, endpoint } = shown;
        Self {
            id: inspection.id.to_string(),
            endpoint_id: endpoint,
            kind: inspection.kind.name(),
            status: inspection.state.name(),
            created_at: inspection.created_at.rfc3339_millis(),
            finished_at: inspection.finished_at.map(Timestamp::rfc3339_millis),
            report: inspection.report.map(ReportView::of),
        }
    }
}

impl ReportView {
    fn of(report: InspectionReport) -> Self {
        let summary = SummaryView {
            passed: report.count(InspectionFinding::Passed),
            failed: report.count(InspectionFinding::Failed),
            does_not_apply: report.count(InspectionFinding::DoesNotApply),
            unknown: report.count(InspectionFinding::Unknown),
        };
        let checks = report.checks.into_iter().map(CheckView::of).collect();
        Self { contract: report.contract, summary, checks }
    }
}

impl CheckView {
    fn of(check: InspectionCheck) -> Self {
        Self {
            name: check.name.name(),
            title: check.name.title(),
            finding: check.finding.name(),
            status_code: check.status,
            duration_ms: check.duration_ms,
            sent: check.sent,
            came_back: check.came_back,
            why: check.why,
            advice: check.advice,
        }
    }
}

fn example() -> Value {
    json!({
        "id": "ins_01jd2s4r9g000", "endpoint_id": "ep_01jd2s0a5g000", "kind": "ping", "status": "finished",
        "created_at": "2026-11-15T09:30:00.000Z", "finished_at": "2026-11-15T09:30:00.120Z",
        "report": {
            "contract": "standard",
            "summary": { "passed": 1, "failed": 0, "does_not_apply": 0, "unknown": 0 },
            "checks": [{
                "name": "health_address", "title": "Has a health address that answers", "finding": "passed",
                "status_code": 204, "duration_ms": 12, "sent": "A GET of the health_url.",
                "came_back": "HTTP 204 after 12 ms.",
                "why": "With a health address people can tell a receiver that is down from one that refuses.",
                "advice": null,
            }],
        },
    })
}

/// Inspect a receiver
///
/// Sends the endpoint a correct delivery, then a changed body, an old timestamp, an unknown signature, the same id again and
/// odd but legal JSON, times the answers and asks the health address; the report says which protections the receiver has.
/// All of it is test traffic: events of type `webhook.test`, marked with the header `posthaste-inspection`. It goes out even
/// if the endpoint is off, leaves no deliveries, and never counts for the endpoint's health.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/inspect", tag = "Endpoints",
    responses(
        (status = 202, description = "The inspection, which waits for its turn", body = InspectionView),
        (status = 409, description = "The endpoint is being inspected already"),
    ),
)]
pub(super) async fn inspect_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    let shown = api.service.inspect(&entry, &path_id, InspectionKind::Inspect).await?;
    response::json(StatusCode::ACCEPTED, &InspectionView::of(shown))
}

/// Ping the health address
///
/// An inspection of the endpoint's `health_url` alone.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/ping", tag = "Endpoints",
    responses(
        (status = 202, description = "The inspection, which waits for its turn", body = InspectionView),
        (status = 409, description = "The endpoint is being inspected already"),
        (status = 422, description = "The endpoint has no health_url"),
    ),
)]
pub(super) async fn ping_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    let shown = api.service.inspect(&entry, &path_id, InspectionKind::Ping).await?;
    response::json(StatusCode::ACCEPTED, &InspectionView::of(shown))
}

/// List an endpoint's inspections
///
/// The newest first. The last ten that ended are kept.
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints/{endpoint}/inspections", tag = "Endpoints", params(PageParameters),
    responses((status = 200, description = "A page of inspections", body = PageView<InspectionView>)),
)]
pub(super) async fn list_inspections(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let (after, limit) = (query.cursor(&api.service)?, query.limit()?);
    let page = api.service.inspections(&entry, &path_id, after, limit).await?;
    response::ok(&query.page_view(&api.service, page, InspectionView::of))
}

/// Get an inspection
///
/// With its report, once it is finished.
#[utoipa::path(
    get, path = "/v1/apps/{app}/inspections/{inspection}", tag = "Endpoints",
    responses((status = 200, description = "The inspection", body = InspectionView)),
)]
pub(super) async fn get_inspection(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    response::ok(&InspectionView::of(api.service.inspection(&entry, &path_id).await?))
}

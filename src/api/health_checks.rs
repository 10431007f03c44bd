//! `/livez`, `/readyz`, `/openapi.json`: endpoints for machines, without a key.

use super::{
    ApiState,
    response::{self, ApiResult},
};
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// Whether the process is there, or takes events.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Health, example = json!({ "status": "ok", "reasons": [] }))]
pub(super) struct HealthView {
    /// `ok` or `unavailable`.
    status: &'static str,
    /// Why not; empty if ok.
    reasons: Vec<ReasonView>,
}

/// Why no events are taken.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = NotReadyReason)]
pub(super) struct ReasonView {
    /// `starting`, `stopping`, `store` or `storage_full`.
    code: &'static str,
    detail: String,
}

/// Is the process running
#[utoipa::path(
    get, path = "/livez", tag = "Operation", security(()),
    responses((status = 200, description = "It is", body = HealthView)),
)]
pub(super) async fn livez() -> ApiResult {
    response::ok(&HealthView { status: "ok", reasons: Vec::new() })
}

/// Does it take events
#[utoipa::path(
    get, path = "/readyz", tag = "Operation", security(()),
    responses(
        (status = 200, description = "It does", body = HealthView),
        (status = 503, description = "It does not, and why", body = HealthView, example = json!({
            "status": "unavailable", "reasons": [{ "code": "starting", "detail": "This node is still starting." }],
        })),
    ),
)]
pub(super) async fn readyz(State(api): State<Arc<ApiState>>) -> ApiResult {
    let reasons = api.service.not_ready();
    let (http, status) = if reasons.is_empty() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    let reasons = reasons.into_iter().map(|reason| ReasonView { code: reason.code, detail: reason.detail });
    response::json(http, &HealthView { status, reasons: reasons.collect() })
}

/// This description
#[utoipa::path(
    get, path = "/openapi.json", tag = "Operation", security(()),
    responses((status = 200, description = "An OpenAPI 3.1 document", body = Object, content_type = "application/json",
        example = json!({ "openapi": "3.1.0" }))),
)]
pub(super) async fn openapi(State(api): State<Arc<ApiState>>) -> ApiResult {
    Ok(response::bytes(StatusCode::OK, response::JSON, api.openapi.clone()))
}

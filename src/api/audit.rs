//! `/v1/audit` and `/v1/apps/{app}/audit`

use super::{
    ApiState,
    auth::{AppRequest, Authenticated},
    problem::Problem,
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::audit::AuditAction,
    service::audit::{AuditQuery, NamedAuditEntry},
};
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Which entries.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the filters that both lists have")]
struct AuditParameters {
    /// Only by this key; `settings` is the one that the settings gave.
    key_id: Option<String>,
    /// Only this action, for example `endpoint.changed`.
    action: Option<String>,
    /// At this time or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Before this time.
    #[param(format = DateTime)]
    to: Option<String>,
}

/// One change: who did what, when.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditEntry, example = json!({
    "id": "aud_01jd2s3c8g000", "at": "2026-11-15T09:30:00.000Z", "key_id": "key_01jd2s0a5g000", "key_name": "checkout",
    "scope": "app", "app_id": "merchant-17", "action": "endpoint.changed", "thing": "ep_01jd2s0a5g000",
    "detail": { "fields": ["url"] },
}))]
pub(super) struct AuditEntryView {
    id: String,
    #[schema(format = DateTime)]
    at: String,
    /// The key that did it; `settings` for the one that the settings gave.
    key_id: String,
    /// As the key was called then.
    key_name: Option<String>,
    /// What the key was allowed.
    scope: String,
    /// The app it happened in; null for what belongs to no app, and for the end of an app.
    app_id: Option<String>,
    /// What was done, for example `endpoint.changed`.
    action: &'static str,
    /// The id of what it was done to.
    #[serde(rename = "thing")]
    object_id: String,
    /// A little more, for people: the names of changed fields, never what is in them.
    #[schema(value_type = Option<Object>)]
    detail: Option<Value>,
}

impl AuditEntryView {
    fn of(NamedAuditEntry { entry, key, app }: NamedAuditEntry) -> Self {
        Self {
            id: entry.id.to_string(),
            at: entry.at.rfc3339_millis(),
            key_id: key,
            key_name: entry.key_name,
            scope: entry.scope,
            app_id: app,
            action: entry.action.name(),
            object_id: entry.object_id,
            detail: entry.detail.and_then(|detail| serde_json::to_value(detail).ok()),
        }
    }
}

fn audit_query(query: &Query) -> Result<AuditQuery, Problem> {
    let action = query.get("action").map(|name| {
        let known = || AuditAction::ALL.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ");
        AuditAction::parse(name)
            .ok_or_else(|| Problem::invalid("action", &format!("must be one of {}", known())))
    });
    Ok(AuditQuery {
        app: query.owned("app_id"),
        key: query.owned("key_id"),
        action: action.transpose()?,
        from: query.time("from")?,
        to: query.time("to")?,
    })
}

/// List who changed what
///
/// Needs an admin key. The newest first; publishing is not in it.
#[utoipa::path(
    get, path = "/v1/audit", tag = "Audit",
    params(
        ("app_id" = Option<String>, Query, description = "Only what happened in this app."),
        AuditParameters, PageParameters,
    ),
    responses((status = 200, description = "A page of entries", body = PageView<AuditEntryView>)),
)]
pub(super) async fn list_audit(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["app_id", "key_id", "action", "from", "to"])?;
    let (after, limit) = (query.cursor(&api.service)?, query.limit()?);
    let page = api.service.audit(caller, audit_query(&query)?, after, limit).await?;
    response::ok(&query.page_view(&api.service, page, AuditEntryView::of))
}

/// List who changed what in an app
///
/// The newest first; publishing is not in it.
#[utoipa::path(
    get, path = "/v1/apps/{app}/audit", tag = "Audit", params(AuditParameters, PageParameters),
    responses((status = 200, description = "A page of entries", body = PageView<AuditEntryView>)),
)]
pub(super) async fn list_app_audit(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["key_id", "action", "from", "to"])?;
    let (after, limit) = (query.cursor(&api.service)?, query.limit()?);
    let page = api.service.audit_of(&entry, audit_query(&query)?, after, limit).await?;
    response::ok(&query.page_view(&api.service, page, AuditEntryView::of))
}

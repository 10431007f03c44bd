//! `/v1/find/{id}`: search by id, for a search box.

use super::{
    ApiState,
    auth::{Authenticated, segment},
    response::{self, ApiResult},
};
use crate::service::search::SearchResult;
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use std::sync::Arc;

/// What an id may be, the likeliest first; at most 20.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Finds, example = json!({
    "data": [{ "kind": "delivery", "id": "dlv_01jd2s3c8g001", "app_id": "bakery", "endpoint_id": null }],
}))]
struct SearchResultsView {
    data: Vec<SearchResultView>,
}

/// Something that has this id.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Found)]
struct SearchResultView {
    /// `app`, `endpoint`, `event`, `delivery`, `replay`, `inspection`, `notice`, `key`, `portal_link`, `event_type`, `contract`
    /// or `audit_entry`.
    kind: &'static str,
    /// For an attempt's id that of its delivery.
    id: String,
    /// The app that it is in; null for what is outside of apps.
    app_id: Option<String>,
    /// Of an inspection: where it was made.
    endpoint_id: Option<String>,
}

impl SearchResultView {
    fn of(found: SearchResult) -> Self {
        Self { kind: found.kind.name(), id: found.id, app_id: found.app, endpoint_id: found.endpoint }
    }
}

/// Find something by its id
///
/// Yours or ours, of anything that this key may look at; an app key finds what is in its app.
#[utoipa::path(
    get, path = "/v1/find/{id}", tag = "System",
    responses((status = 200, description = "What it may be; empty if nothing has this id", body = SearchResultsView)),
)]
pub(super) async fn find(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let found = api.service.search(caller, &segment(uri.path(), 3)?).await?;
    response::ok(&SearchResultsView { data: found.into_iter().map(SearchResultView::of).collect() })
}

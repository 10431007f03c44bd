//! `/v1/apps/{app}/dead-letters`: deliveries that ended undelivered and await a decision.

use super::{
    ApiState,
    auth::AppRequest,
    deliveries::DeliveryView,
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{app::App, time::Timestamp},
    service::{deliveries::RequestedAction, named_delivery::NamedDelivery},
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;

/// A dead delivery; its id is the delivery's.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetter, example = json!({
    "id": "dlv_01jd2s3c8g001", "event_id": "order-1001-paid", "event_type": "payment.completed",
    "endpoint_id": "ep_01jd2s0a5g000", "status": "dead", "reason": "exhausted", "attempt_count": 10,
    "next_attempt_at": null, "last_error": "HTTP 500", "created_at": "2026-11-15T09:30:00.000Z",
    "finished_at": "2026-11-18T13:05:05.000Z", "skipped_at": null, "replay_of": null, "contract_status": "dead",
    "app_id": "merchant-17", "url": "https://hooks.bakery.example/in", "advice": null,
    "failed_at": "2026-11-18T13:05:05.000Z", "expires_at": "2026-12-18T13:05:05.000Z",
}))]
pub(super) struct DeadLetterView {
    #[serde(flatten)]
    delivery: DeliveryView,
    app_id: String,
    /// Where its endpoint leads now, or led when it was deleted.
    #[schema(format = "uri")]
    url: Option<String>,
    /// What to do about the last answer, if the contract has advice.
    advice: Option<String>,
    #[schema(format = DateTime)]
    failed_at: Option<String>,
    /// Until when it is kept at least; null if it is kept until it is deleted, and for a closed one, which goes with its
    /// event.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

impl DeadLetterView {
    fn of(shown: &NamedDelivery, app: &App) -> Self {
        Self {
            delivery: DeliveryView::of(shown, app),
            app_id: app.uid.clone(),
            url: shown.url.clone(),
            advice: shown.advice(),
            failed_at: shown.delivery.finished_at.map(Timestamp::rfc3339_millis),
            expires_at: shown.expires_at().map(Timestamp::rfc3339_millis),
        }
    }
}

/// Which dead letters to list.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameters that the list reads")]
pub(super) struct DeadLetterFilters {
    endpoint_id: Option<String>,
    /// Also those that were closed.
    closed: Option<bool>,
}

/// List dead letters
///
/// The last that died first.
#[utoipa::path(
    get, path = "/v1/apps/{app}/dead-letters", tag = "Dead letters", params(DeadLetterFilters, PageParameters),
    responses((status = 200, description = "A page of dead letters", body = PageView<DeadLetterView>)),
)]
pub(super) async fn list_dead_letters(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["endpoint_id", "closed"])?;
    let (endpoint, closed) = (query.get("endpoint_id"), query.flag("closed")?);
    let page = api
        .service
        .dead_letters(&entry, endpoint, closed, query.cursor(&api.service)?, query.limit()?)
        .await?;
    let app = entry.app();
    response::ok(&query.page_view(&api.service, page, |shown| DeadLetterView::of(&shown, &app)))
}

/// Replay a dead letter
///
/// The same delivery on a fresh schedule; its numbering continues.
#[utoipa::path(
    post, path = "/v1/apps/{app}/dead-letters/{delivery}/replay", tag = "Dead letters",
    responses(
        (status = 202, description = "The delivery", body = DeliveryView),
        (status = 409, description = "Its endpoint was deleted"),
    ),
)]
pub(super) async fn replay_dead_letter(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    let shown = api.service.act_on_dead_letter(caller, &entry, &path_id, RequestedAction::Replay).await?;
    response::json(StatusCode::ACCEPTED, &DeliveryView::of(&shown, &entry.app()))
}

/// Close a dead letter
///
/// No replay is expected any more; it is no longer listed unless asked for.
#[utoipa::path(
    post, path = "/v1/apps/{app}/dead-letters/{delivery}/close", tag = "Dead letters",
    responses(
        (status = 200, description = "The dead letter", body = DeadLetterView),
        (status = 409, description = "It is no dead letter any more"),
    ),
)]
pub(super) async fn close_dead_letter(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    let shown = api.service.act_on_dead_letter(caller, &entry, &path_id, RequestedAction::Close).await?;
    response::ok(&DeadLetterView::of(&shown, &entry.app()))
}

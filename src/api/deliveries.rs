//! `/v1/apps/{app}/deliveries`

use super::{
    ApiState,
    attempt_view::{self, AttemptView},
    auth::AppRequest,
    problem::Problem,
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        app::App,
        delivery::{DeliveryState, EndReason},
        id::made_at,
        time::Timestamp,
    },
    service::{
        deliveries::{DeliveryQuery, RequestedAction},
        named_delivery::NamedDelivery,
    },
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// One event to one endpoint.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Delivery, example = json!(example()))]
pub(super) struct DeliveryView {
    pub id: String,
    pub event_id: String,
    pub event_type: String,
    pub endpoint_id: String,
    /// `pending`, `retrying`, `in_flight`, `held`, `delivered`, `dead`, `cancelled` or `expired`.
    pub status: &'static str,
    /// The same in the names of its contract.
    pub contract_status: String,
    /// Why it ended: `exhausted`, `refused_by_receiver`, `serialisation_failed`, `signing_failed`, `closed`,
    /// `endpoint_off`, `endpoint_deleted`, `by_hand`, `give_up_after` or `retention`.
    pub reason: Option<&'static str>,
    pub attempt_count: u32,
    #[schema(format = DateTime)]
    pub next_attempt_at: Option<String>,
    pub last_error: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// When those behind it in its order went on without it, because it was dead and its endpoint skips such.
    #[schema(format = DateTime)]
    pub skipped_at: Option<String>,
    pub replay_of: Option<String>,
}

/// A delivery with its history.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeliveryDetail, example = json!(detail_example()))]
pub(super) struct DeliveryDetailView {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// What to do about the last answer, if the contract has advice.
    advice: Option<String>,
    /// It is due and not sent now: what it waits for, in words.
    waits_because: Option<String>,
    /// The oldest first.
    attempts: Vec<AttemptView>,
    /// Attempts were made that are kept no longer; `attempt_count` still counts them.
    attempts_expired: bool,
}

/// Which deliveries to list.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameters that the list reads")]
pub(super) struct DeliveryFilters {
    /// One state, or several with commas between them.
    status: Option<String>,
    endpoint_id: Option<String>,
    /// The producer's id or ours.
    event_id: Option<String>,
    /// Exactly this type.
    event_type: Option<String>,
    /// Created at this time or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Created before this time.
    #[param(format = DateTime)]
    to: Option<String>,
    /// `next_attempt_at`: only what waits, the next due first.
    order: Option<String>,
}

impl DeliveryView {
    pub(super) fn of(shown: &NamedDelivery, app: &App) -> Self {
        let NamedDelivery { delivery, event, endpoint, .. } = shown;
        Self {
            id: delivery.id.to_string(),
            event_id: event.public_id(app.id_prefix()),
            event_type: event.event_type.clone(),
            endpoint_id: endpoint.clone(),
            status: delivery.state.name(),
            contract_status: shown.contract_status().to_owned(),
            reason: delivery.reason.map(EndReason::name),
            attempt_count: delivery.attempt_count,
            next_attempt_at: delivery.next_attempt_at().map(Timestamp::rfc3339_millis),
            last_error: shown.last_error(),
            created_at: made_at(delivery.id.as_i64()).rfc3339_millis(),
            finished_at: delivery.finished_at.map(Timestamp::rfc3339_millis),
            skipped_at: delivery.skipped_at.map(Timestamp::rfc3339_millis),
            replay_of: delivery.replay_of.map(|id| id.to_string()),
        }
    }
}

/// List deliveries
///
/// The newest first. A page may come back short, with a cursor, when a filter fits few.
#[utoipa::path(
    get, path = "/v1/apps/{app}/deliveries", tag = "Deliveries", params(DeliveryFilters, PageParameters),
    responses((status = 200, description = "A page of deliveries", body = PageView<DeliveryView>)),
)]
pub(super) async fn list_deliveries(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let names = ["status", "endpoint_id", "event_id", "event_type", "from", "to", "order"];
    let query = Query::read(&uri, &names)?;
    let filter = DeliveryQuery {
        states: states(&query)?,
        endpoint: query.owned("endpoint_id"),
        event: query.owned("event_id"),
        event_type: query.owned("event_type"),
        from: query.time("from")?,
        to: query.time("to")?,
        by_due: match query.get("order") {
            None => false,
            Some("next_attempt_at") => true,
            Some(_) => return Err(Problem::invalid("order", "must be next_attempt_at, or absent")),
        },
    };
    let page = api.service.deliveries(&entry, filter, query.cursor(&api.service)?, query.limit()?).await?;
    let app = entry.app();
    response::ok(&query.page_view(&api.service, page, |shown| DeliveryView::of(&shown, &app)))
}

fn states(query: &Query) -> Result<Vec<DeliveryState>, Problem> {
    let Some(names) = query.get("status") else { return Ok(Vec::new()) };
    let state = |name| {
        let known = || DeliveryState::ALL.map(DeliveryState::name).join(", ");
        DeliveryState::parse(name)
            .ok_or_else(|| Problem::invalid("status", &format!("must be out of {}", known())))
    };
    names.split(',').map(state).collect()
}

/// Get a delivery
///
/// With its history.
#[utoipa::path(
    get, path = "/v1/apps/{app}/deliveries/{delivery}", tag = "Deliveries",
    responses((status = 200, description = "The delivery", body = DeliveryDetailView)),
)]
pub(super) async fn get_delivery(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    let (shown, attempts) = api.service.delivery(&entry, &path_id).await?;
    let id = shown.delivery.id;
    let attempts_expired = attempts.len() < shown.delivery.history_len as usize;
    response::ok(&DeliveryDetailView {
        delivery: DeliveryView::of(&shown, &entry.app()),
        advice: shown.advice(),
        waits_because: api.service.delay_reason(&shown.delivery),
        attempts: attempts.into_iter().map(|past| AttemptView::of(id, past)).collect(),
        attempts_expired,
    })
}

/// Delete a delivery
///
/// With its history. Only one that has ended.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/deliveries/{delivery}", tag = "Deliveries",
    responses(
        (status = 204, description = "Gone"),
        (status = 409, description = "It has not ended"),
    ),
)]
pub(super) async fn delete_delivery(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    api.service.delete_delivery(caller, &entry, &path_id).await?;
    Ok(response::no_content())
}

/// Retry a delivery
///
/// One extra attempt as soon as possible; its schedule stays where it is. Not of a pending, held, in-flight or
/// delivered one.
#[utoipa::path(
    post, path = "/v1/apps/{app}/deliveries/{delivery}/retry", tag = "Deliveries",
    responses(
        (status = 202, description = "The delivery", body = DeliveryView),
        (status = 409, description = "Its state does not allow it, or its endpoint was deleted"),
    ),
)]
pub(super) async fn retry_delivery(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    let shown = api.service.act_on_delivery(caller, &entry, &path_id, RequestedAction::Retry).await?;
    response::json(StatusCode::ACCEPTED, &DeliveryView::of(&shown, &entry.app()))
}

/// Replay a delivery
///
/// On a fresh schedule. Of a delivered one, a new delivery is made, with `replay_of`.
#[utoipa::path(
    post, path = "/v1/apps/{app}/deliveries/{delivery}/replay", tag = "Deliveries",
    responses(
        (status = 202, description = "The delivery, or the new one", body = DeliveryView),
        (status = 409, description = "It has not ended, or its endpoint was deleted"),
        (status = 507, description = "There is no room for a new one"),
    ),
)]
pub(super) async fn replay_delivery(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    let shown = api.service.act_on_delivery(caller, &entry, &path_id, RequestedAction::Replay).await?;
    response::json(StatusCode::ACCEPTED, &DeliveryView::of(&shown, &entry.app()))
}

/// Cancel a delivery
///
/// Only one that waits or is held.
#[utoipa::path(
    post, path = "/v1/apps/{app}/deliveries/{delivery}/cancel", tag = "Deliveries",
    responses(
        (status = 200, description = "The delivery", body = DeliveryView),
        (status = 409, description = "It is in flight or has ended"),
    ),
)]
pub(super) async fn cancel_delivery(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    let shown = api.service.act_on_delivery(caller, &entry, &path_id, RequestedAction::Cancel).await?;
    response::ok(&DeliveryView::of(&shown, &entry.app()))
}

/// Example delivery for the OpenAPI document.
pub(super) fn example() -> Value {
    json!({
        "id": "dlv_01jd2s3c8g001", "event_id": "order-1001-paid", "event_type": "payment.completed",
        "endpoint_id": "ep_01jd2s0a5g000", "status": "retrying", "contract_status": "retrying", "reason": null, "attempt_count": 2,
        "next_attempt_at": "2026-11-15T10:00:05.000Z", "last_error": "HTTP 500",
        "created_at": "2026-11-15T09:30:00.000Z", "finished_at": null, "skipped_at": null, "replay_of": null,
    })
}

fn detail_example() -> Value {
    let mut detail = example();
    detail["advice"] = Value::Null;
    detail["waits_because"] = Value::Null;
    detail["attempts_expired"] = Value::Bool(false);
    detail["attempts"] = json!([attempt_view::example()]);
    detail
}

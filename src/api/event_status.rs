//! `/v1/apps/{app}/events/{event}/status`: delivery status of an event in the words of its contract.

use super::{
    ApiState,
    auth::AppRequest,
    response::{self, ApiResult},
};
use crate::{
    domain::{
        delivery::{DeliveryState, EndReason},
        time::Timestamp,
    },
    service::named_delivery::NamedDelivery,
};
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

/// How an event stands as a whole.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventStatus, example = json!({
    "event_id": "order-1001-paid", "status": "WAITING_RETRY", "reason": null, "attempts": 2,
    "next_retry_at": "2026-11-15T09:36:00.000Z", "last_error": "HTTP 500", "delivered": false, "completed_at": null,
    "deliveries": [{
        "id": "dlv_01jd2s3c8g001", "endpoint_id": "ep_01jd2s0a5g000", "status": "WAITING_RETRY", "reason": null,
        "attempts": 2, "next_retry_at": "2026-11-15T09:36:00.000Z", "last_error": "HTTP 500", "delivered": false,
        "completed_at": null,
    }],
}))]
pub(super) struct EventStatusView {
    event_id: String,
    /// Of its delivery, in the names of the endpoint's contract; of several the worst unfinished one, else the worst.
    /// A replay of what arrived does not count once it ended.
    /// Without any: what the app's contract calls `skipped`.
    status: String,
    /// Why it ended so; `no_endpoint_subscribes` if it was skipped.
    reason: Option<&'static str>,
    /// Numbered attempts of all its deliveries.
    attempts: u32,
    /// Null if no attempt is scheduled.
    #[schema(format = DateTime)]
    next_retry_at: Option<String>,
    last_error: Option<String>,
    /// Whether everything arrived; replays of what arrived do not count once they ended.
    delivered: bool,
    /// When the last of its deliveries ended, if all did.
    #[schema(format = DateTime)]
    completed_at: Option<String>,
    /// One for each endpoint, replays after them.
    deliveries: Vec<DeliveryStatusView>,
}

/// How one delivery of an event stands.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeliveryStatus)]
pub(super) struct DeliveryStatusView {
    id: String,
    endpoint_id: String,
    /// In the names of the endpoint's contract; of a deleted endpoint, of the contract of the last attempt.
    status: String,
    reason: Option<&'static str>,
    attempts: u32,
    /// Null if no attempt is scheduled.
    #[schema(format = DateTime)]
    next_retry_at: Option<String>,
    last_error: Option<String>,
    delivered: bool,
    #[schema(format = DateTime)]
    completed_at: Option<String>,
}

impl DeliveryStatusView {
    fn of(shown: &NamedDelivery) -> Self {
        let delivery = &shown.delivery;
        Self {
            id: delivery.id.to_string(),
            endpoint_id: shown.endpoint.clone(),
            status: shown.contract_status().to_owned(),
            reason: delivery.reason.map(EndReason::name),
            attempts: delivery.attempt_count,
            next_retry_at: delivery.next_attempt_at().map(Timestamp::rfc3339_millis),
            last_error: shown.last_error(),
            delivered: delivery.state == DeliveryState::Delivered,
            completed_at: delivery.finished_at.map(Timestamp::rfc3339_millis),
        }
    }
}

/// Get how an event stands
///
/// In the names of its contract.
#[utoipa::path(
    get, path = "/v1/apps/{app}/events/{event}/status", tag = "Events",
    responses((status = 200, description = "How it stands", body = EventStatusView)),
)]
pub(super) async fn get_event_status(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    let status = api.service.event_status(&entry, &path_id).await?;
    response::ok(&EventStatusView {
        event_id: status.event.public_id(entry.app().id_prefix()),
        status: status.status,
        reason: status.reason,
        attempts: status.attempts,
        next_retry_at: status.next_retry_at.map(Timestamp::rfc3339_millis),
        last_error: status.last_error,
        delivered: status.delivered,
        completed_at: status.completed_at.map(Timestamp::rfc3339_millis),
        deliveries: status.deliveries.iter().map(DeliveryStatusView::of).collect(),
    })
}

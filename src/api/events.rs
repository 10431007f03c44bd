//! `/v1/apps/{app}/events`: lists, details and erasing of payloads.

use super::{
    ApiState,
    auth::AppRequest,
    deliveries::DeliveryView,
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{app::App, event::Event, time::Timestamp},
    service::{event_status::NO_ENDPOINT, events::EventQuery},
};
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// A published event.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Event, example = json!({
    "id": "order-1001-paid", "type": "payment.completed", "created_at": "2026-11-15T09:30:00.000Z",
    "accepted_at": "2026-11-15T09:30:00.000Z", "key": null, "deliver_at": null, "is_skipped": false,
    "reason": null,
}))]
pub(super) struct EventView {
    id: String,
    r#type: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    accepted_at: String,
    key: Option<String>,
    #[schema(format = DateTime)]
    deliver_at: Option<String>,
    /// No endpoint wanted it.
    is_skipped: bool,
    /// Why it was skipped: `no_endpoint_subscribes`.
    reason: Option<&'static str>,
}

/// A published event with what it carried and its deliveries.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventDetail, example = json!({
    "id": "order-1001-paid", "type": "payment.completed", "created_at": "2026-11-15T09:30:00.000Z",
    "accepted_at": "2026-11-15T09:30:00.000Z", "key": null, "deliver_at": null, "is_skipped": false,
    "reason": null,
    "data": { "order": 1001, "amount": "12.50" }, "data_erased": false,
    "deliveries": [super::deliveries::example()],
}))]
pub(super) struct EventDetailView {
    #[serde(flatten)]
    event: EventView,
    /// Null once it was erased.
    #[schema(value_type = serde_json::Value)]
    data: Option<Box<RawValue>>,
    data_erased: bool,
    deliveries: Vec<DeliveryView>,
}

/// Which events to list.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameters that the list reads")]
pub(super) struct EventFilters {
    /// Exactly this type.
    event_type: Option<String>,
    /// Accepted at this time or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Accepted before this time.
    #[param(format = DateTime)]
    to: Option<String>,
}

impl EventView {
    fn of(event: &Event, app: &App) -> Self {
        Self {
            id: event.public_id(app.id_prefix()),
            r#type: event.event_type.clone(),
            created_at: event.created_at.rfc3339_millis(),
            accepted_at: event.accepted_at.rfc3339_millis(),
            key: event.key.clone(),
            deliver_at: event.deliver_at.map(Timestamp::rfc3339_millis),
            is_skipped: event.has_no_subscribers,
            reason: event.has_no_subscribers.then_some(NO_ENDPOINT),
        }
    }
}

/// List events
///
/// The newest first, without what they carried.
#[utoipa::path(
    get, path = "/v1/apps/{app}/events", tag = "Events", params(EventFilters, PageParameters),
    responses((status = 200, description = "A page of events", body = PageView<EventView>)),
)]
pub(super) async fn list_events(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["event_type", "from", "to"])?;
    let filter = EventQuery {
        event_type: query.owned("event_type"),
        from: query.time("from")?,
        to: query.time("to")?,
    };
    let page = api.service.events(&entry, filter, query.cursor(&api.service)?, query.limit()?).await?;
    let app = entry.app();
    response::ok(&query.page_view(&api.service, page, |event| EventView::of(&event, &app)))
}

/// Get an event
///
/// By the producer's id or ours; with what it carried and its deliveries.
#[utoipa::path(
    get, path = "/v1/apps/{app}/events/{event}", tag = "Events",
    responses((status = 200, description = "The event", body = EventDetailView)),
)]
pub(super) async fn get_event(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    let (event, deliveries) = api.service.event_with_deliveries(&entry, &path_id).await?;
    let app = entry.app();
    let text = std::str::from_utf8(&event.data).ok().filter(|text| !text.is_empty());
    let data = text.and_then(|text| RawValue::from_string(text.to_owned()).ok());
    response::ok(&EventDetailView {
        event: EventView::of(&event, &app),
        data_erased: event.data.is_empty(),
        data,
        deliveries: deliveries.iter().map(|shown| DeliveryView::of(shown, &app)).collect(),
    })
}

/// Erase what an event carried
///
/// The record and its history stay. Deliveries that still wait have nothing to send any more.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/events/{event}/data", tag = "Events",
    responses((status = 204, description = "Erased")),
)]
pub(super) async fn erase_event_data(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    api.service.erase_data(caller, &entry, &path_id).await?;
    Ok(response::no_content())
}

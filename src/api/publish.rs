//! Publishes over HTTP: one event or a batch. This is the hot path; its answers are written by hand.

use super::{
    ApiState, auth,
    envelope::{self, ParsedEvent},
    problem::{ErrorCode, Problem},
    response::{self, ApiResult},
};
use crate::service::publish::{BATCH_MAX, Published};
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// An event to publish.
#[derive(utoipa::ToSchema)]
#[schema(as = NewEvent, example = json!({
    "id": "order-1001-paid", "type": "payment.completed", "data": { "order": 1001, "amount": "12.50" },
}))]
#[expect(dead_code, reason = "describes what the envelope's reader accepts")]
pub(super) struct NewEventView {
    /// Yours, for deduplication, for as long as the event is kept: 1 to 128 characters out of `A-Z a-z 0-9 _ . : ~ -`.
    id: Option<String>,
    /// 1 to 128 characters out of `A-Z a-z 0-9 _ . : -`; `webhook.` and `posthaste.` are reserved.
    r#type: String,
    /// Any JSON value, at most 128 levels deep; kept and sent byte for byte.
    #[schema(value_type = serde_json::Value)]
    data: (),
    /// When it happened; when it was accepted, if absent.
    #[schema(format = DateTime)]
    created_at: Option<String>,
    /// Events with the same key belong together.
    key: Option<String>,
    /// Not before this time, at most 30 days ahead.
    #[schema(format = DateTime)]
    deliver_at: Option<String>,
}

/// An event that is stored, with the deliveries it became.
#[derive(utoipa::ToSchema)]
#[schema(as = PublishedEvent, example = json!({
    "id": "order-1001-paid", "type": "payment.completed", "created_at": "2026-11-15T09:30:00.000Z",
    "deliveries": [{ "id": "dlv_01jd2s3c8g001", "endpoint_id": "ep_01jd2s0a5g000" }],
}))]
#[expect(dead_code, reason = "describes what is written by hand")]
pub(super) struct PublishedView {
    id: String,
    r#type: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// Empty if no endpoint wanted it.
    deliveries: Vec<FirstDelivery>,
}

#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes what is written by hand")]
pub(super) struct FirstDelivery {
    id: String,
    endpoint_id: String,
}

/// Several events to publish.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = NewBatch, example = json!({ "events": [
    { "type": "payment.completed", "data": { "order": 1001 } },
    { "type": "payment.failed", "data": { "order": 1002 } },
] }))]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Vec<NewEventView>, max_items = 1000)]
    events: Vec<&'a RawValue>,
}

/// One answer for each event of a batch, in the same order.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = BatchAnswer, example = json!({ "data": [
    { "status": 202, "event": {
        "id": "evt_01jd2s3c8g000", "type": "payment.completed", "created_at": "2026-11-15T09:30:00.000Z",
        "deliveries": [{ "id": "dlv_01jd2s3c8g001", "endpoint_id": "ep_01jd2s0a5g000" }],
    } },
    { "status": 422, "problem": {
        "code": "invalid", "title": "A field is not as it must be", "status": 422,
        "detail": "type: is missing", "field": "type",
    } },
] }))]
pub(super) struct BatchView {
    data: Vec<BatchItem>,
}

/// What became of one event of a batch: 202 new, 200 published before, else why not.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct BatchItem {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PublishedView>)]
    event: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<super::problem::ProblemView>,
}

/// Publish an event
///
/// Answers once the event and its deliveries are durable. Publishing the same `id` or `Idempotency-Key` again answers
/// 200 with the same event; another body under it is refused (409).
#[utoipa::path(
    post, path = "/v1/apps/{app}/events", tag = "Events", request_body = NewEventView,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Deduplicates for at least 24 hours: 1 to 256 visible ASCII characters.")),
    responses(
        (status = 202, description = "Stored, and on its way", body = PublishedView),
        (status = 200, description = "The same was published before", body = PublishedView),
        (status = 409, description = "Something else was published under this id or key"),
        (status = 429, description = "The app's quota is used up"),
        (status = 507, description = "There is no room for more events"),
    ),
)]
pub(super) async fn publish_event(State(api): State<Arc<ApiState>>, request: Request) -> ApiResult {
    let (parts, body) = request.into_parts();
    let (_, entry) = auth::authenticate_in_app(&api.service, &parts)?;
    let key = idempotency_key(&parts.headers)?;
    let held = api.bodies.read(&parts.headers, body).await?;
    let event = ParsedEvent::new(envelope::utf8(&held.bytes)?, &held.bytes)?;
    let published = api.service.publish(&entry, event.to_request(key)).await?;
    Ok(published_response(&published, entry.app().id_prefix()))
}

/// Publish up to 1,000 events
///
/// All in one transaction; each is answered for itself, in the same order.
#[utoipa::path(
    post, path = "/v1/apps/{app}/events/batch", tag = "Events", request_body = BatchBody,
    responses(
        (status = 200, description = "One answer for each event", body = BatchView),
        (status = 507, description = "There is no room for more events"),
    ),
)]
pub(super) async fn publish_batch(State(api): State<Arc<ApiState>>, request: Request) -> ApiResult {
    let (parts, body) = request.into_parts();
    let (_, entry) = auth::authenticate_in_app(&api.service, &parts)?;
    if idempotency_key(&parts.headers)?.is_some() {
        let detail = "Idempotency-Key: is for single events; give each event of a batch an id instead";
        return Err(Problem::at(ErrorCode::Invalid, "Idempotency-Key", detail));
    }
    let held = api.bodies.read(&parts.headers, body).await?;
    let batch = read_batch(envelope::utf8(&held.bytes)?)?;
    let read: Vec<_> = batch.events.iter().map(|event| ParsedEvent::new(event.get(), &held.bytes)).collect();
    let valid = read.iter().flatten().map(|event| event.to_request(None)).collect();
    let mut published = api.service.publish_all(&entry, valid).await?.into_iter();
    let prefix = entry.app().id_prefix().to_owned();
    let items = read.into_iter().map(|read| match read {
        Err(problem) => problem_item(problem),
        Ok(_) => match published.next() {
            Some(Ok(published)) => published_item(&published, &prefix),
            Some(Err(error)) => problem_item(error.into()),
            None => problem_item(Problem::new(ErrorCode::Internal, "The event was not answered for.")),
        },
    });
    response::ok(&BatchView { data: items.collect() })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let refused = |_| Problem::invalid("Idempotency-Key", "must be visible ASCII characters");
    key.to_str().map(Some).map_err(refused)
}

fn read_batch(text: &str) -> Result<BatchBody<'_>, Problem> {
    let batch: BatchBody<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            Problem::at(ErrorCode::Invalid, "events", "events: must be a list of events, and the only field")
        }
        _ => envelope::malformed(&error),
    })?;
    if batch.events.len() > BATCH_MAX {
        return Err(Problem::invalid("events", &format!("must be at most {BATCH_MAX} events")));
    }
    Ok(batch)
}

fn status_of(published: &Published) -> StatusCode {
    if published.is_new { StatusCode::ACCEPTED } else { StatusCode::OK }
}

fn published_response(published: &Published, prefix: &str) -> Response {
    response::bytes(status_of(published), response::JSON, write_published(published, prefix).into())
}

fn published_item(published: &Published, prefix: &str) -> BatchItem {
    let event = String::from_utf8(write_published(published, prefix))
        .ok()
        .and_then(|text| RawValue::from_string(text).ok());
    BatchItem { status: status_of(published).as_u16(), event, problem: None }
}

fn problem_item(problem: Problem) -> BatchItem {
    let view = problem.view();
    BatchItem { status: view.status, event: None, problem: Some(view) }
}

/// Writes the answer without escaping: ids and types were checked to contain nothing that JSON escapes.
fn write_published(published: &Published, prefix: &str) -> Vec<u8> {
    let Published { event, deliveries, .. } = published;
    let mut out = Vec::with_capacity(160 + deliveries.len() * 80);
    out.extend_from_slice(b"{\"id\":\"");
    match &event.external_id {
        Some(id) => out.extend_from_slice(id.as_bytes()),
        None => out.extend_from_slice(event.id.with_prefix(prefix).as_bytes()),
    }
    out.extend_from_slice(b"\",\"type\":\"");
    out.extend_from_slice(event.event_type.as_bytes());
    out.extend_from_slice(b"\",\"created_at\":\"");
    out.extend_from_slice(event.created_at.rfc3339_millis().as_bytes());
    out.extend_from_slice(b"\",\"deliveries\":[");
    for (index, (id, endpoint)) in deliveries.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"id\":\"" } else { b",{\"id\":\"" });
        out.extend_from_slice(id.to_string().as_bytes());
        out.extend_from_slice(b"\",\"endpoint_id\":\"");
        out.extend_from_slice(endpoint.as_str().as_bytes());
        out.extend_from_slice(b"\"}");
    }
    out.extend_from_slice(b"]}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            event::Event,
            id::{AppId, DeliveryId, EventId},
            time::Timestamp,
        },
        service::publish::EndpointUid,
    };

    #[test]
    fn the_hand_written_answer_is_the_documented_json() {
        let event = Event {
            id: EventId::from_i64(5),
            app: AppId::from_i64(1),
            external_id: None,
            event_type: "payment.created".into(),
            created_at: Timestamp::from_millis(0),
            accepted_at: Timestamp::from_millis(0),
            data: bytes::Bytes::new(),
            key: None,
            deliver_at: None,
            has_no_subscribers: false,
        };
        let name = |uid: &str| EndpointUid::Text(uid.to_owned());
        let deliveries = vec![(DeliveryId::from_i64(6), name("a")), (DeliveryId::from_i64(7), name("b"))];
        let mut published = Published { event: Arc::new(event.clone()), deliveries, is_new: true };
        let json = |published: &Published| {
            serde_json::from_slice::<serde_json::Value>(&write_published(published, "msg")).unwrap()
        };
        assert_eq!(
            json(&published),
            serde_json::json!({
                "id": EventId::from_i64(5).with_prefix("msg"), "type": "payment.created",
                "created_at": "1970-01-01T00:00:00.000Z",
                "deliveries": [
                    { "id": DeliveryId::from_i64(6).to_string(), "endpoint_id": "a" },
                    { "id": DeliveryId::from_i64(7).to_string(), "endpoint_id": "b" },
                ],
            })
        );
        published.event = Arc::new(Event { external_id: Some("order:1".into()), ..event });
        published.deliveries.clear();
        assert_eq!(json(&published)["id"], "order:1");
        assert_eq!(json(&published)["deliveries"], serde_json::json!([]));
    }

    #[test]
    fn a_batch_contains_only_a_list_of_events() {
        let status = |text: &str| read_batch(text).map_or_else(|problem| problem.status().as_u16(), |_| 200);
        assert_eq!(status(r#"{"events":[{},5]}"#), 200, "each event is checked separately");
        assert_eq!(status(r#"{"events":{}}"#), 422);
        assert_eq!(status(r#"{"events":[],"more":1}"#), 422);
        assert_eq!(status("{"), 400);
        let many = |count: usize| format!(r#"{{"events":[{}]}}"#, vec!["1"; count].join(","));
        assert_eq!((status(&many(1000)), status(&many(1001))), (200, 422));
    }
}

//! `/v1/apps/{app}/endpoints`

use super::{
    ApiState,
    auth::AppRequest,
    deliveries::DeliveryView,
    endpoint_view::{EndpointTlsFields, EndpointView, RateLimitView},
    fields::{HeaderList, JsonBody, NotNull, fields},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        endpoint::Endpoint,
        ordering::{OnDead, OrderingMode},
    },
    runtime::CachedApp,
    service::{
        Caller, Patch, Service,
        endpoints::{EndpointPatch, NewEndpoint},
    },
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde_json::{Map, Value};
use std::sync::Arc;

fields! {
    /// Where an app's events are to go.
    #[schema(as = NewEndpoint, example = json!({
        "url": "https://hooks.bakery.example/in", "event_types": ["payment.*"],
    }))]
    struct NewEndpointFields {
        /// Yours, if you like: 1 to 128 characters out of `A-Z a-z 0-9 _ . : ~ -`; otherwise one is made up.
        id: Option<String>,
        #[schema(format = "uri")]
        url: String,
        /// Exact types, `prefix.*`, or `*`; every type if absent.
        event_types: Option<Vec<String>>,
        /// The app's contract, else `standard`, if absent.
        contract: Option<String>,
        /// Fields of the contract to replace for this endpoint, as far as the key may.
        #[schema(value_type = Option<Object>)]
        overrides: Option<Value>,
        /// Signs the requests; made up if absent.
        secret: Option<String>,
        /// Sent with every request; stored encrypted, shown without their values.
        #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
        headers: Option<HeaderList>,
        /// For mutual TLS and private authorities; needs an admin key. Stored encrypted, shown without the key.
        #[schema(value_type = Option<EndpointTlsFields>)]
        tls: Option<Map<String, Value>>,
        /// The version of every event's data to send, for example `2024-01-01`; the data as published if absent. An event
        /// whose type has no such version ends `dead(serialisation_failed)`.
        payload_version: Option<String>,
        /// Requests at the same time; 64 unless the operator set something else.
        #[schema(minimum = 1)]
        max_in_flight: Option<u32>,
        /// At most so many requests in a second; as many as come if absent.
        #[schema(value_type = Option<RateLimitView>)]
        rate_limit: Option<Map<String, Value>>,
        /// `endpoint` or `key`: a delivery does not start before the one before it has ended, over the whole endpoint or over
        /// events with the same `key` (those without one are not ordered); `none` if absent.
        #[schema(value_type = Option<String>)]
        ordered: Option<OrderingMode>,
        /// What a dead delivery does to those behind it in their order: `block`, also if absent, until it is replayed, closed
        /// or deleted, or `skip`. Only with `ordered`.
        #[schema(value_type = Option<String>)]
        on_dead: Option<OnDead>,
        /// An address that answers a GET with 2xx while the receiver is well, for `ping` and `inspect`. It is called without
        /// the endpoint's headers.
        #[schema(format = "uri")]
        health_url: Option<String>,
        description: Option<String>,
        /// Anything of yours, up to 8 KiB.
        #[schema(value_type = Option<Object>)]
        metadata: Option<Map<String, Value>>,
    }
}

fields! {
    /// What to change; null takes an optional field away, what is left out stays. Lists and objects are replaced whole.
    #[schema(as = EndpointPatch, example = json!({ "event_types": ["payment.*", "refund.created"], "description": null }))]
    struct EndpointPatchFields {
        #[schema(value_type = Option<String>, nullable = false, format = "uri")]
        url: NotNull<String>,
        /// Null: every type.
        #[schema(value_type = Option<Vec<String>>)]
        event_types: Patch<Vec<String>>,
        #[schema(value_type = Option<String>)]
        contract: Patch<String>,
        #[schema(value_type = Option<Object>)]
        overrides: Patch<Value>,
        #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
        headers: Patch<HeaderList>,
        /// Needs an admin key. Replaced whole; null takes it away.
        #[schema(value_type = Option<EndpointTlsFields>)]
        tls: Patch<Map<String, Value>>,
        /// Null: the data as published.
        #[schema(value_type = Option<String>)]
        payload_version: Patch<String>,
        #[schema(value_type = Option<u32>, minimum = 1)]
        max_in_flight: Patch<u32>,
        /// Replaced whole; null takes it away.
        #[schema(value_type = Option<RateLimitView>)]
        rate_limit: Patch<Map<String, Value>>,
        /// `none`, `endpoint` or `key`, for what is published from now on: what waits keeps its order.
        #[schema(value_type = Option<String>)]
        ordered: Patch<OrderingMode>,
        /// `block` or `skip`; with `skip`, what waits behind dead deliveries goes on at once. Null: `block`.
        #[schema(value_type = Option<String>)]
        on_dead: Patch<OnDead>,
        #[schema(value_type = Option<String>, format = "uri")]
        health_url: Patch<String>,
        #[schema(value_type = Option<String>)]
        description: Patch<String>,
        #[schema(value_type = Option<Object>)]
        metadata: Patch<Map<String, Value>>,
    }
}

/// Create an endpoint
///
/// The answer holds its secret, this once; `…/secret` shows it again.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints", tag = "Endpoints", request_body = NewEndpointFields,
    responses(
        (status = 201, description = "The endpoint, with its secret", body = EndpointView),
        (status = 403, description = "Only an admin key may set this"),
        (status = 409, description = "The id is in use"),
    ),
)]
pub(super) async fn create_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
    JsonBody(new): JsonBody<NewEndpointFields>,
) -> ApiResult {
    let new = NewEndpoint {
        uid: new.id,
        url: new.url,
        event_types: new.event_types,
        contract: new.contract,
        overrides: new.overrides,
        secret: new.secret,
        headers: new.headers,
        tls: new.tls,
        payload_version: new.payload_version,
        max_in_flight: new.max_in_flight,
        rate_limit: new.rate_limit,
        ordered: new.ordered,
        on_dead: new.on_dead,
        health_url: new.health_url,
        description: new.description,
        metadata: new.metadata,
    };
    let endpoint = api.service.add_endpoint(caller, &entry, new).await?;
    response::json(StatusCode::CREATED, &EndpointView::with_secret(&endpoint).visible_to(caller))
}

/// List an app's endpoints
///
/// In order of creation.
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints", tag = "Endpoints", params(PageParameters),
    responses((status = 200, description = "A page of endpoints", body = PageView<EndpointView>)),
)]
pub(super) async fn list_endpoints(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let page = Service::endpoints(&entry, query.cursor(&api.service)?, query.limit()?);
    let in_trouble = api.service.endpoints_in_trouble(&entry).await?;
    let view = |endpoint: Arc<Endpoint>| {
        EndpointView::of(&endpoint, in_trouble.contains(&endpoint.id())).visible_to(caller)
    };
    response::ok(&query.page_view(&api.service, page, view))
}

/// Get an endpoint
#[utoipa::path(
    get, path = "/v1/apps/{app}/endpoints/{endpoint}", tag = "Endpoints",
    responses((status = 200, description = "The endpoint", body = EndpointView)),
)]
pub(super) async fn get_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    endpoint_response(&api, caller, &entry, &*Service::endpoint(&entry, &path_id)?).await
}

/// Answers with the endpoint's current state.
pub(super) async fn endpoint_response(
    api: &ApiState,
    caller: Caller,
    entry: &CachedApp,
    endpoint: &Endpoint,
) -> ApiResult {
    let is_in_trouble = api.service.is_in_trouble(entry, endpoint).await?;
    response::ok(&EndpointView::of(endpoint, is_in_trouble).visible_to(caller))
}

/// Change an endpoint
///
/// Deliveries that wait follow: they go to the new URL under the new contract.
#[utoipa::path(
    patch, path = "/v1/apps/{app}/endpoints/{endpoint}", tag = "Endpoints", request_body = EndpointPatchFields,
    responses(
        (status = 200, description = "The endpoint", body = EndpointView),
        (status = 403, description = "Only an admin key may set this"),
        (status = 409, description = "Someone else is changing it"),
    ),
)]
pub(super) async fn update_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
    JsonBody(patch): JsonBody<EndpointPatchFields>,
) -> ApiResult {
    let patch = EndpointPatch {
        url: patch.url.0,
        event_types: patch.event_types,
        contract: patch.contract,
        overrides: patch.overrides,
        headers: patch.headers,
        tls: patch.tls,
        payload_version: patch.payload_version,
        max_in_flight: patch.max_in_flight,
        rate_limit: patch.rate_limit,
        ordered: patch.ordered,
        on_dead: patch.on_dead,
        health_url: patch.health_url,
        description: patch.description,
        metadata: patch.metadata,
    };
    let endpoint = api.service.change_endpoint(caller, &entry, &path_id, patch).await?;
    endpoint_response(&api, caller, &entry, &endpoint).await
}

/// Delete an endpoint
///
/// Cancels its waiting deliveries and keeps its history.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/endpoints/{endpoint}", tag = "Endpoints",
    responses((status = 204, description = "Gone")),
)]
pub(super) async fn delete_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    api.service.remove_endpoint(caller, &entry, &path_id).await?;
    Ok(response::no_content())
}

/// Send a test
///
/// An event of type `webhook.test`, whatever the endpoint subscribes to, and even if it is off.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/test", tag = "Endpoints",
    responses(
        (status = 202, description = "The delivery of the test", body = DeliveryView),
        (status = 507, description = "There is no room for more events"),
    ),
)]
pub(super) async fn test_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    let delivery = api.service.send_test(&entry, &path_id).await?;
    let (shown, _) = api.service.delivery_by_id(&entry, delivery).await?;
    response::json(StatusCode::ACCEPTED, &DeliveryView::of(&shown, &entry.app()))
}

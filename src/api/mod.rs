//! HTTP: routes, wire types, authentication, problems, OpenAPI. Only this module uses status codes.
//!
//! Every route is added together with its description, so that `/openapi.json` cannot omit one.

mod apps;
mod attempt_view;
mod audit;
mod auth;
mod body;
mod contracts;
mod dashboard;
mod dead_letters;
mod deliveries;
mod endpoint_state;
mod endpoint_view;
mod endpoints;
mod envelope;
mod event_status;
mod event_type_import;
mod event_types;
mod events;
mod fields;
mod health;
mod health_checks;
mod inspections;
mod keys;
mod metrics;
mod notices;
mod openapi;
mod portal_links;
mod problem;
mod publish;
mod query;
mod replays;
mod response;
mod scope;
mod search;
mod secrets;
mod session;
mod stats;
mod stream;
mod system;
#[cfg(test)]
mod tests;

pub use contracts::contract_json;
pub use dashboard::IS_BUILT_IN as HAS_DASHBOARD;
pub use openapi::openapi_json;

use crate::service::Service;
use axum::Router;
use bytes::Bytes;
use problem::{ErrorCode, Problem};
use std::sync::Arc;
use utoipa_axum::{router::OpenApiRouter, routes};

/// State shared by all handlers.
struct ApiState {
    service: Arc<Service>,
    bodies: body::BodyReader,
    openapi: Bytes,
}

/// Builds the router of the whole API. All other paths go to the dashboard.
pub fn router(service: Arc<Service>) -> Router {
    let bodies = body::BodyReader::new(service.limits().body_bytes_max);
    let api = ApiState { service, bodies, openapi: openapi_json().into() };
    let (router, _) = described_routes().split_for_parts();
    router
        .method_not_allowed_fallback(async || {
            Problem::new(ErrorCode::MethodNotAllowed, "See /openapi.json for what there is.")
        })
        .fallback(dashboard::serve)
        .with_state(Arc::new(api))
}

fn described_routes() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::with_openapi(openapi::base_document())
        .routes(routes!(apps::create_app, apps::list_apps))
        .routes(routes!(apps::get_app, apps::update_app, apps::delete_app))
        .routes(routes!(endpoints::create_endpoint, endpoints::list_endpoints))
        .routes(routes!(endpoints::get_endpoint, endpoints::update_endpoint, endpoints::delete_endpoint))
        .routes(routes!(endpoints::test_endpoint))
        .routes(routes!(endpoint_state::enable_endpoint))
        .routes(routes!(endpoint_state::disable_endpoint))
        .routes(routes!(health::get_endpoint_health))
        .routes(routes!(contracts::get_endpoint_contract))
        .routes(routes!(attempt_view::list_endpoint_attempts))
        .routes(routes!(inspections::inspect_endpoint))
        .routes(routes!(inspections::ping_endpoint))
        .routes(routes!(inspections::list_inspections))
        .routes(routes!(inspections::get_inspection))
        .routes(routes!(secrets::get_secret))
        .routes(routes!(secrets::rotate_secret))
        .routes(routes!(publish::publish_event, events::list_events))
        .routes(routes!(publish::publish_batch))
        // An event's id may be "batch"; reading it is described as `events/{event}`.
        .route("/v1/apps/{app}/events/batch", axum::routing::get(events::get_event))
        .routes(routes!(events::get_event))
        .routes(routes!(event_status::get_event_status))
        .routes(routes!(events::erase_event_data))
        .routes(routes!(deliveries::list_deliveries))
        .routes(routes!(deliveries::get_delivery, deliveries::delete_delivery))
        .routes(routes!(deliveries::retry_delivery))
        .routes(routes!(deliveries::replay_delivery))
        .routes(routes!(deliveries::cancel_delivery))
        .routes(routes!(dead_letters::list_dead_letters))
        .routes(routes!(dead_letters::replay_dead_letter))
        .routes(routes!(dead_letters::close_dead_letter))
        .routes(routes!(replays::create_replay, replays::list_replays))
        .routes(routes!(replays::get_replay, replays::cancel_replay))
        .routes(routes!(replays::pause_replay))
        .routes(routes!(replays::resume_replay))
        .routes(routes!(replays::backfill_endpoint))
        .routes(routes!(contracts::list_contracts))
        .routes(routes!(contracts::get_contract))
        .routes(routes!(event_types::create_event_type, event_types::list_event_types))
        .routes(routes!(
            event_types::get_event_type,
            event_types::put_event_type,
            event_types::delete_event_type
        ))
        .routes(routes!(event_types::archive_event_type))
        .routes(routes!(event_types::unarchive_event_type))
        .routes(routes!(event_types::try_event_type))
        .routes(routes!(event_type_import::import_event_types))
        // A type's name may be "import"; reading and changing it is described as `event-types/{type}`.
        .route(
            "/v1/event-types/import",
            axum::routing::get(event_types::get_event_type)
                .put(event_types::put_event_type)
                .delete(event_types::delete_event_type),
        )
        .routes(routes!(keys::create_key, keys::list_keys))
        .routes(routes!(keys::get_key, keys::revoke_key))
        .routes(routes!(portal_links::create_portal_link, portal_links::list_portal_links))
        .routes(routes!(portal_links::revoke_portal_link))
        .routes(routes!(session::get_session))
        .routes(routes!(search::find))
        .routes(routes!(stream::stream_app))
        .routes(routes!(stream::stream_everything))
        .routes(routes!(audit::list_audit))
        .routes(routes!(audit::list_app_audit))
        .routes(routes!(notices::list_notices))
        .routes(routes!(notices::list_app_notices))
        .routes(routes!(notices::get_notice))
        .routes(routes!(stats::get_stats))
        .routes(routes!(stats::get_app_stats))
        .routes(routes!(system::get_system))
        .routes(routes!(health_checks::livez))
        .routes(routes!(health_checks::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(health_checks::openapi))
}

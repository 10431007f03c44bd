//! `/v1/apps`

use super::{
    ApiState,
    auth::{AppRequest, Authenticated},
    endpoint_view::RateLimitView,
    fields::{JsonBody, NotNull, fields},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::app::App,
    service::{
        Patch,
        apps::{AppPatch, NewApp},
    },
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

fields! {
    /// A tenant to be: merchant, organisation, customer.
    #[schema(as = NewApp, example = json!({ "id": "merchant-17", "name": "Corner Bakery" }))]
    struct NewAppFields {
        /// Yours, if you like: 1 to 128 characters out of `A-Z a-z 0-9 _ . : ~ -`; otherwise one is made up.
        id: Option<String>,
        name: String,
        /// The contract of endpoints that name none; `standard` if absent.
        contract: Option<String>,
        /// Fields of the contract to replace for all endpoints of the app; an endpoint's own overrides lie over these.
        #[schema(value_type = Option<Object>)]
        overrides: Option<Value>,
        /// Shown to receivers by contracts that have such a field; true if absent.
        livemode: Option<bool>,
        /// What the ids of its events start with, instead of what its contract says (`evt`). Cannot be changed later.
        id_prefix: Option<String>,
        #[schema(format = Email)]
        contact_email: Option<String>,
        /// How much it may publish; as much as it likes if absent.
        #[schema(value_type = Option<QuotaView>)]
        quota: Option<Map<String, Value>>,
        /// How much is sent to all its endpoints together; without limits, or as the settings say, if absent.
        #[schema(value_type = Option<AppLimitsView>)]
        limits: Option<Map<String, Value>>,
        /// Anything of yours, up to 8 KiB.
        #[schema(value_type = Option<Object>)]
        metadata: Option<Map<String, Value>>,
    }
}

fields! {
    /// What to change; null takes an optional field away, what is left out stays.
    #[schema(as = AppPatch, example = json!({ "name": "Corner Bakery & Café", "contact_email": null }))]
    struct AppPatchFields {
        #[schema(value_type = Option<String>, nullable = false)]
        name: NotNull<String>,
        #[schema(value_type = Option<String>)]
        contract: Patch<String>,
        #[schema(value_type = Option<Object>)]
        overrides: Patch<Value>,
        #[schema(value_type = Option<bool>, nullable = false)]
        livemode: NotNull<bool>,
        #[schema(value_type = Option<String>, format = Email)]
        contact_email: Patch<String>,
        /// Replaced as a whole; null takes it away.
        #[schema(value_type = Option<QuotaView>)]
        quota: Patch<Map<String, Value>>,
        /// Replaced as a whole; null takes it away.
        #[schema(value_type = Option<AppLimitsView>)]
        limits: Patch<Map<String, Value>>,
        #[schema(value_type = Option<Object>)]
        metadata: Patch<Map<String, Value>>,
    }
}

/// How much an app may publish in a second, with a second's worth at once. What is over it is answered 429. An event larger
/// than `bytes_per_second` is let through when nothing else was published for a while.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Quota, example = json!({ "events_per_second": 100, "bytes_per_second": 1_000_000 }))]
pub(super) struct QuotaView {
    #[schema(minimum = 1, maximum = 1_000_000)]
    events_per_second: Option<u32>,
    /// Of `data`.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    bytes_per_second: Option<u64>,
}

/// How much is sent to all endpoints of an app together. What is over it waits; its endpoints take turns.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AppLimits, example = json!({ "max_in_flight": 100, "rate_limit": { "per_second": 500, "burst": 500 } }))]
pub(super) struct AppLimitsView {
    /// Requests at the same time.
    #[schema(minimum = 1, maximum = 65_536)]
    max_in_flight: Option<u32>,
    rate_limit: Option<RateLimitView>,
}

/// A tenant: merchant, organisation, customer.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = App, example = json!({
    "id": "merchant-17", "name": "Corner Bakery", "contract": null, "overrides": null, "livemode": true, "id_prefix": null,
    "contact_email": "ops@bakery.example", "quota": { "events_per_second": 100, "bytes_per_second": null },
    "limits": null, "metadata": { "plan": "gold" },
    "created_at": "2026-11-15T09:30:00.000Z", "updated_at": "2026-11-15T09:30:00.000Z",
}))]
pub(super) struct AppView {
    id: String,
    name: String,
    contract: Option<String>,
    #[schema(value_type = Option<Object>)]
    overrides: Option<Value>,
    livemode: bool,
    id_prefix: Option<String>,
    contact_email: Option<String>,
    quota: Option<QuotaView>,
    limits: Option<AppLimitsView>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl AppView {
    fn of(app: &App) -> Self {
        let settings = app.settings.clone();
        Self {
            id: app.uid.clone(),
            name: settings.name,
            contract: settings.contract,
            overrides: settings.overrides,
            livemode: settings.livemode,
            id_prefix: settings.id_prefix,
            contact_email: settings.contact_email,
            quota: settings.quota.map(|quota| QuotaView {
                events_per_second: quota.events_per_second,
                bytes_per_second: quota.bytes_per_second,
            }),
            limits: settings.limits.map(|limits| AppLimitsView {
                max_in_flight: limits.max_in_flight,
                rate_limit: limits.rate_limit.map(RateLimitView::of),
            }),
            metadata: settings.metadata,
            created_at: app.created_at.rfc3339_millis(),
            updated_at: app.updated_at.rfc3339_millis(),
        }
    }
}

/// Create an app
///
/// Needs an admin key.
#[utoipa::path(
    post, path = "/v1/apps", tag = "Apps", request_body = NewAppFields,
    responses(
        (status = 201, description = "The app", body = AppView),
        (status = 403, description = "Not with an app key"),
        (status = 409, description = "The id is in use"),
    ),
)]
pub(super) async fn create_app(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    JsonBody(new): JsonBody<NewAppFields>,
) -> ApiResult {
    let new = NewApp {
        uid: new.id,
        name: new.name,
        contract: new.contract,
        overrides: new.overrides,
        livemode: new.livemode,
        id_prefix: new.id_prefix,
        contact_email: new.contact_email,
        quota: new.quota,
        limits: new.limits,
        metadata: new.metadata,
    };
    let app = api.service.add_app(caller, new).await?;
    response::json(StatusCode::CREATED, &AppView::of(&app))
}

/// List apps
///
/// In order of creation. An app key sees its own.
#[utoipa::path(
    get, path = "/v1/apps", tag = "Apps", params(PageParameters),
    responses((status = 200, description = "A page of apps", body = PageView<AppView>)),
)]
pub(super) async fn list_apps(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let page = api.service.apps(caller, query.cursor(&api.service)?, query.limit()?);
    response::ok(&query.page_view(&api.service, page, |app| AppView::of(&app)))
}

/// Get an app
#[utoipa::path(
    get, path = "/v1/apps/{app}", tag = "Apps",
    responses((status = 200, description = "The app", body = AppView)),
)]
pub(super) async fn get_app(AppRequest { entry, .. }: AppRequest) -> ApiResult {
    response::ok(&AppView::of(&entry.app()))
}

/// Change an app
///
/// Needs an admin key. Another contract takes effect on all endpoints that name none of their own, other overrides on
/// all endpoints; neither if one of them could not live with it.
#[utoipa::path(
    patch, path = "/v1/apps/{app}", tag = "Apps", request_body = AppPatchFields,
    responses(
        (status = 200, description = "The app", body = AppView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn update_app(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
    JsonBody(patch): JsonBody<AppPatchFields>,
) -> ApiResult {
    let patch = AppPatch {
        name: patch.name.0,
        contract: patch.contract,
        overrides: patch.overrides,
        livemode: patch.livemode.0,
        contact_email: patch.contact_email,
        quota: patch.quota,
        limits: patch.limits,
        metadata: patch.metadata,
    };
    let app = api.service.change_app(caller, &entry.app().uid, patch).await?;
    response::ok(&AppView::of(&app))
}

/// Delete an app
///
/// Needs an admin key. Removes its endpoints, keys, events, deliveries and history.
#[utoipa::path(
    delete, path = "/v1/apps/{app}", tag = "Apps",
    responses(
        (status = 204, description = "Gone"),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn delete_app(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
) -> ApiResult {
    api.service.remove_app(caller, &entry.app().uid).await?;
    Ok(response::no_content())
}

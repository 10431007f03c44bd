//! `/v1/keys`

use super::{
    ApiState,
    auth::{Authenticated, segment},
    fields::{JsonBody, fields},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{api_key::ApiKey, time::Timestamp},
    service::{Service, api_keys::NewKey},
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;

fields! {
    /// A key to be.
    #[schema(as = NewKey, example = json!({ "scope": "app", "app_id": "merchant-17", "name": "checkout" }))]
    struct NewKeyFields {
        /// `admin`: everything. `app`: everything in one app. `publish`: only publish there. `read`: only look there, and not
        /// at secrets.
        scope: String,
        /// The app that it is for; every key but an `admin` one is for one.
        app_id: Option<String>,
        name: Option<String>,
        /// When it stops working; never if absent.
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
    }
}

/// An API key.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Key, example = json!({
    "id": "key_01jd2s0a5g000", "scope": "app", "app_id": "merchant-17", "name": "checkout", "prefix": "phk_8x2k4m",
    "created_at": "2026-11-15T09:30:00.000Z", "expires_at": null, "last_used_at": "2026-11-15T11:02:17.000Z",
    "revoked_at": null,
}))]
pub(super) struct KeyView {
    id: String,
    scope: &'static str,
    app_id: Option<String>,
    name: Option<String>,
    /// The first characters, to tell keys apart.
    prefix: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it stops working by itself.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// To the second; after a crash up to a minute older than it was.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
    /// The key itself, in the answer to its creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<String>,
}

impl KeyView {
    fn of(key: &ApiKey, service: &Service) -> Self {
        Self {
            id: key.id.to_string(),
            scope: key.scope.name(),
            app_id: service.app_uid_of(key),
            name: key.name.clone(),
            prefix: key.display_prefix.clone(),
            created_at: key.created_at.rfc3339_millis(),
            expires_at: key.expires_at.map(Timestamp::rfc3339_millis),
            last_used_at: key.last_used_at.map(Timestamp::rfc3339_millis),
            revoked_at: key.revoked_at.map(Timestamp::rfc3339_millis),
            key: None,
        }
    }
}

/// Create a key
///
/// Needs an admin key. The answer holds the key, this once.
#[utoipa::path(
    post, path = "/v1/keys", tag = "Keys", request_body = NewKeyFields,
    responses(
        (status = 201, description = "The key", body = KeyView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn create_key(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    JsonBody(new): JsonBody<NewKeyFields>,
) -> ApiResult {
    let NewKeyFields { scope, app_id, name, expires_at } = new;
    let new = NewKey { scope, app: app_id, name, expires_at };
    let (key, text) = api.service.add_key(caller, new).await?;
    response::json(StatusCode::CREATED, &KeyView { key: Some(text), ..KeyView::of(&key, &api.service) })
}

/// List keys
///
/// Needs an admin key. In order of creation; revoked ones are not listed unless asked for.
#[utoipa::path(
    get, path = "/v1/keys", tag = "Keys",
    params(("revoked" = Option<bool>, Query, description = "Revoked ones too."), PageParameters),
    responses(
        (status = 200, description = "A page of keys", body = PageView<KeyView>),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn list_keys(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["revoked"])?;
    let (after, limit) = (query.cursor(&api.service)?, query.limit()?);
    let page = api.service.keys(caller, query.flag("revoked")?, after, limit).await?;
    response::ok(&query.page_view(&api.service, page, |key| KeyView::of(&key, &api.service)))
}

/// Get a key
///
/// Needs an admin key. A revoked one too.
#[utoipa::path(
    get, path = "/v1/keys/{key}", tag = "Keys",
    responses((status = 200, description = "The key, but for itself", body = KeyView)),
)]
pub(super) async fn get_key(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let key = api.service.key(caller, &segment(uri.path(), 3)?).await?;
    response::ok(&KeyView::of(&key, &api.service))
}

/// Revoke a key
///
/// Needs an admin key. It stops working before the answer.
#[utoipa::path(
    delete, path = "/v1/keys/{key}", tag = "Keys",
    responses(
        (status = 204, description = "Revoked"),
        (status = 403, description = "Not with an app key"),
        (status = 409, description = "The key is given by the settings"),
    ),
)]
pub(super) async fn revoke_key(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    api.service.revoke_key(caller, &segment(uri.path(), 3)?).await?;
    Ok(response::no_content())
}

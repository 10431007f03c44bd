//! `/v1/keys`

use super::{
    Api,
    answer::{self, Answer},
    auth::{Known, segment},
    fields::{Given, fields},
    problem::Problem,
    query::{PageParameters, PageView, Query},
};
use crate::{
    domain::key::{Key, Scope},
    service::{Service, keys::NewKey},
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;

fields! {
    /// A key to be.
    #[schema(as = NewKey, example = json!({ "scope": "app", "app_id": "merchant-17", "name": "checkout" }))]
    struct NewKeyFields {
        /// `app`: everything in one app. `admin`: everything.
        scope: String,
        /// The app that an `app` key is for.
        app_id: Option<String>,
        name: Option<String>,
    }
}

/// An API key.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Key, example = json!({
    "id": "key_01jd2s0a5g000", "scope": "app", "app_id": "merchant-17", "name": "checkout", "prefix": "phk_8x2k4m",
    "created_at": "2026-11-15T09:30:00.000Z",
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
    /// The key itself, in the answer to its creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<String>,
}

impl KeyView {
    fn of(key: &Key, service: &Service) -> Self {
        Self {
            id: key.id.to_string(),
            scope: match key.scope {
                Scope::Admin => "admin",
                Scope::App(_) => "app",
            },
            app_id: service.app_uid_of(key),
            name: key.name.clone(),
            prefix: key.shown.clone(),
            created_at: key.created_at.rfc3339_millis(),
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
    State(api): State<Arc<Api>>,
    Known(caller): Known,
    Given(new): Given<NewKeyFields>,
) -> Answer {
    let is_admin = match new.scope.as_str() {
        "admin" => true,
        "app" => false,
        _ => return Err(Problem::invalid("scope", "must be \"app\" or \"admin\"")),
    };
    let new = NewKey { app: new.app_id, is_admin, name: new.name };
    let (key, text) = api.service.add_key(caller, new).await?;
    answer::json(StatusCode::CREATED, &KeyView { key: Some(text), ..KeyView::of(&key, &api.service) })
}

/// List keys
///
/// Needs an admin key. Revoked ones are not listed.
#[utoipa::path(
    get, path = "/v1/keys", tag = "Keys", params(PageParameters),
    responses(
        (status = 200, description = "A page of keys", body = PageView<KeyView>),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn list_keys(State(api): State<Arc<Api>>, Known(caller): Known, uri: Uri) -> Answer {
    let query = Query::read(&uri, &[])?;
    let page = api.service.keys(caller, query.cursor(&api.service)?, query.limit()?)?;
    answer::ok(&query.answer(&api.service, page, |key| KeyView::of(&key, &api.service)))
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
pub(super) async fn revoke_key(State(api): State<Arc<Api>>, Known(caller): Known, uri: Uri) -> Answer {
    api.service.revoke_key(caller, &segment(uri.path(), 3)?).await?;
    Ok(answer::nothing())
}

//! `/v1/apps/{app}/portal-links`: a customer's short-lived access to one app.

use super::{
    ApiState,
    auth::AppRequest,
    fields::{JsonBody, fields, read_object},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        api_key::{ApiKey, Scope},
        field_error::FieldError,
        portal_theme::PortalTheme,
        time::Timestamp,
    },
    service::portal_links::NewPortalLink,
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};

fields! {
    /// A way in for a customer.
    #[schema(as = NewPortalLink, example = json!({
        "expires_in": "2h", "read_only": false,
        "theme": { "name": "Corner Bakery", "logo_url": "https://cdn.bakery.example/logo.svg", "accent": "#1a73e8" },
    }))]
    struct NewPortalLinkFields {
        /// From `1m` to `7d`; `1h` if absent.
        #[schema(value_type = Option<String>)]
        expires_in: Option<Duration>,
        /// Only to look, and not at secrets.
        read_only: Option<bool>,
        /// How the portal looks.
        #[schema(value_type = Option<PortalThemeFields>)]
        theme: Option<Map<String, Value>>,
    }
}

fields! {
    /// How the portal looks.
    #[schema(as = NewPortalTheme)]
    struct PortalThemeFields {
        /// What it calls itself.
        name: Option<String>,
        /// An https address of an image, which the customer's browser fetches.
        #[schema(format = "uri")]
        logo_url: Option<String>,
        /// A colour like `#1a73e8`.
        accent: Option<String>,
    }
}

/// How the portal looks.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = PortalTheme)]
pub(super) struct ThemeView {
    name: Option<String>,
    #[schema(format = "uri")]
    logo_url: Option<String>,
    accent: Option<String>,
}

impl ThemeView {
    pub(super) fn of(theme: PortalTheme) -> Self {
        Self { name: theme.name, logo_url: theme.logo_url, accent: theme.accent }
    }
}

/// A customer's way into one app.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = PortalLink, example = json!({
    "id": "key_01jd2s0a5g000", "read_only": false, "prefix": "pht_8x2k4m",
    "theme": { "name": "Corner Bakery", "logo_url": "https://cdn.bakery.example/logo.svg", "accent": "#1a73e8" },
    "created_at": "2026-11-15T09:30:00.000Z", "expires_at": "2026-11-15T11:30:00.000Z", "last_used_at": null,
}))]
pub(super) struct PortalLinkView {
    id: String,
    read_only: bool,
    /// The first characters of its token, to tell links apart.
    prefix: String,
    theme: ThemeView,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// To the second; after a crash up to a minute older than it was.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// Where to send the customer, with the token in the fragment; in the answer to its creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "uri")]
    url: Option<String>,
    /// What the page shows to the API; in the answer to its creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token: Option<String>,
}

impl PortalLinkView {
    fn of(link: ApiKey) -> Self {
        Self {
            id: link.id.to_string(),
            read_only: matches!(link.scope, Scope::PortalRead(_)),
            prefix: link.display_prefix,
            theme: ThemeView::of(link.theme.unwrap_or_default()),
            created_at: link.created_at.rfc3339_millis(),
            expires_at: link.expires_at.map(Timestamp::rfc3339_millis),
            last_used_at: link.last_used_at.map(Timestamp::rfc3339_millis),
            url: None,
            token: None,
        }
    }
}

/// Create a portal link
///
/// The link lets its holder manage the app's endpoints and see its deliveries in the dashboard, until it expires or is revoked.
/// The answer holds the address, this once.
#[utoipa::path(
    post, path = "/v1/apps/{app}/portal-links", tag = "Portal", request_body = NewPortalLinkFields,
    responses(
        (status = 201, description = "The link, with its address", body = PortalLinkView),
        (status = 409, description = "The app has as many as it may have"),
    ),
)]
pub(super) async fn create_portal_link(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
    JsonBody(new): JsonBody<NewPortalLinkFields>,
) -> ApiResult {
    let new = NewPortalLink {
        expires_in: new.expires_in,
        is_read_only: new.read_only.unwrap_or_default(),
        theme: new.theme.map_or_else(|| Ok(PortalTheme::default()), read_theme)?,
    };
    let (link, token) = api.service.add_portal_link(caller, &entry, new).await?;
    let url = Some(api.service.portal_address(&link, &token));
    let view = PortalLinkView { url, token: Some(token), ..PortalLinkView::of(link) };
    response::json(StatusCode::CREATED, &view)
}

fn read_theme(mut given: Map<String, Value>) -> Result<PortalTheme, FieldError> {
    let inside = |error: FieldError| FieldError { field: format!("theme.{}", error.field), ..error };
    let PortalThemeFields { name, logo_url, accent } = read_object(&mut given).map_err(inside)?;
    Ok(PortalTheme { name, logo_url, accent })
}

/// List portal links
///
/// In order of creation: those that work, and those that expired within the last day.
#[utoipa::path(
    get, path = "/v1/apps/{app}/portal-links", tag = "Portal", params(PageParameters),
    responses((status = 200, description = "A page of portal links", body = PageView<PortalLinkView>)),
)]
pub(super) async fn list_portal_links(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let page = api.service.portal_links(&entry, query.cursor(&api.service)?, query.limit()?);
    response::ok(&query.page_view(&api.service, page, PortalLinkView::of))
}

/// Revoke a portal link
///
/// It stops working before the answer.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/portal-links/{link}", tag = "Portal",
    responses((status = 204, description = "Revoked")),
)]
pub(super) async fn revoke_portal_link(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    api.service.revoke_portal_link(caller, &entry, &path_id).await?;
    Ok(response::no_content())
}

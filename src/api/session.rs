//! `/v1/session`: describes the key of the request, for any valid key.

use super::{
    ApiState,
    auth::Authenticated,
    portal_links::ThemeView,
    response::{self, ApiResult},
};
use crate::{
    domain::{api_key::Scope, time::Timestamp},
    service::portal_links::KeySession,
};
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

/// Who a key is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Session, example = json!({
    "scope": "portal", "app": { "id": "merchant-17", "name": "Corner Bakery", "livemode": true }, "read_only": false,
    "expires_at": "2026-11-15T11:30:00.000Z",
    "theme": { "name": "Corner Bakery", "logo_url": "https://cdn.bakery.example/logo.svg", "accent": "#1a73e8" },
}))]
pub(super) struct SessionView {
    /// `admin`, `app`, `publish`, `read`, or of a portal link `portal` or `portal_read`.
    scope: &'static str,
    /// The one app that it is for; null with an admin key.
    app: Option<SessionAppView>,
    /// Whether it changes nothing.
    read_only: bool,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Of a portal link: how the portal looks.
    theme: Option<ThemeView>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SessionApp)]
struct SessionAppView {
    id: String,
    name: String,
    livemode: bool,
}

impl SessionView {
    fn of(session: KeySession) -> Self {
        Self {
            scope: session.scope.name(),
            app: session.app.map(|app| SessionAppView {
                id: app.uid.clone(),
                name: app.settings.name.clone(),
                livemode: app.settings.livemode,
            }),
            read_only: matches!(session.scope, Scope::Read(_) | Scope::PortalRead(_)),
            expires_at: session.expires_at.map(Timestamp::rfc3339_millis),
            theme: session.theme.map(ThemeView::of),
        }
    }
}

/// Who am I
///
/// What the key of this request is and may; for a portal link also how the portal looks.
#[utoipa::path(
    get, path = "/v1/session", tag = "Portal",
    responses((status = 200, description = "What the key is", body = SessionView)),
)]
pub(super) async fn get_session(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
) -> ApiResult {
    response::ok(&SessionView::of(api.service.session(caller)))
}

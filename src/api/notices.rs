//! `/v1/notices` and `/v1/apps/{app}/notices`: lists and details of notices.

use super::{
    ApiState,
    auth::{AppRequest, Authenticated},
    problem::Problem,
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{notice::NoticeKind, time::Timestamp},
    service::{
        Caller,
        notices::{NamedNotice, NoticeQuery},
    },
};
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use std::sync::Arc;

/// Which notices.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the filters that both lists have")]
struct NoticeParameters {
    /// Only of this kind, for example `endpoint.disabled`.
    kind: Option<String>,
    /// Only about this endpoint.
    endpoint_id: Option<String>,
    /// At this time or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Before this time.
    #[param(format = DateTime)]
    to: Option<String>,
}

/// Something people are told.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Notice, example = json!({
    "id": "ntc_0000000000017", "app_id": "bakery", "kind": "delivery.dead", "at": "2026-11-15T09:30:00.000Z",
    "text": "A delivery of order.paid is dead: 8 attempts failed, and its schedule is used up.",
    "since": "2026-11-15T09:08:50.000Z", "last_error": "HTTP 500", "reason": "exhausted", "off_at": null, "count": 1,
    "endpoint_id": "shop", "url": "https://hooks.bakery.example/in", "delivery_id": "dlv_01jd2s3c8g001",
    "event_id": "evt_01jd2s3c8g000", "event_type": "order.paid", "replay_id": null, "endpoints": [],
    "mail": { "state": "sent", "at": "2026-11-15T09:30:01.000Z", "error": null },
}))]
pub(super) struct NoticeView {
    id: String,
    app_id: String,
    /// `endpoint.degraded`, `endpoint.warning` (it is about to be switched off), `endpoint.disabled`, `endpoint.recovered`,
    /// `delivery.dead` or `replay.finished`.
    kind: &'static str,
    #[schema(format = DateTime)]
    at: String,
    /// What happened, in a sentence.
    text: String,
    /// Since when.
    #[schema(format = DateTime)]
    since: Option<String>,
    last_error: Option<String>,
    /// Why, in a word for machines.
    reason: Option<String>,
    /// In a warning: when the endpoint will be switched off.
    #[schema(format = DateTime)]
    #[serde(rename = "off_at")]
    disables_at: Option<String>,
    /// How many it stands for: more than one in a digest.
    count: u32,
    endpoint_id: Option<String>,
    url: Option<String>,
    /// Of a digest: the last one.
    delivery_id: Option<String>,
    event_id: Option<String>,
    event_type: Option<String>,
    replay_id: Option<String>,
    /// Of a digest: how many at which endpoint.
    endpoints: Vec<NoticeEndpointView>,
    /// Not shown to customers.
    mail: Option<MailView>,
}

/// How many of a digest are of one endpoint.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = NoticeEndpoint)]
pub(super) struct NoticeEndpointView {
    endpoint_id: String,
    count: u32,
}

/// What became of its e-mail.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = NoticeMail)]
pub(super) struct MailView {
    /// `none`, `waiting`, `sent` or `refused`.
    state: &'static str,
    /// When it was sent or refused.
    #[schema(format = DateTime)]
    at: Option<String>,
    /// What the mail server said to it, or why there is none.
    error: Option<String>,
}

impl NoticeView {
    fn of(shown: NamedNotice) -> Self {
        let NamedNotice { app, endpoint, url, event, endpoints, notice } = shown;
        let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339_millis);
        let of_endpoint = |(endpoint_id, count)| NoticeEndpointView { endpoint_id, count };
        Self {
            id: notice.id.to_string(),
            app_id: app,
            kind: notice.kind.name(),
            at: notice.at.rfc3339_millis(),
            text: notice.details.text,
            since: time(notice.details.since),
            last_error: notice.details.last_error,
            reason: notice.details.reason,
            disables_at: time(notice.details.disables_at),
            count: notice.count,
            endpoint_id: endpoint,
            url,
            delivery_id: notice.delivery.map(|id| id.to_string()),
            event_id: event,
            event_type: notice.event.map(|event| event.event_type),
            replay_id: notice.replay.map(|id| id.to_string()),
            endpoints: endpoints.into_iter().map(of_endpoint).collect(),
            mail: Some(MailView {
                state: notice.mail.name(),
                at: time(notice.mailed_at),
                error: notice.mail_error,
            }),
        }
    }

    /// Removes the mail server's answer, which a portal link must not see.
    fn visible_to(self, caller: Caller) -> Self {
        if caller.scope.is_portal() { Self { mail: None, ..self } } else { self }
    }
}

fn notice_query(query: &Query) -> Result<NoticeQuery, Problem> {
    let kind = query.get("kind").map(|name| {
        let known = || NoticeKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        NoticeKind::named(name)
            .ok_or_else(|| Problem::invalid("kind", &format!("must be one of {}", known())))
    });
    Ok(NoticeQuery {
        app: query.owned("app_id"),
        kind: kind.transpose()?,
        endpoint: query.owned("endpoint_id"),
        from: query.time("from")?,
        to: query.time("to")?,
    })
}

/// List notices
///
/// Needs an admin key. What the people of all apps were told, the newest first; `endpoint_id` is then our own id of it.
#[utoipa::path(
    get, path = "/v1/notices", tag = "Notices",
    params(
        ("app_id" = Option<String>, Query, description = "Only of this app."),
        NoticeParameters, PageParameters,
    ),
    responses((status = 200, description = "A page of notices", body = PageView<NoticeView>)),
)]
pub(super) async fn list_notices(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["app_id", "kind", "endpoint_id", "from", "to"])?;
    let (after, limit) = (query.cursor(&api.service)?, query.limit()?);
    let page = api.service.notices(caller, notice_query(&query)?, after, limit).await?;
    response::ok(&query.page_view(&api.service, page, NoticeView::of))
}

/// List an app's notices
///
/// What its people were told, the newest first.
#[utoipa::path(
    get, path = "/v1/apps/{app}/notices", tag = "Notices", params(NoticeParameters, PageParameters),
    responses((status = 200, description = "A page of notices", body = PageView<NoticeView>)),
)]
pub(super) async fn list_app_notices(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["kind", "endpoint_id", "from", "to"])?;
    let (after, limit) = (query.cursor(&api.service)?, query.limit()?);
    let page = api.service.notices_of(&entry, notice_query(&query)?, after, limit).await?;
    response::ok(&query.page_view(&api.service, page, |shown| NoticeView::of(shown).visible_to(caller)))
}

/// Get a notice
#[utoipa::path(
    get, path = "/v1/apps/{app}/notices/{notice}", tag = "Notices",
    responses((status = 200, description = "The notice", body = NoticeView)),
)]
pub(super) async fn get_notice(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    response::ok(&NoticeView::of(api.service.notice(&entry, &path_id).await?).visible_to(caller))
}

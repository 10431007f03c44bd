//! `/v1/apps/{app}/stream` and `/v1/stream`: server-sent events for live views. They carry live updates only, and need a key in
//! a header.
//!
//! A stream is a task with a small queue before the connection. A slow reader delays only that task; missed updates become one
//! `lagged`.

use super::{
    ApiState,
    auth::{AppRequest, Authenticated},
    response::{self, ApiResult},
};
use crate::{
    server::StreamingResponse,
    service::{
        Caller, Service,
        stream::{NamedUpdate, StreamItem, Subscription},
    },
};
use axum::{body::Body, extract::State};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body::Frame;
use serde::Serialize;
use std::{
    convert::Infallible,
    fmt::Write,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::mpsc;

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Asks proxies not to buffer the response.
const NO_PROXY_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Interval of checks whether the key is still valid.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Checks without any update after which a comment keeps the stream alive.
const KEEPALIVE_CHECKS: u32 = 15;
/// Updates that arrive within this time after an update are sent together.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// A client that reads nothing for this long counts as gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE_COMMENT: Bytes = Bytes::from_static(b":\n\n");
const LAGGED_EVENT: &str = "event: lagged\ndata: {\"kind\":\"lagged\"}\n\n";

/// Something happened: look again.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Hint, example = json!({
    "kind": "attempt", "app_id": "merchant-17", "event_id": "evt_01jd2s3c8g000", "delivery_id": "dlv_01jd2s3c8g001",
    "endpoint_id": "ep_01jd2s0a5g000", "state": "retrying",
}))]
struct LiveUpdateView {
    /// `event`, `delivery`, `attempt`, `endpoint` or `replay`; `lagged`, without anything else, when some were missed. A
    /// `delivery` without `delivery_id` is about several of the endpoint's.
    kind: &'static str,
    app_id: String,
    /// Ours, also where the producer gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    delivery_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    endpoint_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    replay_id: Option<String>,
    /// Of the delivery or the replay, when the hint was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    state: Option<&'static str>,
}

impl LiveUpdateView {
    fn of(update: NamedUpdate) -> Self {
        Self {
            kind: update.kind,
            app_id: update.app,
            event_id: update.event,
            delivery_id: update.delivery,
            endpoint_id: update.endpoint,
            replay_id: update.replay,
            state: update.state,
        }
    }
}

/// Watch an app
///
/// Server-sent events, each a hint that something happened and that it is time to look again; never what is in it. They come
/// within a fraction of a second, may be missed (`lagged` says so), and a comment comes at least every 15 seconds. The stream
/// ends when the key stops working or the server stops. At most 32 streams of an app.
#[utoipa::path(
    get, path = "/v1/apps/{app}/stream", tag = "Streams",
    responses(
        (status = 200, description = "Hints, until one side ends it", body = LiveUpdateView, content_type = "text/event-stream"),
        (status = 429, description = "Too many streams are open"),
    ),
)]
pub(super) async fn stream_app(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
) -> ApiResult {
    let watch = api.service.subscribe(caller, Some(entry.app().id))?;
    Ok(stream_response(&api.service, caller, watch))
}

/// Watch all apps
///
/// As the stream of one app, over all of them. Needs an admin key. At most 64 such streams.
#[utoipa::path(
    get, path = "/v1/stream", tag = "Streams",
    responses(
        (status = 200, description = "Hints, until one side ends it", body = LiveUpdateView, content_type = "text/event-stream"),
        (status = 403, description = "Not with an app key"),
        (status = 429, description = "Too many streams are open"),
    ),
)]
pub(super) async fn stream_everything(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
) -> ApiResult {
    let watch = api.service.subscribe(caller, None)?;
    Ok(stream_response(&api.service, caller, watch))
}

fn stream_response(service: &Arc<Service>, caller: Caller, watch: Subscription) -> axum::response::Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(run_stream(service.clone(), caller, watch, sender));
    let mut response = response::bytes(StatusCode::OK, EVENT_STREAM, Bytes::new());
    *response.body_mut() = Body::new(StreamBody(receiver));
    response
        .headers_mut()
        .extend([NO_PROXY_BUFFERING, (header::CONNECTION, HeaderValue::from_static("close"))]);
    response.extensions_mut().insert(StreamingResponse);
    response
}

/// Runs until the client is gone or reads nothing, its key stops working, or the node stops.
async fn run_stream(
    service: Arc<Service>,
    caller: Caller,
    mut watch: Subscription,
    sender: mpsc::Sender<Bytes>,
) {
    let mut looks = tokio::time::interval(KEY_CHECK_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut quiet = KEEPALIVE_CHECKS;
    loop {
        let chunk = tokio::select! {
            biased;
            () = sender.closed() => return,
            _ = looks.tick() => {
                if !service.may_continue(caller, &watch) {
                    return;
                }
                quiet += 1;
                // The first check sends a comment that shows that the stream is open.
                if quiet < KEEPALIVE_CHECKS {
                    continue;
                }
                KEEPALIVE_COMMENT
            }
            seen = watch.next() => match seen {
                StreamItem::Updates(updates) => format_updates(&service, updates),
                StreamItem::Lagged => Bytes::from_static(LAGGED_EVENT.as_bytes()),
                StreamItem::Ended => return,
            }
        };
        quiet = 0;
        let is_hint = chunk != KEEPALIVE_COMMENT;
        if !matches!(tokio::time::timeout(SEND_TIMEOUT, sender.send(chunk)).await, Ok(Ok(()))) {
            return;
        }
        if is_hint {
            tokio::time::sleep(GATHER_TIME).await;
        }
    }
}

fn format_updates(service: &Service, updates: Vec<crate::domain::live_update::LiveUpdate>) -> Bytes {
    let mut text = String::new();
    for update in updates.into_iter().filter_map(|update| service.name_update(update)) {
        let view = LiveUpdateView::of(update);
        // JSON has no line break outside of escapes, so an update is one line.
        if let Ok(data) = serde_json::to_string(&view) {
            let _ = write!(text, "event: {}\ndata: {data}\n\n", view.kind);
        }
    }
    text.into()
}

/// The body of a stream: chunks as they come.
struct StreamBody(mpsc::Receiver<Bytes>);

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }
}

//! `/v1/apps/{app}/replays` and `…/endpoints/{endpoint}/backfill`: many deliveries sent again as one operation.

use super::{
    ApiState,
    auth::AppRequest,
    fields::{JsonBody, fields},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        id::made_at,
        replay::{Replay, ReplayState},
        time::Timestamp,
    },
    runtime::CachedApp,
    service::{
        Caller,
        replays::{NamedReplay, NewReplay},
    },
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;

fields! {
    /// Which deliveries to send again.
    #[schema(as = NewReplay, example = json!({
        "event_type": "payment.completed", "status": ["dead", "expired"], "from": "2026-11-14T00:00:00.000Z", "per_second": 50,
    }))]
    struct NewReplayFields {
        /// Only deliveries to this endpoint.
        endpoint_id: Option<String>,
        /// Only events of exactly this type.
        event_type: Option<String>,
        /// Which states: `dead` (the default, without closed ones), `delivered`, `cancelled`, `expired`.
        status: Option<Vec<String>>,
        /// Made at this time or later.
        #[schema(value_type = Option<String>, format = DateTime)]
        from: Option<Timestamp>,
        /// Made before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        to: Option<Timestamp>,
        /// The most that are sent again in a second, 1 to 10000; 100 if absent.
        per_second: Option<u32>,
        /// Only count.
        dry_run: Option<bool>,
    }
}

fields! {
    /// Which past events to send to an endpoint.
    #[schema(as = NewBackfill, example = json!({ "from": "2026-11-01T00:00:00.000Z", "per_second": 50 }))]
    struct NewBackfillFields {
        /// Only events of exactly this type; all that the endpoint subscribes to if absent.
        event_type: Option<String>,
        /// Accepted at this time or later.
        #[schema(value_type = Option<String>, format = DateTime)]
        from: Option<Timestamp>,
        /// Accepted before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        to: Option<Timestamp>,
        /// The most that are sent in a second, 1 to 10000; 100 if absent.
        per_second: Option<u32>,
        /// Only count.
        dry_run: Option<bool>,
    }
}

/// A replay or backfill and how far it is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Replay, example = json!({
    "id": "rpl_01jd2s3c8g001", "kind": "replay", "state": "running", "endpoint_id": "ep_01jd2s0a5g000", "event_type": null,
    "status": ["dead"], "missed_since": null, "from": null, "to": "2026-11-15T09:30:00.000Z", "per_second": 100, "total": 12000, "replayed": 3400,
    "refused": 2, "last_refusal": "dlv_01jd2s3c8g001 is delivered by now", "progress": 0.283, "average_per_second": 99.2,
    "created_at": "2026-11-15T09:30:00.000Z", "changed_at": "2026-11-15T09:30:34.000Z", "finished_at": null,
}))]
pub(super) struct ReplayView {
    id: String,
    /// `replay` of deliveries or `backfill` of events.
    kind: &'static str,
    /// `running`, `paused`, `finished` or `cancelled`.
    state: &'static str,
    endpoint_id: Option<String>,
    event_type: Option<String>,
    /// The states of the deliveries that are meant; empty for a backfill.
    status: Vec<&'static str>,
    /// Only those that ended then or later, and not by a person's wish: what an endpoint missed before it was switched on.
    #[schema(format = DateTime)]
    missed_since: Option<String>,
    #[schema(format = DateTime)]
    from: Option<String>,
    #[schema(format = DateTime)]
    to: String,
    per_second: u32,
    /// How many there were to send again when it began.
    total: u64,
    /// How many were sent on their way again.
    replayed: u64,
    /// How many could not be, when their turn came.
    refused: u64,
    /// Why the last of these could not be.
    last_refusal: Option<String>,
    /// From 0 to 1.
    progress: f64,
    /// While it was running, pauses left out.
    average_per_second: f64,
    #[schema(format = DateTime)]
    created_at: String,
    /// The last page, or the last time that someone paused, resumed or cancelled it.
    #[schema(format = DateTime)]
    changed_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
}

/// What a replay would do.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ReplayCount, example = json!({ "dry_run": true, "total": 12000 }))]
pub(super) struct ReplayCountView {
    dry_run: bool,
    /// How many would be sent again.
    total: u64,
}

impl ReplayView {
    pub(super) fn of(NamedReplay { replay, endpoint }: NamedReplay) -> Self {
        Self {
            id: replay.id.to_string(),
            kind: replay.selection.kind(),
            state: replay.state.name(),
            endpoint_id: endpoint,
            event_type: replay.selection.event_type().map(str::to_owned),
            status: replay.selection.states().iter().map(|state| state.name()).collect(),
            missed_since: replay.selection.missed_since().map(Timestamp::rfc3339_millis),
            from: (replay.from_id > 0).then(|| made_at(replay.from_id).rfc3339_millis()),
            to: made_at(replay.to_id).rfc3339_millis(),
            per_second: replay.per_second,
            total: replay.total,
            replayed: replay.replayed,
            refused: replay.refused,
            progress: progress(&replay),
            average_per_second: replay.average_per_second(),
            created_at: replay.created_at.rfc3339_millis(),
            changed_at: replay.changed_at.rfc3339_millis(),
            finished_at: replay.state.is_ended().then(|| replay.changed_at.rfc3339_millis()),
            last_refusal: replay.last_refusal,
        }
    }
}

/// Progress from 0 to 1. Some sources may be deleted before they are replayed, so only the state shows the end.
fn progress(replay: &Replay) -> f64 {
    if replay.state == ReplayState::Finished {
        return 1.0;
    }
    let done = (replay.replayed + replay.refused) as f64;
    (done / replay.total.max(1) as f64).min(1.0)
}

/// Replay many deliveries
///
/// Dead, cancelled and expired ones get a fresh schedule under their own id; delivered ones become new deliveries. They go
/// out page by page, never faster than `per_second` and never in the way of fresh events. No delivery is taken twice.
#[utoipa::path(
    post, path = "/v1/apps/{app}/replays", tag = "Replays", request_body = NewReplayFields,
    responses(
        (status = 200, description = "With `dry_run`: how many there are", body = ReplayCountView),
        (status = 201, description = "The replay", body = ReplayView),
        (status = 409, description = "Too many replays are under way"),
        (status = 507, description = "There is no room for more events"),
    ),
)]
pub(super) async fn create_replay(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, .. }: AppRequest,
    JsonBody(given): JsonBody<NewReplayFields>,
) -> ApiResult {
    let new = NewReplay {
        endpoint: given.endpoint_id,
        event_type: given.event_type,
        states: given.status,
        from: given.from,
        to: given.to,
        per_second: given.per_second,
    };
    let replay = api.service.replay_of(&entry, &new)?;
    start_or_count(&api, caller, &entry, replay, given.dry_run == Some(true)).await
}

/// Send past events to an endpoint
///
/// Every event that the endpoint subscribes to and has no delivery of, oldest first.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/backfill", tag = "Replays", request_body = NewBackfillFields,
    responses(
        (status = 200, description = "With `dry_run`: how many there are", body = ReplayCountView),
        (status = 201, description = "The backfill", body = ReplayView),
        (status = 409, description = "Too many replays are under way"),
        (status = 507, description = "There is no room for more events"),
    ),
)]
pub(super) async fn backfill_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
    JsonBody(given): JsonBody<NewBackfillFields>,
) -> ApiResult {
    let new = NewReplay {
        event_type: given.event_type,
        from: given.from,
        to: given.to,
        per_second: given.per_second,
        ..NewReplay::default()
    };
    let backfill = api.service.backfill_of(&entry, &path_id, &new)?;
    start_or_count(&api, caller, &entry, backfill, given.dry_run == Some(true)).await
}

async fn start_or_count(
    api: &ApiState,
    caller: Caller,
    entry: &CachedApp,
    replay: Replay,
    is_dry: bool,
) -> ApiResult {
    if is_dry {
        let total = api.service.count_replay(entry, &replay).await?;
        return response::ok(&ReplayCountView { dry_run: true, total });
    }
    let begun = api.service.begin_replay(caller, entry, replay).await?;
    response::json(StatusCode::CREATED, &ReplayView::of(begun))
}

/// List replays
///
/// The newest first.
#[utoipa::path(
    get, path = "/v1/apps/{app}/replays", tag = "Replays", params(PageParameters),
    responses((status = 200, description = "A page of replays", body = PageView<ReplayView>)),
)]
pub(super) async fn list_replays(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, .. }: AppRequest,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &[])?;
    let page = api.service.replays(&entry, query.cursor(&api.service)?, query.limit()?).await?;
    response::ok(&query.page_view(&api.service, page, ReplayView::of))
}

/// Get a replay
#[utoipa::path(
    get, path = "/v1/apps/{app}/replays/{replay}", tag = "Replays",
    responses((status = 200, description = "The replay", body = ReplayView)),
)]
pub(super) async fn get_replay(
    State(api): State<Arc<ApiState>>,
    AppRequest { entry, path_id, .. }: AppRequest,
) -> ApiResult {
    response::ok(&ReplayView::of(api.service.replay(&entry, &path_id).await?))
}

/// Cancel a replay
///
/// What was sent again already stays so.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/replays/{replay}", tag = "Replays",
    responses(
        (status = 200, description = "The replay", body = ReplayView),
        (status = 409, description = "It is over already"),
    ),
)]
pub(super) async fn cancel_replay(State(api): State<Arc<ApiState>>, in_app: AppRequest) -> ApiResult {
    change_state(&api, in_app, ReplayState::Cancelled).await
}

/// Pause a replay
#[utoipa::path(
    post, path = "/v1/apps/{app}/replays/{replay}/pause", tag = "Replays",
    responses(
        (status = 200, description = "The replay", body = ReplayView),
        (status = 409, description = "It is over already"),
    ),
)]
pub(super) async fn pause_replay(State(api): State<Arc<ApiState>>, in_app: AppRequest) -> ApiResult {
    change_state(&api, in_app, ReplayState::Paused).await
}

/// Resume a paused replay
#[utoipa::path(
    post, path = "/v1/apps/{app}/replays/{replay}/resume", tag = "Replays",
    responses(
        (status = 200, description = "The replay", body = ReplayView),
        (status = 409, description = "It is over already"),
    ),
)]
pub(super) async fn resume_replay(State(api): State<Arc<ApiState>>, in_app: AppRequest) -> ApiResult {
    change_state(&api, in_app, ReplayState::Running).await
}

async fn change_state(
    api: &ApiState,
    AppRequest { caller, entry, path_id }: AppRequest,
    to: ReplayState,
) -> ApiResult {
    response::ok(&ReplayView::of(api.service.change_replay(caller, &entry, &path_id, to).await?))
}

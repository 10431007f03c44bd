//! `…/endpoints/{endpoint}/enable` and `…/disable`

use super::{
    ApiState,
    auth::AppRequest,
    endpoint_view::EndpointView,
    endpoints::endpoint_response,
    fields::{JsonBody, fields, read_object},
    replays::ReplayView,
    response::{self, ApiResult},
};
use crate::domain::field_error::FieldError;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

fields! {
    /// What else is wanted when an endpoint is switched on.
    #[schema(as = EnableEndpoint, example = json!({ "replay": true }))]
    struct EnableFields {
        /// True, or an object: send again what the endpoint missed since its trouble began. That is every delivery that ended
        /// dead, cancelled or expired and was not closed or cancelled manually, and where its contract made no deliveries
        /// while it was off, every event of that time.
        #[schema(value_type = Option<ReplayOption>)]
        replay: Option<Value>,
    }
}

/// Whether to replay, or how.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[schema(as = ReplayAsked)]
#[expect(dead_code, reason = "describes what `pace` reads")]
enum ReplayOption {
    Whether(bool),
    How(ReplayPaceFields),
}

fields! {
    /// How fast.
    #[derive(Serialize)]
    #[schema(as = ReplayPace)]
    struct ReplayPaceFields {
        /// The most that are sent again in a second, 1 to 10000; 100 if absent.
        per_second: Option<u32>,
    }
}

/// Parses `replay`: whether to replay, and how fast.
fn replay_pace(pace: Option<Value>) -> Result<Option<ReplayPaceFields>, FieldError> {
    match pace {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(ReplayPaceFields { per_second: None })),
        Some(Value::Object(mut object)) => {
            let within =
                |error: FieldError| FieldError::new(format!("replay.{}", error.field), error.message);
            read_object(&mut object).map(Some).map_err(within)
        }
        Some(_) => Err(FieldError::new("replay", "must be true, false or an object with `per_second`")),
    }
}

/// Switch an endpoint on
///
/// What was held for it becomes due, and its health starts afresh. One that is on stays on. With `replay`, what it missed is
/// sent again, paced; the answer names the replays.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/enable", tag = "Endpoints", request_body = EnableFields,
    responses(
        (status = 200, description = "The endpoint", body = EndpointView),
        (status = 409, description = "Somebody else changed it at the same time, or too many replays are under way"),
        (status = 507, description = "There is no room for more events"),
    ),
)]
pub(super) async fn enable_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
    JsonBody(given): JsonBody<EnableFields>,
) -> ApiResult {
    let Some(ReplayPaceFields { per_second }) = replay_pace(given.replay)? else {
        let endpoint = api.service.enable_endpoint(caller, &entry, &path_id).await?;
        return endpoint_response(&api, caller, &entry, &endpoint).await;
    };
    let (endpoint, replays) = api.service.enable_and_replay(caller, &entry, &path_id, per_second).await?;
    let replays = replays.into_iter().map(ReplayView::of).collect();
    response::ok(&EndpointView::with_replays(&endpoint, replays).visible_to(caller))
}

/// Switch an endpoint off
///
/// What waits for it is held or cancelled, as its contract says. One that is off stays as it is.
#[utoipa::path(
    post, path = "/v1/apps/{app}/endpoints/{endpoint}/disable", tag = "Endpoints",
    responses(
        (status = 200, description = "The endpoint", body = EndpointView),
        (status = 409, description = "It was changed by somebody else at the same time; try again"),
    ),
)]
pub(super) async fn disable_endpoint(
    State(api): State<Arc<ApiState>>,
    AppRequest { caller, entry, path_id }: AppRequest,
) -> ApiResult {
    let endpoint = api.service.disable_endpoint(caller, &entry, &path_id).await?;
    endpoint_response(&api, caller, &entry, &endpoint).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replay_may_be_true_false_or_an_object_and_errors_name_the_field() {
        assert!(replay_pace(None).unwrap().is_none());
        assert!(replay_pace(Some(json!(false))).unwrap().is_none());
        for (pace, per_second) in
            [(json!(true), None), (json!({}), None), (json!({ "per_second": 5 }), Some(5))]
        {
            assert_eq!(replay_pace(Some(pace)).unwrap().unwrap().per_second, per_second);
        }
        for (wrong, field) in [
            (json!("yes"), "replay"),
            (json!(5), "replay"),
            (json!({ "per_second": "fast" }), "replay.per_second"),
            (json!({ "speed": 5 }), "replay.speed"),
        ] {
            assert_eq!(replay_pace(Some(wrong)).unwrap_err().field, field);
        }
    }
}

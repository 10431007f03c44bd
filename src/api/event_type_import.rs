//! `/v1/event-types/import`: imports many event types, all or none.

use super::{
    ApiState,
    auth::Authenticated,
    envelope,
    event_types::NewEventTypeFields,
    fields::read_object,
    problem::{ErrorCode, Problem},
    response::{self, ApiResult},
};
use crate::{
    domain::{field_error::FieldError, time::Timestamp},
    service::event_type_import::{ImportResult, ParsedType},
};
use axum::extract::{Request, State};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::{collections::HashMap, sync::Arc};

/// Size limit of the body: a whole catalogue is larger than an event may be.
const IMPORT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Event types to add, or to put in the place of those that have their names.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = EventTypeImport, example = json!({
    "event_types": [{
        "name": "payment.completed", "sample": { "order": 1001 }, "enforce_schema": true,
        "versions": [{ "name": "2024-01-01", "schema": { "type": "object", "required": ["order"] } }],
    }],
    "dry_run": true,
}))]
#[serde(deny_unknown_fields)]
pub(super) struct ImportBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Vec<NewEventTypeFields>)]
    event_types: Vec<&'a RawValue>,
    /// Check everything, say what would be done, and do nothing.
    dry_run: Option<bool>,
}

/// What was done, or would be: names, in the order they were given.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ImportedEventTypes, example = json!({
    "dry_run": true, "added": ["payment.completed"],
    "changed": [{ "name": "payment.failed", "fields": ["description"] }], "unchanged": ["payment.created"],
}))]
pub(super) struct ImportResultView {
    dry_run: bool,
    added: Vec<String>,
    changed: Vec<ChangedView>,
    unchanged: Vec<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ChangedEventType)]
pub(super) struct ChangedView {
    name: String,
    /// Those that differ from what was there.
    fields: Vec<String>,
}

/// Import event types
///
/// Needs an admin key. All of them are stored, or none: if any is wrong, `errors` tells every type that is, by its place.
/// What is not in the list stays as it is, and what is there already, the same, is left alone.
#[utoipa::path(
    post, path = "/v1/event-types/import", tag = "Event types", request_body = ImportBody,
    responses(
        (status = 200, description = "What was done", body = ImportResultView),
        (status = 403, description = "Not with an app key"),
        (status = 409, description = "Someone else is changing one of them, or there would be too many"),
    ),
)]
pub(super) async fn import_event_types(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    request: Request,
) -> ApiResult {
    api.service.require_operator(caller)?;
    let (parts, body) = request.into_parts();
    let held = api.bodies.read_up_to(IMPORT_BYTES_MAX, &parts.headers, body).await?;
    let import = read(envelope::utf8(&held.bytes)?)?;
    let (now, is_rehearsal) = (api.service.now(), import.dry_run.unwrap_or_default());
    let given = import.event_types.into_iter().map(|one| read_type(one.get(), now)).collect();
    let imported = api.service.import_event_types(caller, given, is_rehearsal).await?;
    let ImportResult { added, changed, unchanged } = imported;
    let changed = changed.into_iter().map(|(name, fields)| ChangedView { name, fields }).collect();
    response::ok(&ImportResultView { dry_run: is_rehearsal, added, changed, unchanged })
}

fn read(text: &str) -> Result<ImportBody<'_>, Problem> {
    serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            let detail = "event_types: must be a list of event types, beside nothing but dry_run";
            Problem::at(ErrorCode::Invalid, "event_types", detail)
        }
        _ => envelope::malformed(&error),
    })
}

/// Parses one type of the list. Its sample keeps its spelling.
fn read_type(text: &str, now: Timestamp) -> ParsedType {
    let unreadable = |error| FieldError::new("", format!("cannot be read: {error}"));
    let mut object: Map<String, Value> = match serde_json::from_str(text).map_err(unreadable)? {
        Value::Object(object) => object,
        _ => return Err(FieldError::new("", "must be an object")),
    };
    let raw: HashMap<String, &RawValue> = serde_json::from_str(text).map_err(unreadable)?;
    let sample = raw.get("sample").map(|raw| raw.get().to_owned()).filter(|raw| raw != "null");
    read_object::<NewEventTypeFields>(&mut object)?.read(sample, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_parsed_separately_and_its_sample_keeps_its_spelling() {
        let text = r#"{"event_types":[{"name":"a","sample":{ "n":1.0e3 }},{"nmae":"b"},5,{"name":"c","archived":true}]}"#;
        let import = read(text).unwrap_or_else(|_| panic!());
        let read: Vec<_> = import
            .event_types
            .iter()
            .map(|one| read_type(one.get(), Timestamp::from_millis(7)).map_err(|error| error.to_string()))
            .collect();
        let (name, document) = read[0].as_ref().unwrap();
        assert_eq!((name.as_str(), document.sample.as_deref()), ("a", Some(r#"{ "n":1.0e3 }"#)));
        assert!(read[1].as_ref().unwrap_err().contains("did you mean `name`?"), "{read:?}");
        assert!(read[2].as_ref().unwrap_err().contains("must be an object"), "{read:?}");
        assert_eq!(read[3].as_ref().unwrap().1.archived_at, Some(Timestamp::from_millis(7)));
    }

    #[test]
    fn an_import_may_only_contain_a_list_and_dry_run() {
        let status = |text: &str| read(text).map_or_else(|problem| problem.status().as_u16(), |_| 200);
        assert_eq!(status(r#"{"event_types":[]}"#), 200);
        for odd in [r#"{"event_types":{}}"#, "{}", r#"{"event_types":[],"dryrun":true}"#, "[]"] {
            assert_eq!(status(odd), 422, "{odd}");
        }
        assert_eq!(status("{"), 400);
    }
}

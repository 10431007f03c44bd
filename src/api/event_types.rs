//! `/v1/event-types`: the catalogue, with the payload versions of each type.

use super::{
    ApiState,
    auth::{Authenticated, segment},
    fields::{RawJsonBody, fields, read_object},
    query::{PageParameters, PageView, Query},
    response::{self, ApiResult},
};
use crate::{
    domain::{
        event_type::{EventTypeDocument, VersionDocument},
        field_error::FieldError,
        time::Timestamp,
    },
    functions::EventType,
    service::{Caller, event_types::VersionTrial},
};
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use std::sync::Arc;

fields! {
    /// A version of a type's data, oldest first; the last is the newest.
    #[schema(as = NewPayloadVersion, example = json!({
        "name": "2024-01-01", "function": "data => ({ id: data.id, amount: data.amount.value })",
    }))]
    struct VersionFields {
        /// A date or a name: 1 to 64 characters out of `A-Z a-z 0-9 _ . -`.
        name: String,
        description: Option<String>,
        /// A JSON Schema that this version's data must fit.
        #[schema(value_type = Option<serde_json::Value>)]
        schema: Option<Value>,
        /// JavaScript: one function that makes this version out of the data as published, which it is if absent.
        function: Option<String>,
    }
}

fields! {
    /// An event type to be.
    #[schema(as = NewEventType, example = json!({
        "name": "payment.created", "sample": { "id": "pay_1", "amount": { "value": 1250, "currency": "EUR" } },
        "versions": [{ "name": "2024-01-01", "function": "data => ({ id: data.id, amount: data.amount.value })" }],
    }))]
    struct NewEventTypeFields {
        /// 1 to 128 characters out of `A-Z a-z 0-9 _ . : -`.
        name: String,
        description: Option<String>,
        /// The data of an example event; every function is tried on it before it is saved.
        #[schema(value_type = Option<serde_json::Value>)]
        sample: Option<Value>,
        /// At most 64.
        #[schema(value_type = Option<Vec<VersionFields>>)]
        versions: Option<Value>,
        /// Refuse data that does not fit the schema of the newest version without a function, when it is published.
        enforce_schema: Option<bool>,
        /// Refuse new events of this type. Those there are stay, are delivered and can be replayed.
        archived: Option<bool>,
    }
}

fields! {
    /// The whole event type; what is left out is gone.
    #[schema(as = EventTypePut, example = json!({
        "sample": { "id": "pay_1", "amount": { "value": 1250, "currency": "EUR" } },
        "versions": [{ "name": "2024-01-01", "function": "data => ({ id: data.id, amount: data.amount.value })" }],
    }))]
    struct EventTypePutFields {
        description: Option<String>,
        /// The data of an example event; every function is tried on it before it is saved.
        #[schema(value_type = Option<serde_json::Value>)]
        sample: Option<Value>,
        /// At most 64.
        #[schema(value_type = Option<Vec<VersionFields>>)]
        versions: Option<Value>,
        /// Refuse data that does not fit the schema of the newest version without a function, when it is published.
        enforce_schema: Option<bool>,
        /// Refuse new events of this type. Those there are stay, are delivered and can be replayed.
        archived: Option<bool>,
    }
}

fields! {
    /// A conversion to try.
    #[schema(as = VersionTrial, example = json!({ "version": "2024-01-01" }))]
    struct VersionTrialFields {
        /// The data of an event; the type's sample if absent.
        #[schema(value_type = Option<serde_json::Value>)]
        data: Option<Value>,
        /// The name of one of the type's versions.
        version: Option<String>,
        /// Tried instead of the saved version's; needs an admin key.
        function: Option<String>,
        /// Goes with `function`.
        #[schema(value_type = Option<serde_json::Value>)]
        schema: Option<Value>,
    }
}

impl NewEventTypeFields {
    /// Returns the type's name and document. `sample` is the sample's text as it was written.
    pub(super) fn read(
        self,
        sample: Option<String>,
        now: Timestamp,
    ) -> Result<(String, EventTypeDocument), FieldError> {
        let document = EventTypeDocument {
            description: self.description,
            sample: self.sample.and(sample),
            versions: read_versions(self.versions)?,
            enforce_schema: self.enforce_schema.unwrap_or_default(),
            archived_at: self.archived.unwrap_or_default().then_some(now),
        };
        Ok((self.name, document))
    }
}

/// An event type of the catalogue.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventType, example = json!({
    "name": "payment.created", "description": null,
    "sample": { "id": "pay_1", "amount": { "value": 1250, "currency": "EUR" } },
    "versions": [{
        "name": "2024-01-01", "description": null, "schema": null,
        "function": "data => ({ id: data.id, amount: data.amount.value })",
    }],
    "enforce_schema": false, "archived_at": null,
    "created_at": "2026-11-15T09:30:00.000Z", "updated_at": "2026-11-15T09:30:00.000Z",
}))]
pub(super) struct EventTypeView {
    name: String,
    description: Option<String>,
    #[schema(value_type = serde_json::Value)]
    sample: Option<Box<RawValue>>,
    /// Oldest first; the last is the newest.
    versions: Vec<VersionView>,
    enforce_schema: bool,
    /// Since when it can be published no more.
    #[schema(format = DateTime)]
    archived_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// A version of a type's data.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = PayloadVersion)]
pub(super) struct VersionView {
    name: String,
    description: Option<String>,
    #[schema(value_type = serde_json::Value)]
    schema: Option<Value>,
    function: Option<String>,
}

/// What a version makes of some data.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = TriedVersion, example = json!({ "version": "2024-01-01", "data": { "id": "pay_1", "amount": 1250 } }))]
pub(super) struct TriedView {
    version: String,
    #[schema(value_type = serde_json::Value)]
    data: Option<Box<RawValue>>,
}

impl EventTypeView {
    /// Removes the functions, which a portal link must not see.
    fn visible_to(mut self, caller: Caller) -> Self {
        if caller.scope.is_portal() {
            self.versions.iter_mut().for_each(|version| version.function = None);
        }
        self
    }

    fn of(event_type: &EventType) -> Self {
        let record = event_type.record.clone();
        let version = |version: VersionDocument| VersionView {
            name: version.name,
            description: version.description,
            schema: version.schema,
            function: version.function,
        };
        Self {
            name: record.name,
            description: record.document.description,
            sample: record.document.sample.and_then(|sample| RawValue::from_string(sample).ok()),
            versions: record.document.versions.into_iter().map(version).collect(),
            enforce_schema: record.document.enforce_schema,
            archived_at: record.document.archived_at.map(Timestamp::rfc3339_millis),
            created_at: record.created_at.rfc3339_millis(),
            updated_at: record.updated_at.rfc3339_millis(),
        }
    }
}

/// Create an event type
///
/// Needs an admin key. Every function is tried on the sample; a bad one is refused by its line.
#[utoipa::path(
    post, path = "/v1/event-types", tag = "Event types", request_body = NewEventTypeFields,
    responses(
        (status = 201, description = "The event type", body = EventTypeView),
        (status = 403, description = "Not with an app key"),
        (status = 409, description = "There is one of this name"),
    ),
)]
pub(super) async fn create_event_type(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    new: RawJsonBody<NewEventTypeFields>,
) -> ApiResult {
    let sample = new.raw("sample");
    let (name, document) = new.fields.read(sample, api.service.now())?;
    let made = api.service.add_event_type(caller, name, document).await?;
    response::json(StatusCode::CREATED, &EventTypeView::of(&made))
}

/// List event types
///
/// In order of creation.
#[utoipa::path(
    get, path = "/v1/event-types", tag = "Event types",
    params(("archived" = Option<bool>, Query, description = "Archived ones too."), PageParameters),
    responses((status = 200, description = "A page of event types", body = PageView<EventTypeView>)),
)]
pub(super) async fn list_event_types(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let query = Query::read(&uri, &["archived"])?;
    let page = api.service.event_types(query.flag("archived")?, query.cursor(&api.service)?, query.limit()?);
    let view = |event_type: Arc<EventType>| EventTypeView::of(&event_type).visible_to(caller);
    response::ok(&query.page_view(&api.service, page, view))
}

/// Get an event type
#[utoipa::path(
    get, path = "/v1/event-types/{type}", tag = "Event types",
    responses((status = 200, description = "The event type", body = EventTypeView)),
)]
pub(super) async fn get_event_type(
    State(api): State<Arc<ApiState>>,
    _known: Authenticated,
    uri: Uri,
) -> ApiResult {
    response::ok(&EventTypeView::of(&*api.service.event_type(&segment(uri.path(), 3)?)?))
}

/// Replace an event type, or create it
///
/// Needs an admin key. Deliveries that wait are made by the new functions.
#[utoipa::path(
    put, path = "/v1/event-types/{type}", tag = "Event types", request_body = EventTypePutFields,
    responses(
        (status = 200, description = "The event type", body = EventTypeView),
        (status = 201, description = "The event type, which is new", body = EventTypeView),
        (status = 403, description = "Not with an app key"),
        (status = 409, description = "Someone else is changing it"),
    ),
)]
pub(super) async fn put_event_type(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    new: RawJsonBody<EventTypePutFields>,
) -> ApiResult {
    let (name, as_written) = (segment(uri.path(), 3)?.into_owned(), new.raw("sample"));
    let EventTypePutFields { description, sample, versions, enforce_schema, archived } = new.fields;
    let given = NewEventTypeFields { name, description, sample, versions, enforce_schema, archived };
    let (name, document) = given.read(as_written, api.service.now())?;
    let (put, is_new) = api.service.put_event_type(caller, name, document).await?;
    response::json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &EventTypeView::of(&put))
}

/// Delete an event type
///
/// Needs an admin key. It can be published as before, unless unknown types are refused; endpoints that are pinned to one of
/// its versions get no more of it.
#[utoipa::path(
    delete, path = "/v1/event-types/{type}", tag = "Event types",
    responses((status = 204, description = "Gone"), (status = 403, description = "Not with an app key")),
)]
pub(super) async fn delete_event_type(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    api.service.remove_event_type(caller, &segment(uri.path(), 3)?).await?;
    Ok(response::no_content())
}

/// Archive an event type
///
/// Needs an admin key. New events of it are refused (422); those there are stay, are delivered and can be replayed.
#[utoipa::path(
    post, path = "/v1/event-types/{type}/archive", tag = "Event types",
    responses(
        (status = 200, description = "The event type", body = EventTypeView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn archive_event_type(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let archived = api.service.archive_event_type(caller, &segment(uri.path(), 3)?, true).await?;
    response::ok(&EventTypeView::of(&archived))
}

/// Take an event type out of the archive
///
/// Needs an admin key. It can be published again.
#[utoipa::path(
    post, path = "/v1/event-types/{type}/unarchive", tag = "Event types",
    responses(
        (status = 200, description = "The event type", body = EventTypeView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn unarchive_event_type(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> ApiResult {
    let back = api.service.archive_event_type(caller, &segment(uri.path(), 3)?, false).await?;
    response::ok(&EventTypeView::of(&back))
}

/// Try a payload version
///
/// Shows what a version makes of some data, before an endpoint is pinned to it, or, with an admin key, before it is saved.
#[utoipa::path(
    post, path = "/v1/event-types/{type}/try", tag = "Event types", request_body = VersionTrialFields,
    responses(
        (status = 200, description = "What it makes of the data", body = TriedView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn try_event_type(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    trial: RawJsonBody<VersionTrialFields>,
) -> ApiResult {
    let as_written = trial.raw("data");
    let VersionTrialFields { data, version, function, schema } = trial.fields;
    let is_draft = function.is_some() || schema.is_some();
    let draft = is_draft.then(|| VersionDocument { schema, function, ..VersionDocument::default() });
    let trial = VersionTrial { data: data.and(as_written), version, draft };
    let (version, made) = api.service.try_version(caller, &segment(uri.path(), 3)?, trial).await?;
    let data = String::from_utf8(made).ok().and_then(|made| RawValue::from_string(made).ok());
    response::ok(&TriedView { version, data })
}

fn read_versions(versions: Option<Value>) -> Result<Vec<VersionDocument>, FieldError> {
    let Some(versions) = versions else { return Ok(Vec::new()) };
    let Value::Array(list) = versions else {
        return Err(FieldError::new("versions", "must be a list of versions, the oldest first"));
    };
    let read = |(index, version)| {
        let at =
            |error: FieldError| FieldError { field: format!("versions[{index}].{}", error.field), ..error };
        let Value::Object(mut version) = version else {
            return Err(FieldError::new(format!("versions[{index}]"), "must be an object"));
        };
        let VersionFields { name, description, schema, function } = read_object(&mut version).map_err(at)?;
        Ok(VersionDocument { name, description, schema, function })
    };
    list.into_iter().enumerate().map(read).collect()
}

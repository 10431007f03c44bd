//! The OpenAPI document: the descriptions beside the handlers, completed with their common parts.
//!
//! Every operation gets its path parameters, the errors that are possible for it, and an example for every body.

use super::{
    described_routes,
    problem::{ErrorCode, Problem, ProblemView},
};
use serde_json::{Map, Value, json};
use utoipa::{
    OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

const TAGS: [(&str, &str); 16] = [
    ("Apps", "Tenants: merchants, organisations, customers. Nobody sees another's events."),
    ("Endpoints", "Where an app's events go."),
    ("Events", "What happened, published once."),
    ("Deliveries", "One event to one endpoint, with every attempt."),
    ("Dead letters", "Deliveries that ended undelivered and wait for someone to look."),
    ("Replays", "Many deliveries, or past events, sent again as one piece of work."),
    ("Contracts", "What a sender promises its receivers: bytes, signatures, times, names."),
    ("Event types", "What can be published, and the versions of its data that endpoints can be pinned to."),
    ("Keys", "Who may do what."),
    ("Portal", "A customer's own way into one app, by a link that works for a while."),
    ("Notices", "What people are told: endpoints in trouble, dead letters, replays that ended."),
    ("Statistics", "What was counted: rates, latencies, failures, over time."),
    ("Streams", "What happens, as it happens: hints to look again, never payloads."),
    ("Audit", "Who changed what, when."),
    ("System", "What a process runs with, and what has an id."),
    ("Operation", "For load balancers, monitoring and tools; without a key."),
];

/// Descriptions of the path parameters.
const PATH_PARAMETERS: [(&str, &str); 12] = [
    ("app", "The app's id."),
    ("endpoint", "The endpoint's id."),
    ("event", "The event's id: the producer's or ours."),
    ("delivery", "The delivery's id."),
    ("contract", "The contract's name."),
    ("inspection", "The inspection's id."),
    ("key", "The key's id."),
    ("id", "Any id."),
    ("link", "The portal link's id."),
    ("notice", "The notice's id."),
    ("replay", "The replay's id."),
    ("type", "The event type's name."),
];

#[derive(OpenApi)]
#[openapi(components(schemas(ProblemView)))]
struct BaseDocument;

pub(super) fn base_document() -> utoipa::openapi::OpenApi {
    let mut outline = BaseDocument::openapi();
    outline.info.title = "Posthaste".into();
    outline.info.version = env!("CARGO_PKG_VERSION").into();
    outline.info.description = Some(
        "Delivers webhooks: publish an event once, and it reaches every endpoint that wants it. \
         Errors are `application/problem+json` with a stable `code`. Times are RFC 3339 in UTC, durations like `5m`."
            .into(),
    );
    outline.tags = Some(TAGS.iter().map(|(name, about)| tag(name, about)).collect());
    let key = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    if let Some(components) = &mut outline.components {
        components.add_security_scheme("key", key);
    }
    outline.security = Some(vec![SecurityRequirement::new::<_, [String; 0], String>("key", [])]);
    outline
}

fn tag(name: &str, about: &str) -> utoipa::openapi::Tag {
    let mut tag = utoipa::openapi::Tag::new(name);
    tag.description = Some(about.to_owned());
    tag
}

/// Returns the document as it is served and checked in.
pub fn openapi_json() -> String {
    let mut document = serde_json::to_value(described_routes().to_openapi()).unwrap_or_default();
    let schemas = document["components"]["schemas"].clone();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            add_path_parameters(path, operation);
            add_errors(path, method, operation);
            relax_body(operation, &schemas);
            add_examples(operation, &schemas);
        }
    }
    let refusals = ErrorCode::ALL.map(|code| (code.name().to_owned(), problem_response(code, code.title())));
    document["components"]["responses"] = Value::Object(refusals.into_iter().collect());
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn add_path_parameters(path: &str, operation: &mut Value) {
    let named = |name: &str| path.contains(&format!("{{{name}}}"));
    let described = PATH_PARAMETERS.iter().filter(|(name, _)| named(name)).map(|(name, about)| {
        json!({ "name": name, "in": "path", "required": true, "description": about, "schema": { "type": "string" } })
    });
    let mut parameters: Vec<Value> = described.collect();
    parameters.extend(operation["parameters"].as_array().cloned().unwrap_or_default());
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
}

/// Adds the possible errors. They follow from the operation's key, path, body, parameters and method.
fn add_errors(path: &str, method: &str, operation: &mut Value) {
    if !path.starts_with("/v1/") {
        return;
    }
    let has_body = operation.get("requestBody").is_some();
    let is_list =
        operation["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["in"] == "query"));
    let mut codes =
        vec![ErrorCode::Unauthorized, ErrorCode::Forbidden, ErrorCode::Internal, ErrorCode::Unavailable];
    if path.contains('{') {
        codes.push(ErrorCode::NotFound);
    }
    if has_body {
        codes.extend([
            ErrorCode::Malformed,
            ErrorCode::Timeout,
            ErrorCode::TooLarge,
            ErrorCode::UnsupportedEncoding,
            ErrorCode::Invalid,
        ]);
    }
    if is_list {
        codes.extend([ErrorCode::InvalidCursor, ErrorCode::Invalid]);
    }
    if method != "get" {
        codes.push(ErrorCode::Overloaded);
    }
    if let Some(responses) = operation["responses"].as_object_mut() {
        for code in codes {
            let status = code.status().as_str().to_owned();
            responses
                .entry(status)
                .or_insert_with(|| json!({ "$ref": format!("#/components/responses/{}", code.name()) }));
        }
        for (status, response) in responses.iter_mut() {
            let of_status = ErrorCode::ALL.into_iter().filter(|code| code.status().as_str() == status);
            let is_plain = response.get("content").is_none() && response.get("$ref").is_none();
            let about = response["description"].as_str().unwrap_or_default().to_owned();
            // If several codes have this status: the one with this title, else the one usual for deliveries or conflicts.
            let code = of_status.clone().find(|code| code.title() == about).or_else(|| {
                let usual =
                    if path.contains("{delivery}") { ErrorCode::WrongState } else { ErrorCode::Conflict };
                of_status.clone().find(|code| *code == usual).or_else(|| of_status.clone().next())
            });
            if let Some(code) = code.filter(|_| is_plain) {
                *response = problem_response(code, &about);
            }
        }
        sort_by_status(responses);
    }
}

/// Builds the response of an error, with an example.
fn problem_response(code: ErrorCode, about: &str) -> Value {
    let example = serde_json::to_value(Problem::new(code, format!("{about}.")).view()).unwrap_or_default();
    let mut response = json!({
        "description": about,
        "content": {
            "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" }, "example": example },
        },
    });
    let header = |about: &str| json!({ "description": about, "schema": { "type": "string" } });
    match code {
        ErrorCode::Overloaded
        | ErrorCode::QuotaExceeded
        | ErrorCode::TooManyStreams
        | ErrorCode::Full
        | ErrorCode::Unavailable => {
            response["headers"] = json!({ "Retry-After": header("Seconds to wait.") });
        }
        ErrorCode::Unauthorized => {
            response["headers"] = json!({ "WWW-Authenticate": header("How to send a key.") });
        }
        _ => {}
    }
    response
}

fn sort_by_status(responses: &mut Map<String, Value>) {
    let mut sorted: Vec<(String, Value)> = std::mem::take(responses).into_iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    responses.extend(sorted);
}

/// Makes a body optional if none of its fields is required: an empty body is an object without fields.
fn relax_body(operation: &mut Value, schemas: &Value) {
    let schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
    let name = schema.and_then(|reference| reference.rsplit('/').next()).map(str::to_owned);
    if name.is_some_and(|name| schemas[name].get("required").is_none()) {
        operation["requestBody"]["required"] = false.into();
    }
}

/// Copies the example of a body's schema to the place where tools look for it.
fn add_examples(operation: &mut Value, schemas: &Value) {
    let mut contents: Vec<&mut Value> = Vec::new();
    if let Value::Object(operation) = operation {
        for (name, part) in operation.iter_mut() {
            match (name.as_str(), part) {
                ("requestBody", body) => contents.push(body),
                ("responses", Value::Object(responses)) => contents.extend(responses.values_mut()),
                _ => {}
            }
        }
    }
    for media in contents.into_iter().filter_map(|part| part.get_mut("content")?.as_object_mut()).flatten() {
        let (_, media) = media;
        if media.get("example").is_none()
            && let Some(example) = example_of(&media["schema"], schemas)
        {
            media["example"] = example;
        }
    }
}

fn example_of(schema: &Value, schemas: &Value) -> Option<Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return example_of(&schemas[name.rsplit('/').next()?], schemas);
    }
    if let Some(example) = schema.get("example") {
        return Some(example.clone());
    }
    // For a page: an example with one item.
    let item = schema["properties"]["data"].get("items")?;
    Some(json!({ "data": [example_of(item, schemas)?], "next_cursor": null }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        serde_json::from_str(&openapi_json()).unwrap()
    }

    fn operations(document: &Value) -> Vec<(String, Value)> {
        let paths = document["paths"].as_object().unwrap();
        let all = paths.iter().flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(move |(method, operation)| (format!("{method} {path}"), operation.clone()))
        });
        all.collect()
    }

    fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
        match part["$ref"].as_str() {
            Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
            None => part,
        }
    }

    #[test]
    fn the_checked_in_document_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == openapi_json(),
            "docs/openapi.json is old: posthaste openapi > docs/openapi.json"
        );
    }

    #[test]
    fn every_body_has_a_schema_that_exists_and_an_example() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        for (name, operation) in operations(&document) {
            let responses = operation["responses"].as_object().unwrap();
            for part in responses.values().chain(operation.get("requestBody")) {
                let part = resolved(&document, part);
                for media in part["content"].as_object().into_iter().flat_map(Map::values) {
                    assert!(media.get("example").is_some(), "{name}: no example in {media}");
                    if let Some(schema) = media["schema"]["$ref"].as_str() {
                        let pointer = schema.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{name}: {schema} is missing");
                    }
                }
            }
        }
    }

    #[test]
    fn every_operation_is_explained_and_its_refusals_are_problems() {
        let document = document();
        for (name, operation) in operations(&document) {
            for part in ["summary", "operationId", "tags"] {
                assert!(operation.get(part).is_some(), "{name}: no {part}");
            }
            let responses = operation["responses"].as_object().unwrap();
            if name.contains("/v1/") {
                for status in ["401", "500", "503"] {
                    assert!(responses.contains_key(status), "{name}: no {status}");
                }
                for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
                    let content = &resolved(&document, response)["content"];
                    assert!(content.get("application/problem+json").is_some(), "{name}: {status}");
                }
            }
            assert_eq!(name.matches('{').count(), names_in_path(&operation), "{name}: path parameters");
        }
    }

    fn names_in_path(operation: &Value) -> usize {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        parameters.iter().filter(|parameter| parameter["in"] == "path").count()
    }
}

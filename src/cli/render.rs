//! Renders API answers for people: an object field by field, lists in it as tables. Programs get the JSON as it came.

use super::{
    api_client::ApiAnswer,
    table::{TextTable, aligned, visible, visible_json},
    terminal,
};
use serde_json::{Value, value::RawValue};
use std::collections::HashMap;

/// The fields shown for each list, in order. A field that no row has is left out.
const LIST_COLUMNS: &[(&str, &[&str])] = &[
    ("apps", &["id", "name", "contract", "quota", "created_at"]),
    ("endpoints", &["id", "status", "url", "event_types", "contract", "disabled_reason", "created_at"]),
    ("events", &["id", "type", "key", "created_at", "deliver_at", "reason"]),
    ("deliveries", DELIVERY_COLUMNS),
    (
        "dead-letters",
        &[
            "id",
            "reason",
            "event_type",
            "event_id",
            "endpoint_id",
            "attempt_count",
            "failed_at",
            "last_error",
        ],
    ),
    (
        "attempts",
        &["number", "started_at", "duration_ms", "status_code", "class", "error", "note", "response_body"],
    ),
    ("keys", &["id", "scope", "app_id", "name", "prefix", "expires_at", "last_used_at", "revoked_at"]),
    (
        "replays",
        &["id", "kind", "state", "replayed", "refused", "total", "endpoint_id", "event_type", "created_at"],
    ),
    ("notices", &["at", "kind", "app_id", "endpoint_id", "count", "text", "last_error", "id"]),
    ("audit", &["at", "key_id", "key_name", "action", "app_id", "thing", "detail"]),
    ("inspections", &["id", "kind", "status", "created_at", "finished_at"]),
    ("checks", &["finding", "title", "status_code", "duration_ms", "advice"]),
];

/// Fields of a delivery and of a delivery in the status of its event, which has other names for the same fields.
const DELIVERY_COLUMNS: &[&str] = &[
    "id",
    "status",
    "reason",
    "event_type",
    "event_id",
    "endpoint_id",
    "attempt_count",
    "attempts",
    "next_attempt_at",
    "next_retry_at",
    "last_error",
];

pub(super) fn columns_of(list: &str) -> Option<&'static [&'static str]> {
    LIST_COLUMNS.iter().find(|(name, _)| *name == list).map(|(_, columns)| *columns)
}

/// Returns the columns of a table with these first rows.
pub(super) fn columns(wanted: Option<&[&str]>, rows: &[Value]) -> Vec<String> {
    let has = |name: &str| rows.iter().any(|row| row.get(name).is_some());
    match wanted {
        Some(wanted) => wanted.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect(),
        None => rows
            .first()
            .and_then(Value::as_object)
            .map(|row| row.keys().cloned().collect())
            .unwrap_or_default(),
    }
}

pub(super) fn title(column: &str) -> String {
    visible(&column.replace('_', " ").to_uppercase())
}

pub(super) fn cells(columns: &[String], row: &Value) -> Vec<String> {
    columns.iter().map(|column| visible(&cell(&row[column.as_str()]))).collect()
}

/// Renders a value in one line: texts as they are, lists of them with commas.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(cell).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// Renders the whole answer, with a newline at its end.
pub(super) fn answer(answer: &ApiAnswer, is_json: bool) -> anyhow::Result<String> {
    if is_json {
        return Ok(visible_json(answer.text()?.trim_end()) + "\n");
    }
    object(answer)
}

fn object(answer: &ApiAnswer) -> anyhow::Result<String> {
    let fields: serde_json::Map<String, Value> = answer.json()?;
    // Numbers and objects are shown as they were written: data may have numbers that only text can hold.
    let written: HashMap<String, Box<RawValue>> = answer.json()?;
    let (mut rows, mut tables) = (Vec::new(), String::new());
    for (name, value) in &fields {
        match value {
            Value::Null => {}
            Value::Array(items) if items.iter().any(Value::is_object) => tables += &table(name, items),
            Value::Object(_) | Value::Number(_) => {
                let text = written.get(name).map_or_else(|| value.to_string(), |raw| raw.get().to_owned());
                rows.push([visible(name), visible_json(&text)]);
            }
            plain => rows.push([visible(name), visible(&cell(plain))]),
        }
    }
    Ok(aligned(&rows) + &tables)
}

fn table(name: &str, items: &[Value]) -> String {
    let columns = columns(columns_of(name), items);
    let mut lines = vec![columns.iter().map(|column| title(column)).collect::<Vec<_>>()];
    lines.extend(items.iter().map(|item| cells(&columns, item)));
    format!("\n{}\n{}", visible(name), TextTable::within(terminal::columns()).lines(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use serde_json::json;

    fn shown(body: &str) -> String {
        answer(&ApiAnswer { status: StatusCode::OK, body: body.to_owned().into() }, false).unwrap()
    }

    #[test]
    fn an_object_is_shown_field_by_field_with_its_lists_below_and_its_data_as_written() {
        let body = r#"{"id":"e","key":null,"tags":["a","b"],"data":{"n": 1.10},"deliveries":[
            {"id":"d1","status":"dead","last_error":"HTTP 500\u001b[2J"},{"id":"d22","status":"pending","last_error":null}]}"#;
        let expected = "id    e\ntags  a,b\ndata  {\"n\": 1.10}\n\ndeliveries\nID   STATUS   LAST ERROR\n\
                        d1   dead     HTTP 500\\u{1b}[2J\nd22  pending\n";
        assert_eq!(shown(body), expected);
    }

    #[test]
    fn json_is_printed_as_it_came_and_ends_its_line() {
        let body = r#"{"data":{"n": 1.10}}"#;
        let raw = ApiAnswer { status: StatusCode::OK, body: body.into() };
        assert_eq!(answer(&raw, true).unwrap(), format!("{body}\n"));
    }

    #[test]
    fn a_list_without_columns_of_its_own_shows_what_its_first_row_has() {
        assert_eq!(columns(None, &[json!({ "b": 1, "a": 2 })]), ["b", "a"]);
        assert_eq!(columns(columns_of("keys"), &[json!({ "id": 1, "more": 2 })]), ["id"]);
    }
}

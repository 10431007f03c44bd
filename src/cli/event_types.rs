//! `posthaste event-types`: manages the catalogue of a running server, with import from and export to a file.

mod file;

use super::{
    api_client::{ApiCall, ServerClient, path},
    on_runtime, print,
    server_flags::ServerFlags,
    table::{aligned, visible, visible_json},
    terminal,
};
use crate::config::load_client;
use anyhow::Context;
use bytes::Bytes;
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use http::Method;
use serde_json::{Map, Value, json};
use std::{path::PathBuf, process::ExitCode};

const EVENT_TYPES_PATH: &str = "/v1/event-types";
const EVENT_TYPE_PATH: &str = "/v1/event-types/{name}";
/// Page size of lists. Types can be large, and an answer has a limit.
const PAGE_LIMIT: &str = "20";

const EXAMPLES: &str = "\
Examples:
  posthaste event-types list
  posthaste event-types get payment.created
  posthaste event-types export > types.json
  posthaste event-types import types.json --dry-run
  posthaste event-types archive payment.created

A file is JSON or TOML: {\"event_types\": [{\"name\": …, \"description\": …, \"sample\": …, \"versions\": […],
\"enforce_schema\": …, \"archived\": …}]}. docs/event-types.md says more.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct EventTypesArgs {
    #[command(subcommand)]
    action: EventTypesAction,
    /// Print what the server answers, as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    connection: ServerFlags,
}

#[derive(Debug, Subcommand)]
enum EventTypesAction {
    /// List the types of the catalogue
    #[command(after_help = "Example:\n  posthaste event-types list --archived")]
    List {
        /// Archived ones too
        #[arg(long)]
        archived: bool,
    },
    /// Show one type in full, as JSON
    #[command(after_help = "Example:\n  posthaste event-types get payment.created")]
    Get(TypeName),
    /// Add the types of a file, or put them in the place of those that have their names: all or none
    #[command(after_help = "Example:\n  posthaste event-types import types.json --dry-run")]
    Import {
        /// JSON, or TOML if its name ends so; - for JSON from standard input
        file: PathBuf,
        /// Check everything and say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Print the whole catalogue as a file that `import` takes
    #[command(after_help = "Example:\n  posthaste event-types export > types.json")]
    Export,
    /// Refuse new events of a type; those there are stay and are delivered
    #[command(after_help = "Example:\n  posthaste event-types archive payment.created")]
    Archive(TypeName),
    /// Take a type out of the archive
    #[command(after_help = "Example:\n  posthaste event-types unarchive payment.created")]
    Unarchive(TypeName),
    /// Delete a type; its events stay
    #[command(after_help = "Example:\n  posthaste event-types delete payment.created --yes")]
    Delete {
        #[command(flatten)]
        one: TypeName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct TypeName {
    /// The type's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

pub(super) fn run(args: EventTypesArgs) -> ExitCode {
    on_runtime(run_action(args))
}

async fn run_action(args: EventTypesArgs) -> anyhow::Result<ExitCode> {
    let EventTypesArgs { action, json, connection } = args;
    let import = match &action {
        EventTypesAction::Import { file, dry_run } => Some(file::read(file, *dry_run)?),
        _ => None,
    };
    let client = ServerClient::new(&load_client(connection.client_flags(None))?)?;
    let text = match action {
        EventTypesAction::List { archived } => {
            let all = fetch_all(&client, archived).await?;
            if json { pretty(&json!({ "data": all })) } else { listed(&all) }
        }
        EventTypesAction::Get(TypeName { name }) => {
            pretty(&client.call(&ApiCall::get(path(EVENT_TYPE_PATH, &[&name])?)).await?.json()?)
        }
        EventTypesAction::Import { .. } => {
            let body = Bytes::from(import.unwrap_or_default());
            let call = ApiCall { body, ..ApiCall::new(Method::POST, format!("{EVENT_TYPES_PATH}/import")) };
            let answer = client.call(&call).await?.json()?;
            if json { pretty(&answer) } else { imported(&answer) }
        }
        EventTypesAction::Export => {
            let types: Vec<_> = fetch_all(&client, true).await?.into_iter().map(exported).collect();
            pretty(&json!({ "event_types": types }))
        }
        EventTypesAction::Archive(TypeName { name }) => {
            let answer = post_action(&client, &name, "archive").await?;
            if json { pretty(&answer) } else { format!("archived {}\n", visible(&name)) }
        }
        EventTypesAction::Unarchive(TypeName { name }) => {
            let answer = post_action(&client, &name, "unarchive").await?;
            if json { pretty(&answer) } else { format!("took {} out of the archive\n", visible(&name)) }
        }
        EventTypesAction::Delete { one: TypeName { name }, yes } => {
            terminal::confirm(&format!("Delete the event type {}?", visible(&name)), yes)?;
            client.call(&ApiCall::new(Method::DELETE, path(EVENT_TYPE_PATH, &[&name])?)).await?;
            if json { String::new() } else { format!("deleted {}\n", visible(&name)) }
        }
    };
    Ok(print(&text))
}

async fn post_action(client: &ServerClient, name: &str, action: &str) -> anyhow::Result<Value> {
    let path = path(EVENT_TYPE_PATH, &[name])? + "/" + action;
    client.call(&ApiCall::new(Method::POST, path)).await?.json()
}

/// Fetches every type, page by page.
async fn fetch_all(client: &ServerClient, archived: bool) -> anyhow::Result<Vec<Value>> {
    let (mut types, mut cursor) = (Vec::new(), None);
    loop {
        let query = [("limit", PAGE_LIMIT.to_owned()), ("archived", archived.to_string())];
        let query = query.into_iter().chain(cursor.map(|cursor| ("cursor", cursor)));
        let query = query.map(|(name, value)| (name.to_owned(), value)).collect();
        let call = ApiCall { query, ..ApiCall::get(EVENT_TYPES_PATH.to_owned()) };
        let mut page: Value = client.call(&call).await?.json()?;
        let rows = page["data"].as_array_mut().context("the server's answer is not a list")?;
        types.append(rows);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(types),
        }
    }
}

fn listed(types: &[Value]) -> String {
    let mut rows = vec![["NAME", "VERSIONS", "SCHEMA", "ARCHIVED", "DESCRIPTION"].map(str::to_owned)];
    for one in types {
        let text = |name: &str| visible(one[name].as_str().unwrap_or_default());
        let versions =
            one["versions"].as_array().into_iter().flatten().filter_map(|version| version["name"].as_str());
        let description: String = text("description").chars().take(60).collect();
        rows.push([
            text("name"),
            versions.collect::<Vec<_>>().join(" "),
            if one["enforce_schema"] == true { "enforced".to_owned() } else { String::new() },
            text("archived_at"),
            description,
        ]);
    }
    aligned(&rows)
}

fn imported(answer: &Value) -> String {
    let verb = if answer["dry_run"] == true { "would be " } else { "" };
    let mut rows = Vec::new();
    let names = |part: &str| answer[part].as_array().cloned().unwrap_or_default();
    for name in names("added") {
        rows.push([format!("{verb}added"), visible(name.as_str().unwrap_or_default()), String::new()]);
    }
    for one in names("changed") {
        let fields: Vec<_> =
            one["fields"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        rows.push([
            format!("{verb}changed"),
            visible(one["name"].as_str().unwrap_or_default()),
            visible(&fields.join(", ")),
        ]);
    }
    let (added, changed, left) = (names("added").len(), names("changed").len(), names("unchanged").len());
    format!("{}{verb}added: {added}, changed: {changed}, left alone: {left}\n", aligned(&rows))
}

/// Renders a type as `import` takes it: without the fields that the server sets, and without nulls and false.
fn exported(shown: Value) -> Value {
    let Value::Object(mut fields) = shown else { return shown };
    fields.remove("created_at");
    fields.remove("updated_at");
    if fields.remove("archived_at").is_some_and(|at| !at.is_null()) {
        fields.insert("archived".into(), json!(true));
    }
    if let Some(Value::Array(versions)) = fields.get_mut("versions") {
        versions.iter_mut().filter_map(Value::as_object_mut).for_each(without_nulls);
    }
    without_nulls(&mut fields);
    Value::Object(fields)
}

fn without_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null() && *value != json!(false));
}

fn pretty(value: &Value) -> String {
    format!("{}\n", visible_json(&format!("{value:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_has_only_what_import_takes() {
        let shown = json!({ "name": "a", "description": null, "sample": null, "enforce_schema": false,
            "versions": [{ "name": "1", "description": null, "schema": { "x": null }, "function": null }],
            "archived_at": "2026-11-15T09:30:00.000Z", "created_at": "t", "updated_at": "t" });
        let expected =
            json!({ "name": "a", "archived": true, "versions": [{ "name": "1", "schema": { "x": null } }] });
        assert_eq!(exported(shown), expected);
    }

    #[test]
    fn an_import_prints_a_line_for_each_type_that_differs() {
        let answer = json!({ "dry_run": true, "added": ["a.b"], "unchanged": ["x", "y"],
            "changed": [{ "name": "c\u{1b}", "fields": ["sample", "versions"] }] });
        let text = imported(&answer);
        assert_eq!(
            text,
            "would be added    a.b\nwould be changed  c\\u{1b}  sample, versions\nwould be added: 1, changed: 1, left alone: 2\n"
        );
    }
}

//! `posthaste publish`: one event, or a file of them. The bytes of `data` are sent unchanged: the envelope is written
//! around them by hand.

mod batch;

use super::{
    api_client::{ApiAnswer, ApiCall, ServerClient, path},
    exit::CommandError,
    print, render, resource,
    resource::WaitResult,
    server_flags::{AppFlag, ServerFlags},
};
use crate::{config::load_client, domain::time::parse_duration};
use anyhow::Context;
use bytes::Bytes;
use clap::{Arg, ArgMatches, Args, FromArgMatches, builder::NonEmptyStringValueParser};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, value::RawValue};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

const EXAMPLES: &str = "\
Examples:
  posthaste publish order.paid --app bakery --data '{\"order\": 17}'
  posthaste publish order.paid --data-file order.json --id order-17-paid --wait
  posthaste publish order.paid - --event-key order-17 --deliver-at +10m
  posthaste publish --batch events.jsonl

A file for --batch has one event a line: {\"type\": \"order.paid\", \"data\": {\"order\": 17}, \"id\": \"order-17-paid\"}";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PublishArgs {
    /// The event's type, for example order.paid
    #[arg(value_name = "TYPE", required_unless_present = "batch", value_parser = NonEmptyStringValueParser::new())]
    event_type: Option<String>,
    /// Read the data from standard input
    #[arg(value_name = "-", value_parser = ["-"])]
    input: Option<String>,
    /// The data, as JSON; sent as it is
    #[arg(long, value_name = "JSON", conflicts_with = "input")]
    data: Option<String>,
    /// A file with the data, as JSON; sent as it is
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "input"])]
    data_file: Option<PathBuf>,
    /// Your id for it: publishing the same id again publishes nothing
    #[arg(long)]
    id: Option<String>,
    /// Publishing with the same key again publishes nothing, for at least a day
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
    /// Events with the same key belong together (`key` of the API)
    #[arg(long, value_name = "TEXT")]
    event_key: Option<String>,
    /// When it happened, if not now: a time in RFC 3339, or how long ago (`2h`)
    #[arg(long, value_name = "TIME")]
    created_at: Option<String>,
    /// Not before: a time in RFC 3339, or how long from now (`+2h`)
    #[arg(long, value_name = "TIME")]
    deliver_at: Option<String>,
    /// Publish the events of a file, one JSON object a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event_type", "input", "data", "data_file", "id",
        "idempotency_key", "event_key", "created_at", "deliver_at", "wait"])]
    batch: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitFlag,
    /// Print the API's JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    app: AppFlag,
    #[command(flatten)]
    connection: ServerFlags,
}

/// The flag `--wait`, shared with other commands.
#[derive(Debug)]
struct WaitFlag(Option<Duration>);

impl Args for WaitFlag {
    fn augment_args(command: clap::Command) -> clap::Command {
        let flag: Arg = resource::wait_flag("Wait until every delivery has ended, at most so long");
        command.arg(flag)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WaitFlag {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(resource::wait_limit(matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(super) async fn run(args: PublishArgs) -> anyhow::Result<ExitCode> {
    let envelope = if args.batch.is_none() { envelope(&args)? } else { Vec::new() };
    let settings = load_client(args.connection.client_flags(args.app.app))?;
    let app = settings.app()?;
    let client = ServerClient::new(&settings)?;
    if let Some(file) = &args.batch {
        return batch::publish(&client, app, &read(file)?, args.json).await;
    }
    let mut call = ApiCall::new(Method::POST, path("/v1/apps/{app}/events", &[app])?);
    if let Some(key) = &args.idempotency_key {
        let refused = |_| CommandError::usage("--idempotency-key: must be visible ASCII characters");
        let value = HeaderValue::from_str(key).map_err(refused)?;
        call.headers.insert(HeaderName::from_static("idempotency-key"), value);
    }
    call.body = Bytes::from(envelope);
    let published = client.call(&call).await?;
    match args.wait.0 {
        Some(limit) => wait(&client, app, &published, limit, args.json).await,
        None => show_published(&published, args.json),
    }
}

fn show_published(published: &ApiAnswer, is_json: bool) -> anyhow::Result<ExitCode> {
    if published.status == StatusCode::OK {
        eprintln!("published before: nothing was published now");
    }
    let event: Value = published.json()?;
    if event["deliveries"].as_array().is_some_and(Vec::is_empty) {
        eprintln!("no endpoint wanted it");
    }
    Ok(print(&render::answer(published, is_json)?))
}

async fn wait(
    client: &ServerClient,
    app: &str,
    published: &ApiAnswer,
    limit: Duration,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let event: Value = published.json()?;
    let id = event["id"].as_str().context("the server's answer has no id")?;
    let status = path("/v1/apps/{app}/events/{event}/status", &[app, id])?;
    let looked = resource::poll_until(client, &status, limit, event_ended).await;
    let (status, ended) = looked.with_context(|| format!("{id} is published, but cannot be waited for"))?;
    print(&render::answer(&status, is_json)?);
    ended.exit()
}

fn event_ended(status: &Value) -> Option<WaitResult> {
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let has_none = status["deliveries"].as_array().is_some_and(Vec::is_empty);
    if status["completed_at"].is_null() && !has_none {
        return None;
    }
    if status["delivered"] == true || has_none {
        return Some(WaitResult::Succeeded);
    }
    Some(WaitResult::Failed(format!("{} is {} ({})", text("event_id"), text("status"), text("reason"))))
}

/// Renders `{"type": …, "data": …}` with the bytes of the data unchanged.
fn envelope(args: &PublishArgs) -> anyhow::Result<Vec<u8>> {
    let time = |flag: &str, text: &Option<String>| {
        text.as_ref().map(|text| resource::read_time(flag, text)).transpose()
    };
    let is_past = |text: &String| parse_duration(text).is_some();
    if let Some(text) = args.deliver_at.as_ref().filter(|text| is_past(text)) {
        return Err(CommandError::usage(format!("--deliver-at {text} is in the past; +{text} is ahead")));
    }
    let (created_at, deliver_at) =
        (time("created-at", &args.created_at)?, time("deliver-at", &args.deliver_at)?);
    let fields = [
        ("type", args.event_type.as_ref()),
        ("id", args.id.as_ref()),
        ("key", args.event_key.as_ref()),
        ("created_at", created_at.as_ref()),
        ("deliver_at", deliver_at.as_ref()),
    ];
    let (data, source) = match (&args.data, &args.data_file, &args.input) {
        (Some(data), ..) => (data.clone().into_bytes(), "--data".to_owned()),
        (_, Some(file), _) => (read(file)?, file.display().to_string()),
        (.., Some(_)) => (read(Path::new("-"))?, "standard input".to_owned()),
        _ => {
            return Err(CommandError::usage(
                "which data? Give --data JSON, --data-file FILE, or - for standard input",
            ));
        }
    };
    let mut envelope = b"{".to_vec();
    for (name, text) in fields {
        if let Some(text) = text {
            envelope.extend_from_slice(format!("\"{name}\":{},", serde_json::to_string(text)?).as_bytes());
        }
    }
    envelope.extend_from_slice(b"\"data\":");
    envelope
        .extend_from_slice(one_value(&data).map_err(|why| CommandError::usage(format!("{source}: {why}")))?);
    envelope.push(b'}');
    Ok(envelope)
}

/// Returns the bytes if they are exactly one JSON value: then they cannot change the envelope.
fn one_value(data: &[u8]) -> Result<&[u8], String> {
    let value: Result<&RawValue, _> = serde_json::from_slice(data);
    value.map(|_| data).map_err(|error| format!("not valid JSON: {error}"))
}

/// Reads a whole file; `-` is standard input.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file != Path::new("-") {
        let failed = |error| CommandError::usage(format!("cannot read {}: {error}", file.display()));
        return fs::read(file).map_err(failed);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn data_that_is_not_one_json_value_cannot_reach_the_envelope() {
        for bad in ["", "{", "1,\"type\":\"x\"", "1}", "{'a':1}", "\u{feff}1", "\"\u{1}\""] {
            assert!(one_value(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(one_value(b"\"\xff\"").is_err());
        for good in [" {\"n\": 1.10 }\n", "1e400", "null", "{\"a\":1,\"a\":2}"] {
            assert_eq!(one_value(good.as_bytes()).unwrap(), good.as_bytes());
        }
    }

    #[test]
    fn an_event_succeeded_if_all_deliveries_arrived_or_no_endpoint_subscribes() {
        let at = "2026-11-15T09:30:00Z";
        let status = |completed: Option<&str>, delivered: bool| {
            json!({ "event_id": "e", "status": "dead", "reason": "exhausted", "completed_at": completed,
                "delivered": delivered, "deliveries": [{}] })
        };
        assert_eq!(event_ended(&status(None, false)), None);
        assert_eq!(event_ended(&status(Some(at), true)), Some(WaitResult::Succeeded));
        assert_eq!(
            event_ended(&status(Some(at), false)),
            Some(WaitResult::Failed("e is dead (exhausted)".into()))
        );
        let skipped = json!({ "completed_at": null, "delivered": false, "deliveries": [] });
        assert_eq!(event_ended(&skipped), Some(WaitResult::Succeeded));
    }
}

//! `posthaste check`: looks for problems before going live. Changes nothing, sends nothing but a test mail if asked for one,
//! and may run beside the server. Exit codes: 0 nothing failed, 1 some check failed.

mod database;
mod machine;
mod mail;
mod settings;
mod store;

use super::{on_runtime, print, setting_flags::SettingFlags, table::visible};
use crate::config::{self, DefaultsMode, Settings, StoreLocation};
use clap::{Args, builder::NonEmptyStringValueParser};
use serde_json::json;
use std::{fmt::Write, process::ExitCode};

const EXAMPLES: &str = "\
Examples:
  posthaste check
  posthaste check --config /etc/posthaste.toml --dns-name hooks.customer.example
  posthaste check --mail-to ops@example.com
  posthaste check --server http://127.0.0.1:8080 --json | jq '.checks[] | select(.grade != \"ok\")'

It takes the settings that `serve` would take, from the same places.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
    /// A running server, whose clock is compared with this machine's
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A name to look up; without one only localhost is, and nothing leaves this machine
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    dns_name: Option<String>,
    /// Send a test mail to this address, by the mail server of the settings
    #[arg(long, value_name = "ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    mail_to: Option<String>,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckGrade {
    Ok,
    Warning,
    Failed,
}

impl CheckGrade {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of a check.
#[derive(Debug)]
struct CheckLine {
    name: &'static str,
    grade: CheckGrade,
    message: String,
    /// The advice, unless the grade is `Ok`.
    advice: Option<String>,
}

impl CheckLine {
    fn ok(name: &'static str, said: impl Into<String>) -> Self {
        Self { name, grade: CheckGrade::Ok, message: said.into(), advice: None }
    }

    fn warning(name: &'static str, said: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, grade: CheckGrade::Warning, message: said.into(), advice: Some(advice.into()) }
    }

    fn failed(name: &'static str, said: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, grade: CheckGrade::Failed, message: said.into(), advice: Some(advice.into()) }
    }
}

pub(super) fn run(args: CheckArgs) -> ExitCode {
    on_runtime(async {
        let is_json = args.json;
        let lines = run_checks(args).await;
        let has_failed = lines.iter().any(|line| line.grade == CheckGrade::Failed);
        let text = if is_json { as_json(&lines, !has_failed) } else { as_text(&lines) };
        let printed = print(&text);
        Ok(if has_failed { ExitCode::FAILURE } else { printed })
    })
}

async fn run_checks(args: CheckArgs) -> Vec<CheckLine> {
    let settings: Settings = match config::load(DefaultsMode::Serve, args.settings.0) {
        Ok(settings) => settings,
        Err(refused) => {
            let advice = "The server would not start; docs/configuration.md lists every setting.";
            let problems = refused.to_string();
            return problems.lines().map(|line| CheckLine::failed("configuration", line, advice)).collect();
        }
    };
    let (mut lines, seen) = match &settings.store {
        StoreLocation::Sqlite(path) => {
            let mut lines = settings::check_settings(&settings, Some(path));
            let (seen, of_store) = store::check_store(path, settings.disk_free_min as u64);
            lines.extend(of_store);
            lines.extend(store::check_keys(&settings, path));
            (lines, seen)
        }
        StoreLocation::Postgres(address) => {
            let mut lines = settings::check_settings(&settings, None);
            lines.extend(database::check_database(&settings, address).await);
            (lines, store::StoreFacts::default())
        }
    };
    lines.push(machine::check_port(&settings, seen.user));
    lines.extend(machine::check_clock(seen.newest_at));
    if let Some(server) = &args.server {
        lines.push(machine::check_clock_skew(server).await);
    }
    lines.push(machine::check_name("localhost").await);
    if let Some(name) = &args.dns_name {
        lines.push(machine::check_name(name).await);
    }
    lines.extend(machine::check_limits(&settings));
    lines.extend(mail::check_mail(&settings, args.mail_to).await);
    lines
}

fn as_json(lines: &[CheckLine], is_ok: bool) -> String {
    let line = |line: &CheckLine| json!({ "name": line.name, "grade": line.grade.name(), "said": line.message, "advice": line.advice });
    format!("{:#}\n", json!({ "ok": is_ok, "checks": lines.iter().map(line).collect::<Vec<_>>() }))
}

fn as_text(lines: &[CheckLine]) -> String {
    let mut out = String::new();
    for CheckLine { name, grade, message: said, advice } in lines {
        let _ = writeln!(out, "{:8} {name:14} {}", grade.name(), visible(said));
        if let Some(advice) = advice {
            let _ = writeln!(out, "{:23} do: {advice}", "");
        }
    }
    let count = |grade| lines.iter().filter(|line| line.grade == grade).count();
    let (ok, warnings, failed) =
        (count(CheckGrade::Ok), count(CheckGrade::Warning), count(CheckGrade::Failed));
    let _ = writeln!(out, "\nok: {ok}, warnings: {warnings}, failed: {failed}");
    out
}

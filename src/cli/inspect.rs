//! `posthaste inspect`: starts an inspection, waits for it and prints the report. Gaps are a failure (exit code 1).

use super::{
    api_client::{ApiAnswer, ApiCall, ServerClient, path},
    exit::ExitStatus,
    print, render,
    server_flags::ServerFlags,
};
use crate::config::load_client;
use anyhow::{Context, bail};
use clap::{Args, builder::NonEmptyStringValueParser};
use http::Method;
use serde::Deserialize;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

const POLL_INTERVAL: Duration = Duration::from_millis(200);
const REPORT_LINE_CHARS: usize = 96;

const EXAMPLES: &str = "\
Examples:
  posthaste inspect bakery shop
  posthaste inspect bakery shop --ping
  posthaste inspect bakery shop --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InspectArgs {
    /// The app's id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    app: String,
    /// The endpoint's id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    endpoint: String,
    /// Ask the health address only
    #[arg(long)]
    ping: bool,
    /// Print the API's JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ServerFlags,
}

/// As much of an inspection as is shown. All values are text, so that newer servers work too.
#[derive(Debug, Deserialize)]
struct InspectionAnswer {
    id: String,
    status: String,
    report: Option<ReportAnswer>,
}

#[derive(Debug, Deserialize)]
struct ReportAnswer {
    contract: String,
    checks: Vec<CheckAnswer>,
}

#[derive(Debug, Deserialize)]
struct CheckAnswer {
    title: String,
    finding: String,
    status_code: Option<u16>,
    duration_ms: Option<u32>,
    sent: String,
    came_back: String,
    why: String,
    advice: Option<String>,
}

pub(super) async fn run(args: InspectArgs) -> anyhow::Result<ExitCode> {
    let InspectArgs { app, endpoint, ping, json, connection } = args;
    let settings = load_client(connection.client_flags(Some(app.clone())))?;
    let client = ServerClient::new(&settings)?;
    let action = if ping { "ping" } else { "inspect" };
    let template = format!("/v1/apps/{{app}}/endpoints/{{endpoint}}/{action}");
    let begun = client.call(&ApiCall::new(Method::POST, path(&template, &[&app, &endpoint])?)).await?;
    wait_until_finished(&client, &app, &begun).await?.print(&endpoint, json, settings.may_colour)
}

/// A finished inspection.
pub(super) struct FinishedInspection {
    app: String,
    id: String,
    report: ReportAnswer,
    answer: ApiAnswer,
}

/// Waits for an inspection that was begun.
pub(super) async fn wait_until_finished(
    client: &ServerClient,
    app: &str,
    begun: &ApiAnswer,
) -> anyhow::Result<FinishedInspection> {
    let begun: InspectionAnswer = begun.json()?;
    let look = path("/v1/apps/{app}/inspections/{inspection}", &[app, &begun.id])?;
    loop {
        let answer = client.poll(&look).await?;
        let InspectionAnswer { id, status, report } = answer.json()?;
        match status.as_str() {
            "waiting" | "running" => tokio::time::sleep(POLL_INTERVAL).await,
            "finished" => {
                let report = report.context("the finished inspection has no report")?;
                return Ok(FinishedInspection { app: app.to_owned(), id, report, answer });
            }
            "interrupted" => bail!("{id}: the server was stopped in the middle; inspect again"),
            other => bail!("{id}: the inspection is {other}"),
        }
    }
}

impl FinishedInspection {
    pub(super) fn print(self, endpoint: &str, json: bool, may_colour: bool) -> anyhow::Result<ExitCode> {
        let Self { app, id, report, answer } = self;
        let text = if json {
            render::answer(&answer, true)?
        } else {
            let colours = may_colour && io::stdout().is_terminal();
            let head = format!("{id} of {app}/{endpoint}, contract {}", report.contract);
            format!("{head}\n\n{}", table(&report.checks, colours))
        };
        let printed = print(&text);
        Ok(if report.checks.iter().any(CheckAnswer::is_gap) { ExitStatus::Failed.into() } else { printed })
    }
}

impl CheckAnswer {
    /// Whether the protection is not known to be there.
    fn is_gap(&self) -> bool {
        !matches!(self.finding.as_str(), "passed" | "does_not_apply")
    }

    fn sign(&self) -> (&'static str, &'static str) {
        match self.finding.as_str() {
            "passed" => ("✓", "32"),
            "failed" => ("✗", "31"),
            "does_not_apply" => ("–", "2"),
            _ => ("?", "33"),
        }
    }

    fn result(&self) -> String {
        match (self.status_code, self.duration_ms) {
            (Some(status), Some(ms)) => format!("{status} in {ms} ms"),
            (None, Some(ms)) => format!("{ms} ms"),
            _ => String::new(),
        }
    }
}

fn table(checks: &[CheckAnswer], colours: bool) -> String {
    let mut out = String::new();
    let width = checks.iter().map(|check| check.title.chars().count()).max().unwrap_or_default();
    for check in checks {
        let (sign, colour) = check.sign();
        let sign = if colours { format!("\x1b[{colour}m{sign}\x1b[0m") } else { sign.to_owned() };
        let row = format!("  {sign} {:width$}   {}", check.title, check.result());
        let _ = writeln!(out, "{}", row.trim_end());
        if check.is_gap() {
            wrap(&mut out, "sent", &check.sent);
            wrap(&mut out, "came back", &check.came_back);
            wrap(&mut out, "why", &check.why);
        }
        if let Some(advice) = &check.advice {
            wrap(&mut out, if check.is_gap() { "do" } else { "note" }, advice);
        }
    }
    let there = checks.iter().filter(|check| check.finding == "passed").count();
    let all = checks.iter().filter(|check| check.finding != "does_not_apply").count();
    let _ = writeln!(out, "\nprotections: {there} of {all}");
    out
}

/// A paragraph below its check, its lines indented under the first. A receiver's text cannot control the terminal: the
/// report has no control characters.
fn wrap(out: &mut String, label: &str, text: &str) {
    let indent = format!("{:18}", "");
    let mut line = format!("      {:<12}", format!("{label}:"));
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > REPORT_LINE_CHARS {
            let _ = writeln!(out, "{line}");
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(finding: &str, advice: Option<&str>) -> CheckAnswer {
        CheckAnswer {
            title: format!("It {finding}"),
            finding: finding.into(),
            status_code: Some(200),
            duration_ms: Some(7),
            sent: "S.".into(),
            came_back: "C.".into(),
            why: "W.".into(),
            advice: advice.map(str::to_owned),
        }
    }

    #[test]
    fn each_gap_has_its_explanation_below_and_the_summary_leaves_out_what_does_not_apply() {
        let checks = [
            check("passed", None),
            check("failed", Some("Do it.")),
            check("does_not_apply", Some("Left.")),
            check("unknown", None),
        ];
        let text = table(&checks, false);
        assert!(
            text.starts_with("  ✓ It passed           200 in 7 ms\n  ✗ It failed           200 in 7 ms\n"),
            "{text}"
        );
        assert!(text.contains(
            "      do:         Do it.\n  – It does_not_apply   200 in 7 ms\n      note:       Left.\n  ? "
        ));
        assert!(text.ends_with("\nprotections: 1 of 3\n"), "{text}");
        assert_eq!(text.matches("sent:").count(), 2, "{text}");
        assert!(!text.contains('\x1b'));
        assert!(table(&checks, true).contains("\x1b[31m✗\x1b[0m"));
        assert_eq!(checks.iter().map(CheckAnswer::is_gap).collect::<Vec<_>>(), [false, true, false, true]);
    }

    #[test]
    fn long_texts_are_wrapped_under_their_label() {
        let mut out = String::new();
        wrap(&mut out, "why", &"word ".repeat(60));
        assert!(
            out.lines().count() > 3 && out.lines().all(|line| line.chars().count() <= REPORT_LINE_CHARS),
            "{out}"
        );
        assert!(out.lines().skip(1).all(|line| line.starts_with(&" ".repeat(18))), "{out}");
    }
}

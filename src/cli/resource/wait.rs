//! Waits for operations that take time: polls until they have ended, and shows the progress of a replay.

use crate::cli::{
    api_client::{ApiAnswer, ServerClient},
    exit::{CommandError, ExitStatus},
    render,
    table::visible,
    write_stdout,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;
use serde_json::Value;
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};
use tokio::time::Instant;

const POLL_PAUSE: Duration = Duration::from_millis(100);
const POLL_PAUSE_MAX: Duration = Duration::from_secs(1);
const BAR_TEMPLATE: &str = "{wide_bar} {pos}/{len} {msg}";

/// The result of an operation that was waited for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum WaitResult {
    Succeeded,
    /// Failed, with the reason.
    Failed(String),
}

impl WaitResult {
    pub(in crate::cli) fn exit(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Succeeded => Ok(ExitCode::SUCCESS),
            Self::Failed(why) => Err(CommandError::with_exit(ExitStatus::Failed, why)),
        }
    }
}

/// Polls `path` until `ended` returns a result or the limit is over. Returns the last answer and the result.
pub(in crate::cli) async fn poll_until(
    client: &ServerClient,
    path: &str,
    limit: Duration,
    ended: impl Fn(&Value) -> Option<WaitResult>,
) -> anyhow::Result<(ApiAnswer, WaitResult)> {
    let (deadline, mut pause) = (Instant::now() + limit, POLL_PAUSE);
    loop {
        let answer = client.poll(path).await?;
        if let Some(ended) = ended(&answer.json()?) {
            return Ok((answer, ended));
        }
        if Instant::now() + pause > deadline {
            let words = format!("not ended within {limit:?}; it goes on without this command");
            return Ok((answer, WaitResult::Failed(words)));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL_PAUSE_MAX);
    }
}

/// The fields of a replay that are shown.
#[derive(Deserialize)]
struct WatchedReplay {
    id: String,
    state: String,
    total: u64,
    replayed: u64,
    refused: u64,
    average_per_second: f64,
    last_refusal: Option<String>,
}

impl WatchedReplay {
    /// Returns the result if the replay is over.
    fn ended(&self) -> Option<WaitResult> {
        match self.state.as_str() {
            "finished" => Some(WaitResult::Succeeded),
            "cancelled" => Some(WaitResult::Failed(format!("{} was cancelled", self.id))),
            _ => None,
        }
    }

    fn line(&self) -> String {
        let Self { state, replayed, refused, total, average_per_second: rate, .. } = self;
        let eta = self.eta();
        format!("{state}: {replayed} of {total} replayed, {refused} refused, {rate:.1} a second{eta}\n")
    }

    /// The remaining time, if the rate stays the same.
    fn eta(&self) -> String {
        let left = self.total.saturating_sub(self.replayed + self.refused) as f64;
        if self.average_per_second > 0.0 && self.state == "running" {
            format!(", {:.0} s left", left / self.average_per_second)
        } else {
            String::new()
        }
    }

    /// The text beside the progress bar.
    fn message(&self) -> String {
        let Self { state, refused, average_per_second: rate, .. } = self;
        let refusal = self.last_refusal.as_deref().map(visible).unwrap_or_default();
        let refused = if *refused == 0 { String::new() } else { format!(", {refused} refused: {refusal}") };
        format!("{rate:.1}/s, {state}{}{refused}", self.eta())
    }
}

/// Shows how a replay goes until it is over: a bar on a terminal, otherwise a line for each change. To stop watching does
/// not stop the replay.
pub(super) async fn watch(client: &ServerClient, path: &str, is_json: bool) -> anyhow::Result<WaitResult> {
    let bar = (!is_json && io::stdout().is_terminal()).then(bar).transpose()?;
    let (mut before, mut pause) = (String::new(), POLL_PAUSE);
    loop {
        let answer = client.poll(path).await?;
        let replay: WatchedReplay = answer.json()?;
        if let Some(bar) = &bar {
            bar.set_length(replay.total);
            bar.set_position(replay.replayed + replay.refused);
            bar.set_message(replay.message());
        } else {
            let line = if is_json { render::answer(&answer, true)? } else { replay.line() };
            if line != before && write_stdout(&line).is_err() {
                return Ok(WaitResult::Failed("nobody watches any more".into()));
            }
            before = line;
        }
        if let Some(ended) = replay.ended() {
            if let Some(bar) = &bar {
                bar.finish_and_clear();
                let _ = write_stdout(&replay.line());
            }
            return Ok(ended);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL_PAUSE_MAX);
    }
}

fn bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stdout());
    bar.set_style(ProgressStyle::with_template(BAR_TEMPLATE)?);
    Ok(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(state: &str, refused: u64) -> WatchedReplay {
        let (id, state, last_refusal) = ("rpl_1".into(), state.into(), Some("it is \x1bgone".into()));
        WatchedReplay { id, state, total: 100, replayed: 40, refused, average_per_second: 20.0, last_refusal }
    }

    #[test]
    fn a_replay_is_shown_with_its_rate_its_refusals_and_the_time_left() {
        assert_eq!(
            replay("running", 10).line(),
            "running: 40 of 100 replayed, 10 refused, 20.0 a second, 2 s left\n"
        );
        assert_eq!(replay("paused", 0).line(), "paused: 40 of 100 replayed, 0 refused, 20.0 a second\n");
        assert_eq!(replay("running", 1).message(), "20.0/s, running, 3 s left, 1 refused: it is \\u{1b}gone");
        assert_eq!(replay("paused", 0).message(), "20.0/s, paused");
    }

    #[test]
    fn only_a_finished_replay_ended_well() {
        assert_eq!(replay("finished", 3).ended(), Some(WaitResult::Succeeded));
        assert_eq!(replay("cancelled", 0).ended(), Some(WaitResult::Failed("rpl_1 was cancelled".into())));
        assert_eq!(replay("paused", 0).ended(), None);
    }
}

//! The shape `crash`: `kill -9` when half of the events have arrived, a restart, and what became of the rest.

use crate::{
    children, clock,
    figures::Figures,
    load::{self, Bench, Load, Observed},
    procs::Tree,
    server::ServerProcess,
};
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;
use tokio::process::Command;

const HALF_WITHIN: Duration = Duration::from_mins(10);
const DOWN_FOR: Duration = Duration::from_millis(500);

/// Whose CPU counts, and what is killed.
pub(super) enum Subject<'a> {
    Own(&'a mut ServerProcess),
    Other {
        /// The first of them is killed.
        trees: &'a [Tree],
        restart_command: Option<&'a str>,
    },
}

impl Subject<'_> {
    pub(super) fn trees(&self) -> Vec<Tree> {
        match self {
            Self::Own(server) => server.trees(),
            Self::Other { trees, .. } => trees.to_vec(),
        }
    }

    async fn kill(&mut self) -> Result<()> {
        match self {
            Self::Own(server) => server.kill().await,
            Self::Other { trees, restart_command } => {
                ensure!(restart_command.is_some(), "with --target this shape needs --restart-command");
                let pid =
                    trees.first().and_then(Tree::root).context("with --target this shape needs --pid")?;
                let pid = Pid::from_raw(pid.cast_signed()).context("0 is no process")?;
                kill_process(pid, Signal::KILL).context("killing the server")
            }
        }
    }

    async fn restart(&mut self) -> Result<()> {
        match self {
            Self::Own(server) => server.restart().await.map(drop),
            Self::Other { restart_command, .. } => {
                let command = restart_command.unwrap_or_default();
                let status = Command::new("sh").args(["-c", command]).status().await?;
                ensure!(status.success(), "the restart command failed: {status}");
                Ok(())
            }
        }
    }
}

/// Figures, and a note on the recovery.
pub(super) async fn measure(
    bench: &Bench,
    load: &Load,
    subject: &mut Subject<'_>,
) -> Result<(Figures, String)> {
    let half = (load.events * load.endpoints.len() / 2) as u64;
    let crash = async {
        let arrived = || async { (bench.counts().await.ok()?.distinct >= half).then_some(()) };
        children::wait_for(HALF_WITHIN, arrived).await.context("half of the events did not arrive")?;
        let killed_ns = clock::now_ns();
        subject.kill().await?;
        tokio::time::sleep(DOWN_FOR).await;
        let began_ns = clock::now_ns();
        subject.restart().await?;
        Ok((killed_ns, began_ns, clock::now_ns()))
    };
    let (observed, (killed_ns, began_ns, ready_ns)) = bench.transfer(load, &[], crash).await?;
    let figures = Figures::of(&observed);
    let note = format!(
        "ready in {:.2} s, what was accepted before the kill had arrived in {:.2} s; {} unanswered at the kill",
        clock::seconds_between(began_ns, ready_ns),
        clock::seconds_between(began_ns, last_of_before(&observed, killed_ns)),
        figures.unanswered
    );
    Ok((figures, note))
}

/// When the last webhook arrived whose event was accepted before the kill.
fn last_of_before(observed: &Observed, killed_ns: u64) -> u64 {
    let pairs = load::expected(&observed.endpoints, &observed.times);
    let before = pairs.filter(|(_, event)| observed.times.accepted_ns[*event] <= killed_ns);
    before.map(|(pair, _)| observed.arrivals.first_ns[pair]).max().unwrap_or(0)
}

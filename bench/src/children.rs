//! Processes that a measurement starts. None of them outlives it, however it ends.

use crate::clock;
use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, de::DeserializeOwned};
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

/// A server that drains deliveries takes some seconds.
const STOP_WITHIN: Duration = Duration::from_mins(1);

/// A command that the kernel stops with this signal when the measurement is gone without having stopped it.
pub fn tied(program: &Path, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]).arg(program).stdin(Stdio::null()).kill_on_drop(true);
    // A Ctrl-C at a terminal is for the measurement, which then ends what it started.
    command.process_group(0);
    command
}

pub struct Child {
    child: tokio::process::Child,
    pid: Pid,
}

impl Child {
    pub fn start(mut command: Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("it ended at once")?;
        Ok(Self { child, pid })
    }

    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// `kill -9`; comes back when the process is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("killing a process")
    }

    /// Asks with a signal, and kills what does not end within a minute.
    pub async fn stop(mut self, signal: Signal) -> Result<()> {
        // It may have ended by itself, which the wait sees.
        let _ = kill_process(self.pid, signal);
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            self.kill().await?;
        }
        Ok(())
    }
}

/// A sender or receiver: this program in a process of its own, which answers orders and ends when its input does.
pub struct Worker {
    role: &'static str,
    /// Ends with this.
    _child: Child,
    pipes: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Worker {
    pub fn start(role: &'static str, threads: usize) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.args([role, "--threads", &threads.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // As above.
        command.process_group(0);
        let mut child = Child::start(command)?;
        let pipes = child.child.stdin.take().zip(child.child.stdout.take()).context("no pipes")?;
        Ok(Self { role, _child: child, pipes: Mutex::new((pipes.0, BufReader::new(pipes.1).lines())) })
    }

    pub async fn ask<T: DeserializeOwned>(&self, order: &impl Serialize) -> Result<T> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        let mut pipes = self.pipes.lock().await;
        pipes.0.write_all(&line).await.with_context(|| format!("the {} has ended", self.role))?;
        Self::parse(pipes.1.next_line().await?, self.role)
    }

    /// Reads an answer for which there is no order.
    pub async fn first_line<T: DeserializeOwned>(&self) -> Result<T> {
        Self::parse(self.pipes.lock().await.1.next_line().await?, self.role)
    }

    fn parse<T: DeserializeOwned>(line: Option<String>, role: &str) -> Result<T> {
        let line = line.ok_or_else(|| anyhow!("the {role} has ended; it says why above"))?;
        serde_json::from_str(&line).with_context(|| format!("the {role} answered something else"))
    }
}

/// Asks again until there is an answer, with short pauses.
pub async fn wait_for<T, F: Future<Output = Option<T>>>(
    within: Duration,
    mut ask: impl FnMut() -> F,
) -> Option<T> {
    const POLL_PAUSE: Duration = Duration::from_millis(5);
    let end_ns = clock::now_ns() + within.as_nanos() as u64;
    loop {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        if clock::now_ns() > end_ns {
            return None;
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

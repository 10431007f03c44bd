//! Runs a command to its end, and returns its output.

use crate::harness::{ADMIN_KEY, NodeFolder, TestNode};
use std::{
    net::SocketAddr,
    process::{Output, Stdio},
};
use tokio::{io::AsyncWriteExt, process::Command};

#[derive(Debug)]
pub(crate) struct ToolOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl ToolOutput {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(args).env_clear().kill_on_drop(true).stdin(Stdio::null());
    command
}

pub(crate) async fn run(args: &[&str]) -> ToolOutput {
    ToolOutput::of(command(args).output().await.unwrap())
}

/// Runs a command with a server's address and an admin key in the environment.
pub(crate) async fn run_with_key(node: &TestNode, args: &[&str]) -> ToolOutput {
    let mut command = command(args);
    command.env("POSTHASTE_URL", url(node)).env("POSTHASTE_KEY", ADMIN_KEY);
    ToolOutput::of(command.output().await.unwrap())
}

/// Runs a command with the settings of a server in the environment, in its folder.
pub(crate) async fn run_in(home: &NodeFolder, args: &[&str]) -> ToolOutput {
    let mut command = command(args);
    command.current_dir(home.run_folder()).envs(home.settings());
    ToolOutput::of(command.output().await.unwrap())
}

pub(crate) async fn run_with_input(args: &[&str], input: &[u8]) -> ToolOutput {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input).await.unwrap();
    drop(stdin);
    ToolOutput::of(child.wait_with_output().await.unwrap())
}

pub(crate) fn url(node: &TestNode) -> String {
    format!("http://{}", node.client.address())
}

/// The address in a log that says `listening on http://127.0.0.1:43210/`.
pub(crate) fn listening_at(log: &str) -> Option<SocketAddr> {
    let (_, after) = log.split_once("listening on http://")?;
    after.split_once('/')?.0.parse().ok()
}

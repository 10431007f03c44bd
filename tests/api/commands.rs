//! The command line as people and scripts use it: the real binary, what it prints and how it exits.

mod exit_codes;
mod lists;
mod profiles;
mod publishing;
mod terminal;
mod tour;

use crate::{
    fixture::{HOOK, TestApp, TestServer, receiver},
    harness::{ADMIN_KEY, TestReceiver},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, process::Stdio, sync::Mutex};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, process::Command};

/// Output and exit code of one run.
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl RunOutput {
    /// Returns the output; fails the test unless the run ended with this code.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.out
    }
}

/// A shell with environment variables and an empty folder.
pub(crate) struct CommandLine {
    variables: BTreeMap<&'static str, String>,
    folder: TempDir,
    /// All lines of arguments that were run.
    typed: Mutex<Vec<String>>,
}

impl CommandLine {
    /// Without settings, except proxies that must not be used and a server setting that must not matter.
    pub(crate) fn bare() -> Self {
        let mut variables = BTreeMap::new();
        for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
            variables.insert(proxy, "http://127.0.0.1:9".to_owned());
        }
        variables.insert("POSTHASTE_LISTEN", "a setting of the server's".to_owned());
        variables.insert("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned());
        Self {
            variables,
            folder: TempDir::with_prefix("posthaste-commands-").unwrap(),
            typed: Mutex::default(),
        }
    }

    /// Configured with the server and its admin key.
    pub(crate) fn at(server: &TestServer) -> Self {
        let mut cli = Self::bare();
        cli.set("POSTHASTE_URL", &format!("http://{}/", server.admin.address));
        cli.set("POSTHASTE_KEY", ADMIN_KEY);
        cli
    }

    /// Configured with the server, its admin key and this app.
    pub(crate) fn in_app(server: &TestServer, app: &TestApp) -> Self {
        let mut cli = Self::at(server);
        cli.set("POSTHASTE_APP", &app.id);
        cli
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.insert(name, value.to_owned());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.remove(name);
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.file(name), text).unwrap();
    }

    /// Returns the program in this environment as a command that is not started yet.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.variables).current_dir(self.folder.path()).kill_on_drop(true);
        command
    }

    /// Runs it with these exact arguments and this standard input.
    pub(crate) async fn run_with(&self, args: &[&str], input: &[u8]) -> RunOutput {
        self.typed.lock().unwrap().push(args.join(" "));
        let mut command = self.command(env!("CARGO_BIN_EXE_posthaste"));
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // The program may refuse before it has read everything.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        RunOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs it with the words of the line as arguments.
    pub(crate) async fn run(&self, line: &str) -> RunOutput {
        self.run_with(&line.split_whitespace().collect::<Vec<_>>(), b"").await
    }

    /// Returns the output for people; the run must succeed.
    pub(crate) async fn text_of(&self, line: &str) -> String {
        self.run(line).await.ends(0)
    }

    /// Returns the JSON output, exactly one document; the run must succeed.
    pub(crate) async fn json(&self, line: &str) -> Value {
        let out = self.run(&format!("{line} --json")).await.ends(0);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {out}"))
    }

    /// Returns the JSON output of a run that must end with this code.
    pub(crate) async fn json_that_ends(&self, line: &str, code: i32) -> Value {
        let out = self.run(&format!("{line} --json")).await.ends(code);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {out}"))
    }

    /// Runs it in both output formats and returns the JSON output.
    pub(crate) async fn both(&self, line: &str, words: &str) -> Value {
        let output = self.text_of(line).await;
        assert!(output.contains(words), "{line}: {words:?} is missing in\n{output}");
        self.json(line).await
    }

    pub(crate) fn typed(&self) -> Vec<String> {
        self.typed.lock().unwrap().clone()
    }
}

/// An app with an endpoint whose receiver accepts everything, and a shell configured for this app.
pub(crate) struct AppSetup {
    pub(crate) app: TestApp,
    pub(crate) endpoint: String,
    pub(crate) receiver: TestReceiver,
    pub(crate) cli: CommandLine,
}

impl AppSetup {
    pub(crate) async fn new(server: &TestServer) -> Self {
        let (app, receiver) = (server.app().await, receiver(200).await);
        let endpoint = app.endpoint(&receiver.url(HOOK), json!({})).await;
        let cli = CommandLine::in_app(server, &app);
        Self { app, endpoint, receiver, cli }
    }

    /// The id of a delivery that arrived.
    pub(crate) async fn delivered(&self) -> String {
        let delivery = self.app.deliver().await;
        self.app.until_is(&delivery, "delivered").await;
        delivery
    }
}

//! The example servers as real processes.

use crate::{
    case::Case,
    harness::{TestAnswer, TestClient},
    kit, scratch,
    suites::{cargo, go, run},
};
use http::Method;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const STARTS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Language {
    Python,
    Node,
    Go,
    Php,
    Rust,
}

impl Language {
    pub(crate) const ALL: [Self; 5] = [Self::Python, Self::Node, Self::Go, Self::Php, Self::Rust];

    fn command(self) -> Command {
        let (program, args): (PathBuf, &[&str]) = match self {
            Self::Python => ("python3".into(), &["-B", "server.py"]),
            Self::Node => ("node".into(), &["server.mjs"]),
            Self::Go => (go_server(), &[]),
            Self::Php => ("php".into(), &["-S", "127.0.0.1:0", "server.php"]),
            Self::Rust => (rust_server(), &[]),
        };
        let folder = kit(&format!("{self:?}").to_ascii_lowercase());
        let mut command = Command::new(program);
        command.args(args).current_dir(folder);
        command
    }
}

fn go_server() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let built = scratch("go-server");
        run(go().args(["build", "-o"]).arg(&built).arg("./server"));
        built
    };
    BUILT.get_or_init(build).clone()
}

fn rust_server() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        run(cargo().args(["build", "--example", "server"]));
        scratch("rust/debug/examples/server")
    };
    BUILT.get_or_init(build).clone()
}

/// An example server's process; ends when it is dropped.
pub(crate) struct ExampleServer {
    pub(crate) address: SocketAddr,
    data: TempDir,
    _process: Child,
}

impl ExampleServer {
    pub(crate) async fn start(language: Language, contract: &str, secrets: &[&str]) -> Self {
        let data = TempDir::with_prefix("posthaste-kit-").unwrap();
        std::fs::create_dir(data.path().join("received")).unwrap();
        let mut process = spawn(language, contract, secrets, data.path());
        let mut said = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut err = BufReader::new(process.stderr.take().unwrap()).lines();
        let listens = async {
            loop {
                let line = tokio::select! {
                    Ok(Some(line)) = out.next_line() => line,
                    Ok(Some(line)) = err.next_line() => line,
                    else => panic!("{language:?} ended:\n{said}"),
                };
                said.push_str(&line);
                if let Some(address) = address_in(&line) {
                    return address;
                }
            }
        };
        let address = tokio::time::timeout(STARTS_WITHIN, listens).await.unwrap();
        // The process would block on a full pipe that is not read.
        tokio::spawn(async move { while let Ok(Some(_)) = out.next_line().await {} });
        tokio::spawn(async move { while let Ok(Some(_)) = err.next_line().await {} });
        Self { address, data, _process: process }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/webhooks", self.address)
    }

    pub(crate) async fn health(&self) -> u16 {
        TestClient::new(self.address, "").get("/healthz").await.status
    }

    pub(crate) async fn post(&self, case: &Case) -> (u16, String) {
        let headers: Vec<_> =
            case.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = self.send(&headers, case.body.clone()).await;
        (answer.status, answer.text())
    }

    pub(crate) async fn send(&self, headers: &[(&str, &str)], body: Vec<u8>) -> TestAnswer {
        // A connection for each: some of these servers close after every answer.
        TestClient::new(self.address, "").send(Method::POST, "/webhooks", headers, body).await.unwrap()
    }

    /// Moves the server's data away, or back.
    pub(crate) fn data_is_there(&self, there: bool) {
        let (here, away) = (self.data.path().join("received"), self.data.path().join("away"));
        if there { std::fs::rename(away, here) } else { std::fs::rename(here, away) }.unwrap();
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    rest.trim_end_matches(") started").trim().parse().ok()
}

pub(crate) fn spawn(language: Language, contract: &str, secrets: &[&str], data: &Path) -> Child {
    let mut command = language.command();
    command.env("PORT", "0").env("DATA", data.join("received")).env("WEBHOOK_CONTRACT", contract);
    for (name, secret) in ["WEBHOOK_SECRET", "WEBHOOK_SECRET_OLD"].iter().zip(secrets) {
        command.env(name, secret);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
        .spawn()
        .unwrap_or_else(|error| panic!("{language:?}: {error}; run ./check, which installs what is missing"))
}

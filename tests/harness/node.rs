//! A home (a folder with a store, settings and logs) and a node (one run of the binary in it).
//!
//! A node that is dropped is killed. No process is ever stopped but those started here.

use super::{http::TestClient, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::Instant,
};

pub(crate) const ADMIN_KEY: &str = "phk_black-box-admin-key-000000000001";
/// 32 bytes.
pub(crate) const ENCRYPTION_KEY: &str = "YmxhY2stYm94IGVuY3J5cHRpb24ga2V5IDAwMDAwMSE=";

/// Far beyond the promised time: busy machines are slow, and the measured time is printed.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const EXIT_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct NodeFolder {
    folder: TempDir,
    settings: BTreeMap<String, String>,
    runs: AtomicU32,
}

impl NodeFolder {
    /// An empty folder, and settings that let loopback receivers be called over plain HTTP.
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix("posthaste-").unwrap();
        let run = folder.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let store = run.join("posthaste.db");
        let mut home = Self { folder, settings: BTreeMap::new(), runs: AtomicU32::new(0) };
        home.set("LISTEN", "127.0.0.1:0");
        home.set("STORE", &format!("sqlite:{}", store.display()));
        home.set("ADMIN_KEY", ADMIN_KEY);
        home.set("ENCRYPTION_KEY", ENCRYPTION_KEY);
        home.set("ALLOW_ADDRESSES", "127.0.0.0/8,::1/128");
        home.set("HTTPS_ONLY", "false");
        home.set("LOG_FORMAT", "json");
        home
    }

    /// A setting for every later start, by its name in the configuration, in capitals.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(format!("POSTHASTE_{name}"), value.to_owned());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.settings.remove(&format!("POSTHASTE_{name}"));
    }

    /// Removes all settings, as on a new installation.
    pub(crate) fn unset_all(&mut self) {
        self.settings.clear();
    }

    /// The settings as environment variables.
    pub(crate) fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// The whole folder: the logs, and the folder that the binary runs in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder where the binary runs; empty before the first start. Its logs are elsewhere.
    pub(crate) fn run_folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) fn store(&self) -> PathBuf {
        let store = &self.settings["POSTHASTE_STORE"];
        PathBuf::from(store.strip_prefix("sqlite:").unwrap())
    }

    pub(crate) async fn start(&self) -> TestNode {
        self.start_with(&[]).await
    }

    /// Starts `posthaste serve` with these flags and waits until it is ready.
    pub(crate) async fn start_with(&self, flags: &[&str]) -> TestNode {
        self.start_under(&[], flags).await
    }

    /// Starts `posthaste serve` under another program that becomes or wraps it, such as `strace -D`, which keeps its
    /// process id.
    pub(crate) async fn start_under(&self, wrapper: &[&str], flags: &[&str]) -> TestNode {
        let mut node = self.spawn(wrapper, &[&["serve"], flags].concat());
        node.wait_ready().await;
        node
    }

    /// Starts the binary with these arguments and does not wait. Its output goes to a log of its own.
    pub(crate) fn spawn(&self, wrapper: &[&str], args: &[&str]) -> TestNode {
        let log = self.folder.path().join(format!("log-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let words = [wrapper, &[env!("CARGO_BIN_EXE_posthaste")], args].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.run_folder()).env_clear().envs(&self.settings);
        // Wrappers are looked up where every system has them.
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).kill_on_drop(true);
        let started_at = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        TestNode {
            client: TestClient::new(nowhere, ADMIN_KEY),
            child,
            log,
            started_at,
            ready_after: Duration::ZERO,
        }
    }
}

pub(crate) struct TestNode {
    /// A client with the admin key.
    pub(crate) client: TestClient,
    /// From the start of the process to the first 200 of `/readyz`.
    pub(crate) ready_after: Duration,
    child: Child,
    log: PathBuf,
    started_at: Instant,
}

impl TestNode {
    /// Finds the address in the log, then polls `/readyz` until it answers 200.
    pub(crate) async fn wait_ready(&mut self) {
        let address = wait_for("the node is ready", READY_TIMEOUT, async || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended with {ended:?} instead of getting ready:\n{}", self.log());
            ready_address(&self.log())
        })
        .await;
        self.client = TestClient::new(address, ADMIN_KEY);
        let client = self.client.clone();
        wait_for("/readyz says 200", READY_TIMEOUT, async || {
            (client.get("/readyz").await.status == 200).then_some(())
        })
        .await;
        self.ready_after = self.started_at.elapsed();
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends SIGTERM; returns at once.
    pub(crate) fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGSTOP: from now on the node does nothing, and does not notice it.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.exited().await;
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the process ends by itself.
    pub(crate) async fn exited(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log())).unwrap()
    }

    /// Sends SIGTERM, waits, and returns the exit code.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        self.term();
        self.exited().await.code()
    }

    /// Returns a line of /proc/PID/status in KiB: `VmRSS` is resident memory now, `VmHWM` its maximum so far.
    pub(crate) fn memory_kib(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap();
        value.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// Finds the address in a log line like `{…,"message":"posthaste is ready","address":"127.0.0.1:43210"}`.
fn ready_address(log: &str) -> Option<SocketAddr> {
    let line = log.lines().find(|line| line.contains("posthaste is ready") && line.ends_with('}'))?;
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line["address"].as_str()?.parse().ok()
}

//! A receiver written after an article, as a real process, and the requests that it recorded.

use crate::harness::wait_for;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// A receiver's process; ends when it is dropped.
pub(crate) struct ArticleReceiver {
    port: u16,
    lines: Arc<Mutex<Vec<Value>>>,
    _folder: TempDir,
    _process: Child,
}

/// A request as the receiver saw it.
#[derive(Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) accepted: bool,
    pub(crate) why: Value,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    pub(crate) body: String,
    /// The body as the receiver's own JSON reader understood it.
    pub(crate) parsed: Value,
}

impl RecordedRequest {
    fn read(line: &Value) -> Self {
        assert_eq!(line["method"], "POST");
        let body = BASE64_STANDARD.decode(line["body_base64"].as_str().unwrap()).unwrap();
        Self {
            accepted: line["accepted"] == true,
            why: line["why"].clone(),
            headers: serde_json::from_value(line["headers"].clone()).unwrap(),
            body: String::from_utf8(body).unwrap(),
            parsed: line["parsed"].clone(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        match self.headers.get(name).map(Vec::as_slice) {
            Some([value]) => value,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Exactly these headers, each once, beside what HTTP itself needs.
    pub(crate) fn must_have(&self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, Vec<String>> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect();
        let mut headers = self.headers.clone();
        assert!(headers.remove("host").is_some_and(|values| values[0].starts_with("127.0.0.1:")));
        assert_eq!(headers.remove("content-length"), Some(vec![self.body.len().to_string()]));
        assert_eq!(headers.remove("accept-encoding"), Some(vec!["identity".to_owned()]));
        assert_eq!(headers, expected);
    }
}

impl ArticleReceiver {
    /// A program of `tests/articles` by its file name.
    pub(crate) async fn start(program: &str, secret: &str) -> Self {
        let folder = TempDir::with_prefix("posthaste-article-").unwrap();
        let port_file = folder.path().join("port");
        let mut command = command(program);
        command.arg(&port_file).arg(secret);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap_or_else(|error| {
            panic!("{program}: {error}; run ./check, which installs what is missing")
        });
        let port = wait_for("it listens", WAIT_MAX, async || {
            let ended = process.try_wait().unwrap();
            assert!(ended.is_none(), "{program} ended with {ended:?}");
            std::fs::read_to_string(&port_file).ok()?.strip_suffix('\n')?.parse().ok()
        })
        .await;
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let mut out = BufReader::new(process.stdout.take().unwrap()).lines();
        let written = lines.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = out.next_line().await {
                written.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self { port, lines, _folder: folder, _process: process }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the requests on a path, once there are exactly so many.
    pub(crate) async fn requests(&self, path: &str, count: usize) -> Vec<RecordedRequest> {
        let on_path = || {
            let lines = self.lines.lock().unwrap();
            lines.iter().filter(|line| line["path"] == path).map(RecordedRequest::read).collect::<Vec<_>>()
        };
        let what = format!("{count} requests on {path}");
        let requests =
            wait_for(&what, WAIT_MAX, async || Some(on_path()).filter(|all| all.len() >= count)).await;
        assert_eq!(requests.len(), count, "on {path}");
        requests
    }
}

fn command(program: &str) -> Command {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/articles", program].iter().collect();
    let with = |interpreter: &str| {
        let mut command = Command::new(interpreter);
        command.arg(&path);
        command
    };
    match path.extension().and_then(|end| end.to_str()).unwrap() {
        "py" => {
            let mut python = with("python3");
            python.env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
        "mjs" => with("node"),
        "php" => with("php"),
        "go" => Command::new(built_by_go(&path)),
        other => panic!("{other}"),
    }
}

/// Built once, without the network.
fn built_by_go(source: &PathBuf) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let scratch: PathBuf = [env!("CARGO_MANIFEST_DIR"), "target/check/articles"].iter().collect();
        let built = scratch.join("zerofee-go");
        let mut go = std::process::Command::new("go");
        go.args(["build", "-o"]).arg(&built).arg(source);
        go.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").env("GOPROXY", "off");
        go.env("GOCACHE", scratch.join("go-cache")).env("GOPATH", scratch.join("go"));
        let output =
            go.output().unwrap_or_else(|error| panic!("go: {error}; run ./check, which installs it"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        built
    };
    BUILT.get_or_init(build).clone()
}

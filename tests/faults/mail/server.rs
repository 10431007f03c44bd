//! A real mail server beside the test: aiosmtpd, which `./check` installs.

use crate::harness::certificates::{Authority, authority, identity};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::{path::PathBuf, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

pub(crate) const USER: &str = "posthaste@mail.example";
pub(crate) const PASSWORD: &str = "marker-of-the-smtp-password";

/// A mail as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedMail {
    /// The headers, unfolded.
    head: String,
    pub(crate) body: String,
}

impl ReceivedMail {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let head = head.replace("\r\n ", " ").replace("\r\n\t", " ");
        let body = match header(&head, "Content-Transfer-Encoding") {
            Some("base64") => {
                let joined: String = body.split_whitespace().collect();
                String::from_utf8(BASE64_STANDARD.decode(joined).unwrap()).unwrap()
            }
            _ => body.replace("=\r\n", "").replace("=3D", "="),
        };
        Self { head, body: body.replace("\r\n", "\n") }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        header(&self.head, name).unwrap_or_else(|| panic!("no {name} in\n{}", self.head))
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

pub(crate) struct TestMailServer {
    folder: TempDir,
    security: &'static str,
    authority: Authority,
    pub(crate) port: u16,
    child: Option<Child>,
}

impl TestMailServer {
    /// Starts a server that asks for a login.
    pub(crate) async fn start(security: &'static str) -> Self {
        let folder = TempDir::with_prefix("posthaste-smtp-").unwrap();
        let authority = authority("mail");
        let (certificate, key) = identity("localhost", Some(&authority), |_| {});
        std::fs::write(folder.path().join("certificate.pem"), certificate.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let mut server = Self { folder, security, authority, port: 0, child: None };
        server.up().await;
        server
    }

    /// Starts the server on its former port.
    pub(crate) async fn up(&mut self) {
        let path = |name: &str| self.folder.path().join(name);
        let port = self.port.to_string();
        let mut command = Command::new(installed().join("venv/bin/python"));
        command.arg(script()).arg("--folder").arg(self.folder.path()).args(["--port", &port]);
        command.args(["--security", self.security, "--user", USER, "--password", PASSWORD]);
        command.arg("--certificate").arg(path("certificate.pem")).arg("--key").arg(path("key.pem"));
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next_line().await.unwrap().expect("the mail server says its port");
        self.port = ready.parse().unwrap();
        self.child = Some(child);
    }

    pub(crate) async fn down(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.unwrap();
        }
    }

    pub(crate) fn answers(&self, answers: &Value) {
        std::fs::write(self.folder.path().join("answers.json"), answers.to_string()).unwrap();
    }

    /// The authority that its certificate is signed by, as a file.
    pub(crate) fn ca(&self) -> PathBuf {
        assert!(!self.authority.pem().is_empty());
        self.folder.path().join("ca.pem")
    }

    /// The received mails, in order.
    pub(crate) fn mails(&self) -> Vec<ReceivedMail> {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|of| of == "eml")).collect();
        files.sort_unstable();
        files.iter().map(|path| ReceivedMail::read(&std::fs::read_to_string(path).unwrap())).collect()
    }
}

fn script() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/smtp/server.py"].iter().collect()
}

fn installed() -> PathBuf {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "target/check/smtp"].iter().collect();
    assert!(folder.join("installed").exists(), "the mail server is not installed: run ./check once");
    folder
}

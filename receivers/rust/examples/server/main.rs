//! A complete receiver:  WEBHOOK_SECRET=whsec_… cargo run --example server
//!
//! Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over),
//! WEBHOOK_CONTRACT (standard), WEBHOOK_BRAND, PORT (8000; 0 takes a free one), DATA (the folder for what was received).
//!
//! Answers: 2xx for a request that was handled or is known already, 4xx for one that can never be accepted, 5xx to get it
//! again. `http.rs` reads HTTP and `json.rs` reads JSON, so that nothing has to be installed. In production use a web framework
//! and a JSON parser of your choice, and keep `receive` and `keep`.

mod http;
mod json;

use http::{Request, BODY_BYTES_MAX};
use posthaste_webhooks::{verify, Contract, Options, Reason, VerificationError};
use std::{
    collections::hash_map::RandomState,
    env, fs,
    hash::{BuildHasher, Hasher},
    io::{self, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
};

struct Receiver {
    contract: Contract,
    brand: Option<String>,
    secrets: Vec<String>,
    data: PathBuf,
}

impl Receiver {
    fn from_environment() -> Result<Self, VerificationError> {
        let setting = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let receiver = Self {
            contract: setting("WEBHOOK_CONTRACT").as_deref().unwrap_or("standard").parse()?,
            brand: setting("WEBHOOK_BRAND"),
            secrets: ["WEBHOOK_SECRET", "WEBHOOK_SECRET_OLD"].into_iter().filter_map(setting).collect(),
            data: setting("DATA").unwrap_or_else(|| "received".to_owned()).into(),
        };
        match receiver.verify(&Request::default()) {
            Err(error) if error.reason == Reason::Misconfigured => Err(error),
            _ => Ok(receiver),
        }
    }

    fn verify(&self, request: &Request) -> Result<posthaste_webhooks::Verified, VerificationError> {
        let options = Options { brand: self.brand.as_deref(), ..Options::default() };
        let headers = request.headers.iter().map(|(name, value)| (name, value));
        verify(self.contract, headers, &request.body, &self.secrets, &options)
    }

    fn answer(&self, request: &Request) -> (u16, String) {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/webhooks") => self.receive(request),
            ("GET", "/healthz") => match fs::metadata(&self.data) {
                Ok(data) if data.is_dir() && !data.permissions().readonly() => (200, "healthy".to_owned()),
                _ => (503, "cannot write".to_owned()),
            },
            _ => (404, "POST to /webhooks".to_owned()),
        }
    }

    fn receive(&self, request: &Request) -> (u16, String) {
        if request.body.len() > BODY_BYTES_MAX {
            return (413, format!("at most {BODY_BYTES_MAX} bytes"));
        }
        let verified = match self.verify(request) {
            Ok(verified) => verified,
            Err(error) => {
                let status = if error.reason == Reason::Misconfigured { 500 } else { 400 };
                return (status, format!("{}: {error}", error.reason.as_str()));
            }
        };
        // The body is parsed only after verification.
        let field = verified.id_field.unwrap_or_default();
        let key = json::object(&request.body).and_then(|event| verified.id.or_else(|| event.text(field)));
        let Some(name) = key.as_deref().and_then(file_name) else {
            return (422, "not an event that this receiver understands".to_owned());
        };
        match keep(&self.data, &name, &request.body) {
            Ok(true) => (200, "received".to_owned()),
            Ok(false) => (200, "known already".to_owned()),
            Err(error) => {
                // Any other error is on this side, so the sender should retry.
                eprintln!("{error}");
                (500, "trouble here, please send it again".to_owned())
            }
        }
    }
}

/// Stores an event once. Returns false if it is stored already.
///
/// Rust has no database, so a file replaces the row: its name is the unique key, and a link creates it completely or not at
/// all, and only if the name is free. With a database this is
///
/// ```sql
/// CREATE TABLE received (id TEXT PRIMARY KEY, body BYTEA NOT NULL);
/// INSERT INTO received (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING; -- no row inserted: known already
/// ```
///
/// in one transaction with the work, if that is quick. Otherwise a worker of your own processes the received events, retries
/// failures, and stores those that keep failing: your own dead letters.
fn keep(data: &Path, name: &str, body: &[u8]) -> io::Result<bool> {
    let row = data.join(name);
    let draft = data.join(format!("draft.{:x}", RandomState::new().build_hasher().finish()));
    let mut file = fs::File::create_new(&draft)?;
    let kept = file.write_all(body).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&draft, &row));
    fs::remove_file(&draft)?;
    match kept {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        kept => kept.map(|()| true),
    }
}

/// Returns a unique file name for an id, even if file names ignore case. `None` if it would be too long.
fn file_name(key: &str) -> Option<String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let email = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    Some(key.bytes().map(email).collect::<String>()).filter(|name| (1..=200).contains(&name.len()))
}

fn main() -> ExitCode {
    let receiver = match Receiver::from_environment() {
        Ok(receiver) => Arc::new(receiver),
        Err(error) => {
            eprintln!("WEBHOOK_CONTRACT, WEBHOOK_BRAND or WEBHOOK_SECRET: {error}");
            return ExitCode::FAILURE;
        }
    };
    let port = env::var("PORT").unwrap_or_else(|_| "8000".to_owned());
    let listening = fs::create_dir_all(&receiver.data)
        .and_then(|()| TcpListener::bind(format!("127.0.0.1:{port}")))
        .and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = match listening {
        Ok(listening) => listening,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("listening on http://{address}");
    for stream in listener.incoming().flatten() {
        let receiver = receiver.clone();
        thread::spawn(move || http::serve(stream, |request| receiver.answer(request)));
    }
    ExitCode::SUCCESS
}

//! A complete receiver:  WEBHOOK_SECRET=whsec_… cargo run --example server
//!
//! Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over),
//! WEBHOOK_CONTRACT (standard), WEBHOOK_BRAND, PORT (8000; 0 takes a free one), DATA (the folder for what was received).
//!
//! The answers are the protocol: 2xx "done, or known already", 4xx "this one will never be right", 5xx "my fault, send it
//! again". HTTP is read by hand in `http.rs` and JSON in `json.rs`, so that nothing has to be installed; in earnest take the
//! web framework and the JSON reader of your choice, and keep `receive` and `keep`.

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
        // Only now is it worth parsing.
        let field = verified.id_field.unwrap_or_default();
        let key = json::object(&request.body).and_then(|event| verified.id.or_else(|| event.text(field)));
        let Some(name) = key.as_deref().and_then(file_name) else {
            return (422, "not an event that this receiver understands".to_owned());
        };
        match keep(&self.data, &name, &request.body) {
            Ok(true) => (200, "received".to_owned()),
            Ok(false) => (200, "known already".to_owned()),
            Err(error) => {
                // Whatever it is, it is ours: the sender tries again.
                eprintln!("{error}");
                (500, "trouble here, please send it again".to_owned())
            }
        }
    }
}

/// Keeps an event once and for all; false if it was here already.
///
/// Rust brings no database, so a file is the row: its name is the unique key, and a link puts it there whole or not at all,
/// and only if the name is free. With a database this is
///
/// ```sql
/// CREATE TABLE received (id TEXT PRIMARY KEY, body BYTEA NOT NULL);
/// INSERT INTO received (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING; -- no row inserted: known already
/// ```
///
/// in one transaction with the work, if that is quick. Else a worker of yours goes through what was received, tries again, and
/// puts aside what it cannot do: your own dead letters.
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

/// Every id has a name of its own, also where file names ignore case; `None` if that would be too long for one.
fn file_name(key: &str) -> Option<String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let letter =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    Some(key.bytes().map(letter).collect::<String>()).filter(|name| (1..=200).contains(&name.len()))
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

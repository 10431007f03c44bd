//! The outbound module with real sockets: receivers that misbehave, names that lie, certificates that do not fit.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

#[path = "../harness/certificates.rs"]
mod certificates;
mod cli_http;
mod gate;
mod get;
mod hostile;
mod mutual_tls;
mod names;
mod proxy;
mod proxy_server;
mod receiver;
mod reuse;
mod spelling;
mod ssrf;
mod tls;

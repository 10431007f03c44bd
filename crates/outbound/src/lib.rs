//! The only module that makes outbound connections. One `post` is one HTTP request and one `Outcome`; a request is
//! never repeated here.
//!
//! The way of a request: `client` takes a kept-alive connection from `pool` or has `connector` open one, `http_request` renders
//! the request, `connection` exchanges it for an answer, `answer` keeps the permitted part of it. If the operator sets a proxy,
//! all requests go through `proxy`. Mails (`smtp`) go to the operator's own server, and through no proxy. The send gate is
//! checked before a connection is opened and before the first byte of a request: while it is closed, no request goes out.

mod answer;
mod cli_http;
mod client;
mod connection;
mod connector;
mod http_connect;
mod http_request;
mod metered_stream;
mod pool;
mod progress;
mod proxy;
mod resolve;
mod send_error;
mod smtp;
mod socks;
mod stream;
mod tls;

pub use cli_http::{CliClient, ClientError, ClientRequest};
pub use client::{ClientOptions, HttpClient};
pub use resolve::{ResolveError, ResolveFuture, Resolver, SystemResolver};
pub use smtp::{CloseFuture, MailSecurity, Mailer, SendMailFuture, SendMailResult, SmtpMailer, SmtpOptions};
pub use tls::TlsError;

use bytes::Bytes;
use model::{id::EndpointId, outcome::Outcome, target_url::TargetUrl, tls::EndpointTls};
use std::{borrow::Cow, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Sends requests to receivers. The engine uses only this trait, so that a simulation can replace the network.
pub trait HttpSender: Send + Sync {
    /// Makes one POST and returns its outcome. Ends within `request.timeout`; the only error is `GateClosed`: this node may
    /// not send, and no byte went out.
    ///
    /// `OutcomeClass::StaleConnection` means: a kept-alive connection was lost before any byte of an answer. The caller
    /// posts again, with `fresh` set, and records both.
    fn post(&self, request: OutboundRequest) -> SendFuture<'_>;

    /// Makes one GET under the same rules. The request's body is not sent.
    fn get(&self, request: OutboundRequest) -> SendFuture<'_>;

    /// Closes connections that were idle too long; returns when to call again, if any are left. Must be called now
    /// and then, because no timer watches them.
    fn sweep(&self) -> Option<Instant> {
        None
    }
}

pub type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<Outcome, GateClosed>> + Send + 'a>>;

/// The send gate was closed. No request was made, so there is no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClosed;

/// A request, as the contract rendered it.
#[derive(Clone)]
pub struct OutboundRequest {
    /// Connections are kept per endpoint queue and never shared between queues.
    pub endpoint_id: EndpointId,
    pub target: TargetUrl,
    /// From the contract; these win over `extra_headers` of the same name.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The endpoint's own static headers.
    pub extra_headers: Arc<[(String, String)]>,
    /// The endpoint's own certificate and authorities; connections are never shared between different ones.
    pub tls: Option<Arc<EndpointTls>>,
    pub body: Bytes,
    /// From the look-up of the name to the last byte of the answer.
    pub timeout: Duration,
    pub https_only: bool,
    /// Open a new connection even if one is idle.
    pub fresh: bool,
}

/// Headers and body are not for logs: they hold secrets and the receiver's data.
impl fmt::Debug for OutboundRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("endpoint_id", &self.endpoint_id)
            .field("target", &self.target)
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .field("https_only", &self.https_only)
            .field("fresh", &self.fresh)
            .finish_non_exhaustive()
    }
}

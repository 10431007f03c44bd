//! The only room that calls out. One `post` is one HTTP request and one `Outcome`; nothing is ever sent twice here.
//!
//! The way of a request: `client` takes a kept-alive connection from `pool` or has `dial` open one, `message` renders
//! the request, `connection` exchanges it for an answer, `answer` keeps what may be kept of it. Where the operator has set
//! one, `proxy` is the only way out. Mails (`mail`) go to the operator's own server, and by no proxy. A gate is asked before a
//! connection is opened and before the first byte of a request: behind a closed one nothing goes out.

mod answer;
mod client;
mod connection;
mod dial;
mod errand;
mod fault;
mod http_connect;
mod layered;
mod mail;
mod message;
mod pool;
mod progress;
mod proxy;
mod resolve;
mod socks;
mod tls;
mod wire;

pub use client::{Client, Options};
pub use errand::{Errand, ErrandFailed, Runner};
pub use mail::{Mailed, Mailer, Mailing, Resting, Security, Smtp, SmtpOptions};
pub use resolve::{Resolve, ResolveError, Resolving, SystemResolver};
pub use tls::TlsError;

use crate::domain::{id::EndpointId, outcome::Outcome, target::Target, tls::EndpointTls};
use bytes::Bytes;
use std::{borrow::Cow, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Carries requests to receivers. The engine knows only this, so that a simulation can be the whole network.
pub trait Carrier: Send + Sync {
    /// Makes one POST and says what came of it; never fails otherwise, and ends within `request.timeout`. `NotSent` if this
    /// node may not send: then not a byte of it went out.
    ///
    /// `Class::StaleConnection` means: a kept-alive connection was lost before any byte of an answer. It is the
    /// caller who posts again, with `fresh` set, and who records both.
    fn post(&self, request: Request) -> Posting<'_>;

    /// Makes one GET under the same rules. The request's body is not sent.
    fn get(&self, request: Request) -> Posting<'_>;

    /// Closes connections that rested too long; says when to come back, if any are left. Must be called now and
    /// then, because no timer watches them.
    fn sweep(&self) -> Option<Instant> {
        None
    }
}

pub type Posting<'a> = Pin<Box<dyn Future<Output = Result<Outcome, NotSent>> + Send + 'a>>;

/// The gate was closed. No request was made, so there is nothing to tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSent;

/// One request, as the contract rendered it.
#[derive(Clone)]
pub struct Request {
    /// Connections are kept per lane and never shared between lanes.
    pub lane: EndpointId,
    pub target: Target,
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

/// Headers and body hold secrets and what belongs to the receiver: they are not for logs.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("lane", &self.lane)
            .field("target", &self.target)
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .field("https_only", &self.https_only)
            .field("fresh", &self.fresh)
            .finish_non_exhaustive()
    }
}

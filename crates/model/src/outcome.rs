//! Outcome of an HTTP request: the facts, before any decision about their meaning.

use super::time::Timestamp;
use bytes::Bytes;
use std::net::SocketAddr;

/// How an attempt ended, in the words that the API shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeClass {
    /// A complete answer whose status the contract counts as success.
    Ok,
    /// A complete answer with any other status.
    Http,
    /// The total deadline passed, wherever the request was by then.
    Timeout,
    Dns,
    /// No connection, or one that broke before a complete answer came.
    Connect,
    Tls,
    /// A kept-alive connection was lost before any byte of a response: tried again at once, not held against the receiver.
    StaleConnection,
    /// The address policy forbids the address; nothing was dialled.
    AddressRefused,
    /// A local failure (no file handles, no network, no resolver): not held against the receiver.
    Local,
    /// The node died while the request may have been on its way.
    Unknown,
}

impl OutcomeClass {
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Http,
        Self::Timeout,
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::StaleConnection,
        Self::AddressRefused,
        Self::Local,
        Self::Unknown,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Http => "http",
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::StaleConnection => "stale_connection",
            Self::AddressRefused => "address_refused",
            Self::Local => "local",
            Self::Unknown => "unknown",
        }
    }

    /// Whether an attempt of this class may use a slot of the schedule, and so have a number.
    pub const fn is_numbered(self) -> bool {
        !matches!(self, Self::StaleConnection | Self::Local | Self::Unknown)
    }
}

/// Duration of each phase of an attempt, in microseconds. A phase that did not happen (a reused connection has no
/// DNS, connect or TLS) is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    pub dns_us: Option<u32>,
    pub connect_us: Option<u32>,
    pub tls_us: Option<u32>,
    pub first_byte_us: Option<u32>,
    pub total_us: u32,
}

/// The facts of one finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The contract's response rules decide between `Ok` and `Http`; the HTTP client reports any complete
    /// response as `Http`.
    pub class: OutcomeClass,
    pub status: Option<u16>,
    /// Description for people; never holds a secret.
    pub error: Option<String>,
    pub timings: Timings,
    pub address: Option<SocketAddr>,
    /// The `Retry-After` header as it came, at most 64 bytes of it.
    pub retry_after: Option<String>,
    /// At most 32 headers of at most 256 bytes each, as they came.
    pub response_headers: Vec<(String, Bytes)>,
    /// At most the first 1 KiB of the answer.
    pub response_body: Bytes,
}

impl Outcome {
    /// An outcome without an answer.
    pub fn failed(class: OutcomeClass, error: impl Into<String>) -> Self {
        Self {
            class,
            status: None,
            error: Some(error.into()),
            timings: Timings::default(),
            address: None,
            retry_after: None,
            response_headers: Vec::new(),
            response_body: Bytes::new(),
        }
    }
}

/// An attempt as it is written into the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub started_at: Timestamp,
    pub outcome: Outcome,
    /// Which contract rendered the request, so that it can be rendered again for display.
    pub contract: super::contract::ContractHash,
    /// Which revision of the endpoint it went to.
    pub endpoint_revision: u32,
    /// Requested URL, kept when the attempt failed: later views must show that address, not the current one.
    pub url: Option<String>,
    /// Reason for its time, in words, where the schedule does not explain it.
    pub note: Option<String>,
}

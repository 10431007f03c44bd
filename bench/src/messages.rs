//! The orders and answers that pass between the command and its sender and receiver processes, one JSON line each.

use serde::{Deserialize, Serialize};

/// Everything the receiver needs to know of one transfer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ReceiverPlan {
    /// First segment of every path; requests of other transfers are strays.
    pub transfer: String,
    pub events: usize,
    pub endpoints: Vec<TargetEndpoint>,
    /// None: signatures are not verified.
    pub signature: Option<SignatureHeaders>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TargetEndpoint {
    /// Event `n` goes to the endpoints of app `n % apps`.
    pub app: usize,
    pub behaviour: Behaviour,
    /// Secret of the signatures, once the endpoint exists.
    pub secret: Option<String>,
}

impl TargetEndpoint {
    pub fn of(app: usize, behaviour: Behaviour) -> Self {
        Self { app, behaviour, secret: None }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// Answers 200 at once.
    Accept,
    /// Answers 200 after so many milliseconds.
    AcceptAfter(u64),
    /// Reads the request and does not answer.
    Hang,
}

/// Names of the headers that carry a Standard Webhooks signature.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SignatureHeaders {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverOrder {
    /// Forgets the transfer before and expects this one.
    Begin(ReceiverPlan),
    Count,
    /// Arrivals of the present transfer.
    Arrivals,
    Cpu,
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct ReceiverCounts {
    /// Pairs of event and accepting endpoint that arrived.
    pub distinct: u64,
    /// Arrivals of a pair beyond its first.
    pub duplicates: u64,
    pub bad_signatures: u64,
    /// Requests without an event number or for no endpoint.
    pub bad_requests: u64,
    /// Requests to endpoints that hang.
    pub left_hanging: u64,
    /// Requests of another transfer.
    pub strays: u64,
    pub connections: u64,
    pub last_arrival_ns: u64,
}

/// Request that publishes an event, without its payload.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RequestTemplate {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Parts of the body before and behind the payload.
    pub body: [String; 2],
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Closed loop: so many senders, each of which sends its next event when the last one was answered.
    Senders(usize),
    /// Open loop: so many events a second, however long the answers take.
    PerSecond(f64),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SenderPlan {
    pub transfer: String,
    pub events: usize,
    /// Requests, one for each app; event `n` is sent with request `n % apps`.
    pub requests: Vec<RequestTemplate>,
    pub pace: Pace,
    pub payload_bytes: usize,
    /// Name of the header for a random key with each event.
    pub idempotency_header: Option<String>,
    /// Events that were not begun by then are not sent.
    pub seconds_max: u64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderOrder {
    Send(SenderPlan),
    /// Times of the present transfer.
    Times,
    Cpu,
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct SenderCounts {
    pub accepted: u64,
    /// Answered with something else than 2xx.
    pub rejected: u64,
    pub first_rejection: Option<String>,
    /// The connection broke before the answer: such an event may or may not arrive.
    pub unanswered: u64,
    /// Not begun in time, or never connected.
    pub unsent: u64,
    pub connections: u64,
    pub began_ns: u64,
    pub last_accept_ns: u64,
}

/// Instants of each event, 0 where there is none.
#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct SenderTimes {
    /// When the event was sent; in an open loop when it was due.
    pub sent_ns: Vec<u64>,
    pub accepted_ns: Vec<u64>,
}

/// First arrival of event `e` at endpoint `k`, at index `e * endpoints + k`; 0 where there is none.
#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct Arrivals {
    pub first_ns: Vec<u64>,
}

/// First line of the receiver.
#[derive(Debug, Deserialize, Serialize)]
pub struct Listening {
    pub port: u16,
}

//! What people ask of the statistics, and what they are told.

use crate::domain::{
    id::{AppId, EndpointId},
    statistics::{Span, Sums},
    time::Timestamp,
};

/// Endpoints and event types beyond these are left out of an answer.
pub const TOLD_MAX: usize = 50;
/// Endpoints beyond these are not looked at, neither for their numbers nor for what they hold.
pub const ENDPOINTS_EXAMINED_MAX: usize = 5_000;
/// What waits, or is held, is not counted further.
pub const BACKLOG_COUNTED_MAX: u64 = 100_000;

#[derive(Clone, Debug)]
pub struct StatisticsSearch {
    /// `None`: all of them.
    pub app: Option<AppId>,
    pub of: Of,
    pub span: Span,
    /// Those of the app, or of all.
    pub endpoints: Vec<(AppId, EndpointId)>,
}

/// What the series is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    Everything,
    Endpoint(EndpointId),
    EventType(String),
}

#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// In the order of time; rows that there are.
    pub series: Vec<(Timestamp, Sums)>,
    /// The one that fails most first. Empty where the series is of an event type.
    pub endpoints: Vec<(EndpointId, Sums)>,
    /// The busiest first. Empty where the series is of an endpoint.
    pub event_types: Vec<(String, Sums)>,
    pub backlog: Backlog,
}

/// What is not delivered yet: of the endpoint, the app or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub waiting: u64,
    pub held: u64,
    /// When the one that is due first is or was due.
    pub oldest_due: Option<Timestamp>,
}

//! Statistics: their rollup, and queries about them.

use super::{
    Reply, Store,
    sql::{rollup, statistics_query},
};
use crate::domain::{
    id::{AppId, EndpointId},
    statistics::{Counters, TimeRange},
    time::Timestamp,
};
use std::time::Duration;

/// Endpoints and event types beyond these are left out of a result.
pub const STATISTICS_ROWS_MAX: usize = 50;
/// Endpoints beyond these are not examined, neither for their counters nor for their backlog.
pub const ENDPOINTS_EXAMINED_MAX: usize = 5_000;
/// Waiting or held deliveries beyond these are not counted.
pub const BACKLOG_COUNTED_MAX: u64 = 100_000;

#[derive(Clone, Debug)]
pub struct StatisticsSearch {
    /// All apps if `None`.
    pub app: Option<AppId>,
    pub subject: StatisticsSubject,
    pub span: TimeRange,
    /// The endpoints of the app, or of all apps.
    pub endpoints: Vec<(AppId, EndpointId)>,
}

/// Subject of the series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatisticsSubject {
    Everything,
    Endpoint(EndpointId),
    EventType(String),
}

#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// In the order of time; only rows that exist.
    pub series: Vec<(Timestamp, Counters)>,
    /// Most failures first. Empty where the series is of an event type.
    pub endpoints: Vec<(EndpointId, Counters)>,
    /// Busiest first. Empty where the series is of an endpoint.
    pub event_types: Vec<(String, Counters)>,
    pub backlog: Backlog,
}

/// Deliveries not delivered yet: of the endpoint, the app or all apps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub waiting: u64,
    pub held: u64,
    /// When the first due of them is or was due.
    pub oldest_due: Option<Timestamp>,
}

/// Result of a statistics rollup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollupResult {
    /// Endpoints whose health windows may have changed: something failed, or something happened while they are degraded.
    pub candidates: Vec<EndpointId>,
    /// How many statistics rows were written.
    pub rows: usize,
    /// The log holds more rows to roll up at once.
    pub has_more: bool,
}

impl Store {
    /// Returns statistics as of the last rollup, and the backlog as it is now. Reads counters, never attempts.
    pub fn statistics(&self, search: StatisticsSearch) -> Reply<Statistics> {
        self.backend.read(move |connection| statistics_query::statistics(connection, &search))
    }

    /// Adds the statistics that commits logged, a bounded part of them, and removes a few expired rows. Stores the
    /// outage-adjusted time where it may be needed.
    pub fn roll_up(&self, adjusted_time: Duration, now: Timestamp) -> Reply<RollupResult> {
        let backend = self.backend.clone();
        Box::pin(async move {
            let part = backend.read_for_engine(rollup::next_part).await?;
            backend.write(move |tx| rollup::roll_up(tx, &part, adjusted_time, now)).await
        })
    }
}

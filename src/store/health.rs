//! Health of endpoints: evaluated from the statistics, loaded when a node starts, and shown to people.

use super::{Reply, Store, sql::health};
use crate::domain::{
    circuit_breaker::PausedUntil,
    contract::Contract,
    health::Health,
    id::{AppId, EndpointId},
    live_update::LiveUpdate,
    statistics::Counters,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

/// Health of an endpoint, with its counters.
#[derive(Clone, Debug, Default)]
pub struct HealthReport {
    pub health: Health,
    pub hour: Counters,
    pub day: Counters,
    pub three_days: Counters,
    /// As far back as statistics are kept.
    pub last_success_at: Option<Timestamp>,
    /// Outage-adjusted time, and when it was stored.
    pub clock: Option<(Duration, Timestamp)>,
}

/// Health state that a node loads when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthBootstrap {
    /// Outage-adjusted time that has passed in all: the time for which receivers can be held to account.
    pub adjusted_time: Duration,
    /// Endpoints that have only failed for long: their queues start as not trusted.
    pub failing: Vec<EndpointId>,
    /// Endpoints that asked for a pause which is not over.
    pub paused: Vec<(EndpointId, PausedUntil)>,
    /// Endpoints that accepted a delivery in the last days.
    pub healthy: Vec<EndpointId>,
}

/// An enabled endpoint, to be evaluated by its contract.
#[derive(Clone, Debug)]
pub struct HealthCandidate {
    pub app: AppId,
    pub endpoint: EndpointId,
    pub contract: Arc<Contract>,
}

impl Store {
    /// Returns an endpoint's health as of the last statistics rollup.
    pub fn health(&self, app: AppId, endpoint: EndpointId, now: Timestamp) -> Reply<HealthReport> {
        self.backend.read(move |connection| health::report(connection, app, endpoint, now))
    }

    /// The endpoints of an app that are degraded or failing.
    pub fn unhealthy_endpoints(&self, app: AppId) -> Reply<Vec<EndpointId>> {
        self.backend.read(move |connection| health::unhealthy_endpoints(connection, app))
    }

    /// Returns the health state that a node starts with.
    pub fn health_bootstrap(&self, now: Timestamp) -> Reply<HealthBootstrap> {
        self.backend.read_for_engine(move |connection| health::health_bootstrap(connection, now))
    }

    /// Returns every degraded endpoint.
    pub fn degraded(&self) -> Reply<Vec<EndpointId>> {
        self.backend.read_for_engine(health::degraded)
    }

    /// Marks these endpoints degraded or healthy as their windows say, writes notices, and disables those whose events ended
    /// failed too often without an attempt. The engine is notified after the commit.
    pub fn evaluate_health(&self, candidates: Vec<HealthCandidate>, now: Timestamp) -> Reply<()> {
        let reply = self.backend.write_then(
            move |tx| health::evaluate_health(tx, &candidates, now),
            |changes, after| {
                after.disabled.extend(changes.disabled.iter().cloned());
                after.publish(
                    changes.changed.iter().map(|(app, endpoint)| LiveUpdate::endpoint(*app, *endpoint)),
                );
            },
        );
        Box::pin(async move { reply.await.map(drop) })
    }
}

//! Endpoint health: state, the failures that led to it, and attempt counts.

use super::{Error, Service};
use crate::{
    domain::{endpoint::Endpoint, health::Health, id::EndpointId, statistics::Counters, time::Timestamp},
    runtime::CachedApp,
};
use std::collections::HashSet;

/// An endpoint's health with attempt counts per window.
#[derive(Clone, Debug)]
pub struct EndpointHealth {
    pub state: &'static str,
    pub since: Timestamp,
    pub health: Health,
    /// When the endpoint will be disabled, if no attempt succeeds and no local outage intervenes.
    pub disables_at: Option<Timestamp>,
    pub last_success_at: Option<Timestamp>,
    /// By window name.
    pub windows: [(&'static str, Counters); 3],
}

impl Service {
    pub async fn endpoint_health(&self, entry: &CachedApp, uid: &str) -> Result<EndpointHealth, Error> {
        let endpoint = Self::endpoint_of(entry, uid)?;
        let report = self.query_store.health(endpoint.record.app, endpoint.id(), self.clock.now()).await?;
        let health = report.health;
        let (state, since) = match &endpoint.record.disabled {
            Some(off) => ("disabled", off.at),
            None => (health.state().name(), health.state_since().unwrap_or(endpoint.record.created_at)),
        };
        let disables_at =
            report.clock.filter(|_| endpoint.record.disabled.is_none()).and_then(|(clock, at)| {
                health.disables_in(&endpoint.contract.health, clock).map(|left| at.plus(left))
            });
        Ok(EndpointHealth {
            state,
            since,
            health,
            disables_at,
            last_success_at: report.last_success_at,
            windows: [("1h", report.hour), ("24h", report.day), ("72h", report.three_days)],
        })
    }

    /// Returns the endpoints of an app that are degraded or failing.
    pub async fn endpoints_in_trouble(&self, entry: &CachedApp) -> Result<HashSet<EndpointId>, Error> {
        Ok(self.query_store.unhealthy_endpoints(entry.app().id).await?.into_iter().collect())
    }

    /// Whether the endpoint is degraded or failing.
    pub async fn is_in_trouble(&self, entry: &CachedApp, endpoint: &Endpoint) -> Result<bool, Error> {
        Ok(self.endpoints_in_trouble(entry).await?.contains(&endpoint.id()))
    }
}

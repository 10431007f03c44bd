//! Evaluates endpoints' health: rolls statistics up, evaluates endpoints by their windows, writes down outage-adjusted time.
//! The effect of an attempt on its endpoint is decided in the store, with the attempt.

use super::{DeliveryWorker, EndpointQueues, LAST_WRITE_TIMEOUT, clock_sync::ClockSync, leader::LeaderRole};
use crate::{
    domain::{id::EndpointId, time::Timestamp},
    runtime::{Clock, ConfigCache, OutageDetector, Shutdown},
    store::{
        ClusterStore, StoreError,
        cluster::{HealthCandidate, RollupResult},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Endpoints that are evaluated in one transaction.
const CANDIDATES_PER_STEP: usize = 50;
/// Pause for each row that was rolled up: twenty times what it takes, or more, so that statistics cost at most a twentieth
/// of a processor, as long as the longest pause is enough for that.
const ROLL_UP_PAUSE_PER_ROW: Duration = Duration::from_micros(400);
/// Longest such pause: people read the statistics, and outage-adjusted time is read with them.
const ROLL_UP_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pause before the same endpoint is evaluated again: windows are long, and reading them costs a hundred rows.
const SAME_ENDPOINT_AFTER: Duration = Duration::from_secs(5);
/// How often degraded endpoints are evaluated that had nothing new: time alone may make them healthy.
const DEGRADED_EVERY: Duration = Duration::from_mins(1);
/// Without a reading of the clock for so many rounds, no process was running.
const INTERVALS_MISSED_MAX: u32 = 60;

pub(super) struct HealthWorker {
    config_cache: Arc<ConfigCache>,
    cluster_store: Arc<dyn ClusterStore>,
    clock: Arc<dyn Clock>,
    outage_detector: Arc<OutageDetector>,
    every: Duration,
    candidates: BTreeSet<EndpointId>,
    /// Endpoints that were evaluated lately, and when they may be again.
    evaluated: BTreeMap<EndpointId, Timestamp>,
    /// When all degraded endpoints are evaluated next.
    degraded_at: Timestamp,
    leader: LeaderRole,
}

impl HealthWorker {
    /// Restores how things stood when the last process ended: in the outage detector, and for failing and paused endpoints.
    pub(super) async fn begin(
        delivery_worker: &DeliveryWorker,
        queues: &EndpointQueues,
        cluster_store: Arc<dyn ClusterStore>,
        every: Duration,
    ) -> Result<Self, StoreError> {
        let DeliveryWorker { config_cache, outage_detector: detector, clock, .. } = delivery_worker;
        let now = clock.now();
        let health = cluster_store.health_bootstrap(now).await?;
        detector.start(health.adjusted_time, every * INTERVALS_MISSED_MAX, now);
        for endpoint in health.failing {
            queues.start_half_open(endpoint, now);
        }
        for (endpoint, paused) in health.paused {
            queues.resume_pause(endpoint, paused, now);
        }
        for endpoint in health.healthy.into_iter().filter_map(|id| config_cache.endpoint(id)) {
            detector.restore_answered_host(endpoint.record.app, endpoint.target.host(), now);
        }
        Ok(Self {
            config_cache: config_cache.clone(),
            cluster_store,
            clock: clock.clone(),
            outage_detector: detector.clone(),
            every,
            candidates: BTreeSet::new(),
            evaluated: BTreeMap::new(),
            degraded_at: now,
            leader: LeaderRole { node_state: queues.node_state().clone(), clock: clock.clone() },
        })
    }

    pub(super) async fn run(mut self, stop: Shutdown) {
        let clock_sync = self.clock_sync();
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work() => {}
            () = clock_sync.work() => {}
        }
        let Some(_turn) = self.leader.try_lead() else { return };
        // The time up to here counts; the rest of the log waits for the next process.
        match tokio::time::timeout(LAST_WRITE_TIMEOUT, self.roll_up()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "could not write statistics"),
            Err(_) => tracing::warn!("statistics not stored in time; the next start rolls them up"),
        }
    }

    fn clock_sync(&self) -> ClockSync {
        ClockSync {
            cluster_store: self.cluster_store.clone(),
            clock: self.clock.clone(),
            outage_detector: self.outage_detector.clone(),
            node_state: self.leader.node_state.clone(),
        }
    }

    async fn work(&mut self) {
        loop {
            let leadership = self.leader.lead().await;
            let come_back = self.step().await;
            drop(leadership);
            self.clock.idle_until(come_back).await;
        }
    }

    /// Rolls up what there is and evaluates endpoints. Returns when to come back.
    pub(super) async fn step(&mut self) -> Timestamp {
        let (rest, done) = match self.roll_up().await {
            Ok(rows) => (pause_after(rows), self.evaluate().await),
            Err(error) => (Duration::ZERO, Err(error)),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "could not evaluate endpoints' health");
        }
        self.clock.now().plus(self.every.max(rest))
    }

    /// Rolls up everything there is. Returns how many rows that took.
    async fn roll_up(&mut self) -> Result<usize, StoreError> {
        let mut all = 0;
        loop {
            let now = self.clock.now();
            let RollupResult { candidates, rows, has_more } =
                self.cluster_store.roll_up(self.outage_detector.adjusted_time(now), now).await?;
            self.candidates.extend(candidates);
            all += rows;
            if !has_more {
                return Ok(all);
            }
        }
    }

    async fn evaluate(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        // A clock that was set back must not delay an evaluation.
        if self.degraded_at <= now || self.degraded_at.since(now) > DEGRADED_EVERY {
            self.candidates.extend(self.cluster_store.degraded().await?);
            self.degraded_at = now.plus(DEGRADED_EVERY);
        }
        self.evaluated.retain(|_, again| now < *again && again.since(now) <= SAME_ENDPOINT_AFTER);
        let due: Vec<EndpointId> =
            self.candidates.iter().filter(|id| !self.evaluated.contains_key(id)).copied().collect();
        for some in due.chunks(CANDIDATES_PER_STEP) {
            let candidates: Vec<HealthCandidate> = some.iter().filter_map(|id| self.candidate(*id)).collect();
            if !candidates.is_empty() {
                self.cluster_store.evaluate_health(candidates, now).await?;
            }
        }
        for endpoint in due {
            self.candidates.remove(&endpoint);
            self.evaluated.insert(endpoint, now.plus(SAME_ENDPOINT_AFTER));
        }
        Ok(())
    }

    /// Returns the endpoint as a candidate for evaluation, unless it is disabled or deleted.
    fn candidate(&self, id: EndpointId) -> Option<HealthCandidate> {
        let endpoint =
            self.config_cache.endpoint(id).filter(|endpoint| endpoint.record.disabled.is_none())?;
        Some(HealthCandidate { app: endpoint.record.app, endpoint: id, contract: endpoint.contract.clone() })
    }
}

fn pause_after(rows: usize) -> Duration {
    ROLL_UP_PAUSE_PER_ROW.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX)).min(ROLL_UP_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_rows_rolled_up_but_is_never_so_long_that_time_is_lost() {
        assert_eq!(pause_after(0), Duration::ZERO);
        assert_eq!(pause_after(2500), Duration::from_secs(1));
        assert_eq!(pause_after(usize::MAX), ROLL_UP_PAUSE_MAX);
        assert!(ROLL_UP_PAUSE_MAX < Duration::from_secs(1) * INTERVALS_MISSED_MAX);
    }
}

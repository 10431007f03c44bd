//! Removes what has outlived its retention, in small steps. The store decides on what it finds; this file decides where to
//! search and when.
//!
//! For each age at which a contract lets something go, a scan goes through the events in order of their ids and follows that
//! age. Whatever was not due yet when a scan came by, because it ended late or a contract was changed, is found when the
//! scan starts over from the oldest event; that is soon where little is kept, and once a day at the latest.

use super::leader::LeaderRole;
use crate::{
    domain::{
        id::{EndpointId, first_id_at},
        time::Timestamp,
    },
    runtime::{Clock, ConfigCache, Metrics, RemovedKind, Shutdown},
    store::{
        ClusterStore, DeliveryStore, StoreError,
        retention::{EventIdRanges, ExpireResult, OverdueSearch},
    },
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Events that a reader examines in one go.
const EVENTS_PER_SCAN_STEP: u32 = 1000;
/// Shortest pause between two steps; as long as the last one took if that was longer: deliveries come first.
const STEP_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Pause after a store error.
const RETENTION_ERROR_PAUSE: Duration = Duration::from_secs(1);

/// A scan starts over after an eighth of its age, within these bounds.
const RESCAN_AFTER_MIN: Duration = Duration::from_mins(1);
const RESCAN_AFTER_MAX: Duration = Duration::from_hours(24);
/// Shortest pause before a scan starts over, as a multiple of how long it took.
const RESCAN_PAUSE_FACTOR: u32 = 50;

pub(super) struct RetentionWorker {
    pub(super) config_cache: Arc<ConfigCache>,
    pub(super) delivery_store: Arc<dyn DeliveryStore>,
    pub(super) cluster_store: Arc<dyn ClusterStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    /// How often it checks when there is nothing to do.
    pub(super) every: Duration,
    pub(super) scans: Vec<RetentionScan>,
    pub(super) leader: LeaderRole,
}

/// Scan of one retention age through the events.
pub(super) struct RetentionScan {
    age: Duration,
    /// Every event up to this id was examined since it began.
    reached: i64,
    began_at: Timestamp,
    /// When it starts over; `None` until it has caught up with its age.
    again_at: Option<Timestamp>,
}

impl RetentionScan {
    fn new(age: Duration, now: Timestamp) -> Self {
        Self { age, reached: 0, began_at: now, again_at: None }
    }

    fn mark_caught_up(&mut self, now: Timestamp) {
        if self.again_at.is_none() {
            let rest = now.since(self.began_at).saturating_mul(RESCAN_PAUSE_FACTOR);
            self.again_at = Some(
                now.plus(rest)
                    .max(self.began_at.plus((self.age / 8).clamp(RESCAN_AFTER_MIN, RESCAN_AFTER_MAX))),
            );
        }
    }
}

impl RetentionWorker {
    pub(super) async fn run(mut self, stop: Shutdown) {
        // A step is one transaction: stopping between two of them leaves nothing half done.
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        loop {
            self.follow_contracts();
            for index in 0..self.scans.len() {
                while let Err(error) = self.scan(index).await {
                    tracing::warn!(%error, "could not remove what has outlived its retention");
                    self.sleep(RETENTION_ERROR_PAUSE).await;
                }
            }
            self.sleep(self.every).await;
        }
    }

    async fn sleep(&self, time: Duration) {
        self.clock.idle_until(self.clock.now().plus(time)).await;
    }

    /// Keeps one scan for each age that there is now.
    fn follow_contracts(&mut self) {
        let (ages, now) = (self.config_cache.retention_ages(), self.clock.now());
        self.scans.retain(|walk| ages.contains(&walk.age));
        for age in ages {
            if !self.scans.iter().any(|walk| walk.age == age) {
                self.scans.push(RetentionScan::new(age, now));
            }
        }
    }

    /// Scans until it has caught up with its age.
    async fn scan(&mut self, index: usize) -> Result<(), StoreError> {
        loop {
            let leadership = self.leader.lead().await;
            let now = self.clock.now();
            let walk = &mut self.scans[index];
            // A clock that was set back must not delay the scan until it is as late again.
            if walk.again_at.is_some_and(|at| at <= now) || walk.began_at > now {
                *walk = RetentionScan::new(walk.age, now);
            }
            let age_ms = i64::try_from(walk.age.as_millis()).unwrap_or(i64::MAX);
            let oldest_kept = Timestamp::from_millis(now.as_millis().saturating_sub(age_ms));
            let to_id = first_id_at(oldest_kept);
            let search = OverdueSearch { after_id: walk.reached, to_id, most: EVENTS_PER_SCAN_STEP };
            if search.to_id > search.after_id + 1 {
                let overdue = self.cluster_store.overdue(search, self.config_cache.clone(), now).await?;
                self.expire(overdue.ranges).await?;
                let walk = &mut self.scans[index];
                walk.reached = if overdue.is_last { to_id - 1 } else { overdue.reached };
                if !overdue.is_last {
                    let took = self.clock.now().since(now);
                    drop(leadership);
                    self.sleep(took.max(STEP_PAUSE_MIN)).await;
                    continue;
                }
            }
            let now = self.clock.now();
            self.scans[index].mark_caught_up(now);
            return Ok(());
        }
    }

    async fn expire(&self, mut ranges: EventIdRanges) -> Result<(), StoreError> {
        while !ranges.is_empty() {
            let began = self.clock.now();
            let expired = self.delivery_store.expire(ranges, self.config_cache.clone(), began).await?;
            self.report(&expired);
            ranges = expired.remaining;
            if !ranges.is_empty() {
                let took = self.clock.now().since(began);
                self.sleep(took.max(STEP_PAUSE_MIN)).await;
            }
        }
        Ok(())
    }

    /// Counts what was removed, and logs deliveries that retention ended.
    fn report(&self, expired: &ExpireResult) {
        for (what, count) in [
            (RemovedKind::Events, expired.events),
            (RemovedKind::Deliveries, expired.deliveries),
            (RemovedKind::Attempts, expired.attempts),
            (RemovedKind::Payloads, expired.payloads),
        ] {
            self.metrics.count_removed(what, count);
        }
        self.metrics.count_ended_by_retention(expired.ended.len() as u64);
        let mut by_endpoint: BTreeMap<EndpointId, usize> = BTreeMap::new();
        for (_, endpoint) in &expired.ended {
            *by_endpoint.entry(*endpoint).or_default() += 1;
        }
        for (endpoint, deliveries) in by_endpoint {
            tracing::warn!(%endpoint, deliveries, "the retention of events ended while deliveries of them waited");
        }
    }
}

//! Housekeeping in small steps: applies changed endpoint states to waiting deliveries, removes what deleted apps left behind
//! and old audit records, keeps the gauges, measures the store, closes unused connections, writes down when keys were last
//! used.

use super::{Intervals, endpoint_queues::EndpointQueues, leader::LeaderRole};
use crate::{
    domain::{contract::RetentionPeriod, delivery::Availability, id::EndpointId, time::Timestamp},
    outbound::HttpSender,
    runtime::{Clock, ConfigCache, Metrics, Shutdown, StorageSpace},
    store::{ClusterStore, DeliveryStore, QueryStore, StoreError, deliveries::AvailabilityChange},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

const APPLY_STEP: usize = 500;
/// Pause after a store error.
const APPLY_ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two steps of a purge: a step is a few thousand rows, so that it keeps up with what comes in.
const PURGE_PAUSE: Duration = Duration::from_millis(100);
/// The store is measured again after so many times as long as that took, at the latest after `MEASURE_PAUSE_MAX`.
const MEASURE_PAUSE_FACTOR: u32 = 500;
const MEASURE_PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) struct Housekeeping {
    pub(super) queues: Arc<EndpointQueues>,
    pub(super) changed_endpoints: mpsc::UnboundedReceiver<EndpointId>,
    pub(super) config_cache: Arc<ConfigCache>,
    pub(super) delivery_store: Arc<dyn DeliveryStore>,
    pub(super) cluster_store: Arc<dyn ClusterStore>,
    pub(super) query_store: Arc<dyn QueryStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) intervals: Intervals,
    pub(super) http_sender: Arc<dyn HttpSender>,
    pub(super) measure_at: Timestamp,
    pub(super) count_at: Timestamp,
    pub(super) purge_at: Timestamp,
    pub(super) key_uses_at: Timestamp,
    pub(super) audit_removal_at: Timestamp,
    pub(super) storage: Arc<StorageSpace>,
    pub(super) audit_retention: RetentionPeriod,
    pub(super) leader: LeaderRole,
}

impl Housekeeping {
    pub(super) async fn run(mut self, stop: Shutdown) {
        // Stops in the middle of a step: applying an endpoint's state waits for a store that cannot write, and stopping must
        // not.
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work() => {}
        }
        self.write_key_uses().await;
    }

    async fn work(&mut self) {
        self.apply_all_unapplied().await;
        let arrived = self.queues.shards_gained.clone();
        let mut come_back = self.step().await;
        loop {
            let has_slept = tokio::select! {
                biased;
                changed = self.changed_endpoints.recv() => match changed {
                    Some(endpoint) => {
                        self.apply_to_waiting(endpoint).await;
                        false
                    }
                    None => return,
                },
                () = arrived.notified() => {
                    self.apply_all_unapplied().await;
                    false
                }
                () = self.clock.idle_until(come_back) => true,
            };
            // Not after each of many changes, so that the store is not measured needlessly.
            if has_slept || come_back <= self.clock.now() {
                come_back = self.step().await;
            }
        }
    }

    /// Updates the gauges, and now and then counts, purges and removes old records. Returns when to come back.
    pub(super) async fn step(&mut self) -> Timestamp {
        let now = self.clock.now();
        self.metrics.set_in_flight(self.queues.permits_out() as u64);
        let (paused, open) = self.queues.throttled_counts(now);
        self.metrics.set_throttled_endpoints(paused as u64, open as u64);
        let oldest = self.queues.oldest_due();
        self.metrics.set_oldest_overdue(oldest.map_or(0, |due| now.since(due).as_millis() as u64));
        if self.measure_at.is_due(MEASURE_PAUSE_MAX, now) {
            self.measure(now).await;
        }
        if self.count_at.is_due(self.intervals.count, now) {
            self.count_at = now.plus(self.intervals.count);
            self.http_sender.sweep();
            match self.query_store.waiting_count().await {
                Ok(count) => self.metrics.set_waiting(count),
                Err(error) => tracing::warn!(%error, "could not count what waits"),
            }
            match self.query_store.notices_waiting().await {
                Ok(waiting) => self.metrics.set_notices_waiting(waiting.mails, waiting.webhooks),
                Err(error) => tracing::warn!(%error, "could not count the notices that wait"),
            }
        }
        if self.purge_at.is_due(self.intervals.purge, now) {
            self.purge_at = now.plus(self.intervals.purge);
            self.purge(now).await;
        }
        if self.key_uses_at.is_due(self.intervals.key_uses, now) {
            self.key_uses_at = now.plus(self.intervals.key_uses);
            self.write_key_uses().await;
        }
        if self.audit_removal_at.is_due(self.intervals.audit_retention, now)
            && let Some(_turn) = self.leader.try_lead()
        {
            self.audit_removal_at = now.plus(self.intervals.audit_retention);
            self.remove_old_audit(now).await;
        }
        now.plus(self.intervals.gauges).min(self.purge_at)
    }

    /// Measures the store. With many tables that takes long, so it is done rarely, and what is accepted meanwhile is added
    /// up.
    async fn measure(&mut self, now: Timestamp) {
        match self.cluster_store.usage().await {
            Ok(usage) => self.storage.set_usage(usage),
            Err(error) => tracing::warn!(%error, "could not measure the store"),
        }
        let took = self.clock.now().since(now);
        self.measure_at = now.plus(took.saturating_mul(MEASURE_PAUSE_FACTOR).min(MEASURE_PAUSE_MAX));
    }

    /// Removes one step of what deleted apps left behind.
    async fn purge(&mut self, now: Timestamp) {
        let purged = match self.leader.try_lead() {
            Some(_turn) => self.cluster_store.purge_deleted_apps().await,
            None => Ok(false),
        };
        match purged {
            // More to do: one step now and then, so that deliveries never wait behind it.
            Ok(true) => self.purge_at = now.plus(PURGE_PAUSE),
            Ok(false) => self.queues.forget_deleted(),
            Err(error) => tracing::warn!(%error, "could not purge"),
        }
    }

    /// Removes one step of old audit records.
    async fn remove_old_audit(&mut self, now: Timestamp) {
        let RetentionPeriod::For(kept) = self.audit_retention else { return };
        let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.as_millis().saturating_sub(kept_ms));
        match self.cluster_store.purge_records(before).await {
            Ok(forgotten) => {
                forgotten.keys.into_iter().for_each(|key| self.config_cache.remove_key(key));
                if forgotten.has_more {
                    self.audit_removal_at = now;
                }
            }
            Err(error) => tracing::warn!(%error, "could not remove old records"),
        }
    }

    /// Writes down when keys were last used: one write for all that were used since the last, and none if there was no use.
    async fn write_key_uses(&self) {
        let uses = self.config_cache.unwritten_uses();
        if uses.is_empty() {
            return;
        }
        match self.cluster_store.record_key_uses(uses.clone()).await {
            Ok(()) => self.config_cache.mark_uses_written(&uses),
            Err(error) => tracing::warn!(%error, "could not write down when keys were last used"),
        }
    }

    async fn apply_all_unapplied(&self) {
        match self.cluster_store.endpoints_to_apply().await {
            Ok(endpoints) => {
                for endpoint in endpoints {
                    self.apply_to_waiting(endpoint).await;
                }
            }
            Err(error) => tracing::warn!(%error, "could not find endpoints whose state has to be applied"),
        }
    }

    /// Applies the endpoint's state to its waiting deliveries: page by page, each in a commit of its own, until nothing is
    /// left. The state is read anew each time. An endpoint that another node owns is left to that node.
    async fn apply_to_waiting(&self, endpoint: EndpointId) {
        while self.queues.is_owned_here(endpoint) {
            let settle = match self.config_cache.endpoint(endpoint) {
                None => AvailabilityChange::Disabled(Availability::Deleted),
                Some(endpoint) => match endpoint.record.availability() {
                    Availability::Enabled => AvailabilityChange::Enabled {
                        gives_up_while_held: endpoint.contract.retry.give_up_while_held,
                    },
                    off => AvailabilityChange::Disabled(off),
                },
            };
            match self.delivery_store.apply_to_waiting(endpoint, settle, APPLY_STEP, self.clock.now()).await {
                Ok(applied) if applied < APPLY_STEP => return,
                Ok(_) => {}
                Err(StoreError::Unavailable(_)) => {
                    let again = self.clock.now().plus(APPLY_ERROR_PAUSE);
                    self.clock.idle_until(again).await;
                }
                Err(error) => {
                    tracing::warn!(%error, %endpoint, "could not apply an endpoint's state to its waiting deliveries");
                    return;
                }
            }
        }
    }
}

//! Publishes notices as operational webhooks: an ordinary event in the notice's own app, and one in the operator's, each if
//! an endpoint there subscribes to it.
//!
//! The notice's own deduplication key turns at least once into exactly once: an event that was published before is not
//! published again. A notice about an endpoint is never sent to that endpoint.

use super::{endpoint_queues::EndpointQueues, leader::LeaderRole};
use crate::{
    domain::{
        event::{DedupKey, DedupSpace, Event, Fingerprint},
        fan_out::{fan_out, receives_deliveries},
        id::{EndpointId, EventId},
        notice::{Notice, webhook_data},
        time::Timestamp,
    },
    runtime::{CachedApp, Clock, ConfigCache, IdGenerator, Shutdown, StorageSpace},
    store::{DeliveryStore, QueryStore, StoreError, deliveries::NewEvent},
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Notices that are published in one step.
const NOTICES_PER_STEP: usize = 64;
/// Pause after a store error, and while the storage is full.
const PUBLISH_ERROR_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct OperationalWebhooks {
    pub(super) queues: Arc<EndpointQueues>,
    pub(super) config_cache: Arc<ConfigCache>,
    pub(super) delivery_store: Arc<dyn DeliveryStore>,
    pub(super) query_store: Arc<dyn QueryStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: IdGenerator,
    pub(super) storage: Arc<StorageSpace>,
    /// Notified when a notice was written.
    pub(super) notices_waiting: Arc<Notify>,
    /// App whose endpoints may receive notices about all apps.
    pub(super) operator_app: Option<String>,
    /// How often it checks without a notification.
    pub(super) every: Duration,
    pub(super) leader: LeaderRole,
}

impl OperationalWebhooks {
    pub(super) async fn run(self, stop: Shutdown) {
        // Stopping between two steps leaves nothing half done: what is published is marked later.
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work() => {}
        }
    }

    async fn work(&self) {
        loop {
            // Registered before the step, so that no notification is missed.
            let notified = self.notices_waiting.notified();
            let leadership = self.leader.lead().await;
            let come_back = self.leader.next_check_at(self.step().await);
            drop(leadership);
            tokio::select! {
                biased;
                () = notified => {}
                () = self.clock.idle_until(come_back) => {}
            }
        }
    }

    /// Publishes what waits. Returns when to come back.
    pub(super) async fn step(&self) -> Timestamp {
        let now = self.clock.now();
        if self.storage.full_reason().is_some() {
            return now.plus(PUBLISH_ERROR_PAUSE);
        }
        match self.publish(now).await {
            Ok(come_back) => come_back,
            Err(error) => {
                tracing::warn!(%error, "could not publish notices");
                now.plus(PUBLISH_ERROR_PAUSE)
            }
        }
    }

    async fn publish(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        let waiting = self.query_store.unpublished_notices(NOTICES_PER_STEP).await?;
        if waiting.closes_at.is_some_and(|at| at <= now) {
            self.delivery_store.close_digests(now).await?;
            return Ok(now);
        }
        if waiting.notices.is_empty() {
            let round = now.plus(self.every);
            return Ok(waiting.closes_at.map_or(round, |at| at.min(round)));
        }
        let events: Vec<NewEvent> =
            waiting.notices.iter().flat_map(|notice| self.events(notice, now)).collect();
        for new in &events {
            self.storage.add_stored(new.event.data.len(), new.deliveries.len());
        }
        if !events.is_empty() {
            self.delivery_store.accept(events).await?;
        }
        self.delivery_store
            .mark_notices_published(waiting.notices.iter().map(|notice| notice.id).collect())
            .await?;
        Ok(now)
    }

    /// Returns the event for the app it is about and the one for the operator's, where endpoints subscribe to it.
    fn events(&self, notice: &Notice, now: Timestamp) -> Vec<NewEvent> {
        let Some(about) = self.config_cache.app_by_id(notice.app) else { return Vec::new() };
        let operator = self.operator_app.as_deref().and_then(|uid| self.config_cache.app(uid));
        let operator = operator.filter(|entry| !Arc::ptr_eq(entry, &about));
        let data = webhook_data(notice, &about.app(), &*self.config_cache).to_string();
        let data = Bytes::from(data);
        let both = [Some(about), operator].into_iter().flatten();
        both.filter_map(|entry| self.event(notice, &entry, data.clone(), now)).collect()
    }

    fn event(&self, notice: &Notice, entry: &CachedApp, data: Bytes, now: Timestamp) -> Option<NewEvent> {
        let event_type = notice.kind.event_type();
        let concerned: Vec<EndpointId> = notice.endpoints().collect();
        let index = entry.endpoints();
        let mut subscribers = index.matching(&event_type);
        subscribers.retain(|endpoint| receives_deliveries(endpoint) && !concerned.contains(&endpoint.id()));
        if subscribers.is_empty() {
            return None;
        }
        let app = entry.app();
        let event = Arc::new(Event {
            id: EventId::from_i64(self.ids.next_range(now, 1 + subscribers.len() as u32)),
            app: app.id,
            external_id: None,
            event_type,
            created_at: notice.at,
            accepted_at: now,
            data,
            key: None,
            deliver_at: None,
            has_no_subscribers: false,
        });
        let new_deliveries = fan_out(&event, &subscribers, &*self.queues, now);
        let dedup = vec![DedupKey::new(app.id, DedupSpace::Notice, &notice.id.to_string())];
        // Does not depend on what was renamed since: a notice is published once.
        let fingerprint = Fingerprint::new(&event.event_type, b"", None, None, None);
        Some(NewEvent { event, deliveries: new_deliveries, dedup, fingerprint })
    }
}

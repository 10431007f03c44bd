//! Ports that the endpoint queues implement: permits for the service, and the commit listener for the store.

use super::{
    body_cache::BodyCaches, endpoint_queue::EndpointQueue, endpoint_queues::EndpointQueues,
    ready_queue::QueuedDelivery,
};
use crate::domain::{
    circuit_breaker::DelayReason,
    delivery::Delivery,
    endpoint::{Disabled, Endpoint, EndpointRecord},
    id::{AppId, EndpointId},
    ports::{CommitListener, LeasedDelivery, Permit, Permits},
    time::Timestamp,
};
use std::sync::{Arc, PoisonError};

impl Permits for EndpointQueues {
    fn take(&self, endpoint: EndpointId, bytes: usize) -> Option<Permit> {
        self.queue(endpoint).take_permit(bytes)
    }

    fn take_for_test(&self, endpoint: EndpointId, bytes: usize) -> Option<Permit> {
        self.queue(endpoint).take_test_permit(bytes)
    }

    fn replays_changed(&self) {
        self.replays.notify_one();
    }

    fn is_owned_elsewhere(&self, endpoint: EndpointId) -> bool {
        self.queue(endpoint).is_sent_elsewhere()
    }

    fn available(&self) -> usize {
        self.context.permit_pool.free()
    }

    fn endpoint_changed(&self, endpoint: EndpointId) {
        self.adopt_settings(&self.queue(endpoint));
        self.schedule_apply(endpoint);
        // Other nodes may wait until this one has seen it.
        self.context.membership.notify_one();
    }

    fn app_changed(&self, app: AppId) {
        self.update_app_limit(app);
        for queue in self.all().into_iter().filter(|queue| queue.app == app) {
            self.adopt_settings(&queue);
        }
    }

    fn delay_reason(&self, delivery: &Delivery, now: Timestamp) -> Option<DelayReason> {
        let queues = self.by_endpoint.read().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.get(&delivery.endpoint).cloned()?;
        drop(queues);
        queue.delay_reason(delivery, now)
    }
}

impl CommitListener for EndpointQueues {
    fn deliveries_leased(&self, leased: Vec<LeasedDelivery>) {
        let (mut last, epoch): (Option<Arc<EndpointQueue>>, i64) = (None, self.context.node_state.epoch());
        let mut caches = BodyCaches::default();
        // Deliveries that were leased before this node joined again belong to another by now.
        for leased in leased.into_iter().filter(|leased| leased.epoch == epoch) {
            let endpoint = leased.delivery.endpoint;
            let same = last.as_ref().is_some_and(|queue| queue.endpoint == endpoint);
            if !same && let Some(queue) = last.replace(self.queue(endpoint)) {
                let _ = self.ready.send(queue);
            }
            if let Some(queue) = &last {
                let bodies = caches.of(&leased.event);
                queue.enqueue(QueuedDelivery { leased, bodies });
            }
        }
        if let Some(queue) = last {
            let _ = self.ready.send(queue);
        }
    }

    fn delivery_waiting(&self, endpoint: EndpointId, due: Timestamp) {
        let Some(queue) = self.tracked_queue(endpoint) else { return };
        if queue.is_disabled() {
            // Published before the endpoint was disabled, stored after that was applied to what waited: apply it again.
            self.schedule_apply(endpoint);
        }
        let Some(due) = queue.note_due(due) else { return };
        let mut by_due = self.due();
        let is_first = by_due.first().is_none_or(|(first, _)| due < *first);
        by_due.insert((due, endpoint));
        drop(by_due);
        if is_first {
            self.refills.notify_one();
        }
    }

    fn manual_waiting(&self, endpoint: EndpointId, due: Timestamp) {
        let Some(queue) = self.tracked_queue(endpoint) else { return };
        if queue.is_disabled() {
            self.schedule_apply(endpoint);
        }
        if let Some(due) = queue.note_manual(due) {
            self.put_due(&queue, due);
            self.refills.notify_one();
        }
    }

    fn endpoint_disabled(&self, endpoint: EndpointId, off: Disabled, revision: u32) {
        // A change that was committed before may not have arrived here: when it does, it finds a newer revision.
        if let Some(known) = self.config_cache.endpoint(endpoint) {
            let updated_at = off.at;
            let record = EndpointRecord { disabled: Some(off), revision, updated_at, ..known.record.clone() };
            self.config_cache.put_endpoint(Arc::new(Endpoint { record, ..(*known).clone() }));
        }
        self.endpoint_changed(endpoint);
    }

    fn inspection_waiting(&self) {
        self.inspections.notify_one();
    }

    fn notice_waiting(&self) {
        self.mail_notices.notify_one();
        self.webhook_notices.notify_one();
    }

    fn replay_waiting(&self) {
        self.replays.notify_one();
    }

    fn configuration_changed(&self) {
        self.configuration.notify_one();
    }

    fn is_queue_remote(&self, endpoint: EndpointId) -> bool {
        !self.is_owned_here(endpoint)
    }
}

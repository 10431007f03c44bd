//! Deliveries of a queue that are in memory and not sent: manual ones first, then overdue and fresh ones in turn, so that a
//! backlog of any length delays fresh events by no more than its half.

use super::body_cache::BodyCache;
use crate::domain::{event::TEST_EVENT_TYPE, id::DeliveryId, ports::LeasedDelivery, time::Timestamp};
use std::{collections::VecDeque, sync::Arc};

/// A leased delivery in memory, with the bodies made from its event.
#[derive(Debug)]
pub(super) struct QueuedDelivery {
    pub(super) leased: LeasedDelivery,
    pub(super) bodies: Arc<BodyCache>,
}

#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    manual: VecDeque<QueuedDelivery>,
    overdue: VecDeque<QueuedDelivery>,
    fresh: VecDeque<QueuedDelivery>,
    /// Whether a fresh one is next.
    is_fresh_next: bool,
}

/// Whether the delivery is manual: requested by itself, or the first attempt of a test.
pub(super) fn is_manual(leased: &LeasedDelivery) -> bool {
    leased.delivery.is_manual || (leased.delivery.retry_index == 0 && is_test(leased))
}

pub(super) fn is_test(leased: &LeasedDelivery) -> bool {
    leased.event.event_type == TEST_EVENT_TYPE
}

impl ReadyQueue {
    /// Adds a delivery. During a backlog, one that is due after its start is fresh.
    pub(super) fn push(&mut self, queued: QueuedDelivery, backlog_until: Option<Timestamp>) {
        if is_manual(&queued.leased) {
            self.manual.push_back(queued);
        } else if backlog_until.is_some_and(|until| queued.leased.due > until) {
            self.fresh.push_back(queued);
        } else {
            self.overdue.push_back(queued);
        }
    }

    pub(super) fn pop_manual(&mut self) -> Option<QueuedDelivery> {
        self.manual.pop_front()
    }

    pub(super) fn pop(&mut self) -> Option<QueuedDelivery> {
        let (first, second) = if self.is_fresh_next {
            (&mut self.fresh, &mut self.overdue)
        } else {
            (&mut self.overdue, &mut self.fresh)
        };
        let next = first.pop_front();
        self.is_fresh_next ^= next.is_some();
        next.or_else(|| second.pop_front())
    }

    pub(super) fn has_manual(&self) -> bool {
        !self.manual.is_empty()
    }

    /// Whether a delivery waits that is not manual.
    pub(super) fn has_automatic(&self) -> bool {
        !self.overdue.is_empty() || !self.fresh.is_empty()
    }

    pub(super) fn has_overdue(&self) -> bool {
        !self.overdue.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_manual() && !self.has_automatic()
    }

    pub(super) fn holds(&self, delivery: DeliveryId) -> bool {
        let mut all = self.manual.iter().chain(&self.overdue).chain(&self.fresh);
        all.any(|queued| queued.leased.delivery.id == delivery)
    }

    /// Takes all but manual deliveries, and but the first `keep`.
    pub(super) fn take_automatic(&mut self, keep: usize) -> Vec<LeasedDelivery> {
        let mut all: VecDeque<QueuedDelivery> = self.overdue.drain(..).chain(self.fresh.drain(..)).collect();
        let taken = all.drain(keep.min(all.len())..).map(|queued| queued.leased).collect();
        self.overdue = all;
        taken
    }

    pub(super) fn take_all(&mut self) -> Vec<LeasedDelivery> {
        let all = self.manual.drain(..).chain(self.overdue.drain(..)).chain(self.fresh.drain(..));
        all.map(|queued| queued.leased).collect()
    }
}

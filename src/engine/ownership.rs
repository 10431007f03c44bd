//! Shard ownership among several nodes: which queues this one may send for, fetch for, and has to give up.
//!
//! Shared queues are sent for by every node and looked after by their owner. Exclusive ones (limits, order) are sent for by
//! their owner alone, once it is certain that no other node has one of their deliveries in flight. A single node skips all
//! checks.

#[cfg(test)]
pub(super) mod tests;

use super::{
    endpoint_queue::EndpointQueue,
    endpoint_queues::EndpointQueues,
    queue_state::{EndpointQueueSettings, EndpointQueueState},
};
use crate::{
    domain::{id::EndpointId, ports::LeasedDelivery, time::Timestamp},
    runtime::{NodeLease, ShardOwnership},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

/// Queues that a node asks others to help with.
const HELP_REQUESTS_MAX: usize = 64;

/// State of all queues at a moment, as far as it concerns other nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterSurvey {
    /// Shards with deliveries under way that only their owner may send.
    pub(super) busy: BTreeSet<u8>,
    /// Queues with more to send than this node can.
    pub(super) help_wanted: Vec<EndpointId>,
}

impl EndpointQueue {
    fn node_state(&self) -> &NodeLease {
        &self.context.node_state
    }

    fn owner(&self, state: &EndpointQueueState) -> ShardOwnership {
        if self.node_state().is_single_node() {
            ShardOwnership::Local
        } else {
            self.node_state().ownership(state.settings.shard)
        }
    }

    /// Whether another node has to send for this endpoint, or this one not yet. Tests for a disabled endpoint are sent by
    /// any node.
    pub(super) fn may_not_send(&self, state: &EndpointQueueState) -> bool {
        let EndpointQueueSettings { is_exclusive, is_disabled, .. } = state.settings;
        is_exclusive
            && !is_disabled
            && !(state.is_exclusive_owner && self.owner(state) == ShardOwnership::Local)
    }

    pub(super) fn is_sent_elsewhere(&self) -> bool {
        self.may_not_send(&self.lock())
    }

    /// Whether this node has to keep track of what waits for it.
    fn is_tracked_here(&self) -> bool {
        let state = self.lock();
        state.is_helping_owner || self.owner(&state) != ShardOwnership::Remote
    }

    /// Whether this node may not fetch what waits. If that only depends on an unconfirmed ownership, requests the
    /// confirmation.
    pub(super) fn is_fetched_elsewhere(&self, state: &mut EndpointQueueState) -> bool {
        let is_shared = !state.settings.is_exclusive && !state.circuit.blocks_sending();
        let is_owned_here = match self.owner(state) {
            ShardOwnership::Local if self.may_not_send(state) => {
                self.request_confirmation();
                return true;
            }
            ShardOwnership::Local => true,
            ShardOwnership::Draining => is_shared,
            ShardOwnership::Remote => is_shared && state.is_helping_owner,
        };
        if !is_owned_here {
            state.forget_waiting();
        }
        !is_owned_here
    }

    /// Checks the ownership after a change of settings: the queue may belong to another node, or to this one alone.
    pub(super) fn review_ownership(&self, state: &mut EndpointQueueState, before: &EndpointQueueSettings) {
        // Between two changes seen here it may have been shared for a while, and others may have deliveries of it in flight.
        let is_next = [before.revision, before.revision + 1].contains(&state.settings.revision);
        let has_missed_some = !is_next || state.settings.app_changed_at != before.app_changed_at;
        if !state.settings.is_exclusive || state.settings.shard != before.shard || has_missed_some {
            state.is_exclusive_owner = false;
        }
        if self.may_not_send(state) && self.owner(state) == ShardOwnership::Local {
            self.request_confirmation();
        }
    }

    /// Requests confirmation that no other node has deliveries of it in flight.
    fn request_confirmation(&self) {
        self.unconfirmed().insert(self.endpoint);
        self.context.membership.notify_one();
    }

    fn unconfirmed(&self) -> MutexGuard<'_, BTreeSet<EndpointId>> {
        self.context.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this node the only sender. Another may have sent until now, so no tokens are saved up. Returns when to refill.
    fn become_exclusive_owner(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        if state.is_exclusive_owner
            || !state.settings.is_exclusive
            || self.owner(&state) != ShardOwnership::Local
        {
            return None;
        }
        state.is_exclusive_owner = true;
        state.tokens.reset(Some(now));
        if state.settings.is_limited {
            self.limiter().reset_tokens(self.app, now);
        }
        state.next_refill_at().filter(|_| !state.is_blocked)
    }

    /// Gives the queue up: another node owns it from now on.
    fn give_up(&self) {
        let mut state = self.lock();
        state.is_exclusive_owner = false;
        state.forget_waiting();
        state.circuit.drop_probe();
    }

    /// Empties the queue: other nodes own its deliveries now, so they are neither sent nor released.
    fn drop_leases(&self) -> Vec<LeasedDelivery> {
        let mut state = self.lock();
        (state.is_exclusive_owner, state.is_helping_owner, state.is_blocked) = (false, false, false);
        state.forget_waiting();
        state.circuit.drop_probe();
        state.ready.take_all()
    }

    fn set_helping(&self, is_helping: bool) {
        self.lock().is_helping_owner = is_helping;
    }

    fn survey(&self, survey: &mut ClusterSurvey, now: Timestamp) {
        let mut state = self.lock();
        let is_closed = state.circuit.blocks_sending();
        let is_here = self.owner(&state) != ShardOwnership::Remote;
        if !is_here && is_closed {
            // An expired pause ends only when it is asked about with the time.
            let _ = state.circuit_decision(now);
            state.circuit.close_when_probe_due(now);
        }
        if (state.settings.is_exclusive || is_closed) && state.permits_out > 0 {
            survey.busy.insert(state.settings.shard);
        }
        let is_wide = !state.settings.is_exclusive && !is_closed && state.circuit.width().is_none();
        if is_here && is_wide && state.has_stored_backlog && survey.help_wanted.len() < HELP_REQUESTS_MAX {
            survey.help_wanted.push(self.endpoint);
        }
    }
}

impl EndpointQueueState {
    /// Forgets what waits in the store: another node keeps track of it.
    fn forget_waiting(&mut self) {
        (self.next_due, self.backlog_until, self.has_stored_backlog) = (None, None, false);
        (self.has_fresh_waiting, self.has_manual_waiting, self.has_none_to_probe) = (false, true, false);
    }
}

impl EndpointQueues {
    pub(super) fn node_state(&self) -> &Arc<NodeLease> {
        &self.context.node_state
    }

    /// Returns the queue, if this node has to keep track of what waits for it. The owner of an unknown endpoint cannot be
    /// known: either it was deleted, and housekeeping handles what waits, or it becomes known soon.
    pub(super) fn tracked_queue(&self, endpoint: EndpointId) -> Option<Arc<EndpointQueue>> {
        if !self.node_state().is_single_node() && self.config_cache.endpoint(endpoint).is_none() {
            self.schedule_apply(endpoint);
            return None;
        }
        Some(self.queue(endpoint)).filter(|queue| queue.is_tracked_here())
    }

    pub(super) fn is_owned_here(&self, endpoint: EndpointId) -> bool {
        self.node_state().is_single_node()
            || self.node_state().ownership(self.settings(endpoint).shard) != ShardOwnership::Remote
    }

    /// Closes the send gate: nothing is sent and no permits are given out; what is in memory waits there. Returns whether it
    /// was open.
    pub(super) fn close_send_gate(&self) -> bool {
        self.context.permit_pool.close_send_gate()
    }

    /// Opens the send gate and wakes all queues. Returns whether it was closed.
    pub(super) fn open_send_gate(&self) -> bool {
        let was_closed = self.context.permit_pool.open_send_gate();
        if was_closed {
            self.wake_all();
        }
        was_closed
    }

    fn wake_all(&self) {
        for queue in self.all() {
            let _ = self.ready.send(queue);
        }
        self.refills.notify_one();
    }

    /// Stops waiting for requests of exclusive queues that are on their way.
    pub(super) fn cut_exclusive(&self) {
        self.context.exclusive_cut.notify_waiters();
    }

    /// Drops everything that this node had leased: other nodes own it now. Running workers let go of theirs: what has not
    /// been sent yet is for others to send, and results of the rest are ignored.
    pub(super) fn drop_all_leases(&self) {
        self.context.abandoned.notify_waiters();
        for queue in self.all() {
            // Their permits go back to the queue, which is not locked any more.
            drop(queue.drop_leases());
        }
        self.due().clear();
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.take_unconfirmed();
        self.wake_all();
    }

    /// Takes these shards over. Exclusive ownership of their queues is confirmed before it is needed.
    pub(super) fn take_over_shards(&self, shards: &[u8]) {
        for app in self.config_cache.apps() {
            let Some(entry) = self.config_cache.app_by_id(app.id) else { continue };
            for endpoint in entry.endpoints().iter() {
                let settings = self.settings(endpoint.id());
                if settings.is_exclusive && shards.contains(&settings.shard) {
                    self.queue(endpoint.id()).request_confirmation();
                }
            }
        }
        self.shards_gained.notify_one();
        self.wants_recheck.store(true, Relaxed);
        self.refills.notify_one();
    }

    /// Wakes the queues that this node may no longer send for, so that they release what is in memory.
    pub(super) fn wake_departing(&self) {
        for queue in self.all().into_iter().filter(|queue| queue.is_sent_elsewhere()) {
            let _ = self.ready.send(queue);
        }
    }

    /// Gives these shards up: another node owns them from now on.
    pub(super) fn give_up_shards(&self, shards: &[u8]) {
        for queue in self.all() {
            if shards.contains(&queue.lock().settings.shard) {
                queue.give_up();
            }
        }
    }

    /// Inspects every queue once; also ends the throttling of other nodes' queues here when its time is over.
    pub(super) fn survey(&self, now: Timestamp) -> ClusterSurvey {
        let mut survey = ClusterSurvey::default();
        self.all().iter().for_each(|queue| queue.survey(&mut survey, now));
        survey
    }

    /// Takes the queues whose exclusive ownership has to be confirmed.
    pub(super) fn take_unconfirmed(&self) -> BTreeSet<EndpointId> {
        std::mem::take(&mut *self.context.doubts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a confirmation was requested for it since they were last taken.
    pub(super) fn is_unconfirmed(&self, endpoint: EndpointId) -> bool {
        self.context.doubts.lock().unwrap_or_else(PoisonError::into_inner).contains(&endpoint)
    }

    pub(super) fn confirm_again(&self, doubts: BTreeSet<EndpointId>) {
        self.context.doubts.lock().unwrap_or_else(PoisonError::into_inner).extend(doubts);
    }

    /// Makes this node the only sender: no other has a delivery of this queue in flight, or will have.
    pub(super) fn become_exclusive_owner(&self, endpoint: EndpointId, now: Timestamp) {
        let queue = self.queue(endpoint);
        if let Some(due) = queue.become_exclusive_owner(now) {
            self.put_due(&queue, due);
            self.refills.notify_one();
        }
    }

    /// Sets which queues of other nodes this one helps with; those of before that are not among them are left to their
    /// owners.
    pub(super) fn set_helped_queues(
        &self,
        before: &BTreeSet<EndpointId>,
        wanted: &BTreeSet<EndpointId>,
        now: Timestamp,
    ) {
        for endpoint in before.difference(wanted) {
            self.queue(*endpoint).set_helping(false);
        }
        for endpoint in wanted {
            let queue = self.queue(*endpoint);
            queue.set_helping(true);
            if let Some(due) = queue.note_due(now) {
                self.put_due(&queue, due);
                self.refills.notify_one();
            }
        }
    }
}

//! An endpoint queue: everything that is due for one endpoint. A bounded queue in memory, and what waits behind it in the
//! store.
//!
//! This file takes permits and decides when the scheduler refills; `admission` decides what is sent.

use super::{
    concurrency_limiter::ConcurrencyLimiter,
    permits::{AppPermits, PermitPool},
    queue_state::{EndpointQueueSettings, EndpointQueueState},
    ready_queue::QueuedDelivery,
    timers::TimerQueue,
};
use crate::{
    domain::{
        circuit_breaker::{CircuitBreaker, SendDecision},
        id::{AppId, EndpointId},
        ports::{LeasedDelivery, Permit, PermitSource},
        rate_limit::TokenBucket,
        time::Timestamp,
    },
    runtime::NodeLease,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How long fresh deliveries may exceed what can be sent before they become the backlog themselves: later ones must not wait
/// behind them.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// Tests and manual deliveries that a full queue still takes.
const MANUAL_EXTRA_MAX: usize = 8;

/// Shared by all endpoint queues.
pub(super) struct QueueContext {
    pub(super) permit_pool: PermitPool,
    /// Wakes the scheduler.
    pub(super) scheduler: Arc<Notify>,
    pub(super) timers: TimerQueue,
    pub(super) limiter: Mutex<ConcurrencyLimiter>,
    pub(super) node_state: Arc<NodeLease>,
    /// Queues that need exclusive ownership, which the membership has yet to confirm.
    pub(super) doubts: Mutex<BTreeSet<EndpointId>>,
    /// Wakes the membership.
    pub(super) membership: Notify,
    /// Wakes delivery workers of exclusive queues: they must let go before another node takes over.
    pub(super) exclusive_cut: Notify,
    /// Wakes all delivery workers: other nodes own their deliveries now.
    pub(super) abandoned: Notify,
}

pub(super) struct EndpointQueue {
    pub(super) endpoint: EndpointId,
    pub(super) app: AppId,
    pub(super) context: Arc<QueueContext>,
    share: Arc<AppPermits>,
    state: Mutex<EndpointQueueState>,
}

/// The endpoint queue still has no capacity.
pub(super) struct NoCapacity;

/// Permits for deliveries that are due in the store: one list for each kind.
#[derive(Debug, Default)]
pub(super) struct RefillPermits {
    pub(super) overdue: Vec<Permit>,
    pub(super) is_probe: bool,
    pub(super) fresh: Vec<Permit>,
    pub(super) manual: Vec<Permit>,
    pub(super) backlog_until: Option<Timestamp>,
}

/// Whether the scheduler may refill a queue that is due.
pub(super) enum RefillDecision {
    Refill(RefillPermits),
    /// No capacity: the queue is set aside until permits are released.
    Blocked,
    /// No refill before this time. Without a time, not until the queue changes, for example when its probe ends.
    NotBefore(Option<Timestamp>),
}

/// Result of a refill.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefillOutcome {
    /// An overdue delivery was requested, and there was none.
    pub(super) has_none: bool,
    /// More fresh deliveries may wait in the store.
    pub(super) has_more_fresh: bool,
    pub(super) has_more_manual: bool,
    pub(super) next_due: Option<Timestamp>,
}

impl EndpointQueue {
    pub(super) fn new(
        endpoint: EndpointId,
        (app, share): (AppId, Arc<AppPermits>),
        settings: EndpointQueueSettings,
        tokens: TokenBucket,
        context: Arc<QueueContext>,
    ) -> Self {
        let state = Mutex::new(EndpointQueueState::new(settings, tokens));
        Self { endpoint, app, context, share, state }
    }

    /// Takes a permit for a new delivery. While a backlog drains, only the share for fresh ones is available; none while the
    /// endpoint is disabled or throttled.
    pub(super) fn take_permit(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        let mut state = self.lock();
        if state.settings.is_disabled || state.circuit.blocks_sending() || self.may_not_send(&state) {
            return None;
        }
        if state.backlog_until.is_none() {
            let room = state.capacity();
            return self.take_permit_within(&mut state, room, bytes);
        }
        let permit = self.take_fresh_permit(&mut state, bytes);
        state.has_fresh_waiting |= permit.is_none();
        permit
    }

    /// Takes a permit for a test: also while the endpoint is disabled or throttled, and a few beyond the capacity.
    pub(super) fn take_test_permit(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        let mut state = self.lock();
        if self.may_not_send(&state) { None } else { self.take_manual_permit(&mut state, bytes) }
    }

    /// Takes permits for deliveries that are due in the store: as many as there is capacity for, at most `most`.
    pub(super) fn begin_refill(self: &Arc<Self>, most: usize, now: Timestamp) -> RefillDecision {
        let mut state = self.lock();
        // Without a due time this is a second find: all that waits is already being fetched.
        if state.settings.is_disabled || state.next_due.is_none() || self.is_fetched_elsewhere(&mut state) {
            return RefillDecision::NotBefore(None);
        }
        let may = state.circuit_decision(now);
        let most = match may {
            SendDecision::Send(_) => most,
            SendDecision::Probe => 1,
            SendDecision::SendProbe | SendDecision::Wait(_) => 0,
        };
        if most == 0 && !state.has_manual_waiting {
            return RefillDecision::NotBefore(state.next_refill_at());
        }
        let mut asking = self.take_refill_permits(&mut state, most);
        if asking.is_empty() {
            // Registered first, then tried once more: a permit released in between would go unnoticed.
            self.context.permit_pool.request_permits();
            asking = self.take_refill_permits(&mut state, most.min(1));
        }
        if asking.is_empty() {
            state.backlog_until.get_or_insert(now);
            (state.has_stored_backlog, state.is_blocked) = (true, true);
            return RefillDecision::Blocked;
        }
        if may == SendDecision::Probe && !asking.overdue.is_empty() {
            state.circuit.fetch_probe();
            // Cleared when one is found, or noted meanwhile.
            (asking.is_probe, state.has_none_to_probe) = (true, true);
        }
        // The refill reports the next due time; one that is noted while it runs must not be taken for known.
        state.next_due = None;
        (state.has_fresh_waiting, state.has_manual_waiting) = (false, false);
        RefillDecision::Refill(asking)
    }

    fn take_refill_permits(self: &Arc<Self>, state: &mut EndpointQueueState, most: usize) -> RefillPermits {
        let mut asking = RefillPermits { backlog_until: state.backlog_until, ..RefillPermits::default() };
        // Otherwise manual deliveries are found with the rest.
        let is_manual =
            state.has_manual_waiting && (state.backlog_until.is_some() || state.circuit.blocks_sending());
        if is_manual {
            let permits = std::iter::from_fn(|| self.take_manual_permit(state, 0));
            asking.manual = permits.take(MANUAL_EXTRA_MAX).collect();
        }
        let is_split = state.backlog_until.is_some() && most > 1;
        let room = state.capacity();
        let (overdue, fresh) = if is_split { (most.div_ceil(2), most / 2) } else { (most, 0) };
        asking.overdue =
            std::iter::from_fn(|| self.take_permit_within(state, room, 0)).take(overdue).collect();
        // Without capacity for the backlog, only for what is known to wait: empty refills would never end.
        if !asking.overdue.is_empty() || state.has_fresh_waiting {
            asking.fresh = std::iter::from_fn(|| self.take_fresh_permit(state, 0)).take(fresh).collect();
        }
        if !is_split {
            asking.backlog_until = None;
        }
        asking
    }

    fn take_permit_within(
        self: &Arc<Self>,
        state: &mut EndpointQueueState,
        room: usize,
        bytes: usize,
    ) -> Option<Permit> {
        if state.permits_out - state.fresh_permits_out >= room
            || !self.context.permit_pool.take(&self.share, state.permits_out, bytes)
        {
            return None;
        }
        state.permits_out += 1;
        Some(Permit::for_epoch(self.context.node_state.epoch(), self.clone(), bytes))
    }

    fn take_manual_permit(self: &Arc<Self>, state: &mut EndpointQueueState, bytes: usize) -> Option<Permit> {
        let room = state.capacity() + MANUAL_EXTRA_MAX;
        self.take_permit_within(state, room, bytes)
    }

    fn take_fresh_permit(self: &Arc<Self>, state: &mut EndpointQueueState, bytes: usize) -> Option<Permit> {
        let has_room = state.fresh_permits_out < state.fresh_capacity();
        if !has_room || !self.context.permit_pool.take(&self.share, state.permits_out, bytes) {
            return None;
        }
        state.permits_out += 1;
        state.fresh_permits_out += 1;
        Some(Permit::for_epoch(self.context.node_state.epoch(), Arc::new(FreshPermits(self.clone())), bytes))
    }

    pub(super) fn enqueue(&self, queued: QueuedDelivery) {
        let mut state = self.lock();
        let backlog_until = state.backlog_until;
        state.ready.push(queued, backlog_until);
    }

    /// Takes everything that no delivery worker has taken yet.
    pub(super) fn take_queued(&self) -> Vec<LeasedDelivery> {
        self.lock().ready.take_all()
    }

    /// Notes that a delivery in the store is due then. Returns when to refill, if this changed it.
    pub(super) fn note_due(&self, due: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        // The delivery may serve as a probe.
        let had_none = std::mem::take(&mut state.has_none_to_probe);
        if state.next_due.is_some_and(|known| known <= due) && !had_none {
            return None;
        }
        state.next_due = Some(state.next_due.map_or(due, |known| known.min(due)));
        state.next_refill_at().filter(|_| !state.is_blocked)
    }

    /// Notes that a manual delivery waits in the store. Returns when to refill.
    pub(super) fn note_manual(&self, due: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        state.has_manual_waiting = true;
        state.next_due = Some(state.next_due.map_or(due, |known| known.min(due)));
        state.next_refill_at()
    }

    pub(super) fn forget_due(&self) {
        self.lock().next_due = None;
    }

    /// Adopts the result of a refill, together with what was noted meanwhile. Returns when to refill again.
    pub(super) fn finish_refill(&self, outcome: RefillOutcome, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        if !outcome.has_none {
            state.has_none_to_probe = false;
        } else if state.circuit.is_fetching_probe() {
            state.circuit.drop_probe();
        }
        state.has_fresh_waiting |= outcome.has_more_fresh;
        state.has_manual_waiting |= outcome.has_more_manual;
        state.has_stored_backlog = outcome.next_due.is_some_and(|due| due <= now);
        let is_gone = |until: Timestamp| outcome.next_due.is_none_or(|due| due > until);
        let is_stale = |until: Timestamp| outcome.has_more_fresh && now.since(until) >= FRESH_FOR;
        if state.has_stored_backlog
            && state.backlog_until.is_none_or(|until| is_gone(until) || is_stale(until))
        {
            // The fresh deliveries are the backlog now.
            state.backlog_until = Some(now);
        }
        state.end_backlog();
        state.next_due = state.next_due.into_iter().chain(outcome.next_due).min();
        state.next_refill_at()
    }

    /// Unblocks a queue that has capacity again. Returns when to refill it; `Err` while it has none.
    pub(super) fn unblock(&self) -> Result<Option<Timestamp>, NoCapacity> {
        let mut state = self.lock();
        let may_wait =
            state.is_blocked && !state.settings.is_disabled && state.circuit.resumes_at().is_none();
        if may_wait {
            // A new delivery may have taken the permit that woke the scheduler: registered again before the check, so that
            // the next release wakes it too.
            self.context.permit_pool.request_permits();
        }
        let may_take = state.has_refill_capacity()
            && self.context.permit_pool.has_permit_for(&self.share, state.permits_out);
        if may_wait && !may_take {
            return Err(NoCapacity);
        }
        state.is_blocked = false;
        Ok(state.next_refill_at())
    }

    /// Adopts the endpoint's settings, read under the queue's lock so that the last change is the one that stays.
    pub(super) fn adopt_settings(
        &self,
        settings: impl FnOnce() -> EndpointQueueSettings,
    ) -> Option<Timestamp> {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.settings, settings());
        if state.settings.rate != before.rate {
            // Whatever was sent under the other rate, the new one starts without tokens.
            state.tokens.reset(None);
        }
        // Enabling an endpoint again declares that it works, and of another URL nothing is known.
        let begins_anew = before.is_disabled && !state.settings.is_disabled;
        if !state.settings.is_adaptive || begins_anew || before.url != state.settings.url {
            state.circuit = CircuitBreaker::default();
        }
        if state.settings.is_disabled {
            (state.backlog_until, state.has_stored_backlog) = (None, false);
        }
        self.review_ownership(&mut state, &before);
        state.next_refill_at().filter(|_| !state.is_blocked)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let state = self.lock();
        state.next_due.filter(|_| !state.settings.is_disabled)
    }

    /// Returns how many more deliveries a replay may bring: what is left of its half, as the other half is for fresh events.
    /// A disabled endpoint holds any number; a throttled one gets none.
    pub(super) fn replay_capacity(&self, now: Timestamp) -> usize {
        let state = self.lock();
        let has_backlog = state.backlog_until.is_some() || state.next_due.is_some_and(|due| due <= now);
        let is_throttled = state.circuit.is_open() || state.circuit.is_paused(now);
        // With a rate limit, half a second's worth: what is brought must not take longer to send than fresh events may wait.
        let rated = state.settings.rate.map_or(usize::MAX, |rate| rate.per_second as usize);
        match (state.settings.is_disabled, has_backlog || is_throttled) {
            (true, _) => usize::MAX,
            (false, true) => 0,
            (false, false) => state.concurrency().min(rated).div_ceil(2).saturating_sub(state.permits_out),
        }
    }

    pub(super) fn is_disabled(&self) -> bool {
        self.lock().settings.is_disabled
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        let waits = state.has_used_limiter && self.limiter().holds_or_awaits_slot(self.app, self.endpoint);
        state.permits_out == 0 && (state.settings.is_disabled || state.next_due.is_none()) && !waits
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, EndpointQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release_permit(&self, bytes: usize, is_fresh: bool) {
        let mut state = self.lock();
        state.permits_out = state.permits_out.saturating_sub(1);
        state.fresh_permits_out = state.fresh_permits_out.saturating_sub(usize::from(is_fresh));
        self.context.permit_pool.release(&self.share, state.permits_out, bytes);
        let tell = state.is_blocked && state.has_refill_capacity();
        drop(state);
        if tell || self.context.permit_pool.take_wakeup() {
            self.context.scheduler.notify_one();
        }
    }
}

impl RefillPermits {
    fn is_empty(&self) -> bool {
        self.overdue.is_empty() && self.fresh.is_empty() && self.manual.is_empty()
    }
}

impl PermitSource for EndpointQueue {
    fn release(&self, bytes: usize) {
        self.release_permit(bytes, false);
    }

    fn add_bytes(&self, bytes: usize) {
        self.context.permit_pool.add_bytes(bytes);
    }
}

/// Releases permits that fresh deliveries took while a backlog drained.
struct FreshPermits(Arc<EndpointQueue>);

impl PermitSource for FreshPermits {
    fn release(&self, bytes: usize) {
        self.0.release_permit(bytes, true);
    }

    fn add_bytes(&self, bytes: usize) {
        self.0.add_bytes(bytes);
    }
}

//! All endpoint queues and when each is next due, shared by the commit listener, the scheduler and the delivery workers.

use super::{
    concurrency_limiter::{ConcurrencyLimit, ConcurrencyLimiter},
    endpoint_queue::{EndpointQueue, NoCapacity, QueueContext},
    permits::{AppPermits, PermitPool},
    queue_state::{EndpointQueueSettings, hash_of},
    timers::TimerQueue,
};
use crate::{
    domain::{
        cluster::{shard_of, shard_of_app},
        contract::Pacing,
        endpoint::{Endpoint, EndpointSettings},
        id::{AppId, EndpointId},
        ordering::OrderingMode,
        rate_limit::{AppLimits, RateLimit, TokenBucket},
        time::Timestamp,
    },
    runtime::{ConfigCache, NodeLease, ShardOwnership},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, atomic::AtomicBool},
};
use tokio::sync::{Notify, mpsc};

/// Limits on what the engine holds in memory and sends.
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// Deliveries in memory: queued, in flight, or not yet recorded.
    pub deliveries_in_flight_max: usize,
    /// Bytes of their bodies.
    pub bytes_max: usize,
    /// Requests in flight to one endpoint that sets no limit of its own.
    pub in_flight_per_endpoint: usize,
    pub limits: SharedLimits,
}

/// Limits beyond one endpoint; an absent one is unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedLimits {
    /// Requests in flight for an app that has no limit of its own.
    pub in_flight_per_app: Option<usize>,
    /// Requests in flight, and per second, of the whole node.
    pub in_flight: Option<usize>,
    pub rate: Option<RateLimit>,
}

pub struct EndpointQueues {
    pub(super) by_endpoint: RwLock<HashMap<EndpointId, Arc<EndpointQueue>>>,
    /// Queues that are neither blocked nor disabled, by when they are due.
    due: Mutex<BTreeSet<(Timestamp, EndpointId)>>,
    pub(super) blocked: Mutex<Vec<Arc<EndpointQueue>>>,
    shares: Mutex<HashMap<AppId, Arc<AppPermits>>>,
    limits: EngineLimits,
    pub(super) config_cache: Arc<ConfigCache>,
    pub(super) context: Arc<QueueContext>,
    /// Wakes the scheduler.
    pub(super) refills: Arc<Notify>,
    /// Wakes the inspector.
    pub(super) inspections: Arc<Notify>,
    /// Queues with something to send, for the dispatcher.
    pub(super) ready: mpsc::UnboundedSender<Arc<EndpointQueue>>,
    /// Endpoints whose new state may have to be applied to waiting deliveries, for housekeeping.
    changed_endpoints: mpsc::UnboundedSender<EndpointId>,
    /// Endpoints that answer again after their circuit breaker was open, and since when.
    pub(super) recovered_endpoints: mpsc::UnboundedSender<(EndpointId, Timestamp)>,
    /// Wakes the replayer.
    pub(super) replays: Arc<Notify>,
    /// Wake the two senders of notices: as mails, and as operational webhooks.
    pub(super) mail_notices: Arc<Notify>,
    pub(super) webhook_notices: Arc<Notify>,
    /// Wakes the task that follows configuration changes of other nodes.
    pub(super) configuration: Arc<Notify>,
    /// Whether the scheduler has to search the store for due queues now.
    pub(super) wants_recheck: AtomicBool,
    /// Wakes housekeeping: this node owns more shards.
    pub(super) shards_gained: Arc<Notify>,
    started_at: OnceLock<Timestamp>,
}

/// Receiving ends of the channels, for the engine's own loops.
pub struct QueueEvents {
    pub(super) ready: mpsc::UnboundedReceiver<Arc<EndpointQueue>>,
    pub(super) changed_endpoints: mpsc::UnboundedReceiver<EndpointId>,
    pub(super) recovered_endpoints: mpsc::UnboundedReceiver<(EndpointId, Timestamp)>,
}

impl EndpointQueues {
    pub fn new(
        limits: EngineLimits,
        config_cache: Arc<ConfigCache>,
        node_state: Arc<NodeLease>,
    ) -> (Arc<Self>, QueueEvents) {
        let (ready_sender, ready) = mpsc::unbounded_channel();
        let (changed_sender, changed) = mpsc::unbounded_channel();
        let (recovered_sender, recovered) = mpsc::unbounded_channel();
        let scheduler = Arc::<Notify>::default();
        let node = ConcurrencyLimit { in_flight: limits.limits.in_flight, rate: limits.limits.rate };
        let context = QueueContext {
            permit_pool: PermitPool::new(limits.deliveries_in_flight_max, limits.bytes_max),
            scheduler: scheduler.clone(),
            timers: TimerQueue::default(),
            limiter: Mutex::new(ConcurrencyLimiter::new(node)),
            node_state,
            doubts: Mutex::default(),
            membership: Notify::new(),
            exclusive_cut: Notify::new(),
            abandoned: Notify::new(),
        };
        let queues = Self {
            by_endpoint: RwLock::default(),
            due: Mutex::default(),
            blocked: Mutex::default(),
            shares: Mutex::default(),
            limits,
            config_cache,
            context: Arc::new(context),
            refills: scheduler,
            inspections: Arc::default(),
            ready: ready_sender,
            changed_endpoints: changed_sender,
            recovered_endpoints: recovered_sender,
            replays: Arc::default(),
            mail_notices: Arc::default(),
            webhook_notices: Arc::default(),
            configuration: Arc::default(),
            shards_gained: Arc::default(),
            wants_recheck: AtomicBool::new(false),
            started_at: OnceLock::new(),
        };
        (Arc::new(queues), QueueEvents { ready, changed_endpoints: changed, recovered_endpoints: recovered })
    }

    /// Starts all rate limits at `now` with no tokens saved up, as this process has sent nothing before.
    pub(super) fn start(&self, now: Timestamp) {
        let _ = self.started_at.set(now);
        self.limiter().start(now);
        self.all().iter().for_each(|queue| queue.start_rate_limit(now));
    }

    /// Returns the signal for configuration changes by other nodes.
    pub fn configuration_notify(&self) -> Arc<Notify> {
        self.configuration.clone()
    }

    /// Deliveries in memory: queued, in flight or not yet recorded.
    pub fn permits_out(&self) -> usize {
        self.context.permit_pool.taken()
    }

    /// Gives out no more permits: whatever is published from now on waits in the store.
    pub(super) fn close_permits(&self) {
        self.context.permit_pool.close();
    }

    pub(super) fn bytes_free(&self) -> usize {
        self.context.permit_pool.bytes_free()
    }

    pub(super) fn queue(&self, endpoint: EndpointId) -> Arc<EndpointQueue> {
        let known = self.by_endpoint.read().unwrap_or_else(PoisonError::into_inner).get(&endpoint).cloned();
        known.unwrap_or_else(|| {
            let mut queues = self.by_endpoint.write().unwrap_or_else(PoisonError::into_inner);
            queues.entry(endpoint).or_insert_with(|| Arc::new(self.new_queue(endpoint))).clone()
        })
    }

    /// Returns how many more deliveries a replay may bring to this queue now; `None` if it is not in memory.
    pub(super) fn replay_capacity(&self, endpoint: EndpointId, now: Timestamp) -> Option<usize> {
        let queue = self.by_endpoint.read().unwrap_or_else(PoisonError::into_inner).get(&endpoint).cloned();
        queue.map(|queue| queue.replay_capacity(now))
    }

    /// Returns the replay capacity of a queue that another node owns, as long as nothing waits there; `None` if this node
    /// owns it.
    pub(super) fn remote_replay_capacity(&self, endpoint: EndpointId) -> Option<usize> {
        let EndpointQueueSettings { shard, is_disabled, in_flight_max, rate, .. } = self.settings(endpoint);
        let is_here = self.context.node_state.is_single_node()
            || self.context.node_state.ownership(shard) != ShardOwnership::Remote;
        let rated = rate.map_or(usize::MAX, |rate| rate.per_second as usize);
        (!is_here).then(|| if is_disabled { usize::MAX } else { in_flight_max.min(rated).div_ceil(2) })
    }

    fn new_queue(&self, endpoint: EndpointId) -> EndpointQueue {
        let app = self.config_cache.endpoint(endpoint).map_or(AppId::from_i64(0), |found| found.record.app);
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let share = shares.entry(app).or_default().clone();
        drop(shares);
        self.update_app_limit(app);
        let tokens = TokenBucket::empty_at(self.started_at.get().copied());
        EndpointQueue::new(endpoint, (app, share), self.settings(endpoint), tokens, self.context.clone())
    }

    /// Returns the settings of a queue. A deleted endpoint counts as disabled: what waits for it is not sent.
    pub(super) fn settings(&self, endpoint: EndpointId) -> EndpointQueueSettings {
        let found = self.config_cache.endpoint(endpoint);
        let settings = found.as_ref().map(|endpoint| &endpoint.record.settings);
        let limit = settings.and_then(|settings| settings.max_in_flight);
        let is_gated = |endpoint: &Arc<Endpoint>| {
            let SharedLimits { in_flight, rate, .. } = self.limits.limits;
            in_flight.is_some() || rate.is_some() || !self.app_limit(endpoint.record.app).is_none()
        };
        let limited_app =
            found.as_ref().map(|found| found.record.app).filter(|app| self.app_limits(*app).is_some());
        let is_limited = |settings: &EndpointSettings| {
            settings.ordered != OrderingMode::None
                || settings.rate_limit.is_some()
                || settings.max_in_flight.is_some()
        };
        EndpointQueueSettings {
            shard: limited_app.map_or_else(|| shard_of(endpoint), shard_of_app),
            is_exclusive: !self.context.node_state.is_single_node()
                && (limited_app.is_some() || settings.is_some_and(is_limited)),
            in_flight_max: limit.map_or(self.limits.in_flight_per_endpoint, |limit| limit.max(1) as usize),
            rate: settings.and_then(|settings| settings.rate_limit),
            is_adaptive: found.as_ref().is_some_and(|found| found.contract.pacing == Pacing::Adaptive),
            order: settings.map_or(OrderingMode::None, |settings| settings.ordered),
            url: settings.map_or(0, |settings| hash_of(&settings.url)),
            is_limited: found.as_ref().is_some_and(is_gated),
            revision: found.as_ref().map_or(0, |endpoint| endpoint.record.revision),
            app_changed_at: limited_app
                .and_then(|app| self.config_cache.app_by_id(app))
                .map(|entry| entry.app().updated_at),
            is_disabled: found.is_none_or(|endpoint| endpoint.record.disabled.is_some()),
        }
    }

    fn app_limits(&self, app: AppId) -> Option<AppLimits> {
        self.config_cache.app_by_id(app).and_then(|entry| entry.app().settings.limits)
    }

    fn app_limit(&self, app: AppId) -> ConcurrencyLimit {
        let limits = self.app_limits(app);
        let in_flight = limits.and_then(|limits| limits.max_in_flight).map(|most| most as usize);
        ConcurrencyLimit {
            in_flight: in_flight.or(self.limits.limits.in_flight_per_app),
            rate: limits.and_then(|limits| limits.rate_limit),
        }
    }

    pub(super) fn update_app_limit(&self, app: AppId) {
        let ceiling = self.app_limit(app);
        self.limiter().set_limit(app, ceiling);
    }

    pub(super) fn limiter(&self) -> MutexGuard<'_, ConcurrencyLimiter> {
        self.context.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn adopt_settings(&self, queue: &Arc<EndpointQueue>) {
        if let Some(due) = queue.adopt_settings(|| self.settings(queue.endpoint)) {
            self.put_due(queue, due);
            self.refills.notify_one();
        }
        // It may send more at a time, or sooner.
        let _ = self.ready.send(queue.clone());
    }

    /// Removes and returns up to `most` queues that are due, the longest overdue first.
    pub(super) fn take_due(&self, now: Timestamp, most: usize) -> Vec<Arc<EndpointQueue>> {
        let mut due = self.due();
        let mut queues = Vec::new();
        while queues.len() < most
            && let Some(&(at, endpoint)) = due.first()
            && at <= now
        {
            due.pop_first();
            queues.push(self.queue(endpoint));
        }
        queues
    }

    /// Schedules a queue to be found at `due`.
    pub(super) fn put_due(&self, queue: &EndpointQueue, due: Timestamp) {
        self.due().insert((due, queue.endpoint));
    }

    /// Returns when the scheduler must check again.
    pub(super) fn first_due(&self) -> Option<Timestamp> {
        self.due().first().map(|(due, _)| *due)
    }

    /// Adopts the first due time that the store reports, whatever was known before.
    pub(super) fn recheck(&self, endpoint: EndpointId, due: Timestamp) {
        let Some(queue) = self.tracked_queue(endpoint) else { return };
        if queue.is_disabled() {
            self.schedule_apply(endpoint);
        }
        queue.forget_due();
        if let Some(due) = queue.note_due(due) {
            self.put_due(&queue, due);
        }
    }

    /// Sets a queue aside that is due and has no capacity.
    pub(super) fn block(&self, queue: Arc<EndpointQueue>) {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
    }

    /// Reschedules blocked queues that have capacity again.
    pub(super) fn unblock(&self) {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.retain(|queue| match queue.unblock() {
            Err(NoCapacity) => true,
            Ok(due) => {
                if let Some(due) = due {
                    self.put_due(queue, due);
                }
                false
            }
        });
    }

    /// Returns the earliest time at which anything in the store is due, blocked queues included.
    pub(super) fn oldest_due(&self) -> Option<Timestamp> {
        self.all().iter().filter_map(|queue| queue.next_due()).min()
    }

    pub(super) fn all(&self) -> Vec<Arc<EndpointQueue>> {
        let queues = self.by_endpoint.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = queues.values().cloned().collect();
        drop(queues);
        all.sort_unstable_by_key(|queue| queue.endpoint);
        all
    }

    /// Forgets queues of deleted endpoints that hold nothing any more.
    pub(super) fn forget_deleted(&self) {
        let mut queues = self.by_endpoint.write().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|endpoint, queue| self.config_cache.endpoint(*endpoint).is_some() || !queue.is_idle());
        drop(queues);
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.retain(|_, share| Arc::strong_count(share) > 1);
    }

    /// Reports the endpoint to housekeeping. If that has ended already, the next start handles it.
    pub(super) fn schedule_apply(&self, endpoint: EndpointId) {
        let _ = self.changed_endpoints.send(endpoint);
    }

    pub(super) fn due(&self) -> MutexGuard<'_, BTreeSet<(Timestamp, EndpointId)>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

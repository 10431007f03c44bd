//! The engine: leases due deliveries, no more than it has free permits for, sends them, and records the results.
//!
//! The way of a delivery: after its commit it enters its endpoint queue (`endpoint_queues`), `dispatcher` starts a delivery
//! worker, `renderer` makes the payload, `delivery_worker` brings it to a verdict. `scheduler` leases what waits in the store;
//! `retry_accelerator` brings retries forward when their endpoint answers again; `replayer` brings replays forward; `inspector`
//! tests receivers; `health` keeps statistics and evaluates endpoints; `retention_worker` removes what has outlived its
//! retention; `housekeeping` does the rest. Notices are sent by `notice_mailer` (mails) and `operational_webhooks`. Among
//! several nodes, `membership` decides which of them does what, `ownership` what that means for a queue, `leader` which one
//! does the work that is done once for all, `clock_sync` by which clock they evaluate endpoints, and `send_gate` which may
//! still send.

mod admission;
mod body_cache;
mod clock_sync;
mod commit_listener;
mod concurrency_limiter;
mod delivery_worker;
mod dispatcher;
mod endpoint_queue;
mod endpoint_queues;
mod function_fairness;
mod function_run;
mod function_slots;
mod health;
mod housekeeping;
mod inspector;
mod leader;
mod lease_guard;
mod membership;
mod notice_mailer;
mod operational_webhooks;
mod ownership;
mod permits;
mod prepared_request;
mod queue_sending;
mod queue_state;
mod ready_queue;
mod render_error;
mod renderer;
mod replayer;
mod retention_worker;
mod retry_accelerator;
mod scheduler;
mod send_gate;
mod timers;

pub use delivery_worker::DeliveryWorker;
pub use endpoint_queues::{EndpointQueues, EngineLimits, QueueEvents, SharedLimits};
pub use notice_mailer::MailSettings;
pub use renderer::Renderer;
pub use send_gate::NodeSendGate;

use crate::{
    domain::{contract::RetentionPeriod, ports::CommitListener, time::Timestamp},
    runtime::{IdGenerator, Shutdown, StorageSpace},
    store::{ClusterStore, QueryStore, StoreError},
};
use std::{sync::Arc, time::Duration};

pub struct Engine {
    pub queues: Arc<EndpointQueues>,
    pub queue_events: QueueEvents,
    pub delivery_worker: DeliveryWorker,
    pub cluster_store: Arc<dyn ClusterStore>,
    pub query_store: Arc<dyn QueryStore>,
    pub ids: IdGenerator,
    pub storage: Arc<StorageSpace>,
    /// How long audit records are kept.
    pub audit_retention: RetentionPeriod,
    /// Mail settings for notices; none are mailed if absent.
    pub mail_settings: Option<MailSettings>,
    /// App whose endpoints may receive notices about all apps.
    pub operator_app: Option<String>,
    /// How long requests in flight may take to end when the engine stops.
    pub grace_period: Duration,
    pub intervals: Intervals,
}

/// Intervals of the engine's periodic work. The defaults suit real time; tests that let weeks pass on a virtual clock use
/// longer ones.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// Updating the gauges.
    pub gauges: Duration,
    /// Counting what waits.
    pub count: Duration,
    /// Removing the remains of deleted apps.
    pub purge: Duration,
    /// Searching the store for due queues that no notification mentioned.
    pub recheck: Duration,
    /// Writing down when keys were last used.
    pub key_uses: Duration,
    /// Removing what has outlived its retention.
    pub retention: Duration,
    /// Removing old audit records.
    pub audit_retention: Duration,
    /// Rolling statistics up, and evaluating endpoints by them.
    pub health: Duration,
    /// Searching for notices that no notification mentioned.
    pub notices: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            gauges: Duration::from_secs(1),
            count: Duration::from_secs(15),
            purge: Duration::from_secs(5),
            recheck: Duration::from_mins(1),
            key_uses: Duration::from_mins(1),
            retention: Duration::from_secs(5),
            audit_retention: Duration::from_hours(1),
            health: Duration::from_secs(1),
            notices: Duration::from_mins(1),
        }
    }
}

/// Pause after a store error while the engine starts.
const START_ERROR_PAUSE: Duration = Duration::from_millis(500);
/// A store that cannot write must not keep a node from stopping.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Flushes at the end before a permit that does not come back is given up; each takes about as long as a commit.
const DRAIN_FLUSHES_MAX: usize = 1000;

impl Engine {
    /// Runs until stopped, then releases everything in flight and returns. The caller has joined the cluster before, so that
    /// no other node has this node's deliveries.
    pub async fn run(self, stop: Shutdown) -> Result<(), StoreError> {
        if self.queues.node_state().is_single_node() {
            return self.work(stop).await;
        }
        let membership = membership::Membership {
            queues: self.queues.clone(),
            cluster_store: self.cluster_store.clone(),
            clock: self.delivery_worker.clock.clone(),
            ids: self.ids.clone(),
        };
        // Until nothing is in flight any more: a node without heartbeats is taken over.
        tokio::select! {
            biased;
            worked = self.work(stop.clone()) => worked,
            ended = membership.run(stop) => ended,
        }
    }

    /// Reads what waits and how endpoints stand, from a store that may have gone away since it was joined. `None` if it is
    /// still away when this node is stopped.
    async fn load_state(&self, stop: &Shutdown) -> Result<Option<health::HealthWorker>, StoreError> {
        let mut was_told = false;
        loop {
            let found = async {
                let queues = self.cluster_store.find_queues().await?;
                let (cluster, every) = (self.cluster_store.clone(), self.intervals.health);
                Ok((
                    queues,
                    health::HealthWorker::begin(&self.delivery_worker, &self.queues, cluster, every).await?,
                ))
            };
            match found.await {
                Ok((queues, health)) => {
                    for (endpoint, due) in queues {
                        self.queues.delivery_waiting(endpoint, due);
                    }
                    return Ok(Some(health));
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Overloaded)) => {
                    if !std::mem::replace(&mut was_told, true) {
                        tracing::warn!(%error, "could not read yet what waits in the store");
                    }
                    tokio::select! {
                        biased;
                        () = stop.graceful() => return Ok(None),
                        () = self.delivery_worker.clock.sleep_for(START_ERROR_PAUSE) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn work(self, stop: Shutdown) -> Result<(), StoreError> {
        self.queues.start(self.delivery_worker.clock.now());
        let Some(health) = self.load_state(&stop).await? else { return Ok(()) };
        let start = Timestamp::from_millis(0);
        let leader = leader::LeaderRole {
            node_state: self.queues.node_state().clone(),
            clock: self.delivery_worker.clock.clone(),
        };
        let (scheduler, replayer, notifier) =
            (self.scheduler(), self.replayer(leader.clone()), self.notifier(leader.clone()));
        let (delivery_worker, queues) = (Arc::new(self.delivery_worker), self.queues);
        let mailer = notice_mailer::NoticeMailer::new(
            &delivery_worker,
            queues.mail_notices.clone(),
            self.mail_settings,
            self.intervals.notices,
            leader.clone(),
        );
        let expiry = retention_worker::RetentionWorker {
            config_cache: delivery_worker.config_cache.clone(),
            delivery_store: delivery_worker.delivery_store.clone(),
            cluster_store: self.cluster_store.clone(),
            clock: delivery_worker.clock.clone(),
            metrics: delivery_worker.metrics.clone(),
            every: self.intervals.retention,
            scans: Vec::new(),
            leader: leader.clone(),
        };
        let recovery = retry_accelerator::RetryAccelerator {
            recovered: self.queue_events.recovered_endpoints,
            delivery_store: delivery_worker.delivery_store.clone(),
            clock: delivery_worker.clock.clone(),
            under_way: Vec::new(),
        };
        let housekeeping = housekeeping::Housekeeping {
            queues: queues.clone(),
            changed_endpoints: self.queue_events.changed_endpoints,
            config_cache: delivery_worker.config_cache.clone(),
            delivery_store: delivery_worker.delivery_store.clone(),
            cluster_store: self.cluster_store,
            query_store: self.query_store,
            clock: delivery_worker.clock.clone(),
            metrics: delivery_worker.metrics.clone(),
            intervals: self.intervals,
            http_sender: delivery_worker.http_sender.clone(),
            measure_at: start,
            count_at: start,
            purge_at: start,
            key_uses_at: delivery_worker.clock.now().plus(self.intervals.key_uses),
            audit_removal_at: start,
            storage: self.storage,
            audit_retention: self.audit_retention,
            leader,
        };
        let is_alone = queues.node_state().is_single_node();
        let inspector = inspector::Inspector {
            inspections_waiting: queues.inspections.clone(),
            delivery_worker: delivery_worker.clone(),
            is_alone,
        };
        let mut dispatch = dispatcher::Dispatcher {
            queues,
            ready: self.queue_events.ready,
            delivery_worker: delivery_worker.clone(),
            grace_period: self.grace_period,
        };
        tokio::join!(
            scheduler.run(stop.clone()),
            housekeeping.run(stop.clone()),
            replayer.run(stop.clone()),
            inspector.run(stop.clone()),
            expiry.run(stop.clone()),
            health.run(stop.clone()),
            mailer.run(stop.clone()),
            notifier.run(stop.clone()),
            recovery.run(stop.clone()),
            dispatch.run(stop)
        );
        drain(&delivery_worker, &dispatch).await
    }

    fn scheduler(&self) -> scheduler::Scheduler {
        scheduler::Scheduler {
            queues: self.queues.clone(),
            config_cache: self.delivery_worker.config_cache.clone(),
            delivery_store: self.delivery_worker.delivery_store.clone(),
            cluster_store: self.cluster_store.clone(),
            clock: self.delivery_worker.clock.clone(),
            recheck_every: self.intervals.recheck,
            recheck_at: self.delivery_worker.clock.now().plus(self.intervals.recheck),
        }
    }

    fn replayer(&self, leader: leader::LeaderRole) -> replayer::Replayer {
        replayer::Replayer {
            queues: self.queues.clone(),
            config_cache: self.delivery_worker.config_cache.clone(),
            delivery_store: self.delivery_worker.delivery_store.clone(),
            query_store: self.query_store.clone(),
            cluster_store: self.cluster_store.clone(),
            clock: self.delivery_worker.clock.clone(),
            ids: self.ids.clone(),
            replays_changed: self.queues.replays.clone(),
            storage: self.storage.clone(),
            running: Vec::new(),
            leader,
        }
    }

    fn notifier(&self, leader: leader::LeaderRole) -> operational_webhooks::OperationalWebhooks {
        operational_webhooks::OperationalWebhooks {
            queues: self.queues.clone(),
            config_cache: self.delivery_worker.config_cache.clone(),
            delivery_store: self.delivery_worker.delivery_store.clone(),
            query_store: self.query_store.clone(),
            clock: self.delivery_worker.clock.clone(),
            ids: self.ids.clone(),
            storage: self.storage.clone(),
            notices_waiting: self.queues.webhook_notices.clone(),
            operator_app: self.operator_app.clone(),
            every: self.intervals.notices,
            leader,
        }
    }
}

/// Waits until every permit has come back. An event that was on its way into the store during the stop may hold one without
/// a worker: left alone, the next start would have to assume that it was sent.
async fn drain(
    delivery_worker: &DeliveryWorker,
    dispatch: &dispatcher::Dispatcher,
) -> Result<(), StoreError> {
    for _ in 0..DRAIN_FLUSHES_MAX {
        delivery_worker.delivery_store.flush().await?;
        dispatch.release_queued().await;
        if dispatch.queues.permits_out() == 0 {
            break;
        }
    }
    Ok(())
}

//! Membership of this node in the cluster: sends a heartbeat every second, closes the send gate when the store does not
//! answer, shares shards with the other nodes, and takes over what dead ones had leased. Not run on a single node.
//!
//! A node that takes this one over waits for the end of its lease, which runs from when its last heartbeat was executed. So
//! this node sends nothing later than a lease after that heartbeat was *sent*, less a margin, on a monotonic clock.

mod heartbeat;
mod rebalancer;
#[cfg(test)]
mod tests;

use super::endpoint_queues::EndpointQueues;
use crate::{
    domain::{
        cluster::{LEASE_MARGIN, NO_CONFIG_VERSION, NODE_LEASE},
        id::EndpointId,
        time::Monotonic,
    },
    runtime::{Clock, IdGenerator, NodeLease, ShardOwnership, Shutdown},
    store::{
        ClusterStore, StoreError,
        cluster::{ClusterView, Heartbeat, Joined},
    },
};
use heartbeat::HeartbeatTask;
use rebalancer::Rebalancer;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::watch;

const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
const HEARTBEAT_EVERY_UNCONFIRMED: Duration = Duration::from_millis(250);
/// Delay of a heartbeat after a notification: it comes sooner, but not at once, as more notifications may follow.
const HEARTBEAT_SOON: Duration = Duration::from_millis(50);
/// How long an answer to a heartbeat is waited for: a later one opens nothing.
const HEARTBEAT_TIMEOUT: Duration = NODE_LEASE.saturating_sub(LEASE_MARGIN);
/// Without an answer for so long nothing new is sent: its result could perhaps not be recorded.
const STORE_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longest time for which a machine's sleep goes unnoticed.
const GATE_CHECK_MAX: Duration = Duration::from_millis(250);
const JOIN_ERROR_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Membership {
    pub(super) queues: Arc<EndpointQueues>,
    pub(super) cluster_store: Arc<dyn ClusterStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: IdGenerator,
}

/// State shared by the parts of the membership.
struct MembershipState {
    queues: Arc<EndpointQueues>,
    cluster_store: Arc<dyn ClusterStore>,
    clock: Arc<dyn Clock>,
    ids: IdGenerator,
    lease: OwnLease,
    stop: Shutdown,
    /// Counts claims and releases of shards: an answer from before one says nothing about shards.
    shard_moves: AtomicU64,
    /// Queues that may become exclusive here, and which version of the configuration all other nodes have to know first.
    doubts: Mutex<BTreeMap<EndpointId, i64>>,
    /// Last answer to a heartbeat.
    reply: watch::Sender<Option<Arc<HeartbeatReply>>>,
}

/// Times on the monotonic clock, in milliseconds.
#[derive(Default)]
struct OwnLease {
    answered_at: AtomicI64,
    /// When another node may take over.
    ends_at: AtomicI64,
}

/// Answer to a heartbeat, and the count of shard moves when that was sent.
pub(super) struct HeartbeatReply {
    view: ClusterView,
    shard_moves: u64,
}

impl Membership {
    /// Runs for as long as the store takes heartbeats; the caller ends it when nothing is in flight any more.
    pub(super) async fn run(self, stop: Shutdown) -> Result<(), StoreError> {
        let Self { queues, cluster_store: cluster, clock, ids } = self;
        let lease = OwnLease::default();
        let shared = MembershipState {
            queues,
            cluster_store: cluster,
            clock,
            ids,
            lease,
            stop,
            shard_moves: AtomicU64::new(0),
            doubts: Mutex::default(),
            reply: watch::Sender::new(None),
        };
        shared.begin_lease();
        let rebalancer = Rebalancer::new(&shared);
        tokio::select! {
            biased;
            ended = HeartbeatTask::new(&shared).run() => ended,
            () = shared.watch_send_gate() => Ok(()),
            () = rebalancer.run() => Ok(()),
        }
    }
}

impl MembershipState {
    fn node_state(&self) -> &Arc<NodeLease> {
        self.queues.node_state()
    }

    /// Closes the gate: nothing is sent before a heartbeat was answered.
    fn begin_lease(&self) {
        self.queues.close_send_gate();
        let now = self.clock.monotonic();
        self.lease.answered_at.store(now.as_millis(), SeqCst);
        self.lease.ends_at.store(now.plus(NODE_LEASE).as_millis(), SeqCst);
    }

    /// Returns the time between two heartbeats: shorter while confirmations by other nodes are awaited.
    fn heartbeat_interval(&self) -> Duration {
        if self.unconfirmed().is_empty() { HEARTBEAT_EVERY } else { HEARTBEAT_EVERY_UNCONFIRMED }
    }

    fn heartbeat(&self) -> Heartbeat {
        let survey = self.queues.survey(self.clock.now());
        Heartbeat {
            config_version: self.node_state().config_version(),
            free_permits: u32::try_from(self.queues.context.permit_pool.free()).unwrap_or(u32::MAX),
            overloaded_queues: survey.help_wanted,
            is_stopping: self.stop.is_graceful(),
        }
    }

    /// Notes that a heartbeat was answered: requests may begin until then.
    fn extend_lease(&self, until: Monotonic) {
        let now = self.clock.monotonic();
        self.lease.answered_at.store(now.as_millis(), SeqCst);
        self.lease.ends_at.fetch_max(until.as_millis(), SeqCst);
        // A node that joined again may have missed that a queue became another's alone: it begins nothing before it has read
        // the configuration.
        if until > now && self.node_state().config_version() != NO_CONFIG_VERSION {
            self.node_state().set_lease_valid_until(until);
            if self.queues.open_send_gate() {
                tracing::info!("the store answers: deliveries are sent");
            }
        }
    }

    /// Closes the gate in time, and ends requests that must not be on their way when another node takes over.
    async fn watch_send_gate(&self) {
        let mut was_cut_at = None;
        loop {
            let now = self.clock.monotonic();
            let silent_at =
                Monotonic::from_millis(self.lease.answered_at.load(SeqCst)).plus(STORE_SILENCE_MAX);
            let ends_at = Monotonic::from_millis(self.lease.ends_at.load(SeqCst));
            let closes_at = silent_at.min(self.node_state().lease_valid_until());
            if closes_at <= now && self.queues.close_send_gate() {
                self.node_state().set_lease_valid_until(now.min(self.node_state().lease_valid_until()));
                tracing::warn!("the store does not answer: nothing is sent until it does");
            }
            if ends_at <= now && was_cut_at != Some(ends_at) {
                was_cut_at = Some(ends_at);
                self.queues.cut_exclusive();
            }
            let next = [closes_at, ends_at].into_iter().filter(|at| *at > now).min();
            let wait = next.map_or(GATE_CHECK_MAX, |at| at.since(now).min(GATE_CHECK_MAX));
            self.clock.sleep_for(wait).await;
        }
    }

    /// Joins again after this node was taken over: under another epoch and with nothing of its own.
    async fn join_again(&self) -> Result<(), StoreError> {
        tracing::warn!("this node was taken over, because the store did not hear from it; it joins again");
        self.queues.close_send_gate();
        self.node_state().set_lease_valid_until(Monotonic::from_millis(i64::MIN));
        self.queues.cut_exclusive();
        let joined = loop {
            match self.cluster_store.join(self.clock.now()).await {
                Ok(joined) => break joined,
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => tracing::warn!(%error, "could not join again"),
            }
            self.clock.sleep_for(JOIN_ERROR_PAUSE).await;
        };
        let Joined { slot, epoch, newest_id, .. } = joined;
        self.ids.move_to(slot, newest_id);
        self.shard_moves.fetch_add(1, SeqCst);
        self.node_state().rejoin(epoch);
        self.queues.drop_all_leases();
        self.unconfirmed().clear();
        self.begin_lease();
        Ok(())
    }

    fn unconfirmed(&self) -> MutexGuard<'_, BTreeMap<EndpointId, i64>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_owners(&self, shards: &[u8], ownership: ShardOwnership) {
        for shard in shards {
            self.node_state().set_ownership(*shard, ownership);
        }
    }
}

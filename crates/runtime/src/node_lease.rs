//! The cluster state of this node: the shards it owns, the end of its lease, and the configuration version it has seen.
//! Checks are lock-free reads.
//!
//! A node that is alone in its store owns every shard and has a lease without end; its checks cost an atomic load and read
//! no clock.

use model::{
    cluster::{NO_CONFIG_VERSION, SHARD_COUNT},
    time::Monotonic,
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

/// The owner of this shard is the leader: it also does the work that is done once for all nodes.
const LEADER_SHARD: u8 = 0;

/// The owner of a shard, as seen by this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardOwnership {
    Remote,
    Local,
    /// Still owned, until all work that must not overlap with another node's has ended.
    Draining,
}

#[derive(Debug)]
pub struct NodeLease {
    is_single_node: AtomicBool,
    epoch: AtomicI64,
    ownership: [AtomicU8; SHARD_COUNT],
    /// The end of the lease, in milliseconds of the monotonic clock.
    lease_valid_until: AtomicI64,
    /// The configuration version seen. Its lock orders changes of it with those of the epoch.
    config_version: Mutex<i64>,
    leader_tasks: AtomicUsize,
}

/// The state before joining: no shards, no lease.
impl Default for NodeLease {
    fn default() -> Self {
        Self {
            is_single_node: AtomicBool::new(false),
            epoch: AtomicI64::new(0),
            ownership: std::array::from_fn(|_| AtomicU8::new(ShardOwnership::Remote as u8)),
            lease_valid_until: AtomicI64::new(i64::MIN),
            config_version: Mutex::new(0),
            leader_tasks: AtomicUsize::new(0),
        }
    }
}

impl NodeLease {
    /// Makes the state of the only node of a store.
    pub fn single_node() -> Self {
        let node_state = Self::default();
        node_state.set_single_node();
        node_state
    }

    pub fn set_single_node(&self) {
        self.is_single_node.store(true, SeqCst);
        self.ownership.iter().for_each(|ownership| ownership.store(ShardOwnership::Local as u8, SeqCst));
        self.lease_valid_until.store(i64::MAX, SeqCst);
    }

    /// Sets the state of a node that just joined under this epoch: no shards, no lease.
    pub fn join(&self, epoch: i64) {
        self.lease_valid_until.store(i64::MIN, SeqCst);
        self.ownership.iter().for_each(|ownership| ownership.store(ShardOwnership::Remote as u8, SeqCst));
        self.epoch.store(epoch, SeqCst);
    }

    /// Sets the state of a node that joined again after it was taken over. It has seen no configuration, as the store may have
    /// been replaced.
    pub fn rejoin(&self, epoch: i64) {
        let mut seen = self.lock_config_version();
        *seen = NO_CONFIG_VERSION;
        self.join(epoch);
    }

    pub fn is_single_node(&self) -> bool {
        self.is_single_node.load(Relaxed)
    }

    /// Returns the epoch, which identifies a start of a process; 0 where only one runs at a time.
    pub fn epoch(&self) -> i64 {
        self.epoch.load(SeqCst)
    }

    pub fn ownership(&self, shard: u8) -> ShardOwnership {
        match self.ownership[usize::from(shard)].load(SeqCst) {
            1 => ShardOwnership::Local,
            2 => ShardOwnership::Draining,
            _ => ShardOwnership::Remote,
        }
    }

    pub fn set_ownership(&self, shard: u8, ownership: ShardOwnership) {
        self.ownership[usize::from(shard)].store(ownership as u8, SeqCst);
    }

    /// Returns all shards in this state.
    pub fn shards_in(&self, ownership: ShardOwnership) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(move |shard| self.ownership(*shard) == ownership)
    }

    pub fn lease_valid_until(&self) -> Monotonic {
        Monotonic::from_millis(self.lease_valid_until.load(SeqCst))
    }

    pub fn set_lease_valid_until(&self, until: Monotonic) {
        self.lease_valid_until.store(until.as_millis(), SeqCst);
    }

    /// Whether a request may begin now. Reads the clock only if the lease has an end.
    pub fn is_lease_valid(&self, now: impl FnOnce() -> Monotonic) -> bool {
        let until = self.lease_valid_until.load(SeqCst);
        until == i64::MAX || now().as_millis() < until
    }

    /// Returns the configuration version that this node has seen.
    pub fn config_version(&self) -> i64 {
        *self.lock_config_version()
    }

    /// Records a configuration version seen under this epoch. Ignored if the node has joined again since.
    pub fn set_config_version(&self, version: i64, epoch: i64) {
        let mut seen = self.lock_config_version();
        if self.epoch() == epoch {
            *seen = version;
        }
    }

    fn lock_config_version(&self) -> MutexGuard<'_, i64> {
        self.config_version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a guard for a piece of leader work, if this node is the leader. The leader's shard stays here until the guard is
    /// dropped.
    pub fn lead(self: &Arc<Self>, now: impl FnOnce() -> Monotonic) -> Option<LeaderGuard> {
        // Counted before the check: the code that gives the shard up marks it before it checks for running work.
        self.leader_tasks.fetch_add(1, SeqCst);
        let at_work = LeaderGuard(self.clone());
        let is_leader = self.ownership(LEADER_SHARD) == ShardOwnership::Local && self.is_lease_valid(now);
        is_leader.then_some(at_work)
    }

    /// Whether leader work is running, if this is the leader's shard.
    pub fn has_leader_task(&self, shard: u8) -> bool {
        shard == LEADER_SHARD && self.leader_tasks.load(SeqCst) > 0
    }
}

/// The guard that the leader holds during a piece of leader work.
#[derive(Debug)]
pub struct LeaderGuard(Arc<NodeLease>);

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        self.0.leader_tasks.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Monotonic {
        Monotonic::from_millis(ms)
    }

    #[test]
    fn a_single_node_owns_every_shard_and_reads_no_clock() {
        let node_state = Arc::new(NodeLease::single_node());
        let no_clock = || panic!("a clock was asked");
        assert!(
            node_state.is_single_node()
                && node_state.is_lease_valid(no_clock)
                && node_state.lead(no_clock).is_some()
        );
        assert_eq!(node_state.shards_in(ShardOwnership::Local).count(), SHARD_COUNT);
    }

    #[test]
    fn a_node_that_has_not_joined_or_rejoins_owns_no_shard_and_has_no_lease() {
        let node_state = NodeLease::default();
        assert!(!node_state.is_single_node() && !node_state.is_lease_valid(|| at(i64::MIN)));
        node_state.join(7);
        node_state.set_ownership(3, ShardOwnership::Local);
        node_state.set_lease_valid_until(at(10));
        assert!(
            node_state.is_lease_valid(|| at(9)) && !node_state.is_lease_valid(|| at(10)),
            "the end is not in it"
        );
        node_state.join(8);
        assert_eq!((node_state.epoch(), node_state.ownership(3)), (8, ShardOwnership::Remote));
        assert!(!node_state.is_lease_valid(|| at(9)));
    }

    #[test]
    fn only_the_leader_gets_a_leader_guard_and_it_is_counted() {
        let node_state = Arc::new(NodeLease::default());
        node_state.join(7);
        node_state.set_lease_valid_until(at(10));
        node_state.set_ownership(1, ShardOwnership::Local);
        assert!(node_state.lead(|| at(1)).is_none());
        node_state.set_ownership(0, ShardOwnership::Local);
        assert!(node_state.lead(|| at(10)).is_none(), "it may not call out any more");
        let at_work = node_state.lead(|| at(9)).unwrap();
        node_state.set_ownership(0, ShardOwnership::Draining);
        assert!(node_state.lead(|| at(9)).is_none(), "nothing is begun that would keep it");
        assert!(node_state.has_leader_task(0) && !node_state.has_leader_task(1));
        drop(at_work);
        assert!(!node_state.has_leader_task(0));
    }
}

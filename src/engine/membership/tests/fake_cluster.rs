//! Fake cluster store that several nodes share: members, leases and shards; in memory, in virtual time.

use crate::{
    domain::{
        cluster::{NODE_LEASE, OutageReport, SHARD_COUNT},
        id::{EndpointId, KeyId},
        replay::Replay,
        retention::RetentionPolicy,
        storage::StorageUsage,
        time::{Monotonic, Timestamp},
    },
    runtime::{Clock, VirtualClock},
    store::{
        ClusterStore, Reply, StoreError,
        cluster::{
            ClusterView, ConfigChanges, HealthBootstrap, HealthCandidate, Heartbeat, Joined, Node,
            PurgedRecords, RollupResult,
        },
        retention::{OverdueEvents, OverdueSearch},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

pub(super) struct FakeCluster {
    pub(super) clock: Arc<VirtualClock>,
    state: Mutex<FakeClusterState>,
}

#[derive(Default)]
pub(super) struct FakeClusterState {
    nodes: BTreeMap<i64, MemberRow>,
    pub(super) shards: Vec<i64>,
    /// Version of the configuration.
    pub(super) version: i64,
    /// Deliveries in flight: the epoch and the endpoint.
    pub(super) in_flight: BTreeSet<(i64, EndpointId)>,
    last_epoch: i64,
    /// Endpoints that have only failed for long.
    pub(super) failing: Vec<EndpointId>,
}

struct MemberRow {
    lease_until: Monotonic,
    last_heartbeat: Heartbeat,
}

impl FakeCluster {
    pub(super) fn new() -> Arc<Self> {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let state = FakeClusterState { shards: vec![0; SHARD_COUNT], ..FakeClusterState::default() };
        Arc::new(Self { clock, state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FakeClusterState> {
        self.state.lock().unwrap()
    }

    pub(super) fn shards_of(&self, epoch: i64) -> usize {
        self.state().shards.iter().filter(|owner| **owner == epoch).count()
    }

    fn view(&self) -> ClusterView {
        let (state, now) = (self.state(), self.clock.monotonic());
        let node = |(epoch, row): (&i64, &MemberRow)| Node {
            epoch: *epoch,
            slot: Some(*epoch as u8),
            name: format!("node {epoch}"),
            version: String::new(),
            is_expired: row.lease_until <= now,
            config_version: row.last_heartbeat.config_version,
            free_permits: row.last_heartbeat.free_permits,
            overloaded_queues: row.last_heartbeat.overloaded_queues.clone(),
            joined_at: Timestamp::from_millis(0),
            lease_ms: row.lease_until.as_millis() - now.as_millis(),
            is_stopping: row.last_heartbeat.is_stopping,
        };
        ClusterView {
            nodes: state.nodes.iter().map(node).collect(),
            shards: state.shards.clone(),
            version: state.version,
            write_counter: 0,
            may_take_over: true,
        }
    }
}

/// The store as one node reaches it.
pub(super) struct FakeNode {
    cluster: Arc<FakeCluster>,
    epoch: AtomicI64,
    /// Whether the link is cut, in both directions.
    pub(super) is_cut: AtomicBool,
    /// How long answers are on their way.
    pub(super) delay_ms: AtomicU64,
}

impl FakeNode {
    pub(super) fn to(cluster: &Arc<FakeCluster>) -> Arc<Self> {
        let (is_cut, delay_ms) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { cluster: cluster.clone(), epoch: AtomicI64::new(0), is_cut, delay_ms })
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut FakeClusterState, i64) -> T + Send + 'a,
    ) -> Reply<'a, T> {
        Box::pin(async move {
            if self.is_cut.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            let done = work(&mut self.cluster.state(), self.epoch.load(SeqCst));
            let delay = self.delay_ms.load(SeqCst);
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            Ok(done)
        })
    }
}

/// Methods that the membership never calls.
macro_rules! never {
    ($(fn $name:ident($($kind:ty),*) -> $answer:ty;)+) => {
        $(fn $name(&self, $(_: $kind),*) -> Reply<'_, $answer> {
            Box::pin(async { Err(StoreError::Closed) })
        })+
    };
}

impl ClusterStore for FakeNode {
    fn join(&self, _: Timestamp) -> Reply<'_, Joined> {
        self.answer(|state, _| {
            state.last_epoch += 1;
            let (epoch, lease_until) = (state.last_epoch, self.cluster.clock.monotonic().plus(NODE_LEASE));
            state.nodes.insert(epoch, MemberRow { lease_until, last_heartbeat: Heartbeat::default() });
            self.epoch.store(epoch, SeqCst);
            Joined { slot: epoch as u8, epoch, is_alone: false, newest_id: 0, taken_over: 0 }
        })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<ClusterView>> {
        let reply = self.answer(move |state, epoch| {
            let row = state.nodes.get_mut(&epoch)?;
            *row = MemberRow {
                lease_until: self.cluster.clock.monotonic().plus(NODE_LEASE),
                last_heartbeat: heartbeat,
            };
            Some(())
        });
        Box::pin(async move { reply.await.map(|reply| reply.map(|()| self.cluster.view())) })
    }

    fn take_over(&self, epoch: i64, _: Timestamp) -> Reply<'_, Option<usize>> {
        self.answer(move |state, _| {
            let is_over = state.nodes.get(&epoch)?.lease_until <= self.cluster.clock.monotonic();
            is_over.then(|| {
                let before = state.in_flight.len();
                state.in_flight.retain(|(owner, _)| *owner != epoch);
                state.shards.iter_mut().filter(|owner| **owner == epoch).for_each(|owner| *owner = 0);
                state.nodes.remove(&epoch);
                before - state.in_flight.len()
            })
        })
    }

    fn claim_shards(&self, most: usize) -> Reply<'_, Vec<u8>> {
        self.answer(move |state, epoch| {
            let free = (0..=u8::MAX).zip(&mut state.shards).filter(|(_, owner)| **owner == 0).take(most);
            free.map(|(shard, owner)| {
                *owner = epoch;
                shard
            })
            .collect()
        })
    }

    fn release_shards(&self, shards: Vec<u8>) -> Reply<'_, ()> {
        self.answer(move |state, epoch| {
            for shard in shards {
                let owner = &mut state.shards[usize::from(shard)];
                assert_eq!(*owner, epoch, "only owned shards can be released");
                *owner = 0;
            }
        })
    }

    fn in_flight_elsewhere(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointId>> {
        self.answer(move |state, epoch| {
            let elsewhere = state.in_flight.iter().filter(|(owner, _)| *owner != epoch).map(|(_, of)| *of);
            elsewhere.filter(|endpoint| endpoints.contains(endpoint)).collect()
        })
    }

    fn health_bootstrap(&self, _: Timestamp) -> Reply<'_, HealthBootstrap> {
        self.answer(|state, _| HealthBootstrap {
            failing: state.failing.clone(),
            ..HealthBootstrap::default()
        })
    }

    never! {
        fn changes(i64) -> ConfigChanges;
        fn nodes() -> ClusterView;
        fn find_queues() -> Vec<(EndpointId, Timestamp)>;
        fn queues_with_due(Vec<EndpointId>, Timestamp) -> Vec<EndpointId>;
        fn purge_deleted_apps() -> bool;
        fn overdue(OverdueSearch, Arc<dyn RetentionPolicy>, Timestamp) -> OverdueEvents;
        fn purge_records(Timestamp) -> PurgedRecords;
        fn usage() -> StorageUsage;
        fn record_key_uses(Vec<(KeyId, Timestamp)>) -> ();
        fn running_replays() -> Vec<Replay>;
        fn endpoints_to_apply() -> Vec<EndpointId>;
        fn roll_up(Duration, Timestamp) -> RollupResult;
        fn sync_outage_clock(OutageReport, Timestamp) -> OutageReport;
        fn degraded() -> Vec<EndpointId>;
        fn evaluate_health(Vec<HealthCandidate>, Timestamp) -> ();
    }
}

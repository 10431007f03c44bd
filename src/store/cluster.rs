//! Cluster: joining, taking over from dead nodes, and finding endpoint queues with work.
//!
//! Every start of a node has an epoch, its writer epoch; a node that was taken over writes nothing more. With an embedded
//! store there is one node, whose epoch is 0, and crash recovery takes over everything that an earlier process had in flight.

pub use crate::domain::node_lease::SHARD_COUNT;

use super::{
    Reply, Store,
    backend::MembershipBackend,
    sql::{adjusted_clock, changes, inspections, maintenance, nodes, shards},
};
use crate::domain::{
    id::{AppId, EndpointId, EventTypeId, KeyId},
    outage_detector::OutageReport,
    storage::StorageUsage,
    time::Timestamp,
};

/// Answer to a node that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The node slot that its ids carry.
    pub slot: u8,
    /// The epoch under which it leases deliveries from now on.
    pub epoch: i64,
    /// There can be no other node: nothing is shared, and no takeover happens while this one lives.
    pub is_alone: bool,
    /// The newest id in the store: new ones must be larger.
    pub newest_id: i64,
    /// Deliveries that an earlier node had in flight when it died; each now has an attempt "outcome unknown".
    pub taken_over: usize,
}

/// Heartbeat: the state that a node reports once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The version up to which it follows the configuration; negative before it has read it.
    pub config_version: i64,
    pub free_permits: u32,
    /// Endpoint queues with more due deliveries than it has permits for.
    pub overloaded_queues: Vec<EndpointId>,
    /// The node finishes what is in flight and leases nothing new.
    pub is_stopping: bool,
}

/// A node as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub epoch: i64,
    /// The node slot that its ids carry; `None` once it left or was fenced, because then it writes nothing more.
    pub slot: Option<u8>,
    /// The name of its machine.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// The node left, or its lease is over: its deliveries in flight are to be taken over.
    pub is_expired: bool,
    pub config_version: i64,
    pub free_permits: u32,
    pub overloaded_queues: Vec<EndpointId>,
    /// No work may be given to it any more.
    pub is_stopping: bool,
    pub joined_at: Timestamp,
    /// How long its lease still runs; negative once it is over.
    pub lease_ms: i64,
}

impl Node {
    /// Lives, knows the configuration and is not stopping: work may be given to it.
    pub fn is_available(&self) -> bool {
        !self.is_expired && !self.is_stopping && self.config_version >= 0
    }
}

/// State of the cluster, as of one heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// All nodes, this one too.
    pub nodes: Vec<Node>,
    /// The epoch of the node that owns each shard; 0 if the shard is free.
    pub shards: Vec<i64>,
    /// Version of the configuration.
    pub version: i64,
    /// Changes whenever another node has written something.
    pub write_counter: i64,
    /// This node's lease has not lapsed lately, so that it may take over others.
    pub may_take_over: bool,
}

/// Configuration that was added, changed or removed after a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChanges {
    /// The version as of now.
    pub version: i64,
    pub apps: Vec<AppId>,
    pub endpoints: Vec<EndpointId>,
    pub keys: Vec<KeyId>,
    pub event_types: Vec<EventTypeId>,
    /// Which records changed is not known any more: the whole configuration is to be read again.
    pub is_all: bool,
}

fn answer<T: Send + 'static>(known: T) -> Reply<T> {
    Box::pin(std::future::ready(Ok(known)))
}

/// View of a store that can have only one node.
fn alone() -> ClusterView {
    ClusterView {
        nodes: Vec::new(),
        shards: vec![0; SHARD_COUNT],
        version: 0,
        write_counter: 0,
        may_take_over: true,
    }
}

impl Store {
    /// Joins, and takes over what dead nodes had in flight. Their running inspections are interrupted; the engine is notified
    /// if inspections wait. A node that was taken over calls it again and starts under a new epoch; results and releases
    /// under the old epoch then change nothing.
    pub fn join(&self, now: Timestamp) -> Reply<Joined> {
        if let Some(membership) = self.backend.membership() {
            return membership.join(now);
        }
        let reply = self.backend.write_then(
            move |tx| Ok((maintenance::join_alone(tx, now)?, inspections::waits(tx)?)),
            |(_, inspections_wait), after| after.inspections_wait |= *inspections_wait,
        );
        Box::pin(async move { reply.await.map(|(joined, _)| joined) })
    }

    /// Renews this node's lease, from the time of the call on. `None` if it was taken over: it has to
    /// join again.
    pub fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<Option<ClusterView>> {
        self.backend
            .membership()
            .map_or_else(|| answer(Some(alone())), |membership| membership.heartbeat(heartbeat))
    }

    /// Takes over what the node of this epoch had in flight and frees its shards, if its lease is over and this node
    /// is steady. Returns the number of deliveries; `None` if that node lives or this one is not steady. The next takeover
    /// finishes an interrupted one.
    pub fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<Option<usize>> {
        match self.backend.membership() {
            Some(membership) => membership.take_over(epoch, now),
            None => answer(None),
        }
    }

    /// Makes this node the owner of up to `most` free shards; returns them.
    pub fn claim_shards(&self, most: usize) -> Reply<Vec<u8>> {
        match self.backend.membership() {
            Some(_) => self.backend.write(move |tx| shards::claim(tx, most)),
            None => answer(Vec::new()),
        }
    }

    /// Frees those of these shards that this node owns.
    pub fn release_shards(&self, shards: Vec<u8>) -> Reply<()> {
        match self.backend.membership() {
            Some(_) => self.backend.write(move |tx| shards::release(tx, &shards)),
            None => answer(()),
        }
    }

    /// Returns those of these endpoints of which another node has deliveries in flight.
    pub fn in_flight_elsewhere(&self, endpoints: Vec<EndpointId>) -> Reply<Vec<EndpointId>> {
        match self.backend.membership().map(<dyn MembershipBackend>::epoch) {
            Some(epoch) => self
                .backend
                .read_for_engine(move |connection| nodes::in_flight_elsewhere(connection, epoch, &endpoints)),
            None => answer(Vec::new()),
        }
    }

    /// Returns which configuration changed after a version. No changes where there can be only one node.
    pub fn changes(&self, after: i64) -> Reply<ConfigChanges> {
        match self.backend.membership() {
            Some(_) => self.backend.read_for_engine(move |connection| changes::since(connection, after)),
            None => answer(ConfigChanges { version: after, ..ConfigChanges::default() }),
        }
    }

    /// Returns the state of the cluster, for people; no nodes where there can be only one.
    pub fn nodes(&self) -> Reply<ClusterView> {
        self.backend.membership().map_or_else(|| answer(alone()), <dyn MembershipBackend>::nodes)
    }

    /// Returns every endpoint queue in which something will be due, and its first due time. Costs a look-up per queue, not
    /// per delivery.
    pub fn find_queues(&self) -> Reply<Vec<(EndpointId, Timestamp)>> {
        self.backend.read_for_engine(maintenance::find_queues)
    }

    /// Returns those of these endpoint queues that hold something due.
    pub fn queues_with_due(&self, endpoints: Vec<EndpointId>, now: Timestamp) -> Reply<Vec<EndpointId>> {
        self.backend
            .read_for_engine(move |connection| maintenance::queues_with_due(connection, &endpoints, now))
    }

    /// Returns every endpoint with deliveries that its availability says should be held, cancelled or released and are not
    /// yet, or with dead ones that block others although it skips them.
    pub fn endpoints_to_apply(&self) -> Reply<Vec<EndpointId>> {
        self.backend.read_for_engine(maintenance::endpoints_to_apply)
    }

    /// How much room the store takes, and how much there is.
    pub fn usage(&self) -> Reply<StorageUsage> {
        self.backend.measure()
    }

    /// Reports the outage-adjusted time that this node has counted, and whether the outage is local. Returns the time of all
    /// nodes together, and whether one of them reported a local outage lately. The time never goes back.
    pub fn sync_outage_clock(&self, own: OutageReport, now: Timestamp) -> Reply<OutageReport> {
        if self.backend.membership().is_none() {
            return answer(own);
        }
        let backend = self.backend.clone();
        Box::pin(async move {
            let all = backend
                .read_for_engine(move |connection| adjusted_clock::cluster_clock(connection, now))
                .await?;
            if adjusted_clock::must_be_written(own, all) {
                backend.write(move |tx| adjusted_clock::write(tx, own, now)).await?;
            }
            Ok(OutageReport {
                adjusted_time: all.adjusted_time.max(own.adjusted_time),
                is_local_outage: all.is_local_outage,
            })
        })
    }
}

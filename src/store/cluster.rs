//! Cluster store: joining, taking over from dead nodes, finding endpoint queues with work.
//!
//! Every start of a node has an epoch, its writer epoch; a node that was taken over writes nothing more. With an embedded
//! store there is one node, whose epoch is 0, and crash recovery takes over everything that an earlier process had in flight.

pub use crate::domain::cluster::SHARD_COUNT;

use super::{
    Reply,
    retention::{OverdueEvents, OverdueSearch},
};
use crate::domain::{
    circuit_breaker::PausedUntil,
    cluster::OutageReport,
    contract::Contract,
    id::{AppId, EndpointId, EventTypeId, KeyId},
    replay::Replay,
    retention::RetentionPolicy,
    storage::StorageUsage,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

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

/// Result of purging old records of people's actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgedRecords {
    /// Keys that are gone from the store.
    pub keys: Vec<KeyId>,
    pub has_more: bool,
}

/// Health state that a node loads when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthBootstrap {
    /// Outage-adjusted time that has passed in all: the time for which receivers can be held to account.
    pub adjusted_time: Duration,
    /// Endpoints that have only failed for long: their queues start as not trusted.
    pub failing: Vec<EndpointId>,
    /// Endpoints that asked for a pause which is not over.
    pub paused: Vec<(EndpointId, PausedUntil)>,
    /// Endpoints that accepted a delivery in the last days.
    pub healthy: Vec<EndpointId>,
}

/// Result of a statistics rollup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollupResult {
    /// Endpoints whose health windows may have changed: something failed, or something happened while they are degraded.
    pub candidates: Vec<EndpointId>,
    /// How many statistics rows were written.
    pub rows: usize,
    /// The log holds more rows to roll up at once.
    pub has_more: bool,
}

/// An enabled endpoint, to be evaluated by its contract.
#[derive(Clone, Debug)]
pub struct HealthCandidate {
    pub app: AppId,
    pub endpoint: EndpointId,
    pub contract: Arc<Contract>,
}

pub trait ClusterStore: Send + Sync {
    /// Joins, and takes over what dead nodes had in flight. Their running inspections are interrupted; the engine is notified
    /// if inspections wait. A node that was taken over calls it again and starts under a new epoch; results and releases
    /// under the old epoch then change nothing.
    fn join(&self, now: Timestamp) -> Reply<'_, Joined>;

    /// Renews this node's lease, for another ten seconds from the time of the call. `None` if it was taken over: it has to
    /// join again.
    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<ClusterView>>;

    /// Takes over what the node of this epoch had in flight and frees its shards, if its lease is over and this node
    /// is steady. Returns the number of deliveries; `None` if that node lives or this one is not steady. The next takeover
    /// finishes an interrupted one.
    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'_, Option<usize>>;

    /// Makes this node the owner of up to `most` free shards; returns them.
    fn claim_shards(&self, most: usize) -> Reply<'_, Vec<u8>>;

    /// Frees those of these shards that this node owns.
    fn release_shards(&self, shards: Vec<u8>) -> Reply<'_, ()>;

    /// Returns those of these endpoints of which another node has deliveries in flight.
    fn in_flight_elsewhere(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointId>>;

    fn changes(&self, after: i64) -> Reply<'_, ConfigChanges>;

    /// Returns the state of the cluster, for people; no nodes where there can be only one.
    fn nodes(&self) -> Reply<'_, ClusterView>;

    /// Returns every endpoint queue in which something will be due, and its first due time. Costs a look-up per queue, not
    /// per delivery.
    fn find_queues(&self) -> Reply<'_, Vec<(EndpointId, Timestamp)>>;

    /// Returns those of these endpoint queues that hold something due.
    fn queues_with_due(&self, queues: Vec<EndpointId>, now: Timestamp) -> Reply<'_, Vec<EndpointId>>;

    /// Removes a bounded number of rows that deleted apps left behind; `true` while there is more to do.
    fn purge_deleted_apps(&self) -> Reply<'_, bool>;

    /// Examines a bounded number of events for some of which a part is due for removal.
    fn overdue(
        &self,
        search: OverdueSearch,
        keeps: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<'_, OverdueEvents>;

    /// Removes a bounded number of old records that ended before this time: entries of the audit log, replays, inspections,
    /// notices (a week later if they still wait to be sent), revoked and expired keys.
    fn purge_records(&self, before: Timestamp) -> Reply<'_, PurgedRecords>;

    /// How much room the store takes, and how much there is.
    fn usage(&self) -> Reply<'_, StorageUsage>;

    /// Stores when these keys were last used; an earlier use than the stored one changes nothing.
    fn record_key_uses(&self, uses: Vec<(KeyId, Timestamp)>) -> Reply<'_, ()>;

    /// Returns every running replay.
    fn running_replays(&self) -> Reply<'_, Vec<Replay>>;

    /// Returns every endpoint with deliveries that its availability says should be held, cancelled or released and are not
    /// yet, or with dead ones that block others although it skips them.
    fn endpoints_to_apply(&self) -> Reply<'_, Vec<EndpointId>>;

    fn health_bootstrap(&self, now: Timestamp) -> Reply<'_, HealthBootstrap>;

    /// Adds the statistics that commits logged, a bounded part of them, and removes a few expired rows. Stores the
    /// outage-adjusted time where it may be needed.
    fn roll_up(&self, adjusted_time: Duration, now: Timestamp) -> Reply<'_, RollupResult>;

    /// Reports the outage-adjusted time that this node has counted, and whether the outage is local. Returns the time of all
    /// nodes together, and whether one of them reported a local outage lately. The time never goes back.
    fn sync_outage_clock(&self, mine: OutageReport, now: Timestamp) -> Reply<'_, OutageReport>;

    /// Returns every degraded endpoint.
    fn degraded(&self) -> Reply<'_, Vec<EndpointId>>;

    /// Marks these endpoints degraded or healthy as their windows say, writes notices, and disables those whose events ended
    /// failed too often without an attempt. The engine is notified after the commit.
    fn evaluate_health(&self, candidates: Vec<HealthCandidate>, now: Timestamp) -> Reply<'_, ()>;
}

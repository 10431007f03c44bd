//! Ways to break the promises between nodes, so that the checks can prove that they notice. `None` in all honest runs.
//!
//! Every one acts from outside: directly in the file, or at the send gate of a node.

use posthaste::{
    domain::{cluster::LEASE_MARGIN, ports::SendGate, time::Monotonic},
    runtime::{Clock, NodeLease, VirtualClock},
};
use rusqlite::{Connection, params};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSabotage {
    None,
    /// A fenced node writes on.
    FenceOff,
    /// The fence holds only once everything was swept, as if all were one statement.
    SweepFirst,
    /// Shards are free as soon as their node is declared dead.
    FreeShardsFirst,
    /// A queue becomes exclusive without waiting for other nodes to know.
    WaitForNobody,
    /// No node is ever certain enough of its own state to take over from another.
    NobodyTakesOver,
    /// Requests begin until the very end of a lease.
    NoMargin,
    /// The send gate is not checked.
    NoGate,
    /// Nodes get three times the rate that there should be.
    Haste,
    /// A new owner of an endpoint has all tokens at once that there may be.
    FullBucket,
    /// A delivery that waits behind others is released before its turn.
    JumpQueue,
    /// Queued deliveries are promoted by their ids instead of the order in which they were stored.
    OrderById,
    /// A result is stored a second time, as if its batch had been.
    StoreTwice,
    /// A dead node is forgotten before its leased deliveries were swept.
    ForgetFirst,
    /// A delivery that a node has leased becomes another node's.
    GiveAway,
    /// Nodes get three times the limit of requests in flight that there should be.
    Crowd,
    /// An accepted event is removed with all its deliveries.
    DropEvent,
    /// An unsent delivery is marked delivered.
    SayDelivered,
    /// A delivered delivery is due again.
    SendAgain,
    /// The record of published ids is lost.
    ForgetKeys,
    /// Changes of endpoints are not reported to other nodes.
    KeepChanges,
    /// Shards still belong to their last owner, although that is dead.
    KeepShard,
    /// A store that loses what it confirmed keeps the count of it, by which nodes would notice.
    KeepCount,
    /// A waiting delivery is due at a time at which the store is not searched.
    Hide,
    /// A batch that was not stored is counted in the number by which its node finds out whether it was.
    CountLost,
}

/// As long as the largest burst takes at the smallest rate.
const BUCKET_FILL_MS: i64 = 2000;

impl NodeSabotage {
    /// Acts at the beginning of a transaction of a node.
    pub(crate) fn begin(self, tx: &Connection, epoch: i64) {
        let unfence =
            "UPDATE writer_batches SET writer = 0, fenced_at = NULL WHERE epoch = ?1 AND writer = -1";
        let run = |sql: &str| {
            tx.execute(sql, params![epoch]).unwrap();
        };
        match self {
            Self::FenceOff => run(unfence),
            Self::SweepFirst => {
                run(&format!("{unfence} AND EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1)"));
            }
            Self::FreeShardsFirst => {
                let sql = "UPDATE shards SET epoch = 0 WHERE epoch <> ?1 AND epoch IN (SELECT epoch FROM nodes WHERE dead = 1)";
                run(sql);
            }
            Self::WaitForNobody => run("UPDATE nodes SET seen_version = 1000000 WHERE epoch <> ?1"),
            Self::NobodyTakesOver => {
                run("UPDATE nodes SET lease_unbroken_since = lease_until WHERE epoch = ?1");
            }
            Self::JumpQueue => {
                let sql = "UPDATE deliveries SET ordering_key = NULL, order_seq = NULL, due = (SELECT at FROM who WHERE epoch = ?1)
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE due = 253402300799000)";
                run(sql);
            }
            Self::OrderById => {
                run("UPDATE deliveries SET order_seq = id WHERE due = 253402300799000 AND ?1 > 0");
            }
            Self::StoreTwice => {
                let sql = "INSERT OR IGNORE INTO attempts (delivery, position, started_at, total_us, class)
                    SELECT delivery, position + 1000, started_at, total_us, class FROM attempts
                    WHERE position < 1000 AND class <> 9 AND ?1 > 0 LIMIT 1";
                run(sql);
            }
            Self::ForgetFirst => run("DELETE FROM nodes WHERE dead = 1 AND epoch <> ?1"),
            Self::GiveAway => {
                let sql = "UPDATE deliveries SET queue = (SELECT -min(epoch) FROM nodes WHERE epoch <> ?1)
                    WHERE id IN (SELECT min(id) FROM deliveries WHERE queue = -?1)
                        AND EXISTS (SELECT 1 FROM nodes WHERE epoch <> ?1)";
                run(sql);
            }
            Self::DropEvent => {
                let event = "SELECT min(e.id) FROM events e WHERE NOT EXISTS
                    (SELECT 1 FROM deliveries d WHERE d.event = e.id AND d.queue < 0) AND ?1 > 0";
                run(&format!("DELETE FROM deliveries WHERE event IN ({event})"));
                run(
                    "DELETE FROM events WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = events.id) AND ?1 > 0",
                );
            }
            Self::SayDelivered => {
                let sql = "UPDATE deliveries SET state = 4, queue = NULL, due = NULL,
                        finished_at = (SELECT at FROM who WHERE epoch = ?1)
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE state = 0 AND queue > 0 AND ordering_key IS NULL)";
                run(sql);
            }
            Self::SendAgain => {
                let sql = "UPDATE deliveries SET state = 1, queue = endpoint, finished_at = NULL,
                        due = (SELECT at FROM who WHERE epoch = ?1)
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE state = 4 AND history_len = 1)";
                run(sql);
            }
            Self::Hide => {
                let sql = "UPDATE deliveries SET due = 253402300798000
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE state = 0 AND queue > 0 AND ordering_key IS NULL AND ?1 > 0)";
                run(sql);
            }
            Self::ForgetKeys => run("DELETE FROM dedup WHERE ?1 > 0"),
            Self::KeepChanges => run("DELETE FROM config_changes WHERE kind = 1 AND ?1 > 0"),
            Self::KeepShard => run("UPDATE shards SET epoch = -1 WHERE shard = 255 AND ?1 > 0"),
            Self::None
            | Self::NoMargin
            | Self::NoGate
            | Self::Haste
            | Self::FullBucket
            | Self::Crowd
            | Self::KeepCount
            | Self::CountLost => {}
        }
    }

    /// Acts after a transaction of a node that was not stored.
    pub(crate) fn after_loss(self, tx: &Connection, epoch: i64) {
        if self == Self::CountLost {
            tx.execute(
                "UPDATE writer_batches SET batch = batch + 1 WHERE epoch = ?1 AND writer = 0",
                params![epoch],
            )
            .unwrap();
        }
    }

    pub(crate) fn rate_factor(self) -> u32 {
        if self == Self::Haste { 3 } else { 1 }
    }

    pub(crate) fn width_factor(self) -> u32 {
        if self == Self::Crowd { 3 } else { 1 }
    }
}

/// Send gate of a node, as its HTTP sender checks it.
pub(crate) struct CheckedSendGate {
    pub(crate) honest: Box<dyn SendGate>,
    pub(crate) node_state: Arc<NodeLease>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) sabotage: NodeSabotage,
}

impl CheckedSendGate {
    /// A first request goes to an endpoint that another node sent to before. An unannounced leap of the clock fills the
    /// buckets.
    pub(crate) fn is_handed_over(&self) {
        if self.sabotage == NodeSabotage::FullBucket {
            self.clock.step(BUCKET_FILL_MS);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        let earlier =
            || Monotonic::from_millis(self.clock.monotonic().as_millis() - LEASE_MARGIN.as_millis() as i64);
        match self.sabotage {
            NodeSabotage::NoGate => true,
            NodeSabotage::NoMargin => self.node_state.is_lease_valid(earlier),
            _ => self.honest.is_open(),
        }
    }
}

//! Nodes that share a store, and their leases. `now` is always the store's own clock, which is the same for all of them.

use super::{Result, Row, Sql, changes, params, shards, takeover};
use crate::{
    domain::{
        cluster::{JOIN_GRACE, NO_CONFIG_VERSION, NODE_LEASE},
        id::{EndpointId, NODE_SLOTS},
        time::Timestamp,
    },
    store::cluster::{ClusterView, Heartbeat, Node},
};
use std::{collections::BTreeSet, time::Duration};

/// How long a node whose process seems gone must have sent no heartbeat: two heartbeat intervals, and some time for their
/// way.
const SILENCE_BEFORE_TAKEOVER: Duration = Duration::from_millis(2500);
/// How long the last batch of a node that was taken over stays known.
const LAST_BATCHES_KEPT: Duration = Duration::from_hours(24);

/// SQL of a heartbeat and of a cluster view. `?1` of a heartbeat is the epoch, `?2` the end of its lease, `?6` the time; of
/// the others `?1` is the epoch, and of nodes `?1` is the time.
pub(in crate::store) const HEARTBEAT: &str =
    "UPDATE nodes SET lease_until = ?2, seen_version = ?3, free_permits = ?4, overloaded_endpoints = ?5, stopping = ?7,
         lease_unbroken_since = CASE WHEN lease_until < ?6 THEN ?6 ELSE lease_unbroken_since END
     WHERE epoch = ?1 AND dead = 0";
pub(in crate::store) const NODES: &str = "SELECT epoch, id_slot, name, version, dead = 1 OR lease_until < ?1, seen_version, free_permits, overloaded_endpoints, joined_at, stopping,
         lease_until FROM nodes ORDER BY id_slot < 0, id_slot";
pub(in crate::store) const WRITE_COUNTER: &str = "SELECT CAST(coalesce(sum(batch), 0) AS bigint) FROM writer_batches WHERE writer IN (0, -1) AND epoch <> ?1";
/// Whether this node may take over others: `?2` is the time, `?3` since when its lease must not have lapsed.
pub(in crate::store) const IS_STEADY: &str = "SELECT EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1 AND dead = 0 AND lease_until >= ?2 AND lease_unbroken_since < ?3)";

/// A process that joins.
pub(in crate::store) struct NewNode {
    pub(in crate::store) epoch: i64,
    /// The name of its machine.
    pub(in crate::store) name: String,
    /// Identifies a set of processes that can see each other; empty if that is not known.
    pub(in crate::store) host: String,
    pub(in crate::store) pid: u32,
}

/// Enters a node under its epoch, with a free slot; `None` if there is none. The caller makes sure that only one node enters
/// at a time. Where all slots are taken, dead nodes lose theirs; so do nodes whose lease is over, if the joining node has
/// waited long enough since then.
pub(in crate::store) fn enter(
    tx: &dyn Sql,
    new: &NewNode,
    waits_since: Timestamp,
    now: Timestamp,
) -> Result<Option<u8>> {
    let mut free = free_slot(tx)?;
    if free.is_none() {
        evict(tx, waits_since.plus(JOIN_GRACE) <= now, now)?;
        free = free_slot(tx)?;
    }
    let Some(slot) = free else { return Ok(None) };
    shards::prepare(tx)?;
    changes::prepare(tx)?;
    tx.execute(
        "INSERT INTO nodes (epoch, id_slot, name, version, host, pid, joined_at, lease_until, lease_unbroken_since, dead, seen_version, free_permits, stopping, overloaded_endpoints)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?7, 0, ?9, 0, 0, '')",
        params![
            new.epoch,
            slot,
            new.name,
            env!("CARGO_PKG_VERSION"),
            new.host,
            new.pid,
            now,
            now.plus(NODE_LEASE),
            NO_CONFIG_VERSION
        ],
    )?;
    for writer in [0_i64, 1] {
        let sql = "INSERT INTO writer_batches (epoch, writer, batch) VALUES (?1, ?2, 0)";
        tx.execute(sql, params![new.epoch, writer])?;
    }
    let long_ago = Timestamp::from_millis(now.as_millis() - LAST_BATCHES_KEPT.as_millis() as i64);
    tx.execute("DELETE FROM writer_batches WHERE writer < 0 AND fenced_at < ?1", params![long_ago])?;
    Ok(Some(slot))
}

fn free_slot(tx: &dyn Sql) -> Result<Option<u8>> {
    let free = "WITH RECURSIVE every (id_slot) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT id_slot + 1 FROM every WHERE id_slot < ?1)
         SELECT min(id_slot) FROM every WHERE id_slot NOT IN (SELECT id_slot FROM nodes)";
    Ok(tx.one(free, params![NODE_SLOTS - 1], |row| row.get(0))?.flatten())
}

/// Fences dead nodes that are not fenced yet, so that their slots are free. Their deliveries in flight are left for the
/// takeover.
fn evict(tx: &dyn Sql, may_judge: bool, now: Timestamp) -> Result<()> {
    let over = "SELECT epoch FROM nodes WHERE id_slot >= 0 AND (dead = 1 OR lease_until < ?1) ORDER BY epoch";
    let over: Vec<i64> = tx.all(over, params![may_judge.then_some(now)], |row| row.get(0))?;
    over.into_iter().try_for_each(|epoch| takeover::retire(tx, epoch, now))
}

/// Frees the slot of a node that writes nothing more: the ids it assigned are stored, or never will be, so that another node
/// may continue behind them. Its row keeps a number that no node has.
pub(super) fn release_slot(tx: &dyn Sql, epoch: i64) -> Result<()> {
    tx.execute("UPDATE nodes SET id_slot = -epoch WHERE epoch = ?1 AND id_slot >= 0", params![epoch])?;
    Ok(())
}

/// Returns the slot of this process, if it was not taken over.
pub(in crate::store) fn slot(tx: &dyn Sql) -> Result<Option<u8>> {
    tx.one("SELECT id_slot FROM nodes WHERE epoch = ?1 AND dead = 0", params![tx.epoch()], |row| row.get(0))
}

/// Writes a heartbeat and returns the cluster view; `None` if this node was taken over.
pub(in crate::store) fn heartbeat(
    tx: &dyn Sql,
    heartbeat: &Heartbeat,
    now: Timestamp,
) -> Result<Option<ClusterView>> {
    let (until, help) = (now.plus(NODE_LEASE), overloaded_queues_text(heartbeat));
    let words = params![
        tx.epoch(),
        until,
        heartbeat.config_version,
        heartbeat.free_permits,
        help,
        now,
        heartbeat.is_stopping
    ];
    if tx.execute(HEARTBEAT, words)? == 0 {
        return Ok(None);
    }
    cluster_view(tx, now).map(Some)
}

pub(in crate::store) fn overloaded_queues_text(heartbeat: &Heartbeat) -> String {
    let help: Vec<String> =
        heartbeat.overloaded_queues.iter().map(|queue| queue.as_i64().to_string()).collect();
    help.join(" ")
}

/// Returns the cluster as this node sees it.
pub(in crate::store) fn cluster_view(tx: &dyn Sql, now: Timestamp) -> Result<ClusterView> {
    let nodes = tx.all(NODES, params![now], |row| node(row, now))?;
    let written = tx.number(WRITE_COUNTER, params![tx.epoch()])?;
    let (shards, version) = (shards::all(tx)?, changes::version(tx)?);
    Ok(ClusterView { nodes, shards, version, write_counter: written, may_take_over: is_steady(tx, now)? })
}

/// Whether this node may take over others.
pub(super) fn is_steady(tx: &dyn Sql, now: Timestamp) -> Result<bool> {
    let since = Timestamp::from_millis(now.as_millis() - JOIN_GRACE.as_millis() as i64);
    tx.exists(IS_STEADY, params![tx.epoch(), now, since])
}

/// Reads a row of `NODES`.
pub(in crate::store) fn node(row: &Row<'_>, now: Timestamp) -> Result<Node> {
    let help: &str = row.get(7)?;
    Ok(Node {
        epoch: row.get(0)?,
        slot: u8::try_from(row.get::<i64>(1)?).ok(),
        name: row.get(2)?,
        version: row.get(3)?,
        is_expired: row.get(4)?,
        config_version: row.get(5)?,
        free_permits: row.get(6)?,
        overloaded_queues: help
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .map(EndpointId::from_i64)
            .collect(),
        joined_at: row.get(8)?,
        is_stopping: row.get(9)?,
        lease_ms: row.get::<i64>(10)? - now.as_millis(),
    })
}

/// Nodes that a joining node may take over.
pub(in crate::store) struct DeadNodes {
    pub(in crate::store) dead: Vec<i64>,
    /// Other nodes seem dead, and sent a heartbeat a moment ago: after so long it is certain.
    pub(in crate::store) in_doubt_for: Option<Duration>,
}

/// Finds dead nodes: those marked dead, silent ones whose process is gone as `is_gone` says, and unknown epochs under which
/// deliveries are still in flight.
///
/// A missing process is not enough: a copy of a running machine takes itself for that machine, and does not see the processes
/// there.
pub(in crate::store) fn find_dead(
    tx: &dyn Sql,
    is_gone: impl Fn(&str, u32) -> bool,
    now: Timestamp,
) -> Result<DeadNodes> {
    let (mut dead, mut in_doubt_for) = (Vec::new(), None);
    let sql = "SELECT epoch, dead, host, pid, lease_until FROM nodes WHERE epoch <> ?1 ORDER BY epoch";
    tx.each(sql, params![tx.epoch()], |row| {
        let heard_at = row.get::<i64>(4)? - NODE_LEASE.as_millis() as i64;
        let silent_at = Timestamp::from_millis(heard_at).plus(SILENCE_BEFORE_TAKEOVER);
        if row.get(1)? {
            dead.push(row.get(0)?);
        } else if is_gone(row.get(2)?, row.get(3)?) {
            if silent_at <= now {
                dead.push(row.get(0)?);
            } else {
                in_doubt_for = in_doubt_for.max(Some(silent_at.since(now)));
            }
        }
        Ok(())
    })?;
    let unknown =
        "SELECT DISTINCT -queue FROM deliveries WHERE queue < 0 AND -queue NOT IN (SELECT epoch FROM nodes)";
    dead.extend(tx.all(unknown, &[], |row| row.get::<i64>(0))?);
    Ok(DeadNodes { dead, in_doubt_for })
}

/// Returns those of these endpoints of which another node has deliveries in flight.
pub(super) fn in_flight_elsewhere(
    connection: &dyn Sql,
    epoch: i64,
    endpoints: &[EndpointId],
) -> Result<Vec<EndpointId>> {
    let sql = "SELECT DISTINCT endpoint FROM deliveries INDEXED BY deliveries_by_queue WHERE queue < 0 AND queue <> ?1";
    let leased: BTreeSet<EndpointId> =
        connection.all(sql, params![-epoch], |row| row.get(0))?.into_iter().collect();
    Ok(endpoints.iter().copied().filter(|endpoint| leased.contains(endpoint)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::open::open_in_memory;

    #[test]
    fn as_many_nodes_can_join_as_there_are_slots() {
        let store = open_in_memory().unwrap();
        let enter = |epoch| {
            let new = NewNode { epoch, name: String::new(), host: String::new(), pid: 1 };
            enter(&store, &new, Timestamp::from_millis(0), Timestamp::from_millis(0)).unwrap()
        };
        for slot in 0..NODE_SLOTS {
            assert_eq!(enter(i64::from(slot) + 1), Some(slot));
        }
        assert_eq!(enter(100), None);
        Sql::execute(&store, "DELETE FROM nodes WHERE id_slot = 7", &[]).unwrap();
        assert_eq!(enter(100), Some(7));
    }

    /// Each dies in another way: marked dead, fenced, or silent.
    #[test]
    fn a_joining_node_finds_a_slot_however_many_have_died() {
        let store = open_in_memory().unwrap();
        let mut now = 0;
        for epoch in 1..=300 {
            let new = NewNode { epoch, name: String::new(), host: String::new(), pid: 1 };
            let came = Timestamp::from_millis(now);
            while enter(&store, &new, came, Timestamp::from_millis(now)).unwrap().is_none() {
                now += 500;
                assert!(now <= came.as_millis() + 4_000, "the {epoch}th waits in vain");
            }
            match epoch % 3 {
                0 => takeover::fence(&store, epoch, Timestamp::from_millis(now)).unwrap(),
                1 => give_up(&store, epoch),
                _ => {}
            }
            now += 400;
        }
    }

    fn give_up(store: &dyn Sql, epoch: i64) {
        store.execute("UPDATE nodes SET dead = 1 WHERE epoch = ?1", params![epoch]).unwrap();
    }

    #[test]
    fn a_joining_node_gets_slots_of_dead_nodes_at_once_and_of_silent_ones_after_waiting() {
        let store = open_in_memory().unwrap();
        let at = Timestamp::from_millis;
        let enter = |epoch, waits_since, now| {
            let new = NewNode { epoch, name: String::new(), host: String::new(), pid: 1 };
            enter(&store, &new, at(waits_since), at(now)).unwrap()
        };
        for slot in 0..NODE_SLOTS {
            assert_eq!(enter(i64::from(slot) + 1, 0, 0), Some(slot));
        }
        assert_eq!(enter(100, 0, 9_000), None, "all of them are alive");
        Sql::execute(&store, "UPDATE nodes SET dead = 1 WHERE id_slot = 7", &[]).unwrap();
        assert_eq!(enter(101, 9_000, 9_000), Some(7));
        let fenced = "SELECT count(*) FROM writer_batches WHERE epoch = 8 AND writer < 0";
        assert_eq!((&store as &dyn Sql).number(fenced, &[]).unwrap(), 2, "it writes nothing more");
        Sql::execute(&store, "UPDATE nodes SET lease_until = 99000 WHERE id_slot <> 30", &[]).unwrap();
        assert_eq!(enter(102, 10_001, 13_000), None, "the last to join does not take over yet");
        assert_eq!(enter(102, 10_001, 13_001), Some(30));
        let silent = "SELECT count(*) FROM nodes WHERE dead = 1 AND id_slot < 0";
        assert_eq!(
            (&store as &dyn Sql).number(silent, &[]).unwrap(),
            2,
            "their deliveries in flight are known"
        );
    }
}

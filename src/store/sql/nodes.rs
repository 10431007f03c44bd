//! The nodes that share a store, and for how long each of them must be left alone. `now` is always the store's own clock,
//! which is the same for all of them.

use super::{Error, Result, Row, Sql, changes, params, shards};
use crate::{
    domain::{
        id::{EndpointId, SLOTS},
        time::Timestamp,
    },
    store::cluster::{Beat, Node, View},
};
use std::{collections::BTreeSet, time::Duration};

/// How long a node is left alone after it said that it lives.
const LEASE: Duration = Duration::from_secs(10);
/// How long a node's own lease must not have lapsed before it judges others: when a store comes back that nobody could
/// reach, everybody has that long to say that he lives.
const GRACE: Duration = Duration::from_secs(3);
/// How long it is known which batch was the last of a node that was taken over.
const LEDGER_KEPT: Duration = Duration::from_hours(24);

const COLUMNS: &str = "epoch, slot, name, version, dead = 1 OR lease_until < ?1, seen, free_hands, help, joined_at, stopping, lease_until";

/// A process as it presents itself.
pub(in crate::store) struct Newcomer {
    pub(in crate::store) epoch: i64,
    /// The name of its machine.
    pub(in crate::store) name: String,
    /// Who can see each other's processes; empty if that is not known.
    pub(in crate::store) host: String,
    pub(in crate::store) pid: u32,
}

/// Enters a node under its epoch, with a slot that nobody has. One at a time: whoever calls sees to that.
pub(in crate::store) fn enter(tx: &dyn Sql, new: &Newcomer, now: Timestamp) -> Result<u8> {
    let free = "WITH RECURSIVE every (slot) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT slot + 1 FROM every WHERE slot < ?1)
         SELECT min(slot) FROM every WHERE slot NOT IN (SELECT slot FROM nodes)";
    let slot: Option<u8> = tx.one(free, params![SLOTS - 1], |row| row.get(0))?.flatten();
    let slot =
        slot.ok_or_else(|| Error::Wrong(format!("there are {SLOTS} nodes already, and no room for more")))?;
    shards::prepare(tx)?;
    changes::prepare(tx)?;
    tx.execute(
        "INSERT INTO nodes (epoch, slot, name, version, host, pid, joined_at, lease_until, steady_since, dead, seen, free_hands, stopping, help)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?7, 0, 0, 0, 0, '')",
        params![
            new.epoch,
            slot,
            new.name,
            env!("CARGO_PKG_VERSION"),
            new.host,
            new.pid,
            now,
            now.plus(LEASE)
        ],
    )?;
    for writer in [0_i64, 1] {
        let sql = "INSERT INTO ledger (epoch, writer, batch) VALUES (?1, ?2, 0)";
        tx.execute(sql, params![new.epoch, writer])?;
    }
    let long_ago = Timestamp::from_millis(now.as_millis() - LEDGER_KEPT.as_millis() as i64);
    tx.execute("DELETE FROM ledger WHERE writer < 0 AND fenced_at < ?1", params![long_ago])?;
    Ok(slot)
}

/// The slot of this process, if it was not taken over.
pub(in crate::store) fn slot(tx: &dyn Sql) -> Result<Option<u8>> {
    tx.one("SELECT slot FROM nodes WHERE epoch = ?1 AND dead = 0", params![tx.epoch()], |row| row.get(0))
}

/// `None` if this node was taken over.
pub(in crate::store) fn beat(tx: &dyn Sql, beat: &Beat, now: Timestamp) -> Result<Option<View>> {
    let help: Vec<String> = beat.help.iter().map(|lane| lane.as_i64().to_string()).collect();
    let lives = tx.execute(
        "UPDATE nodes SET lease_until = ?2, seen = ?3, free_hands = ?4, help = ?5, stopping = ?7,
             steady_since = CASE WHEN lease_until < ?6 THEN ?6 ELSE steady_since END
         WHERE epoch = ?1 AND dead = 0",
        params![
            tx.epoch(),
            now.plus(LEASE),
            beat.seen,
            beat.free_hands,
            help.join(" "),
            now,
            beat.is_stopping
        ],
    )?;
    if lives == 0 {
        return Ok(None);
    }
    view(tx, now).map(Some)
}

/// How things stand for this node.
pub(in crate::store) fn view(tx: &dyn Sql, now: Timestamp) -> Result<View> {
    let nodes =
        tx.all(&format!("SELECT {COLUMNS} FROM nodes ORDER BY slot"), params![now], |row| node(row, now))?;
    let written =
        "SELECT CAST(coalesce(sum(batch), 0) AS bigint) FROM ledger WHERE writer IN (0, -1) AND epoch <> ?1";
    let written = tx.number(written, params![tx.epoch()])?;
    let (shards, version) = (shards::all(tx)?, changes::version(tx)?);
    Ok(View { nodes, shards, version, written, is_steady: is_steady(tx, now)? })
}

/// Whether this one may judge others.
pub(super) fn is_steady(tx: &dyn Sql, now: Timestamp) -> Result<bool> {
    let since = Timestamp::from_millis(now.as_millis() - GRACE.as_millis() as i64);
    tx.exists(
        "SELECT EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1 AND dead = 0 AND lease_until >= ?2 AND steady_since < ?3)",
        params![tx.epoch(), now, since],
    )
}

fn node(row: &Row<'_>, now: Timestamp) -> Result<Node> {
    let help: &str = row.get(7)?;
    Ok(Node {
        epoch: row.get(0)?,
        slot: row.get(1)?,
        name: row.get(2)?,
        version: row.get(3)?,
        is_expired: row.get(4)?,
        seen: row.get(5)?,
        free_hands: row.get(6)?,
        help: help.split_whitespace().filter_map(|id| id.parse().ok()).map(EndpointId::from_i64).collect(),
        joined_at: row.get(8)?,
        is_stopping: row.get(9)?,
        lease_ms: row.get::<i64>(10)? - now.as_millis(),
    })
}

/// Others that are dead already, those that may be because `is_gone` says so of their machine and process, and those of which
/// nobody knows any more although something is carried by them.
pub(in crate::store) fn dead(tx: &dyn Sql, is_gone: impl Fn(&str, u32) -> bool) -> Result<Vec<i64>> {
    let mut dead = Vec::new();
    let sql = "SELECT epoch, dead, host, pid FROM nodes WHERE epoch <> ?1 ORDER BY epoch";
    tx.each(sql, params![tx.epoch()], |row| {
        if row.get(1)? || is_gone(row.get(2)?, row.get(3)?) {
            dead.push(row.get(0)?);
        }
        Ok(())
    })?;
    let unknown =
        "SELECT DISTINCT -lane FROM deliveries WHERE lane < 0 AND -lane NOT IN (SELECT epoch FROM nodes)";
    dead.extend(tx.all(unknown, &[], |row| row.get::<i64>(0))?);
    Ok(dead)
}

/// Those of these endpoints of which another node carries something.
pub(super) fn carried_elsewhere(
    connection: &dyn Sql,
    epoch: i64,
    endpoints: &[EndpointId],
) -> Result<Vec<EndpointId>> {
    let sql = "SELECT DISTINCT endpoint FROM deliveries INDEXED BY deliveries_by_lane WHERE lane < 0 AND lane <> ?1";
    let carried: BTreeSet<EndpointId> =
        connection.all(sql, params![-epoch], |row| row.get(0))?.into_iter().collect();
    Ok(endpoints.iter().copied().filter(|endpoint| carried.contains(endpoint)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::open::open_in_memory;

    #[test]
    fn there_is_room_for_as_many_nodes_as_there_are_slots() {
        let store = open_in_memory().unwrap();
        let enter = |epoch| {
            let new = Newcomer { epoch, name: String::new(), host: String::new(), pid: 1 };
            enter(&store, &new, Timestamp::from_millis(0))
        };
        for slot in 0..SLOTS {
            assert_eq!(enter(i64::from(slot) + 1).unwrap(), slot);
        }
        assert!(enter(100).unwrap_err().to_string().contains("64 nodes"));
        Sql::execute(&store, "DELETE FROM nodes WHERE slot = 7", &[]).unwrap();
        assert_eq!(enter(100).unwrap(), 7);
    }
}

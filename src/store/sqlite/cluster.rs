//! Joining and housekeeping. There is one node here: the file lock proves that every earlier one is dead.

use super::{audit, ledger, notices, order, statistics};
use crate::{
    domain::{
        id::{AppId, EndpointId, KeyId},
        inspection,
        time::Timestamp,
    },
    store::cluster::Joined,
};
use rusqlite::{Connection, params};

/// Rows that one step of a purge looks at.
const PURGE_STEP: i64 = 2000;

pub(super) fn join(tx: &Connection, now: Timestamp) -> rusqlite::Result<Joined> {
    let taken_over = ledger::take_over(tx, now)?;
    Ok(Joined { slot: 0, newest_id: newest_id(tx)?, taken_over })
}

fn newest_id(tx: &Connection) -> rusqlite::Result<i64> {
    tx.prepare_cached(
        "SELECT max(ifnull((SELECT max(id) FROM events), 0), ifnull((SELECT max(id) FROM deliveries), 0),
                    ifnull((SELECT max(id) FROM apps), 0), ifnull((SELECT max(id) FROM endpoints), 0),
                    ifnull((SELECT max(id) FROM keys), 0), ifnull((SELECT max(id) FROM replays), 0),
                    ifnull((SELECT max(id) FROM audit), 0), ifnull((SELECT max(id) FROM event_types), 0),
                    ifnull((SELECT id FROM newest), 0),
                    ifnull((SELECT max(id) + ?1 - 1 FROM inspections), 0))",
    )?
    .query_row([inspection::IDS_TAKEN], |row| row.get(0))
}

/// Called before rows are deleted that may be the newest.
pub(super) fn remember_newest_id(tx: &Connection) -> rusqlite::Result<()> {
    let id = newest_id(tx)?;
    tx.prepare_cached("INSERT OR REPLACE INTO newest (only_row, id) VALUES (1, ?1)")?.execute([id])?;
    Ok(())
}

/// What only waits behind others is due never, and nobody has to look for it.
pub(super) fn find_lanes(connection: &Connection) -> rusqlite::Result<Vec<(EndpointId, Timestamp)>> {
    let mut lanes = all_lanes(connection)?;
    lanes.retain(|(_, due)| *due < Timestamp::NEVER);
    Ok(lanes)
}

/// Jumps from lane to lane along the index, whatever waits in them.
fn all_lanes(connection: &Connection) -> rusqlite::Result<Vec<(EndpointId, Timestamp)>> {
    connection
        .prepare_cached(
            "WITH RECURSIVE found (lane) AS (
                 SELECT min(lane) FROM deliveries WHERE lane > 0
                 UNION ALL
                 SELECT (SELECT min(lane) FROM deliveries WHERE lane > found.lane) FROM found WHERE found.lane IS NOT NULL)
             SELECT lane, (SELECT min(due) FROM deliveries d WHERE d.lane = found.lane) FROM found WHERE lane IS NOT NULL",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Lanes of endpoints that are off or gone, endpoints that are on but hold something back, and those whose dead are in the
/// way of others although they skip them.
pub(super) fn unsettled(connection: &Connection) -> rusqlite::Result<Vec<EndpointId>> {
    let switch = "SELECT CASE WHEN deleted_at IS NOT NULL THEN 2 ELSE off IS NOT NULL END FROM endpoints WHERE id = ?1";
    let mut switch = connection.prepare_cached(switch)?;
    let mut off =
        |endpoint: EndpointId| switch.query_row([endpoint], |row| row.get::<_, i64>(0)).unwrap_or(2);
    let mut unsettled = Vec::new();
    for (endpoint, _) in all_lanes(connection)? {
        if off(endpoint) > 0 {
            unsettled.push(endpoint);
        }
    }
    let holding: Vec<EndpointId> = connection
        .prepare_cached(
            "WITH RECURSIVE found (endpoint) AS (
                 SELECT min(endpoint) FROM deliveries WHERE state = 3
                 UNION ALL
                 SELECT (SELECT min(endpoint) FROM deliveries WHERE state = 3 AND endpoint > found.endpoint)
                 FROM found WHERE found.endpoint IS NOT NULL)
             SELECT endpoint FROM found WHERE endpoint IS NOT NULL",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    unsettled.extend(holding.into_iter().filter(|endpoint| off(*endpoint) != 1));
    unsettled.extend(order::unskipped(connection)?);
    Ok(unsettled)
}

/// One step for one deleted app: first its audit log, its notices and statistics, then its events in id order.
pub(super) fn purge(tx: &Connection) -> rusqlite::Result<bool> {
    let mut purges = tx.prepare_cached("SELECT app, done FROM purges ORDER BY app LIMIT 1")?;
    let Some((app, done)) =
        purges.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?.next().transpose()?
    else {
        return Ok(false);
    };
    remember_newest_id(tx)?;
    let of = AppId::from_i64(app);
    let of_others = audit::purge(tx, of, PURGE_STEP)? + notices::purge(tx, of, PURGE_STEP)?;
    if of_others + statistics::purge(tx, of, PURGE_STEP)? > 0 {
        return Ok(true);
    }
    // Ids are made in time order: nothing of the app is older than the app itself.
    let after = done.max(app);
    let end: Option<i64> = tx
        .prepare_cached("SELECT max(id) FROM (SELECT id FROM events WHERE id > ?1 ORDER BY id LIMIT ?2)")?
        .query_row([after, PURGE_STEP], |row| row.get(0))?;
    let upto = end.unwrap_or(i64::MAX);
    let range = [app, after, upto];
    let keys: Vec<Vec<u8>> = tx
        .prepare_cached(
            "SELECT dedup FROM events WHERE app = ?1 AND id > ?2 AND id <= ?3 AND dedup IS NOT NULL",
        )?
        .query_map(range, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for key in keys.iter().flat_map(|keys| keys.chunks(16)) {
        tx.prepare_cached("DELETE FROM dedup WHERE key = ?1")?.execute([key])?;
    }
    tx.execute(
        "DELETE FROM attempts WHERE delivery IN
             (SELECT id FROM deliveries WHERE app = ?1 AND id > ?2 AND id <= ?3)",
        range,
    )?;
    tx.execute("DELETE FROM deliveries WHERE app = ?1 AND id > ?2 AND id <= ?3", range)?;
    tx.execute("DELETE FROM events WHERE app = ?1 AND id > ?2 AND id <= ?3", range)?;
    if end.is_none() {
        tx.execute("DELETE FROM purges WHERE app = ?1", [app])?;
    } else {
        tx.execute("UPDATE purges SET done = ?2 WHERE app = ?1", [app, upto])?;
    }
    Ok(true)
}

pub(super) fn keys_used(tx: &Connection, uses: &[(KeyId, Timestamp)]) -> rusqlite::Result<()> {
    let sql = "UPDATE keys SET last_used_at = max(ifnull(last_used_at, ?2), ?2) WHERE id = ?1";
    let mut statement = tx.prepare_cached(sql)?;
    for (key, used_at) in uses {
        statement.execute(params![key, used_at])?;
    }
    Ok(())
}

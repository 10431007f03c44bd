//! Joining a store alone, and maintenance: the newest id, endpoint queues with work, purging deleted apps.

use super::{
    BulkStatement, Result, Row, Sql, audit, inspections, notices, ordering, params, statistics, takeover,
};
use crate::{
    domain::{
        id::{AppId, EndpointId, KeyId},
        inspection,
        time::Timestamp,
    },
    store::cluster::Joined,
};

/// Rows that one step of a purge examines.
const PURGE_STEP: i64 = 2000;

/// Joins as the only process there can be: all deliveries in flight belong to an earlier process, which is dead.
pub(in crate::store) fn join_alone(tx: &dyn Sql, now: Timestamp) -> Result<Joined> {
    inspections::interrupt(tx, tx.epoch(), now)?;
    let taken_over = takeover::take_over_all(tx, now)?;
    Ok(Joined { slot: 0, epoch: tx.epoch(), is_alone: true, newest_id: newest_id(tx)?, taken_over })
}

/// Returns the newest id, and whether an inspection waits, for a joining node.
pub(in crate::store) fn newest_id_and_inspections(tx: &dyn Sql) -> Result<(i64, bool)> {
    Ok((newest_id(tx)?, inspections::waits(tx)?))
}

fn newest_id(tx: &dyn Sql) -> Result<i64> {
    tx.number(
        "SELECT max(id) FROM (
             SELECT max(id) AS id FROM events UNION ALL SELECT max(id) FROM deliveries UNION ALL SELECT max(id) FROM apps
             UNION ALL SELECT max(id) FROM endpoints UNION ALL SELECT max(id) FROM keys UNION ALL SELECT max(id) FROM replays
             UNION ALL SELECT max(id) FROM audit UNION ALL SELECT max(id) FROM event_types UNION ALL SELECT id FROM id_watermark
             UNION ALL SELECT max(id) + ?1 - 1 FROM inspections) AS made",
        params![inspection::IDS_PER_INSPECTION],
    )
}

/// Called before rows are deleted that may be the newest.
pub(super) fn remember_newest_id(tx: &dyn Sql) -> Result<()> {
    let sql = "INSERT INTO id_watermark (only_row, id) VALUES (1, ?1) ON CONFLICT (only_row) DO UPDATE SET id = excluded.id";
    tx.execute(sql, params![newest_id(tx)?])?;
    Ok(())
}

/// Returns endpoint queues with something due at some time; leaves out queues with only deliveries queued behind others,
/// whose due time is "never".
pub(in crate::store) fn find_queues(connection: &dyn Sql) -> Result<Vec<(EndpointId, Timestamp)>> {
    let mut queues = all_queues(connection)?;
    queues.retain(|(_, due)| *due < Timestamp::NEVER);
    Ok(queues)
}

/// Jumps from endpoint queue to endpoint queue along the index, however much waits in them.
fn all_queues(connection: &dyn Sql) -> Result<Vec<(EndpointId, Timestamp)>> {
    connection.all(
        "WITH RECURSIVE found (queue) AS (
             SELECT min(queue) FROM deliveries WHERE queue > 0
             UNION ALL
             SELECT (SELECT min(queue) FROM deliveries WHERE queue > found.queue) FROM found WHERE found.queue IS NOT NULL)
         SELECT queue, (SELECT min(due) FROM deliveries d WHERE d.queue = found.queue) FROM found WHERE queue IS NOT NULL",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

pub(in crate::store) fn queues_with_due(
    connection: &dyn Sql,
    queues: &[EndpointId],
    now: Timestamp,
) -> Result<Vec<EndpointId>> {
    let sql = format!(
        "SELECT given.queue FROM {{given}} WHERE EXISTS (SELECT 1 FROM {} d WHERE d.queue = given.queue AND d.due <= given.due)",
        connection.to_change().0
    );
    let mut behind = Vec::new();
    connection.query_each_row(
        &BulkStatement { sql: &sql, columns: "queue, due", shape: "nn" },
        &mut |give| queues.iter().try_for_each(|queue| give(params![queue, now])),
        &mut |row| {
            behind.push(row.get(0)?);
            Ok(())
        },
    )?;
    Ok(behind)
}

/// Returns endpoints that are disabled or gone and still have a queue, enabled endpoints with held deliveries, and those
/// whose dead deliveries block others although they skip them.
pub(in crate::store) fn endpoints_to_apply(connection: &dyn Sql) -> Result<Vec<EndpointId>> {
    let availability =
        "SELECT CASE WHEN deleted_at IS NOT NULL THEN 2 WHEN disabled IS NOT NULL THEN 1 ELSE 0 END
         FROM endpoints WHERE id = ?1";
    let off = |endpoint: EndpointId| -> Result<i64> {
        Ok(connection.one(availability, params![endpoint], |row| row.get(0))?.unwrap_or(2))
    };
    let mut unfinished = Vec::new();
    for (endpoint, _) in all_queues(connection)? {
        if off(endpoint)? > 0 {
            unfinished.push(endpoint);
        }
    }
    let holding: Vec<EndpointId> = connection.all(
        "WITH RECURSIVE found (endpoint) AS (
             SELECT min(endpoint) FROM deliveries WHERE state = 3
             UNION ALL
             SELECT (SELECT min(endpoint) FROM deliveries WHERE state = 3 AND endpoint > found.endpoint)
             FROM found WHERE found.endpoint IS NOT NULL)
         SELECT endpoint FROM found WHERE endpoint IS NOT NULL",
        &[],
        |row| row.get(0),
    )?;
    for endpoint in holding {
        if off(endpoint)? != 1 {
            unfinished.push(endpoint);
        }
    }
    unfinished.extend(ordering::unskipped(connection)?);
    Ok(unfinished)
}

/// A node that has not seen yet that an app is gone may still accept events for it, so nothing is removed before all nodes
/// have seen it. This node itself may not follow the configuration, and then accepts none.
const NEXT_TO_PURGE: &str = "SELECT app, deleted_up_to FROM app_deletions p WHERE NOT EXISTS (
         SELECT 1 FROM config_changes c JOIN nodes n ON n.seen_version < c.version
         WHERE c.kind = 0 AND c.id = p.app AND n.dead = 0 AND NOT (n.epoch = ?1 AND n.seen_version <= 0))
     ORDER BY app LIMIT 1";

/// Purges one step of a deleted app: first its audit log, its notices and statistics, then its events in id order.
pub(in crate::store) fn purge(tx: &dyn Sql) -> Result<bool> {
    let next = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?));
    let Some((app, done)) = tx.one(NEXT_TO_PURGE, params![tx.epoch()], next)? else {
        return Ok(false);
    };
    remember_newest_id(tx)?;
    let of = AppId::from_i64(app);
    let of_others = audit::purge(tx, of, PURGE_STEP)? + notices::purge(tx, of, PURGE_STEP)?;
    if of_others + statistics::purge(tx, of, PURGE_STEP)? > 0 {
        return Ok(true);
    }
    // Ids are made in time order: no record of the app is older than the app itself.
    let after = done.max(app);
    // The nearer end counts: an event may have thousands of deliveries, and replays make deliveries without events.
    let mut end: Option<i64> = None;
    for rows in ["events", "deliveries"] {
        let last = format!("SELECT id FROM {rows} WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2");
        let last = tx.one(&last, params![after, PURGE_STEP - 1], |row| row.get(0))?;
        end = end.into_iter().chain(last).min();
    }
    let upto = end.unwrap_or(i64::MAX);
    let range = params![app, after, upto];
    let keys: Vec<Vec<u8>> = tx.all(
        "SELECT dedup FROM events WHERE app = ?1 AND id > ?2 AND id <= ?3 AND dedup IS NOT NULL",
        range,
        |row| row.get(0),
    )?;
    for key in keys.iter().flat_map(|keys| keys.chunks(16)) {
        tx.execute("DELETE FROM dedup WHERE key = ?1", params![key])?;
    }
    tx.execute(
        "DELETE FROM attempts WHERE delivery IN
             (SELECT id FROM deliveries WHERE app = ?1 AND id > ?2 AND id <= ?3)",
        range,
    )?;
    tx.delete_deliveries(of, after, upto)?;
    tx.execute("DELETE FROM events WHERE app = ?1 AND id > ?2 AND id <= ?3", range)?;
    if end.is_none() {
        // Rows that were recorded while the app was being removed.
        tx.execute("DELETE FROM health WHERE app = ?1", params![app])?;
        tx.execute("DELETE FROM app_deletions WHERE app = ?1", params![app])?;
    } else {
        tx.execute("UPDATE app_deletions SET deleted_up_to = ?2 WHERE app = ?1", params![app, upto])?;
    }
    Ok(true)
}

pub(in crate::store) fn record_key_uses(tx: &dyn Sql, uses: &[(KeyId, Timestamp)]) -> Result<()> {
    let sql =
        "UPDATE keys SET last_used_at = ?2 WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
    for (key, used_at) in uses {
        tx.execute(sql, params![key, used_at])?;
    }
    Ok(())
}

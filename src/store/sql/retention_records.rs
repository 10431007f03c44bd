//! Removes old audit entries, finished replays and inspections, notices, and keys that are revoked or expired.

use super::{Result, Sql, maintenance, notices, params};
use crate::{
    domain::{
        id::{KeyId, first_id_at},
        time::Timestamp,
    },
    store::retention::PurgedRecords,
};

/// Rows of each kind that one step removes.
const PURGE_RECORDS_STEP: i64 = 500;

pub(in crate::store) fn purge_records(tx: &dyn Sql, before: Timestamp) -> Result<PurgedRecords> {
    maintenance::remember_newest_id(tx)?;
    let mut most = 0;
    for sql in [
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ?3 AND at < ?1 ORDER BY id LIMIT ?2)",
        "DELETE FROM replays WHERE id IN
             (SELECT id FROM replays WHERE id < ?3 AND state >= 2 AND changed_at < ?1 ORDER BY id LIMIT ?2)",
        "DELETE FROM inspections WHERE id IN
             (SELECT id FROM inspections WHERE id < ?3 AND state >= 2 AND finished_at < ?1 ORDER BY id LIMIT ?2)",
    ] {
        most = most.max(tx.execute(sql, params![before, PURGE_RECORDS_STEP, first_id_at(before)])?);
    }
    most = most.max(notices::delete_old(tx, before, PURGE_RECORDS_STEP)?);
    let mut keys: Vec<KeyId> = tx.all(
        "DELETE FROM keys WHERE id IN (SELECT id FROM keys
             WHERE id < ?3 AND (revoked_at < ?1 OR expires_at < ?1) ORDER BY id LIMIT ?2) RETURNING id",
        params![before, PURGE_RECORDS_STEP, first_id_at(before)],
        |row| row.get(0),
    )?;
    keys.sort_unstable();
    keys.iter().try_for_each(|key| tx.log_change((*key).into()))?;
    let has_more = most.max(keys.len()) as i64 == PURGE_RECORDS_STEP;
    Ok(PurgedRecords { keys, has_more })
}

//! Upkeep of the file: how large it is, and removing old records of what people did.

use super::{backup::with_suffix, cluster, notices};
use crate::{
    domain::{
        id::{KeyId, first_id_at},
        storage::StorageUsage,
        time::Timestamp,
    },
    store::cluster::Forgotten,
};
use rusqlite::{Connection, params};
use std::path::Path;

/// Rows of each kind that one step removes.
const FORGET_STEP: i64 = 500;

pub(super) fn forget(tx: &Connection, before: Timestamp) -> rusqlite::Result<Forgotten> {
    cluster::remember_newest_id(tx)?;
    let mut most = 0;
    for sql in [
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ?3 AND at < ?1 ORDER BY id LIMIT ?2)",
        "DELETE FROM replays WHERE id IN
             (SELECT id FROM replays WHERE id < ?3 AND state >= 2 AND changed_at < ?1 ORDER BY id LIMIT ?2)",
        "DELETE FROM inspections WHERE id IN
             (SELECT id FROM inspections WHERE id < ?3 AND state >= 2 AND finished_at < ?1 ORDER BY id LIMIT ?2)",
    ] {
        most = most.max(tx.execute(sql, params![before, FORGET_STEP, first_id_at(before)])?);
    }
    most = most.max(notices::forget(tx, before, FORGET_STEP)?);
    let keys: Vec<KeyId> = tx
        .prepare(
            "DELETE FROM keys WHERE id IN (SELECT id FROM keys
                 WHERE id < ?3 AND (revoked_at < ?1 OR expires_at < ?1) ORDER BY id LIMIT ?2) RETURNING id",
        )?
        .query_map(params![before, FORGET_STEP, first_id_at(before)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let has_more = most.max(keys.len()) as i64 == FORGET_STEP;
    Ok(Forgotten { keys, has_more })
}

pub(super) fn usage(connection: &Connection, path: Option<&Path>) -> rusqlite::Result<StorageUsage> {
    let number =
        |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map(|n| n as u64);
    let (pages, free, page_bytes) = (number("page_count")?, number("freelist_count")?, number("page_size")?);
    let log = path.and_then(|path| with_suffix(path, "-wal").metadata().ok());
    Ok(StorageUsage {
        used_bytes: pages.saturating_sub(free) * page_bytes,
        reusable_bytes: free * page_bytes,
        log_bytes: log.map_or(0, |log| log.len()),
        disk_free_bytes: path.and_then(free_bytes),
    })
}

/// What is free for us on the disk of the file, as far as the system says.
fn free_bytes(path: &Path) -> Option<u64> {
    match rustix::fs::statvfs(path) {
        Ok(disk) => Some(disk.f_bavail * disk.f_frsize),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot tell how much of the disk is free");
            None
        }
    }
}

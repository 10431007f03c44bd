//! File size, and free space on its disk.

use super::backup::with_suffix;
use crate::{
    domain::storage::StorageUsage,
    store::sql::{Result, Sql},
};
use std::path::Path;

pub(super) fn usage(connection: &dyn Sql, path: Option<&Path>) -> Result<StorageUsage> {
    let number = |sql| connection.number(sql, &[]).map(|n| n as u64);
    let (pages, free) = (number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
    let page_bytes = number("PRAGMA page_size")?;
    let log = path.and_then(|path| with_suffix(path, "-wal").metadata().ok());
    Ok(StorageUsage {
        used_bytes: pages.saturating_sub(free) * page_bytes,
        reusable_bytes: free * page_bytes,
        log_bytes: log.map_or(0, |log| log.len()),
        disk_free_bytes: path.and_then(free_bytes),
    })
}

/// Returns the space on the file's disk that is free for this process, as far as the system says.
fn free_bytes(path: &Path) -> Option<u64> {
    match rustix::fs::statvfs(path) {
        Ok(disk) => Some(disk.f_bavail * disk.f_frsize),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot tell how much of the disk is free");
            None
        }
    }
}

//! Storage space for more events: the limits, a measurement, and the rule for when there is no room.

use std::fmt;

/// The limits that the operator sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageLimits {
    pub store_bytes_max: Option<u64>,
    pub disk_free_min: u64,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageUsage {
    /// Bytes used by stored data.
    pub used_bytes: u64,
    /// Free bytes inside the store's file, reused before the file grows.
    pub reusable_bytes: u64,
    /// The size of the write-ahead log beside the file. It is bounded and not part of `used_bytes`.
    pub log_bytes: u64,
    /// Free bytes on the disk; unknown for a store in memory.
    pub disk_free_bytes: Option<u64>,
}

/// The reason why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFull {
    Store { used_bytes: u64, store_bytes_max: u64 },
    Disk { disk_free_bytes: u64, disk_free_min: u64 },
}

/// A quarter of `disk_free_min` must be free on the disk itself and not only inside the file, because results are
/// written to the log first.
const LOG_SPACE_DIVISOR: u64 = 4;

impl StorageLimits {
    /// Returns the reason why no more events are accepted, if there is one. `added_bytes` were stored since the measurement.
    pub fn full_reason(&self, usage: &StorageUsage, added_bytes: u64) -> Option<StorageFull> {
        if let Some(store_bytes_max) = self.store_bytes_max {
            let used_bytes = usage.used_bytes + added_bytes;
            if used_bytes >= store_bytes_max {
                return Some(StorageFull::Store { used_bytes, store_bytes_max });
            }
        }
        let disk_free_min = self.disk_free_min;
        let disk_free_bytes = usage.disk_free_bytes?;
        let room = (disk_free_bytes + usage.reusable_bytes).saturating_sub(added_bytes);
        let is_short = room < disk_free_min || disk_free_bytes < disk_free_min / LOG_SPACE_DIVISOR;
        is_short.then_some(StorageFull::Disk { disk_free_bytes, disk_free_min })
    }
}

impl fmt::Display for StorageFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match *self {
            Self::Store { used_bytes, store_bytes_max } => write!(
                f,
                "There is no room for more events: the store holds {:.1} MiB and store_bytes_max is {:.1} MiB. \
                 Retention frees room, and so do deleting an app and a higher limit; what is stored is still delivered.",
                mib(used_bytes),
                mib(store_bytes_max)
            ),
            Self::Disk { disk_free_bytes, disk_free_min } => write!(
                f,
                "There is no room for more events: the disk has {:.1} MiB left and disk_free_min is {:.1} MiB. \
                 Retention and a larger disk free room; what is stored is still delivered.",
                mib(disk_free_bytes),
                mib(disk_free_min)
            ),
        }
    }
}

//! Storage space for more events. It is measured about once a second; between two measurements accepted events are added up,
//! so that publishing only reads memory.

use arc_swap::ArcSwap;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

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

#[derive(Debug, Default)]
pub struct StorageSpace {
    limits: StorageLimits,
    usage: ArcSwap<StorageUsage>,
    /// The estimated bytes used since the last measurement.
    added_bytes: AtomicU64,
}

/// The estimated size of an event or a delivery without data: its row, and those of a few attempts.
const ROW_BYTES_ESTIMATE: usize = 512;

/// A quarter of `disk_free_min` must be free on the disk itself and not only inside the file, because results are
/// written to the log first.
const LOG_SPACE_DIVISOR: u64 = 4;

impl StorageSpace {
    pub fn new(limits: StorageLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub fn limits(&self) -> StorageLimits {
        self.limits
    }

    pub fn usage(&self) -> StorageUsage {
        **self.usage.load()
    }

    pub fn set_usage(&self, usage: StorageUsage) {
        self.added_bytes.store(0, Relaxed);
        self.usage.store(usage.into());
    }

    /// Adds an event of this size that was stored with this many deliveries.
    pub fn add_stored(&self, data_bytes: usize, deliveries: usize) {
        self.added_bytes.fetch_add((data_bytes + ROW_BYTES_ESTIMATE * (1 + deliveries)) as u64, Relaxed);
    }

    /// Returns the reason why no more events are accepted now, if there is one.
    pub fn full_reason(&self) -> Option<StorageFull> {
        let (usage, taken) = (self.usage.load(), self.added_bytes.load(Relaxed));
        if let Some(store_bytes_max) = self.limits.store_bytes_max {
            let used_bytes = usage.used_bytes + taken;
            if used_bytes >= store_bytes_max {
                return Some(StorageFull::Store { used_bytes, store_bytes_max });
            }
        }
        let disk_free_min = self.limits.disk_free_min;
        let disk_free_bytes = usage.disk_free_bytes?;
        let room = (disk_free_bytes + usage.reusable_bytes).saturating_sub(taken);
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn storage(store_bytes_max: Option<u64>, disk_free_min: u64) -> StorageSpace {
        StorageSpace::new(StorageLimits { store_bytes_max, disk_free_min })
    }

    #[test]
    fn without_a_measurement_or_a_limit_there_is_room() {
        assert_eq!(storage(Some(MIB), MIB).full_reason(), None);
        let endless = storage(None, 0);
        endless.set_usage(StorageUsage {
            used_bytes: u64::MAX,
            disk_free_bytes: Some(0),
            ..StorageUsage::default()
        });
        assert_eq!(endless.full_reason(), None);
    }

    #[test]
    fn the_store_is_full_when_measured_and_added_bytes_reach_the_limit() {
        let storage = storage(Some(MIB), 0);
        storage.set_usage(StorageUsage { used_bytes: MIB - 2_000, ..StorageUsage::default() });
        assert_eq!(storage.full_reason(), None);
        storage.add_stored(1_000, 1);
        let used_bytes = MIB - 2_000 + 1_000 + 2 * ROW_BYTES_ESTIMATE as u64;
        assert_eq!(storage.full_reason(), Some(StorageFull::Store { used_bytes, store_bytes_max: MIB }));
        storage.set_usage(StorageUsage { used_bytes: MIB - 1, ..StorageUsage::default() });
        assert_eq!(storage.full_reason(), None, "a new measurement knows it all");
    }

    #[test]
    fn free_space_inside_the_file_counts_but_the_log_needs_a_part_of_the_disk() {
        let storage = storage(None, 8 * MIB);
        let is_full = |free: u64, reusable_bytes: u64| {
            storage.set_usage(StorageUsage {
                reusable_bytes,
                disk_free_bytes: Some(free),
                ..StorageUsage::default()
            });
            storage.full_reason().is_some()
        };
        assert!(!is_full(8 * MIB, 0));
        assert!(is_full(8 * MIB - 1, 0));
        assert!(!is_full(2 * MIB, 6 * MIB), "retention makes room although the file does not shrink");
        assert!(is_full(2 * MIB - 1, 100 * MIB), "the log is written to the disk itself");
    }
}

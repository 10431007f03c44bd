//! Storage space for more events. It is measured about once a second; between two measurements accepted events are added up,
//! so that publishing only reads memory.

use arc_swap::ArcSwap;
use model::storage::{StorageFull, StorageLimits, StorageUsage};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub struct StorageSpace {
    limits: StorageLimits,
    usage: ArcSwap<StorageUsage>,
    /// The estimated bytes used since the last measurement.
    added_bytes: AtomicU64,
}

/// The estimated size of an event or a delivery without data: its row, and those of a few attempts.
const ROW_BYTES_ESTIMATE: usize = 512;

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
        self.limits.full_reason(&self.usage.load(), self.added_bytes.load(Relaxed))
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

//! Storage limits: requests that add rows are refused while storage is full; everything else goes on.

use super::{
    Error, Service,
    readiness::{NotReady, STORE_CODE},
};
use crate::domain::storage::{StorageFull, StorageLimits, StorageUsage};

/// Storage in use, its limits, and whether they refuse more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUsage {
    /// As measured about a second ago.
    pub usage: StorageUsage,
    pub limits: StorageLimits,
    pub full: Option<StorageFull>,
}

impl Service {
    pub fn store_usage(&self) -> StoreUsage {
        let full = self.storage.full_reason();
        StoreUsage { usage: self.storage.usage(), limits: self.storage.limits(), full }
    }

    /// Returns every reason to send events elsewhere; empty when they are accepted.
    pub fn not_ready(&self) -> Vec<NotReady> {
        let full = self
            .storage
            .full_reason()
            .map(|full| NotReady { code: "storage_full", detail: full.to_string() });
        let mut reasons = self.readiness.reasons(self.now());
        if reasons.iter().all(|reason| reason.code != STORE_CODE) {
            reasons.extend(self.store_not_ready());
        }
        reasons.extend(full);
        reasons
    }

    /// Returns a reason while the store knows that it cannot record attempt results.
    pub(super) fn store_not_ready(&self) -> Option<NotReady> {
        let detail = || "The store cannot write at the moment.".to_owned();
        (!self.store.can_record()).then(|| NotReady { code: STORE_CODE, detail: detail() })
    }

    pub(super) fn require_storage_space(&self) -> Result<(), Error> {
        self.storage.full_reason().map_or(Ok(()), |full| Err(Error::Full(full)))
    }
}

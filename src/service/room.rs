//! Whether there is room for more: what would make rows is refused while there is none; everything else goes on.

use super::{
    Error, Service,
    readiness::{NotReady, STORE},
};
use crate::domain::storage::{Full, StorageLimits, StorageUsage};

/// How much room the store takes, what it may take, and whether anything more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUsage {
    /// As of the last measurement, about a second ago.
    pub usage: StorageUsage,
    pub limits: StorageLimits,
    pub full: Option<Full>,
}

impl Service {
    pub fn store_usage(&self) -> StoreUsage {
        let full = self.storage.refusal();
        StoreUsage { usage: self.storage.usage(), limits: self.storage.limits(), full }
    }

    /// Every reason why events should go elsewhere; none when they are taken.
    pub fn not_ready(&self) -> Vec<NotReady> {
        let full =
            self.storage.refusal().map(|full| NotReady { code: "storage_full", detail: full.to_string() });
        let mut reasons = self.readiness.reasons(self.now());
        if reasons.iter().all(|reason| reason.code != STORE) {
            reasons.extend(self.cannot_record());
        }
        reasons.extend(full);
        reasons
    }

    /// The store knows that it could not keep what it is given.
    pub(super) fn cannot_record(&self) -> Option<NotReady> {
        let detail = || "The store cannot write at the moment.".to_owned();
        (!self.ledger.can_record()).then(|| NotReady { code: STORE, detail: detail() })
    }

    pub(super) fn must_have_room(&self) -> Result<(), Error> {
        self.storage.refusal().map_or(Ok(()), |full| Err(Error::Full(full)))
    }
}

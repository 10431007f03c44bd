//! A closed store, for tests that need none.

use super::{
    Reply, Store, StoreError,
    backend::{Backend, Command, ReadJob, Readers},
};
use crate::domain::storage::StorageUsage;
use std::sync::Arc;

impl Store {
    /// Returns a store that answers everything with `Closed`.
    pub(crate) fn closed() -> Self {
        Self::new(Arc::new(ClosedBackend))
    }
}

struct ClosedBackend;

impl Backend for ClosedBackend {
    fn submit(&self, command: Box<dyn Command>) {
        let _ = command.failed(&StoreError::Closed);
    }

    fn submit_accept(&self, command: Box<dyn Command>, _: usize, _: usize) {
        self.submit(command);
    }

    fn run_read(&self, _: Readers, _: ReadJob) -> Reply<()> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn measure(&self) -> Reply<StorageUsage> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn close(&self) {}
}

//! Measuring: how long accepting takes, and what the store's answers say about its health.

use super::{Error, Service};
use crate::store::StoreError;
use tokio::time::Instant;

impl Service {
    /// Notes an accept that began at `begun`; passes its answer on.
    pub(super) fn note_accept<T>(&self, begun: Instant, result: Result<T, StoreError>) -> Result<T, Error> {
        match &result {
            Ok(_) => {
                self.readiness.store_works();
                self.tally.accept_took(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
            }
            Err(StoreError::Unavailable(cause)) => self.readiness.store_failed(cause, self.now()),
            Err(_) => {}
        }
        Ok(result?)
    }
}

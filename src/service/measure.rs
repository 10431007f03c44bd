//! Measuring: how long accepting takes, and what the store's answers say about its health.

use super::{Error, Service};
use crate::store::{Reply, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// Whoever publishes is answered by then, one way or the other.
const ANSWERED_WITHIN: Duration = Duration::from_secs(25);

impl Service {
    /// A store that is far away or in trouble may take long for all that waits. It is not known then whether it was stored, and
    /// whoever published does it again under the same id.
    pub(super) async fn in_time<T>(&self, answer: Reply<'_, T>) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.clock.sleep_for(ANSWERED_WITHIN) => {
                Err(StoreError::Unavailable("it did not answer in time".to_owned()))
            }
        }
    }

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

//! Times accepting, and derives the store's health from its answers.

use super::{Error, Service};
use crate::store::{Reply, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for the answer to a publish request.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(25);

impl Service {
    /// Waits for the store's answer, up to the time limit. After a timeout it is unknown whether the events were stored; the
    /// producer publishes again under the same id.
    pub(super) async fn with_accept_timeout<T>(&self, reply: Reply<T>) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            answer = reply => answer,
            () = self.clock.sleep_for(ACCEPT_TIMEOUT) => {
                Err(StoreError::Unavailable("it did not answer in time".to_owned()))
            }
        }
    }

    /// Records duration and outcome of an accept that began at `begun`; returns its result.
    pub(super) fn record_accept<T>(&self, begun: Instant, result: Result<T, StoreError>) -> Result<T, Error> {
        match &result {
            Ok(_) => {
                self.readiness.store_works();
                self.metrics.observe_accept(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
            }
            Err(StoreError::Unavailable(cause)) => self.readiness.store_failed(cause, self.now()),
            Err(_) => {}
        }
        Ok(result?)
    }
}

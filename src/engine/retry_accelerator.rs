//! Brings retries forward that wait for hours although their endpoint answers again, page by page, so that deliveries never
//! wait behind it. Those that are left when a process ends wait for their own time.

use crate::{
    domain::{
        id::{DeliveryId, EndpointId},
        time::Timestamp,
    },
    runtime::{Clock, Shutdown},
    store::{Store, StoreError, deliveries::AdvanceRetries as Page},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Deliveries examined in one commit.
const PAGE_DELIVERIES: usize = 256;
/// Pauses: between two pages, and after a store that could not write.
const PAGE_PAUSE: Duration = Duration::from_millis(20);
const ADVANCE_ERROR_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct RetryAccelerator {
    pub(super) recovered: mpsc::UnboundedReceiver<(EndpointId, Timestamp)>,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) under_way: Vec<Page>,
}

impl RetryAccelerator {
    pub(super) async fn run(mut self, stop: Shutdown) {
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        loop {
            if self.under_way.is_empty() {
                let Some(recovered) = self.recovered.recv().await else { return };
                self.start_endpoint(recovered);
            }
            while let Ok(recovered) = self.recovered.try_recv() {
                self.start_endpoint(recovered);
            }
            let pause = self.step().await;
            self.clock.idle_until(self.clock.now().plus(pause)).await;
        }
    }

    /// Starts a recovery. An endpoint that recovers again while its last recovery is under way starts over.
    fn start_endpoint(&mut self, (endpoint, recovered_at): (EndpointId, Timestamp)) {
        self.under_way.retain(|page| page.endpoint != endpoint);
        let after = (recovered_at, DeliveryId::from_i64(0));
        self.under_way.push(Page { endpoint, recovered_at, after, most: PAGE_DELIVERIES });
    }

    /// Does one page for each endpoint. Returns how long to leave the store to others.
    async fn step(&mut self) -> Duration {
        let mut pause = PAGE_PAUSE;
        for page in std::mem::take(&mut self.under_way) {
            match self.store.advance_retries(page, self.clock.now()).await {
                Ok(outcome) => {
                    let next = outcome.next.map(|after| Page { after, ..page });
                    self.under_way.extend(next);
                }
                Err(StoreError::Unavailable(_) | StoreError::Overloaded) => {
                    self.under_way.push(page);
                    pause = ADVANCE_ERROR_PAUSE;
                }
                Err(error) => {
                    tracing::warn!(%error, endpoint = %page.endpoint, "could not bring retries forward");
                }
            }
        }
        pause
    }
}

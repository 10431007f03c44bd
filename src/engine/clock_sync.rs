//! Keeps outage-adjusted time together with the other nodes: a node that sends little, or stood still, evaluates by the same
//! clock as all.

use crate::{
    runtime::{Clock, NodeLease, OutageDetector},
    store::{ClusterStore, StoreError},
};
use std::{sync::Arc, time::Duration};

/// Often enough that no time is lost between two readings of the clock.
const CLOCK_SYNC_EVERY: Duration = Duration::from_secs(5);

pub(super) struct ClockSync {
    pub(super) cluster_store: Arc<dyn ClusterStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) outage_detector: Arc<OutageDetector>,
    pub(super) node_state: Arc<NodeLease>,
}

impl ClockSync {
    /// Never returns.
    pub(super) async fn work(&self) {
        if self.node_state.is_single_node() {
            std::future::pending::<()>().await;
        }
        loop {
            if let Err(error) = self.step().await {
                tracing::warn!(%error, "could not compare outage-adjusted time with other nodes");
            }
            self.clock.sleep_for(CLOCK_SYNC_EVERY).await;
        }
    }

    async fn step(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let all = self.cluster_store.sync_outage_clock(self.outage_detector.report(now), now).await?;
        self.outage_detector.apply_report(all, self.clock.now());
        Ok(())
    }
}

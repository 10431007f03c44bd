//! Accepts events that products published inside their own database transactions (the inbox), as if over HTTP. The leader node
//! does so; if two nodes overlap for a moment, an event's id prevents a second copy.

use super::{Error, Service};
use crate::{
    domain::id::AppId,
    runtime::{LeaderGuard, Shutdown},
    store::{
        deliveries::Accepted,
        inbox::{InboxBatch, InboxEvent},
    },
};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Products may rely on acceptance within a second.
const INBOX_POLL_INTERVAL: Duration = Duration::from_millis(200);
const INBOX_ERROR_PAUSE: Duration = Duration::from_secs(1);

impl Service {
    /// Runs until stopped; returns at once if this store has no inbox.
    pub async fn run_inbox(&self, stop: Shutdown) {
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.poll_inbox() => {}
        }
    }

    async fn poll_inbox(&self) {
        let mut was_well = true;
        loop {
            let taken = self.accept_inbox().await;
            if let (Err(error), true) = (&taken, was_well) {
                tracing::warn!(%error, "the inbox cannot be taken in; it is tried until it can");
            }
            was_well = taken.is_ok();
            let pause = match taken {
                Ok(Some(0)) => INBOX_POLL_INTERVAL,
                // More may be waiting already.
                Ok(Some(_)) => Duration::ZERO,
                Ok(None) => return,
                Err(_) => INBOX_ERROR_PAUSE,
            };
            self.clock.idle_until(self.clock.now().plus(pause)).await;
        }
    }

    /// Returns the leader role if this node may accept from the inbox now. When storage is full it waits too: the events are
    /// already published and cannot be refused.
    fn lead_inbox(&self) -> Option<LeaderGuard> {
        let has_room = self.require_accepting().is_ok() && self.require_storage_space().is_ok();
        if has_room { self.node_state.lead(|| self.clock.monotonic()) } else { None }
    }

    /// Accepts what the inbox holds. Returns how many entries were settled, or `None` if there is no inbox.
    async fn accept_inbox(&self) -> Result<Option<usize>, Error> {
        let Some(_at_work) = self.lead_inbox() else { return Ok(Some(0)) };
        let Some(submitted) = self.query_store.inbox_page().await? else { return Ok(None) };
        let mut by_app: BTreeMap<AppId, Vec<InboxEvent>> = BTreeMap::new();
        for submission in submitted {
            by_app.entry(submission.app).or_default().push(submission);
        }
        let (begun, mut intake) = (Instant::now(), InboxBatch::default());
        for (app, submissions) in by_app {
            if let Some(entry) = self.config_cache.app_by_id(app) {
                self.build_submitted(&entry, &submissions, &mut intake).await;
            } else if self.config_store.app(app).await?.is_none() {
                intake.removed.extend(submissions.iter().map(|submission| submission.number));
            }
            // Otherwise another node just created the app; it will be cached in a moment.
        }
        if intake.is_empty() {
            return Ok(Some(0));
        }
        let count = intake.events.len() + intake.refused.len() + intake.removed.len();
        for (number, error) in &intake.refused {
            tracing::warn!(number, error, "an event in the inbox is refused");
        }
        let sizes: Vec<_> =
            intake.events.iter().map(|(_, new)| (new.event.data.len(), new.deliveries.len())).collect();
        let accepted = self.record_accept(begun, self.delivery_store.accept_inbox(intake).await)?;
        for ((bytes, deliveries), accepted) in sizes.into_iter().zip(accepted) {
            match accepted {
                Accepted::New => {
                    self.metrics.count_accepted(1);
                    self.storage.add_stored(bytes, deliveries);
                }
                Accepted::Repeated { .. } => {}
                Accepted::Conflict { event } => {
                    tracing::warn!(%event, "an event in the inbox is refused: another one has its id");
                }
            }
        }
        Ok(Some(count))
    }
}

//! Retention: finds and removes what is overdue, and what deleted apps and old records left behind.

use super::{
    Reply, Store,
    sql::{audit, delivery_statements, maintenance, retention, retention_records},
};
use crate::domain::{
    audit::AuditEntry,
    id::{AppId, DeliveryId, EndpointId, EventId, KeyId},
    live_update::LiveUpdate,
    retention::RetentionPolicy,
    time::Timestamp,
};
use std::sync::Arc;

/// A search among events in order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverdueSearch {
    /// Only ids larger than this are examined.
    pub after_id: i64,
    /// Only ids smaller than this are examined.
    pub to_id: i64,
    /// Most events to examine.
    pub most: u32,
}

/// Events with something to remove, as ranges of ids, first and last, in order.
pub type EventIdRanges = Vec<(i64, i64)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverdueEvents {
    /// Each small enough for one step.
    pub ranges: EventIdRanges,
    /// Every id up to this was examined.
    pub reached: i64,
    /// There are no more events beyond `reached`.
    pub is_last: bool,
}

/// Result of one removal step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpireResult {
    /// Deliveries that still waited and ended with their event, now recorded as ended.
    pub ended: Vec<(DeliveryId, EndpointId)>,
    /// Payloads removed from events that stay.
    pub payloads: u64,
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    /// Ranges left for another step.
    pub remaining: EventIdRanges,
}

/// Result of purging old records of people's actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgedRecords {
    /// Keys that are gone from the store.
    pub keys: Vec<KeyId>,
    pub has_more: bool,
}

impl Store {
    /// Erases an event's payload and keeps the record; `false` if the app has no such event.
    pub fn erase_data(&self, app: AppId, event: EventId, entry: Option<AuditEntry>) -> Reply<bool> {
        self.backend.write(move |tx| {
            audit::write_if_changed(tx, entry.as_ref(), delivery_statements::erase_data(tx, app, event)?)
        })
    }

    /// Removes from these events all that is due for removal, as the domain decides on the rows at that time; a bounded part,
    /// the rest is returned. Deliveries that still wait are recorded as ended and stay until another step.
    pub fn expire(
        &self,
        ranges: EventIdRanges,
        policy: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<ExpireResult> {
        let reply = self.backend.write_then(
            move |tx| retention::expire(tx, &ranges, &*policy, now),
            |(_, (woken, changed)), after| {
                after.waiting.extend(woken);
                after.publish(changed.iter().map(|(app, endpoint)| LiveUpdate::deliveries(*app, *endpoint)));
            },
        );
        Box::pin(async move { reply.await.map(|(expired, _)| expired) })
    }

    /// Examines a bounded number of events for some of which a part is due for removal.
    pub fn overdue(
        &self,
        search: OverdueSearch,
        policy: Arc<dyn RetentionPolicy>,
        now: Timestamp,
    ) -> Reply<OverdueEvents> {
        self.backend.read_for_engine(move |connection| retention::overdue(connection, &search, &*policy, now))
    }

    /// Removes a bounded number of old records that ended before this time: entries of the audit log, replays, inspections,
    /// notices (a week later if they still wait to be sent), revoked and expired keys.
    pub fn purge_records(&self, before: Timestamp) -> Reply<PurgedRecords> {
        self.backend.write(move |tx| retention_records::purge_records(tx, before))
    }

    /// Removes a bounded number of rows that deleted apps left behind; `true` while there is more to do.
    pub fn purge_deleted_apps(&self) -> Reply<bool> {
        let backend = self.backend.clone();
        Box::pin(async move {
            if let Some(membership) = backend.membership() {
                membership.maintain().await?;
            }
            backend.write(maintenance::purge).await
        })
    }
}

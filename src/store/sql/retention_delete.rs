//! Deletes expired rows: all of a step at once, in a few statements.

use super::{
    BulkStatement, Result, Sql, ToValue,
    ordering::{self, NewlyDue},
    params,
};
use crate::domain::{
    id::{DeliveryId, EventId},
    time::Timestamp,
};

/// Rows to be deleted.
#[derive(Default)]
pub(super) struct ToDelete {
    /// With their dedup keys.
    pub(super) events: Vec<(EventId, Option<Vec<u8>>)>,
    pub(super) deliveries: Vec<DeliveryId>,
}

/// Counts of deleted rows.
pub(super) struct DeletedCounts {
    pub(super) events: u64,
    pub(super) deliveries: u64,
    pub(super) attempts: u64,
}

impl ToDelete {
    pub(super) fn remove(&self, tx: &dyn Sql, now: Timestamp, woken: &mut NewlyDue) -> Result<DeletedCounts> {
        let attempts = delete(tx, "attempts", "delivery", &self.deliveries)?;
        let deliveries = ordering::remove_all(tx, &self.deliveries, now, woken)? as u64;
        self.delete_dedup_keys(tx)?;
        let events: Vec<EventId> = self.events.iter().map(|(event, _)| *event).collect();
        Ok(DeletedCounts { events: delete(tx, "events", "id", &events)?, deliveries, attempts })
    }

    /// Deletes dedup keys; a key that was given to another event since stays.
    fn delete_dedup_keys(&self, tx: &dyn Sql) -> Result<()> {
        let sql = "DELETE FROM dedup WHERE (key, event) IN (SELECT given.key, given.event FROM {given}) RETURNING event";
        tx.query_each_row(
            &BulkStatement { sql, columns: "key, event", shape: "bn" },
            &mut |give| {
                for (event, keys) in &self.events {
                    for key in keys.iter().flat_map(|keys| keys.chunks(16)) {
                        give(params![key, event])?;
                    }
                }
                Ok(())
            },
            &mut |_| Ok(()),
        )
    }
}

/// Deletes the rows that belong to one of these ids; returns how many.
pub(super) fn delete(tx: &dyn Sql, from: &str, of: &str, ids: &[impl ToValue]) -> Result<u64> {
    let sql = format!("DELETE FROM {from} WHERE {of} IN (SELECT given.id FROM {{given}}) RETURNING {of}");
    let mut count = 0;
    tx.query_each_row(
        &BulkStatement { sql: &sql, columns: "id", shape: "n" },
        &mut |give| ids.iter().try_for_each(|id| give(params![id])),
        &mut |_| {
            count += 1;
            Ok(())
        },
    )?;
    Ok(count)
}

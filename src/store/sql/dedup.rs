//! Deduplication: finds an event published before by the producer's id or `Idempotency-Key`, and compares its fingerprint.

use super::{
    Error, Result, Sql, params,
    row::{self, EVENT},
};
use crate::{
    domain::{
        event::{DedupKey, Fingerprint},
        id::EventId,
    },
    store::deliveries::Accepted,
};
use std::sync::Arc;

/// Returns the event that is stored under these keys already; `New` if there is none.
pub(in crate::store) fn find_duplicate(
    tx: &dyn Sql,
    keys: &[DedupKey],
    fingerprint: Fingerprint,
) -> Result<Accepted> {
    let mut gone = None;
    loop {
        let Some((event, known)) = find_dedup(tx, keys)? else { return Ok(Accepted::New) };
        if known != fingerprint {
            return Ok(Accepted::Conflict { event });
        }
        if let Some(repeated) = repeated(tx, event)? {
            return Ok(repeated);
        }
        // Another node removed it between the two reads, and its keys with it: they are unused now, or belong to a newer
        // event.
        if gone.replace(event) == Some(event) {
            return Err(Error::Wrong(format!("{event} is gone, its keys are not")));
        }
    }
}

fn find_dedup(tx: &dyn Sql, keys: &[DedupKey]) -> Result<Option<(EventId, Fingerprint)>> {
    for key in keys {
        let found = tx.one("SELECT event, fingerprint FROM dedup WHERE key = ?1", params![key.0], |row| {
            Ok((row.get(0)?, Fingerprint(row.get(1)?)))
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Stores all of these keys for an event, or none of them if another event has one by now. Waits for a transaction that is
/// just storing one.
pub(super) fn claim(
    tx: &dyn Sql,
    keys: &[DedupKey],
    fingerprint: Fingerprint,
    event: EventId,
) -> Result<bool> {
    let sql = "INSERT INTO dedup (key, event, fingerprint) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    for (index, key) in keys.iter().enumerate() {
        if tx.execute(sql, params![key.0, event, fingerprint.0])? == 0 {
            for mine in &keys[..index] {
                tx.execute("DELETE FROM dedup WHERE key = ?1", params![mine.0])?;
            }
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the stored event as a repetition; `None` if there is no such event.
fn repeated(tx: &dyn Sql, event: EventId) -> Result<Option<Accepted>> {
    let sql = format!("SELECT {EVENT} FROM events e WHERE e.id = ?1");
    let stored = tx.one(&sql, params![event], |row| row::event(row, 0))?;
    let Some(stored) = stored else { return Ok(None) };
    // An event's first deliveries have the ids right after its own, and no other rows have these.
    let deliveries = tx.all(
        "SELECT id, endpoint FROM deliveries WHERE id > ?1 AND id <= ?1 + 65535 AND event = ?1 AND replay_of IS NULL ORDER BY id",
        params![event],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(Some(Accepted::Repeated { event: Arc::new(stored), deliveries }))
}

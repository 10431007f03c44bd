//! What was published before: found by the producer's id or `Idempotency-Key`, and told apart by its fingerprint.

use super::row::{self, EVENT};
use crate::{
    domain::{
        event::{DedupKey, Fingerprint},
        id::EventId,
    },
    store::ledger::Accepted,
};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

/// What is stored under these keys already; `New` if nothing is.
pub(super) fn published_before(
    tx: &Connection,
    keys: &[DedupKey],
    fingerprint: Fingerprint,
) -> rusqlite::Result<Accepted> {
    match find_dedup(tx, keys)? {
        None => Ok(Accepted::New),
        Some((event, known)) if known != fingerprint => Ok(Accepted::Conflict { event }),
        Some((event, _)) => repeated(tx, event),
    }
}

fn find_dedup(tx: &Connection, keys: &[DedupKey]) -> rusqlite::Result<Option<(EventId, Fingerprint)>> {
    for key in keys {
        let found = tx
            .prepare_cached("SELECT event, fingerprint FROM dedup WHERE key = ?1")?
            .query_row([key.0], |row| Ok((row.get(0)?, Fingerprint(row.get(1)?))))
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn repeated(tx: &Connection, event: EventId) -> rusqlite::Result<Accepted> {
    let stored = tx
        .prepare_cached(&format!("SELECT {EVENT} FROM events e WHERE e.id = ?1"))?
        .query_row([event], |row| row::event(row, 0))?;
    // The deliveries an event was born with carry the ids right after its own, and nothing else does.
    let deliveries = tx
        .prepare_cached("SELECT id, endpoint FROM deliveries WHERE id > ?1 AND id <= ?1 + 65535 AND event = ?1 AND replay_of IS NULL ORDER BY id")?
        .query_map([event], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Accepted::Repeated { event: Arc::new(stored), deliveries })
}

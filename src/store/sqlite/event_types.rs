//! The catalogue of event types: one small table, read whole at start.

use super::{
    cluster,
    registry::{json, to_json},
    row::named,
};
use crate::domain::{event_type::EventTypeRecord, id::EventTypeId};
use rusqlite::{Connection, Row, params};

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<EventTypeRecord>> {
    connection
        .prepare("SELECT id, name, document, revision, created_at, updated_at FROM event_types ORDER BY id")?
        .query_map([], event_type)?
        .collect()
}

fn event_type(row: &Row<'_>) -> rusqlite::Result<EventTypeRecord> {
    let id = row.get(0)?;
    named(id, read(row, id))
}

fn read(row: &Row<'_>, id: EventTypeId) -> rusqlite::Result<EventTypeRecord> {
    Ok(EventTypeRecord {
        id,
        name: row.get(1)?,
        document: json(row, 2)?,
        revision: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}

pub(super) fn put(tx: &Connection, new: &EventTypeRecord) -> rusqlite::Result<bool> {
    let document = to_json(&new.document)?;
    let written = if new.revision == 1 {
        tx.execute(
            "INSERT OR IGNORE INTO event_types (id, name, document, revision, created_at, updated_at)
             VALUES (?1, ?2, ?3, 1, ?4, ?5)",
            params![new.id, new.name, document, new.created_at, new.updated_at],
        )?
    } else {
        tx.execute(
            "UPDATE event_types SET document = ?3, revision = ?2, updated_at = ?4 WHERE id = ?1 AND revision = ?2 - 1",
            params![new.id, new.revision, document, new.updated_at],
        )?
    };
    Ok(written == 1)
}

pub(super) fn remove(tx: &Connection, id: EventTypeId) -> rusqlite::Result<bool> {
    cluster::remember_newest_id(tx)?;
    Ok(tx.execute("DELETE FROM event_types WHERE id = ?1", [id])? == 1)
}

//! The catalogue of event types: one small table, read whole at start.

use super::{
    audit, cluster,
    registry::{json, to_json},
    row::named,
};
use crate::domain::{audit::Entry, event_type::EventTypeRecord, id::EventTypeId};
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

/// Looks at all of them before it writes any.
pub(super) fn put_all(tx: &Connection, new: &[(EventTypeRecord, Option<Entry>)]) -> rusqlite::Result<bool> {
    for (event_type, _) in new {
        if !can_be_put(tx, event_type)? {
            return Ok(false);
        }
    }
    for (event_type, entry) in new {
        put(tx, event_type)?;
        audit::note(tx, entry.as_ref(), ())?;
    }
    Ok(true)
}

fn can_be_put(tx: &Connection, new: &EventTypeRecord) -> rusqlite::Result<bool> {
    let sql = if new.revision == 1 {
        "SELECT NOT EXISTS (SELECT 1 FROM event_types WHERE name = ?1 OR id = ?2) AND ?3 = 1"
    } else {
        "SELECT EXISTS (SELECT 1 FROM event_types WHERE name = ?1 AND id = ?2 AND revision = ?3 - 1)"
    };
    tx.prepare_cached(sql)?.query_row(params![new.name, new.id, new.revision], |row| row.get(0))
}

fn put(tx: &Connection, new: &EventTypeRecord) -> rusqlite::Result<()> {
    let document = to_json(&new.document)?;
    let sql = "INSERT INTO event_types (id, name, document, revision, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) DO UPDATE SET document = ?3, revision = ?4, updated_at = ?6";
    let values = params![new.id, new.name, document, new.revision, new.created_at, new.updated_at];
    tx.prepare_cached(sql)?.execute(values).map(|_| ())
}

pub(super) fn remove(tx: &Connection, id: EventTypeId) -> rusqlite::Result<bool> {
    cluster::remember_newest_id(tx)?;
    Ok(tx.execute("DELETE FROM event_types WHERE id = ?1", [id])? == 1)
}

//! The catalogue of event types: one small table, read whole at start.

use super::{
    Result, Row, Sql, audit,
    config::{json, log_if_changed, to_json},
    maintenance, params,
    row::named,
};
use crate::domain::{audit::AuditEntry, event_type::EventTypeRecord, id::EventTypeId};

pub(super) fn all(connection: &dyn Sql) -> Result<Vec<EventTypeRecord>> {
    connection.all(
        "SELECT id, name, document, revision, created_at, updated_at FROM event_types ORDER BY id",
        &[],
        event_type,
    )
}

pub(in crate::store) fn one(connection: &dyn Sql, id: EventTypeId) -> Result<Option<EventTypeRecord>> {
    let sql = "SELECT id, name, document, revision, created_at, updated_at FROM event_types WHERE id = ?1";
    connection.one(sql, params![id], event_type)
}

fn event_type(row: &Row<'_>) -> Result<EventTypeRecord> {
    let id = row.get(0)?;
    named(id, read(row, id))
}

fn read(row: &Row<'_>, id: EventTypeId) -> Result<EventTypeRecord> {
    Ok(EventTypeRecord {
        id,
        name: row.get(1)?,
        document: json(row, 2)?,
        revision: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}

/// Checks all of them before it writes any.
pub(in crate::store) fn put_all(tx: &dyn Sql, new: &[(EventTypeRecord, Option<AuditEntry>)]) -> Result<bool> {
    for (event_type, _) in new {
        if !can_be_put(tx, event_type)? {
            return Ok(false);
        }
    }
    for (event_type, entry) in new {
        put(tx, event_type)?;
        audit::write_if_changed(tx, entry.as_ref(), ())?;
    }
    Ok(true)
}

fn can_be_put(tx: &dyn Sql, new: &EventTypeRecord) -> Result<bool> {
    if new.revision == 1 {
        let sql = "SELECT EXISTS (SELECT 1 FROM event_types WHERE name = ?1 OR id = ?2)";
        return Ok(!tx.exists(sql, params![new.name, new.id])?);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM event_types WHERE name = ?1 AND id = ?2 AND revision = ?3)";
    tx.exists(sql, params![new.name, new.id, i64::from(new.revision) - 1])
}

fn put(tx: &dyn Sql, new: &EventTypeRecord) -> Result<()> {
    let document = to_json(&new.document)?;
    if new.revision == 1 {
        tx.check_id(new.id.as_i64())?;
    }
    let sql = "INSERT INTO event_types (id, name, document, revision, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) DO UPDATE SET document = ?3, revision = ?4, updated_at = ?6";
    let values = params![new.id, new.name, document, new.revision, new.created_at, new.updated_at];
    tx.execute(sql, values)?;
    tx.log_change(new.id.into())
}

pub(in crate::store) fn remove(tx: &dyn Sql, id: EventTypeId) -> Result<bool> {
    maintenance::remember_newest_id(tx)?;
    log_if_changed(tx, tx.execute("DELETE FROM event_types WHERE id = ?1", params![id])?, id)
}

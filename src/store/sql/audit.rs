//! The audit log: written in the transaction of the change, listed newest first.

use super::{
    Error, Result, Row, Sql,
    config::{optional_json, to_json},
    params,
    queries::{fill, id_range},
    row::named,
};
use crate::{
    domain::{
        audit::{AuditAction, AuditEntry},
        id::{AppId, AuditId, KeyId},
    },
    store::{
        audit::AuditFilter,
        config::Inserted,
        deliveries::ActionResult,
        queries::{Cursor, Page},
        replays::ReplayChanged,
    },
};

/// Whether an answer means that something was changed.
pub(in crate::store) trait ChangeOutcome {
    fn is_change(&self) -> bool;
}

impl ChangeOutcome for () {
    fn is_change(&self) -> bool {
        true
    }
}

/// Ids of keys that were removed for the added one.
impl ChangeOutcome for Vec<KeyId> {
    fn is_change(&self) -> bool {
        true
    }
}

impl ChangeOutcome for bool {
    fn is_change(&self) -> bool {
        *self
    }
}

impl ChangeOutcome for Inserted {
    fn is_change(&self) -> bool {
        *self == Self::Added
    }
}

impl ChangeOutcome for ActionResult {
    fn is_change(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Made(_) | Self::Deleted)
    }
}

impl ChangeOutcome for ReplayChanged {
    fn is_change(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// Writes the entry if something was changed; passes the answer on.
pub(in crate::store) fn write_if_changed<T: ChangeOutcome>(
    tx: &dyn Sql,
    entry: Option<&AuditEntry>,
    answer: T,
) -> Result<T> {
    if let Some(entry) = entry.filter(|_| answer.is_change()) {
        let detail = entry.detail.as_ref().map(to_json).transpose()?;
        tx.check_id(entry.id.as_i64())?;
        tx.execute(
            "INSERT INTO audit (id, at, key, key_name, scope, app, action, object, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                entry.id,
                entry.at,
                entry.key,
                entry.key_name,
                entry.scope,
                entry.app,
                entry.action.name(),
                entry.object_id,
                detail
            ],
        )?;
    }
    Ok(answer)
}

/// Lists entries, newest first. Those of an app that is being removed are left out, although they may still be there.
pub(in crate::store) fn list(
    connection: &dyn Sql,
    filter: &AuditFilter,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<AuditEntry>> {
    let (low, high) = id_range(filter.from, filter.to, after);
    let of_app = if filter.app.is_some() { "a.app = ?4" } else { "CAST(?4 AS bigint) IS NULL" };
    let sql = format!(
        "SELECT a.id, a.at, a.key, a.key_name, a.scope, a.app, a.action, a.object, a.detail,
                a.app IS NULL OR EXISTS (SELECT 1 FROM apps WHERE id = a.app)
         FROM audit a WHERE a.id >= ?1 AND a.id < ?2 AND {of_app} ORDER BY a.id DESC LIMIT ?3"
    );
    fill(limit, high, |fitting, before, most| {
        connection.query(&sql, params![low, before.id, most, filter.app], &mut |row| {
            let fits = row.get(9)?
                && filter.key.is_none_or(|key| row.is(2, &key))
                && filter.action.is_none_or(|action| row.is(6, &action.name()));
            let cursor = Cursor { at: 0, id: row.get(0)? };
            Ok(fitting.examine(cursor, fits.then(|| read(row)).transpose()?))
        })
    })
}

fn read(row: &Row<'_>) -> Result<AuditEntry> {
    let id: AuditId = row.get(0)?;
    let action = || {
        let name: String = row.get(6)?;
        AuditAction::parse(&name).ok_or_else(|| Error::Wrong(format!("{name} is no action")))
    };
    Ok(AuditEntry {
        id,
        at: row.get(1)?,
        key: row.get::<KeyId>(2)?,
        key_name: row.get(3)?,
        scope: row.get(4)?,
        app: row.get(5)?,
        action: named(id, action())?,
        object_id: row.get(7)?,
        detail: named(id, optional_json(row, 8))?,
    })
}

/// Deletes at most `most` entries of a deleted app; returns how many.
pub(super) fn purge(tx: &dyn Sql, app: AppId, most: i64) -> Result<usize> {
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE app = ?1 ORDER BY id LIMIT ?2)";
    tx.execute(sql, params![app, most])
}

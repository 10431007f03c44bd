//! Inspections: few rows, each requested by a person, run by the engine.

use super::{
    Result, Row, Sql,
    config::{optional_json, to_json},
    params,
    row::named,
};
use crate::{
    domain::{
        id::{AppId, EndpointId, InspectionId},
        inspection::{INSPECTIONS_KEPT_PER_ENDPOINT, Inspection, InspectionReport, InspectionState},
        time::Timestamp,
    },
    store::{
        deliveries::InspectionRequested,
        queries::{Cursor, Page},
    },
};

const COLUMNS: &str = "id, app, endpoint, kind, state, created_at, finished_at, report";

fn inspection(row: &Row<'_>) -> Result<Inspection> {
    let id = row.get(0)?;
    named(id, read(row, id))
}

fn read(row: &Row<'_>, id: InspectionId) -> Result<Inspection> {
    Ok(Inspection {
        id,
        app: row.get(1)?,
        endpoint: row.get(2)?,
        kind: row.get(3)?,
        state: row.get(4)?,
        created_at: row.get(5)?,
        finished_at: row.get(6)?,
        report: optional_json(row, 7)?,
    })
}

pub(in crate::store) fn request(tx: &dyn Sql, new: &Inspection) -> Result<InspectionRequested> {
    let open = "SELECT id FROM inspections WHERE endpoint = ?1 AND state < 2";
    if let Some(busy) = tx.one(open, params![new.endpoint], |row| row.get(0))? {
        return Ok(InspectionRequested::Busy(busy));
    }
    tx.check_id(new.id.as_i64())?;
    let added = tx.execute(
        "INSERT INTO inspections (id, app, endpoint, kind, state, created_at)
         SELECT ?1, ?2, ?3, ?4, 0, ?5
         WHERE EXISTS (SELECT 1 FROM endpoints WHERE id = ?3 AND app = ?2 AND deleted_at IS NULL)",
        params![new.id, new.app, new.endpoint, new.kind, new.created_at],
    )?;
    Ok(if added == 1 { InspectionRequested::Waiting } else { InspectionRequested::NoEndpoint })
}

pub(in crate::store) fn start_next(tx: &dyn Sql, per_app_max: u32) -> Result<Option<Inspection>> {
    // The first condition is that of the small index of open ones.
    let sql = format!(
        "UPDATE inspections SET state = 1, epoch = ?2 WHERE id =
             (SELECT w.id FROM inspections w WHERE w.state < 2 AND w.state = 0
                  AND (SELECT count(*) FROM inspections r WHERE r.state < 2 AND r.state = 1 AND r.app = w.app) < ?1
              ORDER BY w.id LIMIT 1)
         RETURNING {COLUMNS}"
    );
    tx.one(&sql, params![per_app_max, tx.epoch()], inspection)
}

pub(in crate::store) fn finish(
    tx: &dyn Sql,
    id: InspectionId,
    report: Option<&InspectionReport>,
    now: Timestamp,
) -> Result<bool> {
    let (state, text) = match report {
        None => (InspectionState::Interrupted, None),
        Some(report) => (InspectionState::Finished, Some(to_json(report)?)),
    };
    let sql = "UPDATE inspections SET state = ?2, report = ?3, finished_at = ?4 WHERE id = ?1 AND state = 1
               RETURNING endpoint";
    let ended: Option<EndpointId> = tx.one(sql, params![id, state, text, now], |row| row.get(0))?;
    let Some(endpoint) = ended else { return Ok(false) };
    // Never deletes the newest of all, so that no id can be assigned again.
    tx.execute(
        "DELETE FROM inspections WHERE endpoint = ?1 AND state >= 2 AND id NOT IN
             (SELECT id FROM inspections WHERE endpoint = ?1 AND state >= 2 ORDER BY id DESC LIMIT ?2)",
        params![endpoint, INSPECTIONS_KEPT_PER_ENDPOINT],
    )?;
    Ok(true)
}

/// Interrupts the inspections that a dead node ran.
pub(super) fn interrupt(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    let sql = "UPDATE inspections SET state = 3, finished_at = ?1
         WHERE state < 2 AND state = 1 AND coalesce(epoch, 0) = ?2";
    tx.execute(sql, params![now, epoch])?;
    Ok(())
}

/// Whether an inspection waits.
pub(in crate::store) fn waits(tx: &dyn Sql) -> Result<bool> {
    tx.exists("SELECT EXISTS (SELECT 1 FROM inspections WHERE state < 2)", &[])
}

/// Cancels waiting and running inspections of a deleted endpoint.
pub(super) fn cancel(tx: &dyn Sql, endpoint: EndpointId, now: Timestamp) -> Result<()> {
    let sql = "UPDATE inspections SET state = 4, finished_at = ?2 WHERE endpoint = ?1 AND state < 2";
    tx.execute(sql, params![endpoint, now])?;
    Ok(())
}

pub(in crate::store) fn of_endpoint(
    connection: &dyn Sql,
    endpoint: EndpointId,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<Inspection>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM inspections WHERE endpoint = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3"
    );
    let before = after.map_or(i64::MAX, |cursor| cursor.id);
    let mut rows = connection.all(&sql, params![endpoint, before, limit + 1], inspection)?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|last| Cursor { at: 0, id: last.id.as_i64() });
    Ok(Page { rows, next })
}

pub(in crate::store) fn one(
    connection: &dyn Sql,
    app: AppId,
    id: InspectionId,
) -> Result<Option<Inspection>> {
    let sql = format!("SELECT {COLUMNS} FROM inspections WHERE id = ?1 AND app = ?2");
    connection.one(&sql, params![id, app], inspection)
}

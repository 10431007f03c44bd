//! The rows of statistics: sums by endpoint and by event type, of minutes, hours and days. `rollup` says how they come about,
//! `traffic` what people are told of them.

use super::registry::to_json;
use crate::domain::{
    id::{AppId, EndpointId},
    statistics::{Sums, Width},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, types::Type};
use std::time::Duration;

/// Old rows of each width that one step removes.
const TRIM_STEP: i64 = 500;
/// While somebody fails, accountable time is written at least this often.
const CLOCK_EVERY_MS: i64 = 60_000;

/// Rows with this app are of all apps together, and those with this endpoint of all endpoints of an app.
pub(super) const EVERY_APP: AppId = AppId::from_i64(0);
pub(super) const EVERY_ENDPOINT: EndpointId = EndpointId::from_i64(0);

/// A table of sums with what it has them of, besides the app: an endpoint or an event type.
pub(super) struct Table {
    name: &'static str,
    of: &'static str,
}

pub(super) const OF_ENDPOINTS: Table = Table { name: "statistics", of: "endpoint" };
pub(super) const OF_TYPES: Table = Table { name: "statistics_by_type", of: "type" };

pub(super) fn add(
    tx: &Connection,
    Table { name, of }: &Table,
    (app, whose): (AppId, &dyn ToSql),
    width: Width,
    start: Timestamp,
    mut sums: Sums,
) -> rusqlite::Result<()> {
    let before = tx
        .prepare_cached(&format!(
            "SELECT {SUMS} FROM {name} WHERE app = ?1 AND {of} = ?2 AND width = ?3 AND start = ?4"
        ))?
        .query_row(params![app, whose, width.seconds(), start], read)
        .optional()?;
    // A row that is there is changed in its place, so that its index by age need not be.
    let write = match before {
        None => format!(
            "INSERT INTO {name} (app, {of}, width, start, {SUMS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
        ),
        Some(before) => {
            sums.add(&before);
            format!(
                "UPDATE {name} SET ({SUMS}) = (?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
                 WHERE app = ?1 AND {of} = ?2 AND width = ?3 AND start = ?4"
            )
        }
    };
    tx.prepare_cached(&write)?.execute(params![
        app,
        whose,
        width.seconds(),
        start,
        sums.events as i64,
        sums.ok as i64,
        sums.failed as i64,
        sums.delivered as i64,
        sums.dead as i64,
        sums.unblamed as i64,
        sums.expired as i64,
        sums.total_us as i64,
        to_json(&sums.latency)?,
        to_json(&sums.endings)?,
        sums.last_ok_at,
    ])?;
    Ok(())
}

/// The columns that `read` reads, in its order.
pub(super) const SUMS: &str =
    "events, ok, failed, delivered, dead, unblamed, expired, total_us, latency, endings, last_ok_at";
/// How many they are.
pub(super) const SUMS_COLUMNS: usize = 11;

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Sums> {
    let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Sums {
        events: number(0)?,
        ok: number(1)?,
        failed: number(2)?,
        delivered: number(3)?,
        dead: number(4)?,
        unblamed: number(5)?,
        expired: number(6)?,
        total_us: number(7)?,
        latency: parsed(&row.get::<_, String>(8)?, 8)?,
        endings: parsed(&row.get::<_, String>(9)?, 9)?,
        last_ok_at: row.get(10)?,
    })
}

pub(super) fn parsed<T: serde::de::DeserializeOwned>(text: &str, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// Rows that are kept no longer; a few of each width at a time.
pub(super) fn trim(tx: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    for width in Width::ALL {
        let before = width.first_of(width.kept_for(), now);
        for Table { name, of } in [OF_ENDPOINTS, OF_TYPES] {
            tx.prepare_cached(&format!(
                "DELETE FROM {name} WHERE (app, {of}, width, start) IN
                     (SELECT app, {of}, width, start FROM {name} WHERE width = ?1 AND start < ?2 LIMIT ?3)",
            ))?
            .execute(params![width.seconds(), before, TRIM_STEP])?;
        }
    }
    Ok(())
}

/// A few rows of a deleted app; how many.
pub(super) fn purge(tx: &Connection, app: AppId, most: i64) -> rusqlite::Result<usize> {
    let mut purged = 0;
    for Table { name, of } in [OF_ENDPOINTS, OF_TYPES] {
        purged += tx
            .prepare_cached(&format!(
                "DELETE FROM {name} WHERE (app, {of}, width, start) IN
                     (SELECT app, {of}, width, start FROM {name} WHERE app = ?1 LIMIT ?2)",
            ))?
            .execute(params![app, most])?;
    }
    Ok(purged)
}

/// Whatever was counted from there on.
pub(super) fn since(
    connection: &Connection,
    (app, endpoint): (AppId, EndpointId),
    width: Width,
    start: Timestamp,
) -> rusqlite::Result<Sums> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {SUMS} FROM statistics WHERE app = ?1 AND endpoint = ?2 AND width = ?3 AND start >= ?4"
    ))?;
    let mut sums = Sums::default();
    for row in statement.query_map(params![app, endpoint, width.seconds(), start], read)? {
        sums.add(&row?);
    }
    Ok(sums)
}

/// What was counted since then and not before: of the hours that lie wholly after it, and of the minutes up to the first of
/// them, as far as these are kept.
pub(super) fn strictly_since(
    connection: &Connection,
    (app, endpoint): (AppId, EndpointId),
    from: Timestamp,
) -> rusqlite::Result<Sums> {
    let first_hour = Width::Hour.first_after(from);
    let mut sums = since(connection, (app, endpoint), Width::Hour, first_hour)?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {SUMS} FROM statistics WHERE app = ?1 AND endpoint = ?2 AND width = ?3 AND start >= ?4 AND start < ?5"
    ))?;
    let minute = Width::Minute;
    let key = params![app, endpoint, minute.seconds(), minute.first_after(from), first_hour];
    for row in statement.query_map(key, read)? {
        sums.add(&row?);
    }
    Ok(sums)
}

/// The sums of a window that ends now.
pub(super) fn window(
    connection: &Connection,
    whose: (AppId, EndpointId),
    window: Duration,
    now: Timestamp,
) -> rusqlite::Result<Sums> {
    let width = Width::for_window(window);
    since(connection, whose, width, width.first_of(window, now))
}

/// Endpoints that anything was taken by since then.
pub(super) fn well(connection: &Connection, since: Timestamp) -> rusqlite::Result<Vec<EndpointId>> {
    connection
        .prepare_cached(
            "SELECT DISTINCT endpoint FROM statistics WHERE width = ?1 AND start >= ?2 AND ok > 0 AND endpoint > 0",
        )?
        .query_map(params![Width::Hour.seconds(), Width::Hour.start(since)], |row| row.get(0))?
        .collect()
}

/// Accountable time and when it was written.
pub(super) fn clock(connection: &Connection) -> rusqlite::Result<Option<(Duration, Timestamp)>> {
    connection
        .prepare_cached("SELECT clock, at FROM accountable")?
        .query_row([], |row| Ok((Duration::from_millis(row.get::<_, i64>(0)?.unsigned_abs()), row.get(1)?)))
        .optional()
}

/// Written when there is something to write anyway, and now and then while somebody fails; otherwise nobody needs it.
pub(super) fn keep_clock(
    tx: &Connection,
    clock: Duration,
    now: Timestamp,
    writes: bool,
) -> rusqlite::Result<()> {
    let ms = clock.as_millis() as i64;
    let is_needed = || -> rusqlite::Result<bool> {
        let written: Option<i64> =
            tx.prepare_cached("SELECT clock FROM accountable")?.query_row([], |row| row.get(0)).optional()?;
        Ok(written.is_none_or(|written| written + CLOCK_EVERY_MS <= ms)
            && tx
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM health WHERE first_failed_at IS NOT NULL)")?
                .query_row([], |row| row.get(0))?)
    };
    if writes || is_needed()? {
        tx.prepare_cached("INSERT OR REPLACE INTO accountable (only_row, clock, at) VALUES (1, ?1, ?2)")?
            .execute(params![ms, now])?;
    }
    Ok(())
}

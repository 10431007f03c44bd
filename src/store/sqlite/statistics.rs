//! The statistics: each commit logs what it adds, and once in a while that is rolled up into rows of minutes and hours. What a
//! crash leaves in the log is rolled up by the next process, so nothing is lost and nothing is counted twice.

use super::{health, registry::to_json};
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Batch, Sums, Width},
        time::Timestamp,
    },
    store::cluster::RolledUp,
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Rows of the log that one step reads at most; rows of statistics after which it reads no more; old rows of each width that it
/// removes.
const LOGGED_PER_STEP: usize = 500;
const ROWS_PER_STEP: usize = 500;
const TRIM_STEP: i64 = 500;
/// Endpoints' minutes in one row of the log: a commit that has to do with thousands of endpoints is rolled up in parts.
const MINUTES_PER_ROW: usize = 250;
/// While somebody fails, accountable time is written at least this often.
const CLOCK_EVERY_MS: i64 = 60_000;

/// One endpoint's minute in the log: endpoint, start in minutes, ok, failed, delivered, dead, total_us, the last success in
/// milliseconds after the start, latency.
type Logged = (i64, i64, u64, u64, u64, u64, u64, Option<i64>, Vec<(u8, u64)>);

pub(super) fn log(tx: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let logged: Vec<Logged> =
        batch.rows().map(|(endpoint, minute, sums)| logged(endpoint, minute, sums)).collect();
    let mut insert = tx.prepare_cached("INSERT INTO statistics_log (document) VALUES (?1)")?;
    for part in logged.chunks(MINUTES_PER_ROW) {
        insert.execute([to_json(&part)?])?;
    }
    Ok(())
}

fn logged(endpoint: EndpointId, minute: Timestamp, sums: &Sums) -> Logged {
    (
        endpoint.as_i64(),
        minute.as_millis() / 60_000,
        sums.ok,
        sums.failed,
        sums.delivered,
        sums.dead,
        sums.total_us,
        sums.last_ok_at.map(|at| at.as_millis() - minute.as_millis()),
        sums.latency.iter().map(|(bucket, count)| (*bucket, *count)).collect(),
    )
}

fn unlogged(logged: Logged) -> (EndpointId, Timestamp, Sums) {
    let (endpoint, minute, ok, failed, delivered, dead, total_us, last_ok, latency) = logged;
    let start = minute * 60_000;
    let last_ok_at = last_ok.map(|after| Timestamp::from_millis(start + after));
    let latency = latency.into_iter().collect();
    let sums = Sums { ok, failed, delivered, dead, total_us, latency, last_ok_at };
    (EndpointId::from_i64(endpoint), Timestamp::from_millis(start), sums)
}

/// Moves a part of the log into the rows, removes a few old rows, keeps the clock.
pub(super) fn roll_up(tx: &Connection, clock: Duration, now: Timestamp) -> rusqlite::Result<RolledUp> {
    let Part { sums, read_to, has_more } = read_log(tx)?;
    if let Some(last) = read_to {
        tx.prepare_cached("DELETE FROM statistics_log WHERE id <= ?1")?.execute([last])?;
    }
    let mut suspects = BTreeSet::new();
    for ((endpoint, width, start), added) in sums {
        // Nobody asks about an endpoint that is gone.
        let Some(app) = app_of(tx, endpoint)? else { continue };
        if added.failed + added.dead > 0 || health::is_degraded(tx, endpoint)? {
            suspects.insert(endpoint);
        }
        add(tx, app, endpoint, width, start, added)?;
    }
    trim(tx, now)?;
    keep_clock(tx, clock, now, read_to.is_some())?;
    Ok(RolledUp { suspects: suspects.into_iter().collect(), has_more })
}

/// What is rolled up in one step.
struct Part {
    sums: BTreeMap<(EndpointId, Width, Timestamp), Sums>,
    read_to: Option<i64>,
    has_more: bool,
}

/// The oldest of the log, until there is enough of it.
fn read_log(tx: &Connection) -> rusqlite::Result<Part> {
    let mut part = Part { sums: BTreeMap::new(), read_to: None, has_more: false };
    let mut statement = tx.prepare_cached("SELECT id, document FROM statistics_log ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if part.sums.len() >= ROWS_PER_STEP || count == LOGGED_PER_STEP {
            part.has_more = true;
            break;
        }
        count += 1;
        part.read_to = Some(row.get(0)?);
        let logged: Vec<Logged> = parsed(&row.get::<_, String>(1)?, 1)?;
        for (endpoint, minute, added) in logged.into_iter().map(unlogged) {
            for width in Width::ALL {
                part.sums.entry((endpoint, width, width.start(minute))).or_default().add(&added);
            }
        }
    }
    Ok(part)
}

fn app_of(tx: &Connection, endpoint: EndpointId) -> rusqlite::Result<Option<AppId>> {
    tx.prepare_cached("SELECT app FROM endpoints WHERE id = ?1 AND deleted_at IS NULL")?
        .query_row([endpoint], |row| row.get(0))
        .optional()
}

fn add(
    tx: &Connection,
    app: AppId,
    endpoint: EndpointId,
    width: Width,
    start: Timestamp,
    mut sums: Sums,
) -> rusqlite::Result<()> {
    let key = params![app, endpoint, width.seconds(), start];
    let before = tx
        .prepare_cached(&format!(
            "SELECT {SUMS} FROM statistics WHERE app = ?1 AND endpoint = ?2 AND width = ?3 AND start = ?4"
        ))?
        .query_row(key, read)
        .optional()?;
    if let Some(before) = before {
        sums.add(&before);
    }
    tx.prepare_cached(&format!(
        "INSERT OR REPLACE INTO statistics (app, endpoint, width, start, {SUMS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
    ))?
    .execute(params![
        app,
        endpoint,
        width.seconds(),
        start,
        sums.ok as i64,
        sums.failed as i64,
        sums.delivered as i64,
        sums.dead as i64,
        sums.total_us as i64,
        to_json(&sums.latency)?,
        sums.last_ok_at,
    ])?;
    Ok(())
}

/// The columns that `read` reads, in its order.
const SUMS: &str = "ok, failed, delivered, dead, total_us, latency, last_ok_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Sums> {
    let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Sums {
        ok: number(0)?,
        failed: number(1)?,
        delivered: number(2)?,
        dead: number(3)?,
        total_us: number(4)?,
        latency: parsed(&row.get::<_, String>(5)?, 5)?,
        last_ok_at: row.get(6)?,
    })
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// Rows that are kept no longer; a few of each width at a time.
fn trim(tx: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    for width in Width::ALL {
        let before = width.first_of(width.kept_for(), now);
        tx.prepare_cached(
            "DELETE FROM statistics WHERE (app, endpoint, width, start) IN
                 (SELECT app, endpoint, width, start FROM statistics WHERE width = ?1 AND start < ?2 LIMIT ?3)",
        )?
        .execute(params![width.seconds(), before, TRIM_STEP])?;
    }
    Ok(())
}

/// A few rows of a deleted app; how many.
pub(super) fn purge(tx: &Connection, app: AppId, most: i64) -> rusqlite::Result<usize> {
    tx.prepare_cached(
        "DELETE FROM statistics WHERE (app, endpoint, width, start) IN
             (SELECT app, endpoint, width, start FROM statistics WHERE app = ?1 LIMIT ?2)",
    )?
    .execute(params![app, most])
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
            "SELECT DISTINCT endpoint FROM statistics WHERE width = ?1 AND start >= ?2 AND ok > 0",
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
fn keep_clock(tx: &Connection, clock: Duration, now: Timestamp, writes: bool) -> rusqlite::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::open::open_in_memory;

    #[test]
    fn a_commit_that_has_to_do_with_thousands_of_endpoints_is_rolled_up_in_parts() {
        let (store, now) = (open_in_memory().unwrap(), Timestamp::from_millis(1_800_000_000_000));
        let mut batch = Batch::default();
        for number in 1..=2000 {
            let insert = "INSERT INTO endpoints (id, app, uid, settings, revision, created_at, updated_at)
                 VALUES (?1, 1, ?1, '{}', 1, 0, 0)";
            store.execute(insert, [number]).unwrap();
            batch.of(EndpointId::from_i64(number), now).attempt(true, 10, now);
        }
        log(&store, &batch).unwrap();
        let count = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let (mut before, mut has_more) = (0, true);
        while has_more {
            has_more = roll_up(&store, Duration::ZERO, now).unwrap().has_more;
            let rows = count("SELECT count(*) FROM statistics");
            let in_one_step = rows - before;
            assert!(in_one_step as usize <= ROWS_PER_STEP + 2 * MINUTES_PER_ROW, "{in_one_step} at once");
            before = rows;
        }
        assert_eq!(count("SELECT sum(ok) FROM statistics WHERE width = 60"), 2000);
        assert_eq!(count("SELECT count(*) FROM statistics_log"), 0);
    }
}

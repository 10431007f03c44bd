//! The statistics: each commit logs what it adds, and once in a while that is rolled up into rows of minutes, hours and days. What a
//! crash leaves in the log is rolled up by the next process, so nothing is lost and nothing is counted twice.

use super::registry::to_json;
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Batch, Ending, Line, Sums, Width},
        time::Timestamp,
    },
    store::cluster::RolledUp,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, types::Type};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Commits that one step rolls up, and old rows of each width that it removes.
const COMMITS_PER_STEP: usize = 500;
const TRIM_STEP: i64 = 500;
/// Event types of an app beyond these have a row together.
const TYPES_PER_DAY_MAX: usize = 200;
pub(super) const OTHER_TYPES: &str = "*";
/// While somebody fails, accountable time is written at least this often.
const CLOCK_EVERY_MS: i64 = 60_000;

/// A line of the log: app, endpoint, event type, start in minutes, what was counted (events, ok, failed, delivered, dead,
/// total_us), the last success in milliseconds after the start, latency, endings.
type Logged = (i64, Option<i64>, String, i64, [u64; 6], Option<i64>, Vec<(u8, u64)>, Vec<(Ending, u64)>);

/// Rows with this app are of all apps together, and those with this endpoint of all endpoints of an app.
pub(super) const EVERY_APP: AppId = AppId::from_i64(0);
pub(super) const EVERY_ENDPOINT: EndpointId = EndpointId::from_i64(0);

pub(super) fn log(tx: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let logged: Vec<Logged> = batch.lines().map(|line| logged(&line)).collect();
    tx.prepare_cached("INSERT INTO statistics_log (document) VALUES (?1)")?.execute([to_json(&logged)?])?;
    Ok(())
}

fn logged(line: &Line<'_>) -> Logged {
    let Line { app, endpoint, minute, event_type, sums } = line;
    (
        app.as_i64(),
        endpoint.map(EndpointId::as_i64),
        (*event_type).to_owned(),
        minute.as_millis() / 60_000,
        [sums.events, sums.ok, sums.failed, sums.delivered, sums.dead, sums.total_us],
        sums.last_ok_at.map(|at| at.as_millis() - minute.as_millis()),
        sums.latency.iter().map(|(bucket, count)| (*bucket, *count)).collect(),
        sums.endings.iter().map(|(ending, count)| (*ending, *count)).collect(),
    )
}

/// What a part of the log adds to each row.
#[derive(Default)]
struct Added {
    rows: BTreeMap<(AppId, EndpointId, Width, Timestamp), Sums>,
    by_type: BTreeMap<(AppId, String, Width, Timestamp), Sums>,
}

impl Added {
    fn add(&mut self, line: Logged) {
        let (app, endpoint, event_type, minute, counts, last_ok, latency, endings) = line;
        let minute = Timestamp::from_millis(minute * 60_000);
        let [events, ok, failed, delivered, dead, total_us] = counts;
        let sums = Sums {
            events,
            ok,
            failed,
            delivered,
            dead,
            total_us,
            latency: latency.into_iter().collect(),
            endings: endings.into_iter().collect(),
            last_ok_at: last_ok.map(|after| Timestamp::from_millis(minute.as_millis() + after)),
        };
        let app = AppId::from_i64(app);
        for width in Width::ALL {
            let start = width.start(minute);
            let mut add =
                |app, endpoint| self.rows.entry((app, endpoint, width, start)).or_default().add(&sums);
            endpoint.into_iter().for_each(|endpoint| add(app, EndpointId::from_i64(endpoint)));
            add(app, EVERY_ENDPOINT);
            add(EVERY_APP, EVERY_ENDPOINT);
            for app in [app, EVERY_APP] {
                self.by_type.entry((app, event_type.clone(), width, start)).or_default().add(&sums);
            }
        }
    }

    /// Answers the endpoints of which something failed. Nobody asks about what is gone.
    fn write(self, tx: &Connection) -> rusqlite::Result<BTreeSet<EndpointId>> {
        let mut suspects = BTreeSet::new();
        let mut is_there: BTreeMap<AppId, bool> = [(EVERY_APP, true)].into();
        for ((app, endpoint, width, start), sums) in self.rows {
            if !there(tx, &mut is_there, app)? || !is_counted(tx, endpoint)? {
                continue;
            }
            if endpoint != EVERY_ENDPOINT && sums.failed + sums.dead > 0 {
                suspects.insert(endpoint);
            }
            add(tx, &OF_ENDPOINTS, (app, &endpoint), width, start, sums)?;
        }
        let mut names = TypeNames::default();
        for ((app, event_type, width, start), sums) in self.by_type {
            if there(tx, &mut is_there, app)? {
                let name = names.name(tx, app, event_type, Width::Day.start(start))?;
                add(tx, &OF_TYPES, (app, &name), width, start, sums)?;
            }
        }
        Ok(suspects)
    }
}

/// Event types that have rows of their own on a day, by app. Whoever publishes makes names up, so that there may be any number.
#[derive(Default)]
struct TypeNames {
    known: BTreeMap<(AppId, Timestamp, String), bool>,
    counts: BTreeMap<(AppId, Timestamp), usize>,
}

impl TypeNames {
    fn name(
        &mut self,
        tx: &Connection,
        app: AppId,
        name: String,
        day: Timestamp,
    ) -> rusqlite::Result<String> {
        let key = (app, day, name);
        let is_own = match self.known.get(&key) {
            Some(is_own) => *is_own,
            None => {
                let is_own = self.gets_rows(tx, app, &key.2, day)?;
                self.known.insert(key.clone(), is_own);
                is_own
            }
        };
        Ok(if is_own { key.2 } else { OTHER_TYPES.to_owned() })
    }

    fn gets_rows(
        &mut self,
        tx: &Connection,
        app: AppId,
        name: &str,
        day: Timestamp,
    ) -> rusqlite::Result<bool> {
        let width = Width::Day.seconds();
        let mut row = tx.prepare_cached(
            "SELECT 1 FROM statistics_by_type WHERE app = ?1 AND width = ?2 AND start = ?3 AND type = ?4",
        )?;
        if row.exists(params![app, width, day, name])? {
            return Ok(true);
        }
        let count = match self.counts.get(&(app, day)) {
            Some(count) => *count,
            None => {
                tx.prepare_cached(
                    "SELECT count(*) FROM statistics_by_type WHERE app = ?1 AND width = ?2 AND start = ?3",
                )?
                .query_row(params![app, width, day], |row| row.get::<_, i64>(0))? as usize
            }
        };
        let is_own = count < TYPES_PER_DAY_MAX;
        self.counts.insert((app, day), count + usize::from(is_own));
        Ok(is_own)
    }
}

fn there(tx: &Connection, known: &mut BTreeMap<AppId, bool>, app: AppId) -> rusqlite::Result<bool> {
    if let Some(is_there) = known.get(&app) {
        return Ok(*is_there);
    }
    let is_there = tx.prepare_cached("SELECT 1 FROM apps WHERE id = ?1")?.exists([app])?;
    known.insert(app, is_there);
    Ok(is_there)
}

fn is_counted(tx: &Connection, endpoint: EndpointId) -> rusqlite::Result<bool> {
    Ok(endpoint == EVERY_ENDPOINT
        || tx
            .prepare_cached("SELECT 1 FROM endpoints WHERE id = ?1 AND deleted_at IS NULL")?
            .exists([endpoint])?)
}

/// Moves a part of the log into the rows, removes a few old rows, keeps the clock.
pub(super) fn roll_up(tx: &Connection, clock: Duration, now: Timestamp) -> rusqlite::Result<RolledUp> {
    let commits: Vec<(i64, String)> = tx
        .prepare_cached("SELECT id, document FROM statistics_log ORDER BY id LIMIT ?1")?
        .query_map([COMMITS_PER_STEP as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut added = Added::default();
    for (_, document) in &commits {
        parsed::<Vec<Logged>>(document, 1)?.into_iter().for_each(|line| added.add(line));
    }
    if let Some((last, _)) = commits.last() {
        tx.prepare_cached("DELETE FROM statistics_log WHERE id <= ?1")?.execute([last])?;
    }
    let mut suspects = added.write(tx)?;
    let mut degraded = tx.prepare_cached("SELECT endpoint FROM health WHERE degraded_since IS NOT NULL")?;
    for endpoint in degraded.query_map([], |row| row.get(0))? {
        suspects.insert(endpoint?);
    }
    trim(tx, now)?;
    keep_clock(tx, clock, now, !commits.is_empty())?;
    let suspects = suspects.into_iter().collect();
    Ok(RolledUp { suspects, has_more: commits.len() == COMMITS_PER_STEP })
}

/// A table of sums with what it has them of, besides the app: an endpoint or an event type.
struct Table {
    name: &'static str,
    of: &'static str,
}

const OF_ENDPOINTS: Table = Table { name: "statistics", of: "endpoint" };
const OF_TYPES: Table = Table { name: "statistics_by_type", of: "type" };

fn add(
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
    if let Some(before) = before {
        sums.add(&before);
    }
    tx.prepare_cached(&format!(
        "INSERT OR REPLACE INTO {name} (app, {of}, width, start, {SUMS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    ))?
    .execute(params![
        app,
        whose,
        width.seconds(),
        start,
        sums.events as i64,
        sums.ok as i64,
        sums.failed as i64,
        sums.delivered as i64,
        sums.dead as i64,
        sums.total_us as i64,
        to_json(&sums.latency)?,
        to_json(&sums.endings)?,
        sums.last_ok_at,
    ])?;
    Ok(())
}

/// The columns that `read` reads, in its order.
pub(super) const SUMS: &str = "events, ok, failed, delivered, dead, total_us, latency, endings, last_ok_at";

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Sums> {
    let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Sums {
        events: number(0)?,
        ok: number(1)?,
        failed: number(2)?,
        delivered: number(3)?,
        dead: number(4)?,
        total_us: number(5)?,
        latency: parsed(&row.get::<_, String>(6)?, 6)?,
        endings: parsed(&row.get::<_, String>(7)?, 7)?,
        last_ok_at: row.get(8)?,
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

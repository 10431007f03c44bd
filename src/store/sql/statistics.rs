//! Statistics tables: counters by endpoint and by event type, for minutes, hours and days. `rollup` fills them,
//! `statistics_query` reads them.

use super::{
    BulkStatement, Result, Row, Sql, ToValue,
    config::{json, to_json},
    params,
};
use crate::domain::{
    id::{AppId, EndpointId},
    statistics::{Counters, Resolution},
    time::Timestamp,
};
use std::time::Duration;

/// Old rows of each width that one step removes.
const TRIM_STEP: i64 = 500;

/// Rows with this app count all apps together, and rows with this endpoint all endpoints of an app.
pub(super) const EVERY_APP: AppId = AppId::from_i64(0);
pub(super) const EVERY_ENDPOINT: EndpointId = EndpointId::from_i64(0);

macro_rules! counters {
    () => {
        "events, ok, failed, delivered, dead, dead_excused, expired, total_us, latency, outcomes, last_ok_at"
    };
}

/// A table of counters, and its key column besides the app: an endpoint or an event type.
pub(super) struct StatisticsTable {
    name: &'static str,
    of: &'static str,
    /// Column types of a key, and of a whole row, as `BulkStatement` has them.
    key: &'static str,
    row: &'static str,
}

pub(super) const OF_ENDPOINTS: StatisticsTable =
    StatisticsTable { name: "statistics", of: "endpoint", key: "nnnnn", row: "nnnnnnnnnnnnttn" };
pub(super) const OF_TYPES: StatisticsTable =
    StatisticsTable { name: "statistics_by_type", of: "type", key: "nntnn", row: "ntnnnnnnnnnnttn" };

/// Counters to add to the row of an app and of an endpoint or an event type of it.
pub(super) type RowCounters<T> = ((AppId, T, Resolution, Timestamp), Counters);

/// Adds counters to these rows; no row may occur twice.
pub(super) fn add<T: ToValue>(
    tx: &dyn Sql,
    StatisticsTable { name, of, key, row }: &StatisticsTable,
    counters: impl IntoIterator<Item = RowCounters<T>>,
) -> Result<()> {
    let mut counters: Vec<RowCounters<T>> = counters.into_iter().collect();
    let before = format!(
        "SELECT {COUNTERS}, given.position FROM {{given}} CROSS JOIN {name} s
         WHERE s.app = given.app AND s.{of} = given.whose AND s.width = given.width AND s.start = given.start"
    );
    let mut found = Vec::new();
    tx.query_each_row(
        &BulkStatement { sql: &before, columns: "position, app, whose, width, start", shape: key },
        &mut |give| {
            (0_i64..).zip(&counters).try_for_each(|(index, ((app, whose, width, start), _))| {
                give(params![index, app, whose, width.seconds(), start])
            })
        },
        &mut |row| {
            found.push((row.get::<i64>(COUNTERS_COLUMNS)? as usize, read(row)?));
            Ok(())
        },
    )?;
    for (index, before) in found {
        counters[index].1.add(&before);
    }
    // An existing row is updated in place, so that its index by age is not touched.
    let write = format!(
        "INSERT INTO {name} (app, {of}, width, start, {COUNTERS}) SELECT app, whose, width, start, {COUNTERS} FROM {{given}} WHERE true
         ON CONFLICT (app, {of}, width, start) DO UPDATE SET ({COUNTERS}) = ({EXCLUDED})"
    );
    tx.query_each_row(
        &BulkStatement {
            sql: &write,
            columns: concat!("app, whose, width, start, ", counters!()),
            shape: row,
        },
        &mut |give| {
            counters.iter().try_for_each(|((app, whose, width, start), counters)| {
                give(params![
                    app,
                    whose,
                    width.seconds(),
                    start,
                    counters.events as i64,
                    counters.succeeded as i64,
                    counters.failed as i64,
                    counters.delivered as i64,
                    counters.dead as i64,
                    counters.dead_local as i64,
                    counters.expired as i64,
                    counters.total_us as i64,
                    to_json(&counters.latency)?,
                    to_json(&counters.result_counts)?,
                    counters.last_ok_at,
                ])
            })
        },
        &mut |_| Ok(()),
    )
}

/// Columns that `read` reads, in its order.
pub(super) const COUNTERS: &str = counters!();
/// These columns of the row that an upsert brings.
const EXCLUDED: &str =
    "excluded.events, excluded.ok, excluded.failed, excluded.delivered, excluded.dead, excluded.dead_excused,
     excluded.expired, excluded.total_us, excluded.latency, excluded.outcomes, excluded.last_ok_at";
/// Number of columns in `COUNTERS`.
pub(super) const COUNTERS_COLUMNS: usize = 11;

pub(super) fn read(row: &Row<'_>) -> Result<Counters> {
    let number = |column| row.get::<i64>(column).map(i64::unsigned_abs);
    Ok(Counters {
        events: number(0)?,
        succeeded: number(1)?,
        failed: number(2)?,
        delivered: number(3)?,
        dead: number(4)?,
        dead_local: number(5)?,
        expired: number(6)?,
        total_us: number(7)?,
        latency: json(row, 8)?,
        result_counts: json(row, 9)?,
        last_ok_at: row.get(10)?,
    })
}

/// Removes expired rows; a few of each width at a time.
pub(super) fn trim(tx: &dyn Sql, now: Timestamp) -> Result<()> {
    for width in Resolution::ALL {
        let before = width.first_of(width.kept_for(), now);
        for StatisticsTable { name, of, .. } in [OF_ENDPOINTS, OF_TYPES] {
            tx.execute(
                &format!(
                    "DELETE FROM {name} WHERE (app, {of}, width, start) IN
                         (SELECT app, {of}, width, start FROM {name} WHERE width = ?1 AND start < ?2 AND app >= 0 LIMIT ?3)"
                ),
                params![width.seconds(), before, TRIM_STEP],
            )?;
        }
    }
    Ok(())
}

/// Removes a few rows of a deleted app; returns how many.
pub(super) fn purge(tx: &dyn Sql, app: AppId, most: i64) -> Result<usize> {
    let mut purged = 0;
    for StatisticsTable { name, of, .. } in [OF_ENDPOINTS, OF_TYPES] {
        purged += tx.execute(
            &format!(
                "DELETE FROM {name} WHERE (app, {of}, width, start) IN
                     (SELECT app, {of}, width, start FROM {name} WHERE app = ?1 LIMIT ?2)"
            ),
            params![app, most],
        )?;
    }
    Ok(purged)
}

/// Returns the counters from this start on.
pub(super) fn since(
    connection: &dyn Sql,
    (app, endpoint): (AppId, EndpointId),
    width: Resolution,
    start: Timestamp,
) -> Result<Counters> {
    let sql = format!(
        "SELECT {COUNTERS} FROM statistics WHERE app = ?1 AND endpoint = ?2 AND width = ?3 AND start >= ?4"
    );
    let mut counters = Counters::default();
    connection.each(&sql, params![app, endpoint, width.seconds(), start], |row| {
        counters.add(&read(row)?);
        Ok(())
    })?;
    Ok(counters)
}

/// Returns the counters since an instant, without anything earlier: of the hours that lie wholly after it, and of the minutes
/// up to the first of them, as far as these are kept.
pub(super) fn strictly_since(
    connection: &dyn Sql,
    (app, endpoint): (AppId, EndpointId),
    from: Timestamp,
) -> Result<Counters> {
    let first_hour = Resolution::Hour.first_after(from);
    let mut counters = since(connection, (app, endpoint), Resolution::Hour, first_hour)?;
    let sql = format!(
        "SELECT {COUNTERS} FROM statistics WHERE app = ?1 AND endpoint = ?2 AND width = ?3 AND start >= ?4 AND start < ?5"
    );
    let minute = Resolution::Minute;
    let key = params![app, endpoint, minute.seconds(), minute.first_after(from), first_hour];
    connection.each(&sql, key, |row| {
        counters.add(&read(row)?);
        Ok(())
    })?;
    Ok(counters)
}

/// Returns the counters of a window that ends now.
pub(super) fn window(
    connection: &dyn Sql,
    whose: (AppId, EndpointId),
    window: Duration,
    now: Timestamp,
) -> Result<Counters> {
    let width = Resolution::for_window(window);
    since(connection, whose, width, width.first_of(window, now))
}

/// Returns endpoints that accepted a delivery since then.
pub(super) fn healthy_endpoints(connection: &dyn Sql, since: Timestamp) -> Result<Vec<EndpointId>> {
    connection.all(
        "SELECT DISTINCT endpoint FROM statistics WHERE width = ?1 AND start >= ?2 AND app >= 0 AND ok > 0 AND endpoint > 0",
        params![Resolution::Hour.seconds(), Resolution::Hour.start(since)],
        |row| row.get(0),
    )
}

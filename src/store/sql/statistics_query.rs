//! Statistics queries. Each reads rows of counters, never attempts: how many depends on the length of the series and on the
//! number of endpoints and event types, not on how much was sent.

use super::{
    Result, Row, Sql,
    maintenance::find_queues,
    params,
    statistics::{COUNTERS, COUNTERS_COLUMNS, EVERY_APP, EVERY_ENDPOINT, read},
};
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Counters, TimeRange},
        time::Timestamp,
    },
    store::statistics::{
        BACKLOG_COUNTED_MAX, Backlog, ENDPOINTS_EXAMINED_MAX, STATISTICS_ROWS_MAX, Statistics,
        StatisticsSearch, StatisticsSubject,
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

/// Rows of an app or of one endpoint between two starts.
const OF_ENDPOINT: &str =
    "FROM statistics WHERE app = ?1 AND endpoint = ?2 AND width = ?3 AND start >= ?4 AND start < ?5";
/// Starts of the rows of one event type: each row is found by its key, which begins with the time.
const STARTS: &str = "WITH RECURSIVE starts(at) AS (SELECT CAST(?3 AS bigint) UNION ALL SELECT at + ?6 FROM starts WHERE at + ?6 < ?4)";
const OF_TYPE: &str = "FROM starts CROSS JOIN statistics_by_type
     WHERE app = ?1 AND width = ?2 AND start = at AND type = ?5";
/// Rows of all event types of an app between two starts.
const OF_TYPES: &str = "FROM statistics_by_type WHERE app = ?1 AND width = ?2 AND start >= ?3 AND start < ?4";

pub(in crate::store) fn statistics(connection: &dyn Sql, search: &StatisticsSearch) -> Result<Statistics> {
    let app = search.app.unwrap_or(EVERY_APP);
    let pieces = search.span.pieces();
    let everything = || of_endpoint(connection, (app, EVERY_ENDPOINT), &search.span);
    let (series, endpoints, event_types) = match &search.subject {
        StatisticsSubject::Everything => {
            let failing = by_endpoint(connection, &search.endpoints, &pieces)?;
            (everything()?, failing, by_type(connection, app, &pieces)?)
        }
        StatisticsSubject::Endpoint(endpoint) => {
            let series = of_endpoint(connection, (app, *endpoint), &search.span)?;
            let counters = added(series.iter().map(|(_, counters)| counters));
            (series, vec![(*endpoint, counters)], Vec::new())
        }
        StatisticsSubject::EventType(name) => {
            let series = of_type(connection, app, name, &search.span)?;
            let counters = added(series.iter().map(|(_, counters)| counters));
            (series, Vec::new(), vec![(name.clone(), counters)])
        }
    };
    Ok(Statistics { series, endpoints, event_types, backlog: backlog(connection, search)? })
}

fn added<'a>(all: impl Iterator<Item = &'a Counters>) -> Counters {
    let mut counters = Counters::default();
    all.for_each(|each| counters.add(each));
    counters
}

fn of_endpoint(
    connection: &dyn Sql,
    (app, endpoint): (AppId, EndpointId),
    span: &TimeRange,
) -> Result<Vec<(Timestamp, Counters)>> {
    connection.all(
        &format!("SELECT {COUNTERS}, start {OF_ENDPOINT}"),
        params![app, endpoint, span.resolution.seconds(), span.from, span.to],
        at_its_start,
    )
}

fn of_type(
    connection: &dyn Sql,
    app: AppId,
    name: &str,
    span: &TimeRange,
) -> Result<Vec<(Timestamp, Counters)>> {
    let seconds = span.resolution.seconds();
    connection.all(
        &format!("{STARTS} SELECT {COUNTERS}, start {OF_TYPE}"),
        params![app, seconds, span.from, span.to, name, seconds * 1000],
        at_its_start,
    )
}

fn at_its_start(row: &Row<'_>) -> Result<(Timestamp, Counters)> {
    Ok((row.get(COUNTERS_COLUMNS)?, read(row)?))
}

/// Returns the endpoints that fail most, also without an attempt, then the busiest. All are compared by plain numbers; only
/// the returned ones are read whole.
fn by_endpoint(
    connection: &dyn Sql,
    endpoints: &[(AppId, EndpointId)],
    pieces: &[TimeRange],
) -> Result<Vec<(EndpointId, Counters)>> {
    let sql = format!(
        "SELECT CAST(coalesce(sum(failed + dead_excused + expired), 0) AS bigint), CAST(coalesce(sum(ok), 0) AS bigint)
         {OF_ENDPOINT}"
    );
    let mut ranked = Vec::new();
    for (app, endpoint) in endpoints.iter().take(ENDPOINTS_EXAMINED_MAX) {
        let (mut failed, mut ok) = (0, 0);
        for piece in pieces {
            let key = params![app, endpoint, piece.resolution.seconds(), piece.from, piece.to];
            let numbers = connection.one(&sql, key, |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
            let (more_failed, more_ok) = numbers.unwrap_or_default();
            (failed, ok) = (failed + more_failed, ok + more_ok);
        }
        if failed + ok > 0 {
            ranked.push((Reverse((failed, ok)), *app, *endpoint));
        }
    }
    ranked.sort_unstable();
    let counted = ranked.into_iter().take(STATISTICS_ROWS_MAX).map(|(_, app, endpoint)| {
        let mut counters = Counters::default();
        for piece in pieces {
            let rows = of_endpoint(connection, (app, endpoint), piece)?;
            counters.add(&added(rows.iter().map(|(_, counters)| counters)));
        }
        Ok((endpoint, counters))
    });
    counted.collect()
}

/// Returns the busiest event types, by events and attempts; only the returned ones are read whole.
fn by_type(connection: &dyn Sql, app: AppId, pieces: &[TimeRange]) -> Result<Vec<(String, Counters)>> {
    let mut counted: Vec<_> =
        busiest_types(connection, app, pieces)?.into_iter().map(|name| (name, Counters::default())).collect();
    let places: BTreeMap<String, usize> =
        counted.iter().enumerate().map(|(index, (name, _))| (name.clone(), index)).collect();
    let sql = format!("SELECT {COUNTERS}, type {OF_TYPES}");
    for piece in pieces {
        connection.each(&sql, params![app, piece.resolution.seconds(), piece.from, piece.to], |row| {
            if let Some(index) = places.get(row.get::<&str>(COUNTERS_COLUMNS)?) {
                counted[*index].1.add(&read(row)?);
            }
            Ok(())
        })?;
    }
    Ok(counted)
}

fn busiest_types(connection: &dyn Sql, app: AppId, pieces: &[TimeRange]) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT type, CAST(sum(events + ok + failed + dead + expired) AS bigint) {OF_TYPES} GROUP BY type"
    );
    let mut by_type: BTreeMap<String, i64> = BTreeMap::new();
    for piece in pieces {
        connection.each(&sql, params![app, piece.resolution.seconds(), piece.from, piece.to], |row| {
            *by_type.entry(row.get(0)?).or_default() += row.get::<i64>(1)?;
            Ok(())
        })?;
    }
    let mut ranked: Vec<_> = by_type.into_iter().map(|(name, count)| (Reverse(count), name)).collect();
    ranked.sort_unstable();
    Ok(ranked.into_iter().take(STATISTICS_ROWS_MAX).map(|(_, name)| name).collect())
}

const COUNT_WAITING: &str = "SELECT count(*) FROM
     (SELECT 1 FROM deliveries WHERE queue = ?1 AND queue IS NOT NULL LIMIT ?2) AS counted";
const COUNT_HELD: &str =
    "SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE endpoint = ?1 AND state = 3 LIMIT ?2) AS counted";

fn backlog(connection: &dyn Sql, search: &StatisticsSearch) -> Result<Backlog> {
    let count = |sql: &str, endpoint: EndpointId, so_far: u64| -> Result<u64> {
        let most = BACKLOG_COUNTED_MAX.saturating_sub(so_far) as i64;
        let more = connection.number(sql, params![endpoint, most])?;
        Ok(so_far + more.unsigned_abs())
    };
    let known: HashSet<EndpointId> = search.endpoints.iter().map(|(_, endpoint)| *endpoint).collect();
    let is_included = |endpoint: EndpointId| match &search.subject {
        StatisticsSubject::Endpoint(only) => *only == endpoint,
        StatisticsSubject::Everything | StatisticsSubject::EventType(_) => {
            search.app.is_none() || known.contains(&endpoint)
        }
    };
    let mut backlog = Backlog::default();
    for (queue, due) in find_queues(connection)?.into_iter().filter(|(queue, _)| is_included(*queue)) {
        backlog.waiting = count(COUNT_WAITING, queue, backlog.waiting)?;
        backlog.oldest_due = backlog.oldest_due.into_iter().chain([due]).min();
    }
    for (_, endpoint) in
        search.endpoints.iter().take(ENDPOINTS_EXAMINED_MAX).filter(|(_, id)| is_included(*id))
    {
        backlog.held = count(COUNT_HELD, *endpoint, backlog.held)?;
    }
    Ok(backlog)
}

#[cfg(test)]
mod tests;

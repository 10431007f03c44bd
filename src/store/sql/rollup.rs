//! Statistics rollup: each commit logs its counters, and now and then the log is rolled up into rows of minutes, hours and
//! days. The log that a crash leaves is rolled up by the next process, so nothing is lost and nothing is counted twice.

mod added;

use super::{
    BulkStatement, Error, Result, Row, RowSink, Sql, adjusted_clock,
    config::{json, to_json},
    params,
    statistics::trim,
};
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Counters, ResultCode, StatBatch, StatRow},
        time::Timestamp,
    },
    store::statistics::RollupResult,
};
use added::RowsToAdd;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::ControlFlow,
    time::Duration,
};

/// Log rows that are added up at once, and removed by one transaction, at most; and the counters they may come to. They are
/// read before that transaction, which blocks no writer but takes memory. The more is added up, the less is written.
const ROWS_READ_PER_STEP: usize = 30_000;
const SUMS_PER_STEP: usize = 100_000;
/// Log rows that are read with one query.
const LOG_ROWS_PER_QUERY: usize = 500;
/// Lines that one step writes: each becomes several rows.
const LINES_PER_STEP: usize = 250;
/// Lines in one row of the log: a commit that concerns thousands of endpoints is rolled up in parts.
const LINES_PER_ROW: usize = 125;

/// A line of the log: app, endpoint, event type, start in minutes, counts (events, ok, failed, delivered, dead, dead excused,
/// expired, total_us), the last success in milliseconds after the start, latency, endings.
pub(in crate::store) type LogLine =
    (i64, Option<i64>, String, i64, [u64; 8], Option<i64>, Vec<(u8, u64)>, Vec<(ResultCode, u64)>);

pub(in crate::store) const LOG: &str = "INSERT INTO statistics_log (document) VALUES (?1)";

pub(super) fn log(tx: &dyn Sql, batch: &StatBatch) -> Result<()> {
    for document in documents(batch)? {
        tx.execute(LOG, params![document])?;
    }
    Ok(())
}

/// Returns the log rows of a batch.
pub(super) fn documents(batch: &StatBatch) -> Result<Vec<String>> {
    let logged: Vec<LogLine> = batch.rows().map(|line| logged(&line)).collect();
    logged.chunks(LINES_PER_ROW).map(to_json).collect()
}

/// Puts a part back into the log, added up, to be written in parts: under ids below zero, which are read first.
fn put_aside(tx: &dyn Sql, minutes: &MinuteCounters) -> Result<()> {
    let logged: Vec<LogLine> = minutes.lines().map(|line| logged(&line)).collect();
    for (id, part) in (1_i64..).zip(logged.chunks(LINES_PER_ROW)) {
        let insert = "INSERT INTO statistics_log (id, document) VALUES (?1, ?2)";
        tx.execute(insert, params![-id, to_json(part)?])?;
    }
    Ok(())
}

fn logged(line: &StatRow<'_>) -> LogLine {
    let StatRow { app, endpoint, minute, event_type, counters } = line;
    (
        app.as_i64(),
        endpoint.map(EndpointId::as_i64),
        (*event_type).to_owned(),
        minute.as_millis() / 60_000,
        [
            counters.events,
            counters.succeeded,
            counters.failed,
            counters.delivered,
            counters.dead,
            counters.dead_local,
            counters.expired,
            counters.total_us,
        ],
        counters.last_ok_at.map(|at| at.as_millis() - minute.as_millis()),
        counters.latency.iter().map(|(bucket, count)| (*bucket, *count)).collect(),
        counters.result_counts.iter().map(|(ending, count)| (*ending, *count)).collect(),
    )
}

/// Counters of a part of the log, by app, endpoint, event type and minute: many commits give few of these.
#[derive(Default)]
struct MinuteCounters(BTreeMap<(AppId, Option<EndpointId>, String, Timestamp), Counters>);

impl MinuteCounters {
    fn add(&mut self, line: LogLine) {
        let (app, endpoint, event_type, minute, counts, last_ok, latency, ends) = line;
        let minute = Timestamp::from_millis(minute * 60_000);
        let [events, ok, failed, delivered, dead, dead_local, expired, total_us] = counts;
        let counters = Counters {
            events,
            succeeded: ok,
            failed,
            delivered,
            dead,
            dead_local,
            expired,
            total_us,
            latency: latency.into_iter().collect(),
            result_counts: ends.into_iter().collect(),
            last_ok_at: last_ok.map(|after| Timestamp::from_millis(minute.as_millis() + after)),
        };
        let key = (AppId::from_i64(app), endpoint.map(EndpointId::from_i64), event_type, minute);
        match self.0.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(counters)),
            Entry::Occupied(mut known) => known.get_mut().add(&counters),
        }
    }

    fn lines(&self) -> impl Iterator<Item = StatRow<'_>> {
        self.0.iter().map(|((app, endpoint, event_type, minute), counters)| StatRow {
            app: *app,
            endpoint: *endpoint,
            minute: *minute,
            event_type,
            counters,
        })
    }
}

/// A part of the log, added up.
#[derive(Default)]
pub(in crate::store) struct LogPart {
    minutes: MinuteCounters,
    /// Ids of its log rows, by the first and the last of each run: an id that was missing may belong to a writer that has not
    /// committed yet.
    runs: Vec<(i64, i64)>,
    count: usize,
    lines: usize,
    has_more: bool,
}

impl LogPart {
    /// Whether it was put aside, to be written in parts.
    fn is_aside(&self) -> bool {
        self.runs.first().is_some_and(|(first, _)| *first < 0)
    }

    fn is_full(&self, lines_max: usize) -> bool {
        let is_much = self.count >= ROWS_READ_PER_STEP || self.minutes.0.len() >= SUMS_PER_STEP;
        is_much || self.lines >= lines_max
    }

    fn last(&self) -> Option<i64> {
        self.runs.last().map(|(_, last)| *last)
    }

    fn add(&mut self, id: i64, lines: Vec<LogLine>) {
        match self.runs.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => self.runs.push((id, id)),
        }
        self.count += 1;
        self.lines += lines.len();
        for line in lines {
            self.minutes.add(line);
        }
    }
}

/// Returns the part to roll up next: the one put aside, else the next of the log.
pub(in crate::store) fn next_part(connection: &dyn Sql) -> Result<LogPart> {
    let aside = read_log(connection, (i64::MIN, -1), LINES_PER_STEP)?;
    if aside.count > 0 {
        return Ok(aside);
    }
    read_log(connection, (0, i64::MAX), usize::MAX)
}

/// Reads the oldest rows with these ids, until there are so many lines.
fn read_log(connection: &dyn Sql, (first, last): (i64, i64), lines_max: usize) -> Result<LogPart> {
    let sql = "SELECT id, document FROM statistics_log WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT ?3";
    let mut part = LogPart::default();
    loop {
        let from = part.last().map_or(first, |last| last + 1);
        let mut found = 0;
        connection.query(sql, params![from, last, LOG_ROWS_PER_QUERY as i64], &mut |row| {
            if part.is_full(lines_max) {
                part.has_more = true;
                return Ok(ControlFlow::Break(()));
            }
            found += 1;
            part.add(row.get(0)?, json(row, 1)?);
            Ok(ControlFlow::Continue(()))
        })?;
        if found < LOG_ROWS_PER_QUERY {
            return Ok(part);
        }
    }
}

/// Moves a part of the log into the rows, removes a few old rows, stores the outage-adjusted clock.
///
/// A part is added up over many commits before, so that each row is written once; if it is large, it goes back into the log
/// and the next steps write it.
pub(in crate::store) fn roll_up(
    tx: &dyn Sql,
    part: &LogPart,
    clock: Duration,
    now: Timestamp,
) -> Result<RollupResult> {
    let mut rolled_up = RollupResult { has_more: part.has_more, ..RollupResult::default() };
    if !take_from_log(tx, part)? {
        // Another node has rolled it up first: the next run sees the rest.
        rolled_up.has_more = false;
    } else if !part.is_aside() && part.minutes.0.len() > LINES_PER_STEP {
        put_aside(tx, &part.minutes)?;
        rolled_up.has_more = true;
    } else {
        let (rows, candidates) = RowsToAdd::of(&part.minutes).write(tx)?;
        (rolled_up.rows, rolled_up.candidates) = (rows, candidates.into_iter().collect());
    }
    trim(tx, now)?;
    adjusted_clock::write_if_needed(tx, clock, now, part.count > 0)?;
    Ok(rolled_up)
}

/// Takes a part out of the log; `false` if another node has taken some of it first.
fn take_from_log(tx: &dyn Sql, part: &LogPart) -> Result<bool> {
    if part.count == 0 {
        return Ok(true);
    }
    let of_runs = |sql: &str, each: &mut dyn FnMut(&Row<'_>) -> Result<()>| {
        let runs = &mut |give: &mut RowSink<'_>| {
            part.runs.iter().try_for_each(|(first, last)| give(params![first, last]))
        };
        tx.query_each_row(&BulkStatement { sql, columns: "begins, ends", shape: "nn" }, runs, each)
    };
    let rows = "FROM {given} CROSS JOIN statistics_log l WHERE l.id >= given.begins AND l.id <= given.ends";
    let mut there = 0;
    of_runs(&format!("SELECT count(*) {rows}"), &mut |row| {
        there += row.get::<i64>(0)?.unsigned_abs() as usize;
        Ok(())
    })?;
    if there != part.count {
        return Ok(false);
    }
    let mut gone = 0;
    let delete = format!("DELETE FROM statistics_log WHERE id IN (SELECT l.id {rows}) RETURNING id");
    of_runs(&delete, &mut |_| {
        gone += 1;
        Ok(())
    })?;
    if gone == part.count {
        Ok(true)
    } else {
        Err(Error::Wrong("the log of statistics changed while it was rolled up".to_owned()))
    }
}

#[cfg(test)]
pub(super) mod tests;

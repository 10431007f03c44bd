//! How statistics come about: each commit logs what it adds, and once in a while that is rolled up into rows of minutes, hours
//! and days. What a crash leaves in the log is rolled up by the next process, so nothing is lost and nothing is counted twice.

mod added;

use super::{
    Error, Result, Sql, accountable, params,
    registry::{json, to_json},
    statistics::trim,
};
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Batch, Ending, Line, Sums},
        time::Timestamp,
    },
    store::cluster::RolledUp,
};
use added::Added;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::ControlFlow,
    time::Duration,
};

/// Lines of the log that are added up at once at most. That holds nobody up: it is read beside the writer.
const LINES_READ_PER_STEP: usize = 1_000_000;
/// Lines that one step writes down: each becomes several rows.
const LINES_PER_STEP: usize = 250;
/// Lines in one row of the log: what has to do with thousands of endpoints is rolled up in parts.
const LINES_PER_ROW: usize = 125;

/// A line of the log: app, endpoint, event type, start in minutes, what was counted (events, ok, failed, delivered, dead,
/// unblamed, expired, total_us), the last success in milliseconds after the start, latency, endings.
type Logged = (i64, Option<i64>, String, i64, [u64; 8], Option<i64>, Vec<(u8, u64)>, Vec<(Ending, u64)>);

pub(super) fn log(tx: &dyn Sql, batch: &Batch) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let logged: Vec<Logged> = batch.lines().map(|line| logged(&line)).collect();
    for part in logged.chunks(LINES_PER_ROW) {
        tx.execute("INSERT INTO statistics_log (document) VALUES (?1)", params![to_json(&part)?])?;
    }
    Ok(())
}

/// Puts a part of the log back, added up, to be written down in parts: under ids below zero, which are read first.
fn put_aside(tx: &dyn Sql, minutes: &Minutes) -> Result<()> {
    let logged: Vec<Logged> = minutes.lines().map(|line| logged(&line)).collect();
    for (id, part) in (1_i64..).zip(logged.chunks(LINES_PER_ROW)) {
        let insert = "INSERT INTO statistics_log (id, document) VALUES (?1, ?2)";
        tx.execute(insert, params![-id, to_json(&part)?])?;
    }
    Ok(())
}

fn logged(line: &Line<'_>) -> Logged {
    let Line { app, endpoint, minute, event_type, sums } = line;
    (
        app.as_i64(),
        endpoint.map(EndpointId::as_i64),
        (*event_type).to_owned(),
        minute.as_millis() / 60_000,
        [
            sums.events,
            sums.ok,
            sums.failed,
            sums.delivered,
            sums.dead,
            sums.unblamed,
            sums.expired,
            sums.total_us,
        ],
        sums.last_ok_at.map(|at| at.as_millis() - minute.as_millis()),
        sums.latency.iter().map(|(bucket, count)| (*bucket, *count)).collect(),
        sums.endings.iter().map(|(ending, count)| (*ending, *count)).collect(),
    )
}

/// What a part of the log adds, by app, endpoint, event type and minute: many commits are few of these.
#[derive(Default)]
struct Minutes(BTreeMap<(AppId, Option<EndpointId>, String, Timestamp), Sums>);

impl Minutes {
    fn add(&mut self, line: Logged) {
        let (app, endpoint, event_type, minute, counts, last_ok, latency, endings) = line;
        let minute = Timestamp::from_millis(minute * 60_000);
        let [events, ok, failed, delivered, dead, unblamed, expired, total_us] = counts;
        let sums = Sums {
            events,
            ok,
            failed,
            delivered,
            dead,
            unblamed,
            expired,
            total_us,
            latency: latency.into_iter().collect(),
            endings: endings.into_iter().collect(),
            last_ok_at: last_ok.map(|after| Timestamp::from_millis(minute.as_millis() + after)),
        };
        let key = (AppId::from_i64(app), endpoint.map(EndpointId::from_i64), event_type, minute);
        match self.0.entry(key) {
            Entry::Vacant(place) => drop(place.insert(sums)),
            Entry::Occupied(mut known) => known.get_mut().add(&sums),
        }
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.0.iter().map(|((app, endpoint, event_type, minute), sums)| Line {
            app: *app,
            endpoint: *endpoint,
            minute: *minute,
            event_type,
            sums,
        })
    }
}

/// A part of the log, added up.
#[derive(Default)]
pub(super) struct Part {
    minutes: Minutes,
    /// The rows of the log that it is.
    first: i64,
    last: i64,
    count: usize,
    has_more: bool,
}

impl Part {
    /// It was put aside to be written down.
    fn is_aside(&self) -> bool {
        self.first < 0
    }
}

/// What is to be rolled up next: what was put aside, else all of the log.
pub(super) fn next_part(connection: &dyn Sql) -> Result<Part> {
    let aside = "SELECT id, document FROM statistics_log WHERE id < 0 ORDER BY id LIMIT ?1";
    let aside = read_log(connection, aside, LINES_PER_STEP)?;
    if aside.count > 0 {
        return Ok(aside);
    }
    let logged = "SELECT id, document FROM statistics_log WHERE id > 0 ORDER BY id LIMIT ?1";
    read_log(connection, logged, LINES_READ_PER_STEP)
}

/// The oldest of these rows, until there are so many lines. Each row has at least one.
fn read_log(connection: &dyn Sql, sql: &str, lines_max: usize) -> Result<Part> {
    let (mut part, mut lines) = (Part::default(), 0);
    connection.query(sql, params![lines_max as i64 + 1], &mut |row| {
        if lines >= lines_max {
            part.has_more = true;
            return Ok(ControlFlow::Break(()));
        }
        part.last = row.get(0)?;
        if part.count == 0 {
            part.first = part.last;
        }
        part.count += 1;
        for line in json::<Vec<Logged>>(row, 1)? {
            lines += 1;
            part.minutes.add(line);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(part)
}

/// Moves a part of the log into the rows, removes a few old rows, keeps the clock.
///
/// What many commits had to do with was added up before, so that each of its rows is written once; if that is much, it goes
/// back into the log and is written by the steps that follow.
pub(super) fn roll_up(tx: &dyn Sql, part: &Part, clock: Duration, now: Timestamp) -> Result<RolledUp> {
    let mut rolled_up = RolledUp { has_more: part.has_more, ..RolledUp::default() };
    if !take(tx, part)? {
        rolled_up.has_more = true;
    } else if !part.is_aside() && part.minutes.0.len() > LINES_PER_STEP {
        put_aside(tx, &part.minutes)?;
        rolled_up.has_more = true;
    } else {
        let (rows, suspects) = Added::of(&part.minutes).write(tx)?;
        (rolled_up.rows, rolled_up.suspects) = (rows, suspects.into_iter().collect());
    }
    trim(tx, now)?;
    accountable::keep(tx, clock, now, part.count > 0)?;
    Ok(rolled_up)
}

/// Takes a part out of the log; `false` if it is not what was read any more, because another call came first or another
/// writer was late with a smaller number.
fn take(tx: &dyn Sql, part: &Part) -> Result<bool> {
    if part.count == 0 {
        return Ok(true);
    }
    let range = params![part.first, part.last];
    let there = tx.number("SELECT count(*) FROM statistics_log WHERE id BETWEEN ?1 AND ?2", range)?;
    if there.unsigned_abs() as usize != part.count {
        return Ok(false);
    }
    let gone = tx.execute("DELETE FROM statistics_log WHERE id BETWEEN ?1 AND ?2", range)?;
    if gone == part.count {
        Ok(true)
    } else {
        Err(Error::Wrong("the log of statistics changed while it was rolled up".to_owned()))
    }
}

#[cfg(test)]
pub(super) mod tests;

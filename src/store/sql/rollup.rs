//! How statistics come about: each commit logs what it adds, and once in a while that is rolled up into rows of minutes, hours
//! and days. What a crash leaves in the log is rolled up by the next process, so nothing is lost and nothing is counted twice.

use super::{
    Result, Sql, health, params,
    registry::{json, to_json},
    statistics::{EVERY_APP, EVERY_ENDPOINT, OF_ENDPOINTS, OF_TYPES, add, keep_clock, trim},
};
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Batch, Ending, Line, Sums, Width},
        time::Timestamp,
    },
    store::cluster::RolledUp,
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    ops::ControlFlow,
    time::Duration,
};

/// Rows of the log that one step reads at most, and lines of it after which it reads no more: each becomes several rows.
const LOGGED_PER_STEP: usize = 500;
const LINES_PER_STEP: usize = 250;
/// Lines in one row of the log: a commit that has to do with thousands of endpoints is rolled up in parts.
const LINES_PER_ROW: usize = 125;
/// Event types of an app beyond these have a row together.
const TYPES_PER_DAY_MAX: usize = 200;
const OTHER_TYPES: &str = "*";

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
}

/// The same by the rows that they go into.
#[derive(Default)]
struct Added {
    rows: BTreeMap<(AppId, EndpointId, Width, Timestamp), Sums>,
    by_type: BTreeMap<(AppId, String, Width, Timestamp), Sums>,
}

impl Added {
    fn of(minutes: Minutes) -> Self {
        let mut added = Self::default();
        for ((app, endpoint, event_type, minute), sums) in minutes.0 {
            for width in Width::ALL {
                let start = width.start(minute);
                let mut add =
                    |app, endpoint| added.rows.entry((app, endpoint, width, start)).or_default().add(&sums);
                if let Some(endpoint) = endpoint {
                    add(app, endpoint);
                }
                add(app, EVERY_ENDPOINT);
                add(EVERY_APP, EVERY_ENDPOINT);
                for app in [app, EVERY_APP] {
                    added.by_type.entry((app, event_type.clone(), width, start)).or_default().add(&sums);
                }
            }
        }
        added
    }

    /// Answers the endpoints of which something failed. Nobody asks about what is gone.
    fn write(self, tx: &dyn Sql) -> Result<BTreeSet<EndpointId>> {
        let mut suspects = BTreeSet::new();
        let mut is_there: BTreeMap<AppId, bool> = [(EVERY_APP, true)].into();
        for ((app, endpoint, width, start), sums) in self.rows {
            if !there(tx, &mut is_there, app)? || !is_counted(tx, endpoint)? {
                continue;
            }
            let fails = sums.failed + sums.blamed() > 0;
            if endpoint != EVERY_ENDPOINT && (fails || health::is_degraded(tx, endpoint)?) {
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
    fn name(&mut self, tx: &dyn Sql, app: AppId, name: String, day: Timestamp) -> Result<String> {
        let key = (app, day, name);
        let is_own = if let Some(is_own) = self.known.get(&key) {
            *is_own
        } else {
            let is_own = self.gets_rows(tx, app, &key.2, day)?;
            self.known.insert(key.clone(), is_own);
            is_own
        };
        Ok(if is_own { key.2 } else { OTHER_TYPES.to_owned() })
    }

    fn gets_rows(&mut self, tx: &dyn Sql, app: AppId, name: &str, day: Timestamp) -> Result<bool> {
        let width = Width::Day.seconds();
        let own = "SELECT EXISTS (SELECT 1 FROM statistics_by_type
             WHERE app = ?1 AND width = ?2 AND start = ?3 AND type = ?4)";
        if tx.exists(own, params![app, width, day, name])? {
            return Ok(true);
        }
        let count = if let Some(count) = self.counts.get(&(app, day)) {
            *count
        } else {
            let sql = "SELECT count(*) FROM statistics_by_type WHERE app = ?1 AND width = ?2 AND start = ?3";
            tx.number(sql, params![app, width, day])? as usize
        };
        let is_own = count < TYPES_PER_DAY_MAX;
        self.counts.insert((app, day), count + usize::from(is_own));
        Ok(is_own)
    }
}

fn there(tx: &dyn Sql, known: &mut BTreeMap<AppId, bool>, app: AppId) -> Result<bool> {
    if let Some(is_there) = known.get(&app) {
        return Ok(*is_there);
    }
    let is_there = tx.exists("SELECT EXISTS (SELECT 1 FROM apps WHERE id = ?1)", params![app])?;
    known.insert(app, is_there);
    Ok(is_there)
}

fn is_counted(tx: &dyn Sql, endpoint: EndpointId) -> Result<bool> {
    Ok(endpoint == EVERY_ENDPOINT
        || tx.exists(
            "SELECT EXISTS (SELECT 1 FROM endpoints WHERE id = ?1 AND deleted_at IS NULL)",
            params![endpoint],
        )?)
}

/// Moves a part of the log into the rows, removes a few old rows, keeps the clock.
pub(in crate::store) fn roll_up(tx: &dyn Sql, clock: Duration, now: Timestamp) -> Result<RolledUp> {
    let Part { minutes, read, has_more } = read_log(tx)?;
    // Not whatever has a smaller number than the last: several writers do not commit in the order of their numbers.
    for row in &read {
        tx.execute("DELETE FROM statistics_log WHERE id = ?1", params![row])?;
    }
    let suspects = Added::of(minutes).write(tx)?;
    trim(tx, now)?;
    keep_clock(tx, clock, now, !read.is_empty())?;
    Ok(RolledUp { suspects: suspects.into_iter().collect(), has_more })
}

/// What is rolled up in one step.
struct Part {
    minutes: Minutes,
    read: Vec<i64>,
    has_more: bool,
}

/// The oldest of the log, until there is enough of it.
fn read_log(tx: &dyn Sql) -> Result<Part> {
    let mut part = Part { minutes: Minutes::default(), read: Vec::new(), has_more: false };
    let sql = "SELECT id, document FROM statistics_log ORDER BY id LIMIT ?1";
    tx.query(sql, params![LOGGED_PER_STEP as i64 + 1], &mut |row| {
        if part.minutes.0.len() >= LINES_PER_STEP || part.read.len() == LOGGED_PER_STEP {
            part.has_more = true;
            return Ok(ControlFlow::Break(()));
        }
        part.read.push(row.get(0)?);
        json::<Vec<Logged>>(row, 1)?.into_iter().for_each(|line| part.minutes.add(line));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::outcome::{Class, Outcome},
        store::sqlite::open::open_in_memory,
    };

    #[test]
    fn a_commit_that_has_to_do_with_thousands_of_endpoints_is_rolled_up_in_parts() {
        let (store, now) = (open_in_memory().unwrap(), Timestamp::from_millis(1_800_000_000_000));
        let app = AppId::from_i64(1);
        let insert =
            "INSERT INTO apps (id, uid, settings, created_at, updated_at) VALUES (1, 'a', '{}', 0, 0)";
        store.execute(insert, []).unwrap();
        let mut batch = Batch::default();
        for number in 1..=2000 {
            let insert = "INSERT INTO endpoints (id, app, uid, settings, revision, created_at, updated_at)
                 VALUES (?1, 1, ?1, '{}', 1, 0, 0)";
            store.execute(insert, [number]).unwrap();
            let endpoint = Some(EndpointId::from_i64(number));
            batch.of(app, endpoint, "payment.paid", now).attempt(&Outcome::failed(Class::Http, ""), now);
        }
        log(&store, &batch).unwrap();
        let count = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let (mut before, mut has_more) = (0, true);
        while has_more {
            has_more = roll_up(&store, Duration::ZERO, now).unwrap().has_more;
            let rows = count("SELECT count(*) FROM statistics");
            let in_one_step = (rows - before) as usize;
            assert!(
                in_one_step <= Width::ALL.len() * (LINES_PER_STEP + LINES_PER_ROW + 2),
                "{in_one_step} at once"
            );
            before = rows;
        }
        let of_endpoints = "SELECT sum(failed) FROM statistics WHERE width = 60 AND endpoint > 0";
        assert_eq!(count(of_endpoints), 2000);
        assert_eq!(count("SELECT count(*) FROM statistics_log"), 0);
    }
}

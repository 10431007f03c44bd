//! Turns a part of the log into the statistics rows that it adds to.

use super::MinuteCounters;
use crate::{
    domain::{
        id::{AppId, EndpointId},
        statistics::{Counters, Resolution, StatRow},
        time::Timestamp,
    },
    store::sql::{
        BulkStatement, Result, Sql, params,
        statistics::{EVERY_APP, EVERY_ENDPOINT, OF_ENDPOINTS, OF_TYPES, add},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Event types of an app beyond these share a row.
const TYPES_PER_DAY_MAX: usize = 200;
const OTHER_TYPES: &str = "*";

#[derive(Default)]
pub(super) struct RowsToAdd {
    rows: BTreeMap<(AppId, EndpointId, Resolution, Timestamp), Counters>,
    by_type: BTreeMap<(AppId, String, Resolution, Timestamp), Counters>,
}

impl RowsToAdd {
    pub(super) fn of(minutes: &MinuteCounters) -> Self {
        let mut added = Self::default();
        for StatRow { app, endpoint, event_type, minute, counters } in minutes.lines() {
            for width in Resolution::ALL {
                let start = width.start(minute);
                let mut add = |app, endpoint| {
                    added.rows.entry((app, endpoint, width, start)).or_default().add(counters);
                };
                if let Some(endpoint) = endpoint {
                    add(app, endpoint);
                }
                add(app, EVERY_ENDPOINT);
                add(EVERY_APP, EVERY_ENDPOINT);
                for app in [app, EVERY_APP] {
                    added
                        .by_type
                        .entry((app, event_type.to_owned(), width, start))
                        .or_default()
                        .add(counters);
                }
            }
        }
        added
    }

    /// Writes the rows. Returns how many, and the endpoints whose health may have changed. Rows of deleted apps and endpoints
    /// are dropped.
    pub(super) fn write(mut self, tx: &dyn Sql) -> Result<(usize, BTreeSet<EndpointId>)> {
        let (apps, endpoints) = self.existing(tx)?;
        self.rows.retain(|(app, endpoint, ..), _| apps.contains(app) && endpoints.contains_key(endpoint));
        self.by_type.retain(|(app, ..), _| apps.contains(app));
        let is_candidate = |((_, endpoint, ..), counters): &(&(_, EndpointId, _, _), &Counters)| {
            let fails = counters.failed + counters.dead_by_receiver() > 0;
            *endpoint != EVERY_ENDPOINT && (fails || endpoints.get(endpoint) == Some(&true))
        };
        let candidates =
            self.rows.iter().filter(is_candidate).map(|((_, endpoint, ..), _)| *endpoint).collect();
        let by_type = named(tx, self.by_type)?;
        let count = self.rows.len() + by_type.len();
        add(tx, &OF_ENDPOINTS, self.rows)?;
        add(tx, &OF_TYPES, by_type)?;
        Ok((count, candidates))
    }

    /// Returns which of these apps and endpoints exist, and whether each endpoint is degraded.
    fn existing(&self, tx: &dyn Sql) -> Result<(BTreeSet<AppId>, BTreeMap<EndpointId, bool>)> {
        let apps: BTreeSet<AppId> = self.by_type.keys().map(|(app, ..)| *app).collect();
        let endpoints: BTreeSet<EndpointId> = self.rows.keys().map(|(_, endpoint, ..)| *endpoint).collect();
        let (mut known_apps, mut known) =
            (BTreeSet::from([EVERY_APP]), BTreeMap::from([(EVERY_ENDPOINT, false)]));
        let sql = "SELECT a.id FROM {given} CROSS JOIN apps a WHERE a.id = given.id";
        tx.query_each_row(
            &BulkStatement { sql, columns: "id", shape: "n" },
            &mut |give| apps.iter().try_for_each(|app| give(params![app])),
            &mut |row| {
                known_apps.insert(row.get(0)?);
                Ok(())
            },
        )?;
        let sql = "SELECT e.id, EXISTS (SELECT 1 FROM health h WHERE h.endpoint = e.id AND h.degraded_since IS NOT NULL)
             FROM {given} CROSS JOIN endpoints e WHERE e.id = given.id AND e.deleted_at IS NULL";
        tx.query_each_row(
            &BulkStatement { sql, columns: "id", shape: "n" },
            &mut |give| endpoints.iter().try_for_each(|endpoint| give(params![endpoint])),
            &mut |row| {
                known.insert(row.get(0)?, row.get(1)?);
                Ok(())
            },
        )?;
        Ok((known_apps, known))
    }
}

type ByType = BTreeMap<(AppId, String, Resolution, Timestamp), Counters>;

/// Groups excess event types under one name: producers choose the names, so that there may be any number, and only so many of
/// a day get rows of their own.
fn named(tx: &dyn Sql, by_type: ByType) -> Result<ByType> {
    let day = Resolution::Day.seconds();
    let key = |(app, name, _, start): &(AppId, String, Resolution, Timestamp)| {
        (*app, Resolution::Day.start(*start), name.clone())
    };
    let wanted: BTreeSet<_> = by_type.keys().map(key).collect();
    let sql = "SELECT t.app, t.start, t.type FROM {given} CROSS JOIN statistics_by_type t
         WHERE t.app = given.app AND t.width = given.width AND t.start = given.start AND t.type = given.type";
    let mut own = BTreeSet::new();
    tx.query_each_row(
        &BulkStatement { sql, columns: "app, width, start, type", shape: "nnnt" },
        &mut |give| wanted.iter().try_for_each(|(app, start, name)| give(params![app, day, start, name])),
        &mut |row| {
            own.insert((row.get(0)?, row.get(1)?, row.get::<String>(2)?));
            Ok(())
        },
    )?;
    let mut counts: BTreeMap<(AppId, Timestamp), usize> =
        wanted.difference(&own).map(|(app, start, _)| ((*app, *start), 0)).collect();
    let sql = "SELECT given.app, given.start, (SELECT count(*) FROM statistics_by_type t
         WHERE t.app = given.app AND t.width = given.width AND t.start = given.start) FROM {given}";
    let starts: Vec<_> = counts.keys().copied().collect();
    tx.query_each_row(
        &BulkStatement { sql, columns: "app, width, start", shape: "nnn" },
        &mut |give| starts.iter().try_for_each(|(app, start)| give(params![app, day, start])),
        &mut |row| {
            let count: i64 = row.get(2)?;
            counts.insert((row.get(0)?, row.get(1)?), count.unsigned_abs() as usize);
            Ok(())
        },
    )?;
    for (app, start, name) in wanted {
        if let Some(count) = counts.get_mut(&(app, start))
            && *count < TYPES_PER_DAY_MAX
            && own.insert((app, start, name))
        {
            *count += 1;
        }
    }
    let mut named = ByType::new();
    for ((app, name, width, start), counters) in by_type {
        let key = (app, Resolution::Day.start(start), name);
        let name = if own.contains(&key) { key.2 } else { OTHER_TYPES.to_owned() };
        named.entry((app, name, width, start)).or_default().add(&counters);
    }
    Ok(named)
}

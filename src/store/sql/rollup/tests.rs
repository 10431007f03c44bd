//! Statistics of many commits are added up before they are written, and written in parts.

use super::*;
use crate::{
    domain::{
        outcome::{Outcome, OutcomeClass},
        statistics::Resolution,
    },
    store::sqlite::open::open_in_memory,
};
use rusqlite::Connection;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn store_with(endpoints: i64) -> Connection {
    let store = open_in_memory().unwrap();
    let insert = "INSERT INTO apps (id, uid, settings, created_at, updated_at) VALUES (1, 'a', '{}', 0, 0)";
    store.execute(insert, []).unwrap();
    for number in 1..=endpoints {
        let insert = "INSERT INTO endpoints (id, app, uid, settings, revision, created_at, updated_at)
             VALUES (?1, 1, ?1, '{}', 1, 0, 0)";
        store.execute(insert, [number]).unwrap();
    }
    store
}

/// Commits a failed attempt at each of these endpoints.
fn fail_at(store: &Connection, endpoints: std::ops::RangeInclusive<i64>) {
    let mut batch = StatBatch::default();
    for number in endpoints {
        let endpoint = Some(EndpointId::from_i64(number));
        let counters = batch.entry(AppId::from_i64(1), endpoint, "payment.paid", NOW);
        counters.add_attempt(&Outcome::failed(OutcomeClass::Http, ""), NOW);
    }
    log(store, &batch).unwrap();
}

fn count(store: &Connection, sql: &str) -> i64 {
    store.query_row(sql, [], |row| row.get(0)).unwrap()
}

const FAILED: &str = "SELECT sum(failed) FROM statistics WHERE width = 60 AND endpoint > 0";
const LOGGED: &str = "SELECT count(*) FROM statistics_log";

fn step(store: &Connection, now: Timestamp) -> RollupResult {
    roll_up(store, &next_part(store).unwrap(), Duration::ZERO, now).unwrap()
}

/// Returns how many rows each step took.
pub(in crate::store) fn roll_up_all(store: &Connection, now: Timestamp) -> Vec<usize> {
    let mut steps = Vec::new();
    loop {
        let rolled_up = step(store, now);
        steps.push(rolled_up.rows);
        if !rolled_up.has_more {
            return steps;
        }
    }
}

/// Rows that a step writes besides those of endpoints: of the app and of all apps, and of the type in both.
const BESIDE: usize = 4;

#[test]
fn a_commit_about_thousands_of_endpoints_is_rolled_up_in_parts() {
    let store = store_with(2000);
    fail_at(&store, 1..=2000);
    let steps = roll_up_all(&store, NOW);
    assert_eq!((steps[0], steps.len()), (0, 1 + 2000 / LINES_PER_STEP));
    assert!(steps.iter().all(|rows| *rows <= Resolution::ALL.len() * (LINES_PER_STEP + BESIDE)), "{steps:?}");
    assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (2000, 0));
}

#[test]
fn each_row_is_written_once_for_many_commits() {
    for (endpoints, writing) in [(200, 1), (500, 2)] {
        let store = store_with(endpoints);
        for _ in 0..40 {
            fail_at(&store, 1..=endpoints);
        }
        let written: usize = roll_up_all(&store, NOW).iter().sum();
        assert_eq!(written, Resolution::ALL.len() * (endpoints as usize + BESIDE * writing));
        assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (40 * endpoints, 0));
    }
}

#[test]
fn a_log_row_read_by_two_nodes_is_counted_once() {
    let store = store_with(1);
    fail_at(&store, 1..=1);
    let first = next_part(&store).unwrap();
    fail_at(&store, 1..=1);
    let second = next_part(&store).unwrap();
    for part in [first, second] {
        roll_up(&store, &part, Duration::ZERO, NOW).unwrap();
    }
    assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (1, 1));
    assert!(!step(&store, NOW).has_more);
    assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (2, 0));
}

#[test]
fn a_log_row_committed_late_is_rolled_up_later_and_delays_no_other() {
    let store = store_with(1);
    for _ in 0..5 {
        fail_at(&store, 1..=1);
    }
    // Its transaction is open while the others are read.
    let late: String =
        store.query_row("SELECT document FROM statistics_log WHERE id = 3", [], |row| row.get(0)).unwrap();
    store.execute("DELETE FROM statistics_log WHERE id = 3", []).unwrap();
    let part = next_part(&store).unwrap();
    assert_eq!(part.runs, [(1, 2), (4, 5)]);
    store.execute("INSERT INTO statistics_log (id, document) VALUES (3, ?1)", [late]).unwrap();
    assert!(!roll_up(&store, &part, Duration::ZERO, NOW).unwrap().has_more);
    assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (4, 1));
    roll_up_all(&store, NOW);
    assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (5, 0));
}

#[test]
fn a_rollup_that_comes_second_leaves_the_rest_to_the_next_run() {
    let store = store_with(1);
    fail_at(&store, 1..=1);
    let part = next_part(&store).unwrap();
    roll_up_all(&store, NOW);
    assert!(!roll_up(&store, &part, Duration::ZERO, NOW).unwrap().has_more);
    assert_eq!(count(&store, FAILED), 1);
}

#[test]
fn a_long_log_is_read_in_parts() {
    let store = store_with(1);
    store.execute_batch("BEGIN").unwrap();
    for _ in 0..ROWS_READ_PER_STEP + 3 {
        fail_at(&store, 1..=1);
    }
    store.execute_batch("COMMIT").unwrap();
    let part = next_part(&store).unwrap();
    assert_eq!((part.count, part.runs.len(), part.has_more), (ROWS_READ_PER_STEP, 1, true));
    assert_eq!(roll_up_all(&store, NOW).len(), 2);
    assert_eq!((count(&store, FAILED), count(&store, LOGGED)), (ROWS_READ_PER_STEP as i64 + 3, 0));
}

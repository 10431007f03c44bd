//! A million attempts, rolled up as they would be: what is asked of them reads a few thousand rows, found by their keys.

use super::*;
use crate::{
    domain::{
        outcome::{Class, Outcome, Timings},
        statistics::Batch,
    },
    store::{sql::rollup, sqlite::open::open_in_memory},
};
use rusqlite::Connection;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const APP: AppId = AppId::from_i64(1);
const ENDPOINTS: i64 = 50;
const HOURS: i64 = 29 * 24;
const PER_HOUR: u32 = 29;

fn ago(hours: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() - hours * 3_600_000)
}

fn outcome(n: u32) -> Outcome {
    let class = if n.is_multiple_of(10) { Class::Http } else { Class::Ok };
    let status = Some(if class == Class::Ok { 200 } else { 503 });
    let timings = Timings { total_us: 1000 + n * 700, ..Timings::default() };
    Outcome { status, timings, ..Outcome::failed(class, "") }
}

/// An app with fifty endpoints that were busy for a month.
fn a_busy_month() -> (Connection, StatisticsSearch) {
    let connection = open_in_memory().unwrap();
    connection.execute("INSERT INTO apps VALUES (1, 'a', '{}', 0, 0)", []).unwrap();
    let endpoints: Vec<_> = (1..=ENDPOINTS).map(|id| (APP, EndpointId::from_i64(id))).collect();
    for (_, id) in &endpoints {
        let sql = "INSERT INTO endpoints (id, app, uid, settings, revision, created_at, updated_at) VALUES (?1, 1, ?1, '{}', 1, 0, 0)";
        connection.execute(sql, [id.as_i64()]).unwrap();
    }
    for hour in (0..HOURS).rev() {
        let mut batch = Batch::default();
        for (app, endpoint) in &endpoints {
            let name = format!("type.{}", endpoint.as_i64() % 20);
            let sums = batch.of(*app, Some(*endpoint), &name, ago(hour));
            (0..PER_HOUR).for_each(|n| sums.attempt(&outcome(n), ago(hour)));
        }
        rollup::log(&connection, &batch).unwrap();
    }
    while rollup::roll_up(&connection, Duration::ZERO, NOW).unwrap().has_more {}
    let span = Span::of(ago(HOURS), NOW, NOW);
    (connection, StatisticsSearch { app: Some(APP), of: Of::Everything, span, endpoints })
}

#[test]
fn a_million_attempts_are_told_from_a_few_thousand_rows() {
    let (connection, search) = a_busy_month();
    let begun = tokio::time::Instant::now();
    let told = statistics(&connection, &search).unwrap();
    println!("a month of 1,000,000 attempts is told in {:?}", begun.elapsed());
    let total = added(told.series.iter().map(|(_, sums)| sums));
    let all = HOURS as u64 * ENDPOINTS as u64 * u64::from(PER_HOUR);
    assert!(all > 1_000_000 && total.attempts() == all, "{}", total.attempts());
    assert_eq!((told.endpoints.len(), told.event_types.len()), (50, 20));
    assert_eq!(told.endpoints.iter().map(|(_, sums)| sums.attempts()).sum::<u64>(), all);
    assert_eq!(told.event_types.iter().map(|(_, sums)| sums.attempts()).sum::<u64>(), all);
    let rows: i64 = search.span.pieces().iter().map(rows_of).sum();
    assert!(rows < 29 + 48, "days, and hours at the ends: {rows}");
    assert!(told.series.len() as i64 <= HOURS + 1);
}

fn rows_of(piece: &Span) -> i64 {
    (piece.to.as_millis() - piece.from.as_millis()) / 1000 / piece.width.seconds()
}

#[test]
fn every_statement_finds_its_rows_by_their_key() {
    let connection = open_in_memory().unwrap();
    let statements = [
        format!("SELECT {SUMS}, start {OF_ENDPOINT}"),
        format!("SELECT {SUMS}, start {OF_TYPES} AND type = ?5"),
        format!("SELECT {SUMS}, type {OF_TYPES}"),
        format!("SELECT type, sum(ok) {OF_TYPES} GROUP BY type"),
        COUNT_WAITING.to_owned(),
        COUNT_HELD.to_owned(),
    ];
    for sql in statements {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let none = (0..plan.parameter_count()).map(|_| 1_i64);
        let steps: Vec<String> = plan
            .query_map(rusqlite::params_from_iter(none), |row| row.get("detail"))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        let looks: Vec<_> =
            steps.iter().filter(|step| step.contains("statistics") || step.contains("deliveries")).collect();
        assert!(looks.len() == 1 && looks[0].starts_with("SEARCH"), "{sql}: {steps:?}");
    }
}

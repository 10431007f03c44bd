//! Partitions of the large tables by days: a partition holds a day of ids, is made ahead, and is dropped when retention has
//! left little in it.
//!
//! Retention deletes row by row, as in every store; here rows are only moved. Each move is one transaction with its purpose,
//! so that a kill leaves a partition as it was or not at all.

use super::{session::Session, sql::Transaction};
use crate::{
    domain::{
        id::{first_id_at, made_at},
        time::Timestamp,
    },
    store::sql::{Error, Result, Sql, params},
};
use std::collections::BTreeSet;
use tokio_postgres::error::SqlState;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Number of days after today that have a partition.
const DAYS_AHEAD: i64 = 2;
/// Days before today that are left alone: late rows belong to these.
const DAYS_BEHIND: i64 = 1;
/// Rows and bytes that one transaction moves at most; all writers wait meanwhile.
const MOVED_ROWS: i64 = 10_000;
const MOVED_BYTES: i64 = 64 << 20;

/// All transactions queue behind one that waits for a table lock, so the wait is short; and one node at a time is enough.
const STEP_SETTINGS: &str = "SET LOCAL lock_timeout = '200ms'";
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock(8102099357864587379)";

struct PartitionedTable {
    name: &'static str,
    /// The column whose ranges the partitions are.
    key: &'static str,
    /// About how large a row is.
    bytes: &'static str,
}

const TABLES: [PartitionedTable; 3] = [
    PartitionedTable { name: "events", key: "id", bytes: "octet_length(data)" },
    PartitionedTable { name: "deliveries_ended", key: "id", bytes: "0" },
    PartitionedTable { name: "attempts", key: "delivery", bytes: "coalesce(octet_length(response_body), 0)" },
];

/// An existing partition: its day, and whether it may be small enough to be dropped.
struct Partition {
    day: i64,
    may_be_small: bool,
}

/// Makes the days ahead, and drops nearly empty old ones. Blocks.
pub(super) fn maintain(session: &Session) -> Result<()> {
    let today = today(session)?;
    let made = each(&TABLES, |table| make_days(session, table, ahead(today)));
    let given_back = each(&TABLES, |table| drop_old_days(session, table, today));
    made.and(given_back)
}

/// Makes the partitions of today and the next days that are missing. Blocks.
pub(super) fn make_ahead(session: &Session) -> Result<()> {
    let today = today(session)?;
    each(&TABLES, |table| make_days(session, table, ahead(today)))
}

/// Makes the partition of every day that has a row, for rows that are about to be copied. `next_id` returns the first id at
/// or after `from` in this column of this table. Blocks.
pub(super) fn make_for(
    session: &Session,
    mut next_id: impl FnMut(&str, &str, i64) -> Result<Option<i64>>,
) -> Result<()> {
    each(&TABLES, |table| {
        let (mut days, mut from) = (Vec::new(), 0);
        while let Some(id) = next_id(table.name, table.key, from)? {
            let day = made_at(id).as_millis().div_euclid(DAY_MS);
            days.push(day);
            let (_, next) = range(day);
            if next <= id {
                break;
            }
            from = next;
        }
        make_days(session, table, days)
    })
}

fn ahead(today: i64) -> impl Iterator<Item = i64> {
    today..=today + DAYS_AHEAD
}

fn today(session: &Session) -> Result<i64> {
    Ok(Transaction::run(session, 0, Transaction::clock)?.as_millis().div_euclid(DAY_MS))
}

/// Runs all of these, also after an error; returns the first error, and logs the others.
fn each<T>(all: &[T], mut run: impl FnMut(&T) -> Result<()>) -> Result<()> {
    let mut first = Ok(());
    for one in all {
        match (run(one), &first) {
            (Err(error), Err(_)) => tracing::warn!(%error, "another partition could not be maintained"),
            (result, Ok(())) => first = result,
            (Ok(()), Err(_)) => {}
        }
    }
    first
}

fn make_days(session: &Session, table: &PartitionedTable, days: impl IntoIterator<Item = i64>) -> Result<()> {
    let there: BTreeSet<i64> = partitions(session, table)?.iter().map(|one| one.day).collect();
    let missing: Vec<i64> = days.into_iter().filter(|day| !there.contains(day)).collect();
    each(&missing, |day| {
        if step(session, |tx| make(tx, table, *day))? == Some(false) {
            let day = name(*day);
            tracing::warn!(
                table = table.name,
                day,
                "too many rows of this day are in the rest partition already"
            );
        }
        Ok(())
    })
}

fn drop_old_days(session: &Session, table: &PartitionedTable, today: i64) -> Result<()> {
    let mut old = partitions(session, table)?;
    old.retain(|one| one.day < today - DAYS_BEHIND && one.may_be_small);
    each(&old, |partition| {
        if step(session, |tx| drop_partition(tx, table, partition.day))? == Some(true) {
            tracing::info!(
                table = table.name,
                day = name(partition.day),
                "a nearly empty partition was dropped"
            );
        }
        Ok(())
    })
}

/// Runs a step in a transaction of its own. `None` if a lock was not free in time, or another node does it.
fn step(session: &Session, run: impl FnOnce(&Transaction<'_>) -> Result<bool>) -> Result<Option<bool>> {
    let attempt = || -> Result<Option<bool>> {
        let (tx, _) = Transaction::begin(session, 0, STEP_SETTINGS)?;
        if !(&tx as &dyn Sql).exists(TRY_LOCK, &[])? {
            return Ok(None);
        }
        let is_done = run(&tx)?;
        if is_done {
            tx.commit()?;
        }
        Ok(Some(is_done))
    };
    match attempt() {
        Err(Error::Postgres(error)) if is_conflict(error.code()) => {
            tracing::debug!(%error, "a partition is left for the next time");
            Ok(None)
        }
        result => result,
    }
}

/// Whether another transaction had the table, or has just made the same partition.
fn is_conflict(code: Option<&SqlState>) -> bool {
    let met = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::DUPLICATE_TABLE];
    code.is_some_and(|code| met.contains(code))
}

/// Returns the partitions in order of their days. Their sizes are known from the last ANALYZE or VACUUM, or not at all.
fn partitions(session: &Session, table: &PartitionedTable) -> Result<Vec<Partition>> {
    let sql = "SELECT CAST(to_date(right(c.relname, 8), 'YYYYMMDD') - DATE '1970-01-01' AS bigint),
                 c.reltuples <= CAST(?2 AS bigint)
             FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
             WHERE i.inhparent = to_regclass(?1) AND c.relname NOT LIKE '%rest' ORDER BY 1";
    Transaction::run(session, 0, |tx| {
        (tx as &dyn Sql).all(sql, params![table.name, 2 * MOVED_ROWS], |row| {
            Ok(Partition { day: row.get(0)?, may_be_small: row.get(1)? })
        })
    })
}

/// Returns the day as partition names have it: 20270115.
fn name(day: i64) -> String {
    let date = Timestamp::from_millis(day * DAY_MS).rfc3339_millis();
    date.chars().take(10).filter(char::is_ascii_digit).collect()
}

/// Returns the ids of a day: the first, and the first after it.
fn range(day: i64) -> (i64, i64) {
    let first = |day| first_id_at(Timestamp::from_millis(day * DAY_MS));
    (first(day), first(day + 1))
}

/// Whether all of these rows can be moved at once.
fn is_little(tx: &Transaction<'_>, table: &PartitionedTable, rows: &str) -> Result<bool> {
    let sql = format!(
        "SELECT count(*) <= {MOVED_ROWS} AND coalesce(sum(bytes), 0) <= {MOVED_BYTES}
         FROM (SELECT {} AS bytes FROM {rows} LIMIT {MOVED_ROWS} + 1) AS page",
        table.bytes
    );
    (tx as &dyn Sql).exists(&sql, &[])
}

/// Makes the partition of a day. Rows of that day move in from the rest partition, where they are if a clock was ahead or no
/// node made the partition in time.
fn make(tx: &Transaction<'_>, table: &PartitionedTable, day: i64) -> Result<bool> {
    let PartitionedTable { name: of, key, .. } = table;
    let (partition, (low, high)) = (format!("{of}_{}", name(day)), range(day));
    tx.once(&format!("LOCK TABLE {of}_rest IN ACCESS EXCLUSIVE MODE"))?;
    let early = format!("{of}_rest WHERE {key} >= {low} AND {key} < {high}");
    if low == high || !is_little(tx, table, &early)? {
        return Ok(false);
    }
    tx.once(&format!(
        "CREATE TABLE {partition} (LIKE {of} INCLUDING ALL);
         WITH early AS (DELETE FROM {early} RETURNING *) INSERT INTO {partition} SELECT * FROM early;
         ALTER TABLE {of} ATTACH PARTITION {partition} FOR VALUES FROM ({low}) TO ({high})"
    ))?;
    Ok(true)
}

/// Drops a day's partition, after moving its remaining rows to the rest partition, where retention still finds them.
fn drop_partition(tx: &Transaction<'_>, table: &PartitionedTable, day: i64) -> Result<bool> {
    let of = table.name;
    let partition = format!("{of}_{}", name(day));
    // Checked without a lock first, so that no transaction waits; checked again when no other can write there.
    if !is_little(tx, table, &partition)? {
        return Ok(false);
    }
    tx.once(&format!("ALTER TABLE {of} DETACH PARTITION {partition}"))?;
    if !is_little(tx, table, &partition)? {
        return Ok(false);
    }
    tx.once(&format!("INSERT INTO {of} SELECT * FROM {partition}; DROP TABLE {partition}"))?;
    Ok(true)
}

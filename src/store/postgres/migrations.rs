//! Schema migrations: forward only, each step in a transaction of its own, applied by one node while the others wait.
//!
//! Nodes of two versions work side by side: a step that only adds says from which version on nodes may go on beside it, and a
//! step that removes something is not applied while a living node needs it.

use super::{
    node::ENTER,
    open::PostgresOpenError,
    session::Session,
    sql::{CLOCK, Transaction},
};
use crate::store::sql::{Error, Result, Row, Sql, params};
use std::time::Duration;
use tokio_postgres::error::SqlState;

#[derive(Clone, Copy)]
pub(super) struct Migration {
    number: i64,
    /// The oldest version that can work on the schema of `number`: the version before where it only adds, and a later one
    /// where it removes what older ones need.
    oldest: i64,
    sql: &'static str,
}

/// Forward only: a released file is never changed, and the next change is another file.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, oldest: 1, sql: include_str!("migrations/0001_tables.sql") },
    Migration { number: 2, oldest: 1, sql: include_str!("migrations/0002_inbox.sql") },
    Migration { number: 3, oldest: 1, sql: include_str!("migrations/0003_inbox_by_app.sql") },
    Migration { number: 4, oldest: 1, sql: include_str!("migrations/0004_only_publish.sql") },
    Migration { number: RENAMING, oldest: RENAMING, sql: include_str!("migrations/0005_names.sql") },
];
/// The migration that made the inbox.
pub(super) const WITH_INBOX: i64 = 2;
/// The migration that renamed tables and columns: the only one that needs all older nodes stopped.
pub(super) const RENAMING: i64 = 5;
pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;
/// A step waits for locks half a second at a time, because later transactions wait as well; then it pauses for longer.
const MIGRATION_TRIES: usize = 20;
const MIGRATION_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Waits for a node that is applying a step as long as that takes, unless it has fallen silent; only then does the short wait
/// for locks begin.
///
/// An existing schema is used as it is: even IF NOT EXISTS needs the right to create schemas, which a role does not need if
/// an administrator made the schema.
const MIGRATION_BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s';
     SELECT pg_advisory_xact_lock(8102099357864587377); SET LOCAL lock_timeout = '500ms';
     DO 'BEGIN IF to_regnamespace(''posthaste'') IS NULL THEN CREATE SCHEMA posthaste; END IF; END';
     SET LOCAL search_path = posthaste, pg_temp;
     CREATE TABLE IF NOT EXISTS migrations (
         number bigint PRIMARY KEY, oldest bigint NOT NULL CHECK (oldest BETWEEN 1 AND number), checksum bytea NOT NULL,
         at timestamptz NOT NULL DEFAULT clock_timestamp())";

/// Applies the missing migrations. After a kill in between, the next start continues.
pub(super) fn migrate(session: &Session, known: &[Migration]) -> Result<(), PostgresOpenError> {
    let mut done = applied(session, known)?;
    for migration in known {
        while done < migration.number {
            apply(session, migration)?;
            done = applied(session, known)?;
        }
    }
    Ok(())
}

/// Returns the newest applied migration; refuses a database of another origin, or one that this version cannot work on any
/// more.
pub(super) fn applied(session: &Session, known: &[Migration]) -> Result<i64, PostgresOpenError> {
    let number = |sql: &str| -> Result<i64> {
        session.query(sql, &[])?.first().map_or(Ok(0), |row| Row::new(row).get(0))
    };
    let is_there =
        "SELECT count(*) FROM pg_tables WHERE schemaname = 'posthaste' AND tablename = 'migrations'";
    if number(is_there)? == 0 {
        return Ok(0);
    }
    let newest = newest(known);
    let found = number("SELECT coalesce(max(number), 0) FROM posthaste.migrations")?;
    if found > newest {
        if number("SELECT max(oldest) FROM posthaste.migrations")? > newest {
            return Err(PostgresOpenError::TooNew { found });
        }
        tracing::info!(
            found,
            known = newest,
            "a newer version prepared the database, beside which this one can work"
        );
    }
    let same = "SELECT count(*) FROM posthaste.migrations WHERE number = ?1 AND checksum = sha256(?2)";
    for Migration { number, sql, .. } in known.iter().filter(|migration| migration.number <= found) {
        let rows = session.query(same, params![*number, sql.as_bytes()])?;
        if !rows.first().is_some_and(|row| Row::new(row).is(0, &1_i64)) {
            return Err(PostgresOpenError::Foreign(*number));
        }
    }
    Ok(found)
}

fn newest(known: &[Migration]) -> i64 {
    known.last().map_or(0, |migration| migration.number)
}

/// Stores which migrations an entering node knows, so that no incompatible one is applied beside it. None was applied since
/// the check, because migrations and entering nodes wait for each other.
pub(super) fn announce_version(tx: &Transaction<'_>, epoch: i64, newest: i64) -> Result<()> {
    let sql: &dyn Sql = tx;
    if sql.number("SELECT coalesce(max(oldest), 0) FROM migrations", &[])? > newest {
        return Err(Error::Fenced(
            "a newer version prepared the database, beside which this one cannot work",
        ));
    }
    sql.execute("UPDATE nodes SET schema_known = ?2 WHERE epoch = ?1", params![epoch, newest]).map(drop)
}

/// Result of a try to apply a migration.
enum ApplyResult {
    Applied,
    /// Another node applied it while this one waited for the lock.
    AppliedByAnother,
    /// Number of living nodes that need the schema as it is.
    Needed(i64),
}

fn apply(session: &Session, migration: &Migration) -> Result<(), PostgresOpenError> {
    let mut tries_left = MIGRATION_TRIES;
    loop {
        tries_left -= 1;
        match attempt(session, migration) {
            Ok(ApplyResult::Applied) => {
                tracing::info!(number = migration.number, "the database was migrated");
                return Ok(());
            }
            Ok(ApplyResult::AppliedByAnother) => return Ok(()),
            Ok(ApplyResult::Needed(nodes)) => {
                session.run("ROLLBACK")?;
                return Err(PostgresOpenError::Needed { nodes });
            }
            Err(error) => {
                session.run("ROLLBACK")?;
                if tries_left == 0 || !is_busy(&error) {
                    return Err(error.into());
                }
                tracing::info!(%error, "others use the tables to be migrated; it is retried");
                std::thread::sleep(MIGRATION_RETRY_PAUSE);
            }
        }
    }
}

/// Whether a lock was not free in time.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Postgres(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
}

fn attempt(session: &Session, migration: &Migration) -> Result<ApplyResult> {
    let Migration { number, oldest, sql } = migration;
    session.run(MIGRATION_BEGIN)?;
    let note = "INSERT INTO posthaste.migrations (number, oldest, checksum) VALUES (?1, ?2, sha256(?3))
         ON CONFLICT (number) DO NOTHING";
    if session.execute(note, params![*number, *oldest, sql.as_bytes()])? == 0 {
        session.run("COMMIT")?;
        return Ok(ApplyResult::AppliedByAnother);
    }
    let asks_for_more = "SELECT 1 FROM posthaste.migrations WHERE number < ?1 HAVING max(oldest) < ?2";
    if !session.query(asks_for_more, params![*number, *oldest])?.is_empty() {
        let living = fence_older(session, migration)?;
        if living > 0 {
            return Ok(ApplyResult::Needed(living));
        }
    }
    session.run(sql)?;
    session.run("COMMIT")?;
    Ok(ApplyResult::Applied)
}

/// Fences nodes that know less than this, if their lease is over; returns how many living ones remain. A fenced node notices
/// it when it comes back; no node enters until this transaction ends.
fn fence_older(session: &Session, migration: &Migration) -> Result<i64> {
    // Until the renaming is done, the old names hold.
    let (batches, slot, known) = if migration.number > RENAMING {
        ("writer_batches", "id_slot", "schema_known")
    } else {
        ("ledger", "slot", "knows")
    };
    let older = format!("{known} < {} AND dead = 0", migration.oldest);
    session.run(&format!(
        "{ENTER};
         UPDATE {batches} SET writer = -1 - writer, fenced_at = ({CLOCK}) WHERE writer >= 0
             AND epoch IN (SELECT epoch FROM nodes WHERE {older} AND lease_until < ({CLOCK}));
         UPDATE nodes SET dead = 1, {slot} = -epoch WHERE {older}
             AND NOT EXISTS (SELECT 1 FROM {batches} b WHERE b.epoch = nodes.epoch AND b.writer >= 0)"
    ))?;
    let rows = session.query(&format!("SELECT count(*) FROM nodes WHERE {older}"), &[])?;
    rows.first().map_or(Ok(0), |row| Row::new(row).get(0))
}

#[cfg(test)]
mod tests;

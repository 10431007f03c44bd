//! The versions of the schema: forward only, each step in a transaction of its own, taken by one node while the others wait.
//!
//! Nodes of two versions work side by side: a step that only adds says from which version on nodes may go on beside it, and one that
//! takes something away is not taken while a node lives that needs it.

use super::{
    cluster::ENTER,
    open::OpenError,
    session::Session,
    sql::{CLOCK, Transaction},
};
use crate::store::sql::{Error, Result, Row, Sql, params};
use std::time::Duration;
use tokio_postgres::error::SqlState;

#[derive(Clone, Copy)]
pub(super) struct Migration {
    number: i64,
    /// Whoever knows the steps up to this one can work on what `number` makes: the version before where it only adds, and later
    /// ones where it takes away what that needs.
    oldest: i64,
    sql: &'static str,
}

/// Forward only: a file that was ever released is never changed, and the next change is another file.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, oldest: 1, sql: include_str!("migrations/0001_tables.sql") },
    Migration { number: 2, oldest: 1, sql: include_str!("migrations/0002_inbox.sql") },
    Migration { number: 3, oldest: 1, sql: include_str!("migrations/0003_inbox_by_app.sql") },
    Migration { number: 4, oldest: 1, sql: include_str!("migrations/0004_only_publish.sql") },
];
/// The one that made the inbox.
pub(super) const WITH_INBOX: i64 = 2;
pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;
/// A step waits for locks half a second at a time, because whatever comes after it waits as well; and then not, for longer.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// Whoever takes a step is waited for as long as it takes, unless it has fallen silent; only then does the short wait for others begin.
///
/// A schema that is there is left to whoever made it: even IF NOT EXISTS asks for the right to make schemas, which a role needs not have
/// for which an administrator made this one.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s';
     SELECT pg_advisory_xact_lock(8102099357864587377); SET LOCAL lock_timeout = '500ms';
     DO 'BEGIN IF to_regnamespace(''posthaste'') IS NULL THEN CREATE SCHEMA posthaste; END IF; END';
     SET LOCAL search_path = posthaste, pg_temp;
     CREATE TABLE IF NOT EXISTS migrations (
         number bigint PRIMARY KEY, oldest bigint NOT NULL CHECK (oldest BETWEEN 1 AND number), checksum bytea NOT NULL,
         at timestamptz NOT NULL DEFAULT clock_timestamp())";

/// Takes the steps that are missing. A kill in between leaves some of them taken, and the next start goes on.
pub(super) fn bring_up_to_date(session: &Session, known: &[Migration]) -> Result<(), OpenError> {
    let mut done = applied(session, known)?;
    for migration in known {
        while done < migration.number {
            take(session, migration)?;
            done = applied(session, known)?;
        }
    }
    Ok(())
}

/// The newest step that was taken; refuses a database that is not of this version's making, or that it cannot work on any more.
pub(super) fn applied(session: &Session, known: &[Migration]) -> Result<i64, OpenError> {
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
            return Err(OpenError::TooNew { found });
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
            return Err(OpenError::Foreign(*number));
        }
    }
    Ok(found)
}

fn newest(known: &[Migration]) -> i64 {
    known.last().map_or(0, |migration| migration.number)
}

/// Whoever enters says what it knows, so that no step is taken beside it that it does not stand; none was taken since it looked,
/// because those wait for whoever enters, and that one for them.
pub(super) fn present(tx: &Transaction<'_>, epoch: i64, newest: i64) -> Result<()> {
    let sql: &dyn Sql = tx;
    if sql.number("SELECT coalesce(max(oldest), 0) FROM migrations", &[])? > newest {
        return Err(Error::Fenced(
            "a newer version prepared the database, beside which this one cannot work",
        ));
    }
    sql.execute("UPDATE nodes SET knows = ?2 WHERE epoch = ?1", params![epoch, newest]).map(drop)
}

/// What became of a try to take a step.
enum Tried {
    Taken,
    /// Whoever waited for the lock may find it taken.
    TakenByAnother,
    /// So many nodes live that do not stand it.
    Needed(i64),
}

fn take(session: &Session, migration: &Migration) -> Result<(), OpenError> {
    let mut tries_left = TRIES;
    loop {
        tries_left -= 1;
        match attempt(session, migration) {
            Ok(Tried::Taken) => {
                tracing::info!(number = migration.number, "the database was brought up to date");
                return Ok(());
            }
            Ok(Tried::TakenByAnother) => return Ok(()),
            Ok(Tried::Needed(nodes)) => {
                session.run("ROLLBACK")?;
                return Err(OpenError::Needed { nodes });
            }
            Err(error) => {
                session.run("ROLLBACK")?;
                if tries_left == 0 || !is_busy(&error) {
                    return Err(error.into());
                }
                tracing::info!(%error, "others use what is to be brought up to date; it is tried again");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Somebody else has a lock for longer than this one waits.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Postgres(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
}

fn attempt(session: &Session, migration: &Migration) -> Result<Tried> {
    let Migration { number, oldest, sql } = migration;
    session.run(BEGIN)?;
    let note = "INSERT INTO posthaste.migrations (number, oldest, checksum) VALUES (?1, ?2, sha256(?3))
         ON CONFLICT (number) DO NOTHING";
    if session.execute(note, params![*number, *oldest, sql.as_bytes()])? == 0 {
        session.run("COMMIT")?;
        return Ok(Tried::TakenByAnother);
    }
    let asks_for_more = "SELECT 1 FROM posthaste.migrations WHERE number < ?1 HAVING max(oldest) < ?2";
    if !session.query(asks_for_more, params![*number, *oldest])?.is_empty() {
        let living = fence_older(session, *oldest)?;
        if living > 0 {
            return Ok(Tried::Needed(living));
        }
    }
    session.run(sql)?;
    session.run("COMMIT")?;
    Ok(Tried::Taken)
}

/// How many live that know less than this. Those whose lease is over can write nothing more, and find that out when they are
/// back; nobody enters until this transaction ends.
fn fence_older(session: &Session, oldest: i64) -> Result<i64> {
    let older = format!("knows < {oldest} AND dead = 0");
    session.run(&format!(
        "{ENTER};
         UPDATE ledger SET writer = -1 - writer, fenced_at = ({CLOCK}) WHERE writer >= 0
             AND epoch IN (SELECT epoch FROM nodes WHERE {older} AND lease_until < ({CLOCK}));
         UPDATE nodes SET dead = 1, slot = -epoch WHERE {older}
             AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.epoch = nodes.epoch AND l.writer >= 0)"
    ))?;
    let rows = session.query(&format!("SELECT count(*) FROM nodes WHERE {older}"), &[])?;
    rows.first().map_or(Ok(0), |row| Row::new(row).get(0))
}

#[cfg(test)]
mod tests;

//! Opening a database: what it must promise, and bringing its schema up to date. Whatever is refused is left untouched.

use super::{cluster, session::Session};
use crate::store::sql::{Error, PAUSE_AFTER_FAILURE, Result, Row, params};
use std::{str::FromStr, time::Duration};
use tokio_postgres::{Config, error::SqlState};

/// Forward only: a file that was ever released is never changed, and the next change is another file.
const MIGRATIONS: [(i64, &str); 1] = [(1, include_str!("migrations/0001_tables.sql"))];
const NEWEST: i64 = MIGRATIONS.len() as i64;
/// The oldest server: what is used here came with it.
const SERVER_MIN: i64 = 140_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A migration waits for locks two seconds at a time, because whatever comes after it waits as well.
const TRIES: usize = 15;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("that is not the address of a database ({0}): write postgres://user:password@host:5432/name")]
    Address(String),
    #[error("the database cannot be reached ({0})")]
    Unreachable(String),
    #[error("the database server is version {found}; at least 14 is needed")]
    TooOld { found: String },
    #[error("the database has {setting} = {value}: {why}; set {setting} = on and start again")]
    Unsafe { setting: &'static str, value: String, why: &'static str },
    #[error(
        "the database was prepared by a newer Posthaste (migration {found}, this one knows {NEWEST}): it was not touched; start that version"
    )]
    TooNew { found: i64 },
    #[error(
        "the database was prepared by another Posthaste (migration {0} is not the one that this one knows): it was not touched"
    )]
    Foreign(i64),
    #[error("the database cannot be prepared ({0}): what was in it is unchanged; mend that and start again")]
    NotPrepared(String),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::NotPrepared(error.to_string())
    }
}

pub(super) fn config(url: &str) -> Result<Config, OpenError> {
    let mut config = Config::from_str(url).map_err(|error| OpenError::Address(error.to_string()))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("posthaste");
    }
    Ok(config)
}

/// A connection to a database that is ours and up to date, and this process's epoch in it.
pub(super) fn open(config: &Config) -> Result<(Session, i64), OpenError> {
    let session = Session::connect(config).map_err(|error| OpenError::Unreachable(error.to_string()))?;
    must_keep_promises(&session)?;
    migrate(&session)?;
    let (epoch, _) = cluster::enter(&session)?;
    Ok((session, epoch))
}

fn number(session: &Session, sql: &str) -> Result<i64> {
    let rows = session.query(sql, &[])?;
    rows.first().map_or(Ok(0), |row| Row::new(row).get(0))
}

/// A 202 says that the event survives a power cut.
fn must_keep_promises(session: &Session) -> Result<(), OpenError> {
    let setting = |name: &str| -> Result<String> {
        let rows = session.query("SELECT current_setting(?1)", params![name])?;
        rows.first().map_or(Ok(String::new()), |row| Row::new(row).get(0))
    };
    if number(session, "SELECT CAST(current_setting('server_version_num') AS bigint)")? < SERVER_MIN {
        return Err(OpenError::TooOld { found: setting("server_version")? });
    }
    let loses = "what it confirmed would be lost when its machine fails";
    for (name, why) in [("fsync", loses), ("full_page_writes", "a crash while it writes would damage it")] {
        let value = setting(name)?;
        if value != "on" {
            return Err(OpenError::Unsafe { setting: name, value, why });
        }
    }
    let value = setting("synchronous_commit")?;
    let is_lost_with_it = value == "local" && !setting("synchronous_standby_names")?.is_empty();
    if value == "off" || is_lost_with_it {
        let why = if is_lost_with_it { "its standbys would not have what it confirmed" } else { loses };
        return Err(OpenError::Unsafe { setting: "synchronous_commit", value, why });
    }
    Ok(())
}

/// Runs what is missing, one process at a time, each migration in a transaction of its own: a kill in between leaves some of
/// them done, and the next start goes on.
fn migrate(session: &Session) -> Result<(), OpenError> {
    let mut done = applied(session)?;
    for (number, sql) in MIGRATIONS {
        while done < number {
            run_migration(session, number, sql)?;
            done = applied(session)?;
        }
    }
    Ok(())
}

/// The newest migration that was run; refuses a database that is not of this version's making.
fn applied(session: &Session) -> Result<i64, OpenError> {
    if number(
        session,
        "SELECT count(*) FROM pg_tables WHERE schemaname = 'posthaste' AND tablename = 'migrations'",
    )? == 0
    {
        return Ok(0);
    }
    let found = number(session, "SELECT coalesce(max(number), 0) FROM posthaste.migrations")?;
    if found > NEWEST {
        return Err(OpenError::TooNew { found });
    }
    let same = "SELECT count(*) FROM posthaste.migrations WHERE number = ?1 AND checksum = sha256(?2)";
    for (number, sql) in MIGRATIONS.into_iter().take_while(|(number, _)| *number <= found) {
        let rows = session.query(same, params![number, sql.as_bytes()])?;
        if !rows.first().is_some_and(|row| Row::new(row).is(0, &1_i64)) {
            return Err(OpenError::Foreign(number));
        }
    }
    Ok(found)
}

fn run_migration(session: &Session, number: i64, sql: &str) -> Result<(), OpenError> {
    let begin = "BEGIN; SET LOCAL lock_timeout = '2s'; SELECT pg_advisory_xact_lock(8102099357864587377);
         CREATE SCHEMA IF NOT EXISTS posthaste; SET LOCAL search_path = posthaste, pg_temp;
         CREATE TABLE IF NOT EXISTS migrations (
             number bigint PRIMARY KEY, checksum bytea NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())";
    let note = "INSERT INTO posthaste.migrations (number, checksum) VALUES (?1, sha256(?2))
         ON CONFLICT (number) DO NOTHING";
    let attempt = || -> Result<()> {
        session.run(begin)?;
        // Whoever waited for the lock may find it done.
        if session.execute(note, params![number, sql.as_bytes()])? == 1 {
            session.run(sql)?;
        }
        session.run("COMMIT").map(drop)
    };
    let mut tries_left = TRIES;
    loop {
        let Err(error) = attempt() else {
            tracing::info!(number, "the database was brought up to date");
            return Ok(());
        };
        session.run("ROLLBACK")?;
        tries_left -= 1;
        let is_busy =
            matches!(&error, Error::Postgres(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE));
        if tries_left == 0 || !is_busy {
            return Err(error.into());
        }
        std::thread::sleep(PAUSE_AFTER_FAILURE);
    }
}

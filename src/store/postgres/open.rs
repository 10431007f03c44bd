//! Opening a database: what it must promise, and bringing its schema up to date. Whatever is refused is left untouched.

use super::{
    cluster, partitions,
    session::{Server, Session},
    writer::PATIENCE,
};
use crate::store::sql::{Error, PAUSE_AFTER_FAILURE, Result, Row, params};
use std::{error::Error as _, io, time::Duration};
use tokio_postgres::error::SqlState;

/// Forward only: a file that was ever released is never changed, and the next change is another file.
const MIGRATIONS: [(i64, &str); 2] =
    [(1, include_str!("migrations/0001_tables.sql")), (2, include_str!("migrations/0002_inbox.sql"))];
/// The one that made the inbox.
const WITH_INBOX: i64 = 2;
const NEWEST: i64 = MIGRATIONS.len() as i64;
/// The oldest server: what is used here came with it.
const SERVER_MIN: i64 = 140_000;
/// For any one statement of a migration, which may have a large table to go through.
const PREPARED_WITHIN: Duration = Duration::from_hours(6);
const PAUSE_WHILE_AWAY: Duration = Duration::from_secs(1);
/// A migration waits for locks two seconds at a time, because whatever comes after it waits as well.
const TRIES: usize = 15;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the authorities that the database's certificate is verified by cannot be used ({0})")]
    Certificates(String),
    #[error("the database cannot be used ({0})")]
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
    #[error(
        "a store is being moved into the database, and is not all there: let posthaste migrate come to its end"
    )]
    HalfMoved,
    #[error("the database cannot be prepared ({0}): what was in it is unchanged; mend that and start again")]
    NotPrepared(String),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::NotPrepared(error.to_string())
    }
}

/// A connection to a database that is ours and up to date, and this process's epoch in it.
pub(super) fn open(server: &Server) -> Result<(Session, i64), OpenError> {
    let session = prepared(server)?;
    if number(&session, "SELECT count(*) FROM posthaste.moving WHERE done = 0")? > 0 {
        return Err(OpenError::HalfMoved);
    }
    // What finds no day to stand in stands in the rest until there is one.
    if let Err(error) = partitions::make_ahead(&session) {
        tracing::warn!(%error, "no partitions were made for the days to come");
    }
    let (epoch, _) = cluster::enter(&session)?;
    drop(session);
    Ok((Session::connect(server, PATIENCE)?, epoch))
}

/// One to a database that is up to date, which may be anybody's yet.
pub(super) fn prepared(server: &Server) -> Result<Session, OpenError> {
    let session = connect(server)?;
    must_keep_promises(&session)?;
    migrate(&session)?;
    Ok(session)
}

/// A database as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many steps of preparing it were done, and how many this version knows.
    pub prepared: i64,
    pub known: i64,
    /// Events in the inbox that can never be taken in.
    pub refused: i64,
}

/// Changes nothing.
pub(super) fn look(server: &Server) -> Result<Found, OpenError> {
    let session = Session::connect(server, PREPARED_WITHIN).map_err(|error| refused(&error))?;
    must_keep_promises(&session)?;
    let prepared = applied(&session)?;
    let refused = "SELECT count(*) FROM posthaste.inbox WHERE error IS NOT NULL";
    let refused = if prepared < WITH_INBOX { 0 } else { number(&session, refused)? };
    Ok(Found { prepared, known: NEWEST, refused })
}

/// Waits for a server that is not there yet; refuses one that will not have us.
fn connect(server: &Server) -> Result<Session, OpenError> {
    let mut was_told = false;
    loop {
        match Session::connect(server, PREPARED_WITHIN) {
            Ok(session) => return Ok(session),
            Err(error) if !is_away(&error) => return Err(refused(&error)),
            Err(error) => {
                if !was_told {
                    tracing::warn!(%error, "the database cannot be reached; it is tried until it can");
                    was_told = true;
                }
                std::thread::sleep(PAUSE_WHILE_AWAY);
            }
        }
    }
}

fn refused(error: &Error) -> OpenError {
    OpenError::Unreachable(error.to_string())
}

/// It may be back soon: nobody answers, or it is starting, stopping or has no room for another connection.
fn is_away(error: &Error) -> bool {
    match error {
        Error::Io(_) => true,
        Error::Postgres(error) => match (error.code(), error.source()) {
            (Some(code), _) => ["53", "57"].iter().any(|class| code.code().starts_with(class)),
            (None, Some(cause)) => cause.is::<io::Error>(),
            (None, None) => true,
        },
        _ => false,
    }
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

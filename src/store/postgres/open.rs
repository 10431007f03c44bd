//! Opens a database: checks its promises, and migrates its schema. A refused database is left untouched.

use super::{
    migrations::{self, MIGRATIONS, NEWEST, WITH_INBOX},
    node, partitions,
    session::{Server, Session},
    writer::ANSWER_TIMEOUT,
    writer_lease::WriterLease,
};
use crate::store::sql::{Error, Result, Row, WriterId};
use std::{error::Error as _, io, time::Duration};
use tokio_postgres::error::SqlState;

/// The oldest server that has everything used here.
const SERVER_MIN: i64 = 140_000;
/// For any one statement of a migration, which may read a large table.
const MIGRATION_TIMEOUT: Duration = Duration::from_hours(6);
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    #[error("the authorities that the database's certificate is verified by cannot be used ({0})")]
    Certificates(String),
    #[error("the database cannot be used ({0})")]
    Unreachable(String),
    #[error(
        "the connections are lent by a pooler, for a transaction at a time: add pooler=true to the database's address"
    )]
    Pooled,
    #[error("the database server is version {found}; at least 14 is needed")]
    TooOld { found: String },
    #[error(
        "the database keeps text as {found}, which has not every letter: make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding { found: String },
    #[error("the database has {setting} = {value}: {why}; set {setting} = on and start again")]
    Unsafe { setting: &'static str, value: String, why: &'static str },
    #[error(
        "the database was prepared by a newer Posthaste (migration {found}, this one knows {NEWEST}): it was not touched; start that version"
    )]
    TooNew { found: i64 },
    #[error(
        "{nodes} nodes of an older version use the database and cannot work beside this version: it was not changed; stop all of them, then start this one"
    )]
    Needed { nodes: i64 },
    #[error(
        "the database was prepared by another Posthaste (migration {0} is not the one that this one knows): it was not touched"
    )]
    Foreign(i64),
    #[error(
        "a store is being moved into the database, and is not all there: let posthaste migrate come to its end"
    )]
    HalfMoved,
    #[error("the database went away while it was opened ({0})")]
    Away(String),
    #[error("the database cannot be prepared ({0}): what was in it is unchanged; mend that and start again")]
    NotPrepared(String),
}

impl From<Error> for PostgresOpenError {
    fn from(error: Error) -> Self {
        if is_temporary(&error) {
            Self::Away(error.to_string())
        } else {
            Self::NotPrepared(error.to_string())
        }
    }
}

/// Connects to a migrated database and enters as a node. Waits whenever the database is away.
pub(super) fn open(
    server: &Server,
    writer_lease: &WriterLease,
) -> Result<(Session, WriterId), PostgresOpenError> {
    let mut text = String::new();
    loop {
        match try_open(server, writer_lease) {
            Err(PostgresOpenError::Away(error)) => {
                if text != error {
                    tracing::warn!(error, "the database cannot be used yet; it is tried until it can");
                    text = error;
                }
                std::thread::sleep(RECONNECT_PAUSE);
            }
            done => return done,
        }
    }
}

fn try_open(server: &Server, writer_lease: &WriterLease) -> Result<(Session, WriterId), PostgresOpenError> {
    let (session, to_work) = connect_and_migrate(server)?;
    if number(&session, "SELECT count(*) FROM posthaste.sqlite_import WHERE finished = 0")? > 0 {
        return Err(PostgresOpenError::HalfMoved);
    }
    // A row without a day's partition is stored in the rest partition until there is one.
    if let Err(error) = partitions::make_ahead(&session) {
        tracing::warn!(%error, "no partitions were made for the days to come");
    }
    let asked_us = writer_lease.now_us();
    let (epoch, slot) = node::enter(&session).map_err(|error| {
        // Another node enters, or prepares the database for a newer version.
        if migrations::is_busy(&error) { PostgresOpenError::Away(error.to_string()) } else { error.into() }
    })?;
    // Entering counts as the first heartbeat.
    writer_lease.heartbeat(asked_us, true);
    Ok((to_work, WriterId::first(epoch, slot)))
}

/// Returns two connections to a migrated database: a patient one, and one to work with. The node has not entered yet.
pub(super) fn connect_and_migrate(server: &Server) -> Result<(Session, Session), PostgresOpenError> {
    let (to_work, session) = (connect(server, ANSWER_TIMEOUT)?, connect(server, MIGRATION_TIMEOUT)?);
    check_not_pooled(server, &session, &to_work)?;
    check_settings(&session)?;
    migrations::migrate(&session, MIGRATIONS)?;
    Ok((session, to_work))
}

/// State of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseState {
    /// How many migrations were applied, and how many this version knows.
    pub prepared: i64,
    pub known: i64,
    /// Events in the inbox that can never be accepted.
    pub refused: i64,
}

/// Reports the state of a database. Changes nothing.
pub(super) fn probe(server: &Server) -> Result<DatabaseState, PostgresOpenError> {
    let connect = || Session::connect(server, MIGRATION_TIMEOUT).map_err(|error| refused(&error));
    let session = connect()?;
    check_not_pooled(server, &session, &connect()?)?;
    check_settings(&session)?;
    let prepared = migrations::applied(&session, MIGRATIONS)?;
    let refused = "SELECT count(*) FROM posthaste.inbox WHERE error IS NOT NULL";
    let refused = if prepared < WITH_INBOX { 0 } else { number(&session, refused)? };
    Ok(DatabaseState { prepared, known: NEWEST, refused })
}

/// Connects. Waits for an unreachable server; returns an error of one that refuses the connection.
fn connect(server: &Server, patience: Duration) -> Result<Session, PostgresOpenError> {
    let mut was_told = false;
    loop {
        // A pooler accepts every connection, and is silent as long as there is no server behind it.
        let answers = |session: Session| session.process().map(|_| session);
        match Session::connect(server, patience).and_then(answers) {
            Ok(session) => return Ok(session),
            Err(error) if !is_temporary(&error) => return Err(refused(&error)),
            Err(error) => {
                if !was_told {
                    tracing::warn!(%error, "the database cannot be reached; it is tried until it can");
                    was_told = true;
                }
                std::thread::sleep(RECONNECT_PAUSE);
            }
        }
    }
}

fn refused(error: &Error) -> PostgresOpenError {
    PostgresOpenError::Unreachable(error.to_string())
}

/// Refuses an undeclared pooler: without one, each of two connections has a server process to itself.
fn check_not_pooled(server: &Server, one: &Session, other: &Session) -> Result<(), PostgresOpenError> {
    if server.is_pooled() {
        return Ok(());
    }
    let before = one.process()?;
    let is_lent = before == other.process()? || before != one.process()?;
    if is_lent { Err(PostgresOpenError::Pooled) } else { Ok(()) }
}

/// Whether the server may be back soon: it does not answer, is starting or stopping, or has no room for another connection. A
/// pooler reports each of these as a failed connection.
fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Io(_) => true,
        Error::Postgres(error) => match (error.code(), error.source()) {
            // It took longer than allowed, which is no reason to reconnect.
            (Some(code), _) if *code == SqlState::QUERY_CANCELED => false,
            // A standby, which is about to be promoted if the address is right.
            (Some(code), _) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => true,
            (Some(code), _) => ["08", "53", "57"].iter().any(|class| code.code().starts_with(class)),
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

/// Settings of a server.
#[derive(Clone, Debug, Default)]
struct ServerSettings {
    number: i64,
    version: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    synchronous_standby_names: String,
    encoding: String,
}

impl ServerSettings {
    fn of(session: &Session) -> Result<Self> {
        let sql = "SELECT CAST(current_setting('server_version_num') AS bigint), current_setting('server_version'),
                 current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
                 current_setting('synchronous_standby_names'), current_setting('server_encoding')";
        let rows = session.query(sql, &[])?;
        let Some(row) = rows.first().map(|row| Row::new(row)) else { return Ok(Self::default()) };
        Ok(Self {
            number: row.get(0)?,
            version: row.get(1)?,
            fsync: row.get(2)?,
            full_page_writes: row.get(3)?,
            synchronous_commit: row.get(4)?,
            synchronous_standby_names: row.get(5)?,
            encoding: row.get(6)?,
        })
    }

    /// Refuses settings that break the promise of a 202: that the event survives a power cut.
    fn check(self) -> Result<(), PostgresOpenError> {
        let refused = |setting, value, why| Err(PostgresOpenError::Unsafe { setting, value, why });
        let loses = "what it confirmed would be lost when its machine fails";
        if self.number < SERVER_MIN {
            return Err(PostgresOpenError::TooOld { found: self.version });
        }
        if self.encoding != "UTF8" {
            return Err(PostgresOpenError::Encoding { found: self.encoding });
        }
        if self.fsync != "on" {
            return refused("fsync", self.fsync, loses);
        }
        if self.full_page_writes != "on" {
            return refused(
                "full_page_writes",
                self.full_page_writes,
                "a crash while it writes would damage it",
            );
        }
        match self.synchronous_commit.as_str() {
            "off" => refused("synchronous_commit", self.synchronous_commit, loses),
            "local" if !self.synchronous_standby_names.is_empty() => {
                let why = "its standbys would not have what it confirmed";
                refused("synchronous_commit", self.synchronous_commit, why)
            }
            _ => Ok(()),
        }
    }
}

fn check_settings(session: &Session) -> Result<(), PostgresOpenError> {
    ServerSettings::of(session)?.check()
}

/// Connects for writing, and checks the settings again: the server may be another one than before.
pub(super) fn connect_to_write(server: &Server) -> Result<Session> {
    let session = Session::connect(server, ANSWER_TIMEOUT)?;
    ServerSettings::of(&session)?.check().map_err(io::Error::other)?;
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_an_unsafe_setting_is_refused_and_the_setting_is_named() {
        let safe = ServerSettings {
            number: SERVER_MIN,
            version: "14.0".to_owned(),
            fsync: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            synchronous_standby_names: String::new(),
            encoding: "UTF8".to_owned(),
        };
        let commits = |how: &str, standbys: &str| ServerSettings {
            synchronous_commit: how.to_owned(),
            synchronous_standby_names: standbys.to_owned(),
            ..safe.clone()
        };
        for fit in [
            safe.clone(),
            ServerSettings { number: 180_004, ..safe.clone() },
            commits("local", ""),
            commits("remote_write", "b"),
            commits("on", "b"),
            commits("remote_apply", "b"),
        ] {
            assert!(fit.clone().check().is_ok(), "{fit:?}");
        }
        for (unfit, reason) in [
            (
                ServerSettings { number: 139_999, version: "13.23".to_owned(), ..safe.clone() },
                "version 13.23",
            ),
            (ServerSettings { encoding: "SQL_ASCII".to_owned(), ..safe.clone() }, "ENCODING 'UTF8'"),
            (ServerSettings { fsync: "off".to_owned(), ..safe.clone() }, "fsync = off"),
            (ServerSettings { full_page_writes: "off".to_owned(), ..safe.clone() }, "full_page_writes = off"),
            (commits("off", ""), "synchronous_commit = off"),
            (commits("local", "b"), "synchronous_commit = local"),
        ] {
            let said = unfit.check().unwrap_err().to_string();
            assert!(said.contains(reason), "{said}");
        }
    }
}

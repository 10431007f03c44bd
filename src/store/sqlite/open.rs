//! Opens the file: lock, pragmas, schema version. A second process on the same store is refused.

use super::migrations::{self, MigrationError, NEWEST};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use std::{
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

const SCHEMA: &str = include_str!("schema.sql");
/// More than there are: otherwise the least used would be prepared again and again, which costs more than running them.
const STATEMENT_CACHE_SIZE: usize = 512;
/// "phst": files of other programs are never touched.
const APPLICATION_ID: i64 = 0x7068_7374;

#[derive(Debug, thiserror::Error)]
pub enum SqliteOpenError {
    #[error("another process already uses the store {0}: stop it first, or give this one a store of its own")]
    InUse(PathBuf),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error(
        "{path} is not a store of Posthaste, or it is damaged ({detail}): it was not touched; restore a backup or name another path"
    )]
    NotAStore { path: PathBuf, detail: String },
    #[error("{path} cannot be prepared ({detail}): what was in it is unchanged; mend that and start again")]
    NotPrepared { path: PathBuf, detail: String },
    #[error(
        "{path} was written by a newer Posthaste (schema {found}, this one knows {NEWEST}): it was not touched; start that version"
    )]
    TooNew { path: PathBuf, found: i64 },
    #[error(
        "{path} has a schema that this Posthaste does not know ({detail}): what was in it is unchanged; start the version that wrote it, or restore a backup"
    )]
    Unknown { path: PathBuf, detail: String },
}

/// The file with its lock; the lock lives as long as this does.
pub(in crate::store) struct Opened {
    pub(in crate::store) connection: Connection,
    pub(super) lock: File,
}

pub(in crate::store) fn open(path: &Path) -> Result<Opened, SqliteOpenError> {
    let io = |error| SqliteOpenError::Io { path: path.to_owned(), error };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(io)?;
    }
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock_path).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(SqliteOpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    let not_a_store = |error: rusqlite::Error| SqliteOpenError::NotAStore {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    // Events may contain secrets: only the owner may read the file, and SQLite gives its side files the same mode.
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(io)?;
    let mut connection = Connection::open(path).map_err(not_a_store)?;
    prepare(&mut connection, path)?;
    Ok(Opened { connection, lock })
}

pub(in crate::store) fn open_in_memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    keep_statements(&connection)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Opens a connection that only reads, and waits a moment where a checkpoint is in the way.
pub(in crate::store) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    keep_statements(&connection)?;
    connection.busy_timeout(Duration::from_secs(2))?;
    connection.pragma_update(None, "cache_size", -2000)?;
    Ok(connection)
}

/// Opens a connection that moves the log into the file. It gives up at once where the writer or a reader is busy.
pub(super) fn open_checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_millis(20))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -200)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection, path: &Path) -> Result<(), SqliteOpenError> {
    let not_a_store = |error: rusqlite::Error| SqliteOpenError::NotAStore {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    keep_statements(connection).map_err(not_a_store)?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(not_a_store)?;
    // Until the file is known to be a store, even the log that a killed process left beside it stays as it is.
    leave_log(connection, true).map_err(not_a_store)?;
    let is_new = check_is_store(connection, path)?;
    let found: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(not_a_store)?;
    // From here on the file is known to be a store: a failure now does not mean that it is another file.
    let not_prepared = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => not_a_store(error),
        _ => SqliteOpenError::NotPrepared { path: path.to_owned(), detail: error.to_string() },
    };
    leave_log(connection, false).map_err(not_prepared)?;
    set_pragmas(connection).map_err(not_prepared)?;
    if is_new {
        create(connection).map_err(not_prepared)?;
    } else if found < NEWEST {
        migrate(connection, found).map_err(|error| match error {
            MigrationError::Sqlite(error) => not_prepared(error),
            MigrationError::Unknown(detail) => SqliteOpenError::Unknown { path: path.to_owned(), detail },
        })?;
        tracing::info!(path = %path.display(), from = found, to = NEWEST, "upgraded the store");
    }
    Ok(())
}

/// Refuses a file of another program or of a newer version; `true` if the file is new.
pub(super) fn check_is_store(connection: &Connection, path: &Path) -> Result<bool, SqliteOpenError> {
    let not_a_store = |error: rusqlite::Error| SqliteOpenError::NotAStore {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) =
        (number("application_id").map_err(not_a_store)?, number("user_version").map_err(not_a_store)?);
    // No table yet: new, or interrupted while the store was created.
    let is_empty = || connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0));
    let is_new = application == 0 && version == 0 && is_empty().map_err(not_a_store)?;
    if !is_new && application != APPLICATION_ID {
        let detail = "it belongs to another program".to_owned();
        return Err(SqliteOpenError::NotAStore { path: path.to_owned(), detail });
    }
    if version > NEWEST {
        return Err(SqliteOpenError::TooNew { path: path.to_owned(), found: version });
    }
    Ok(is_new)
}

/// Keeps every statement prepared. By default SQLite prepares a statement again with each value that is bound where an index
/// has a condition (`state = ?`), which costs more than running it.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

/// Sets whether closing leaves the write-ahead log beside the file instead of moving it in.
fn leave_log(connection: &Connection, leave: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave).map(|_| ())
}

/// Sets FULL, because 202 promises that the event survives a power cut; and a write-ahead log, so that readers never wait.
fn set_pragmas(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // The checkpointer is far ahead of this; it only limits the log should the checkpointer fail.
    connection.pragma_update(None, "wal_autocheckpoint", 64_000)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction()?;
    tx.execute_batch(SCHEMA)?;
    tx.pragma_update(None, "user_version", NEWEST)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()
}

fn migrate(connection: &mut Connection, found: i64) -> Result<(), MigrationError> {
    let tx = connection.transaction()?;
    migrations::migrate(&tx, found)?;
    tx.pragma_update(None, "user_version", NEWEST)?;
    Ok(tx.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    fn prepared_again(connection: &Connection) -> i32 {
        // Indexes with a condition on `state`, and a range over ids: SQLite plans these by value.
        let mut statement =
            connection.prepare("SELECT 1 FROM deliveries WHERE id > ?1 AND state = ?2 LIMIT ?3").unwrap();
        for state in 0..8 {
            assert!(!statement.exists([state, state, state]).unwrap());
        }
        statement.get_status(StatementStatus::RePrepare)
    }

    #[test]
    fn a_statement_is_not_prepared_again_for_other_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("posthaste.db");
        let opened = open(&path).unwrap();
        assert_eq!(prepared_again(&opened.connection), 0);
        assert_eq!(prepared_again(&open_reader(&path).unwrap()), 0);
        assert_eq!(prepared_again(&open_in_memory().unwrap()), 0);

        opened.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, false).unwrap();
        assert!(prepared_again(&opened.connection) > 0);
    }
}

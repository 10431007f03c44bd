//! Inspects a store from outside, also while another process uses it. Reads only: the file and its log stay as they are.

use super::{
    backup::with_suffix,
    open::{self, SqliteOpenError},
};
use crate::domain::time::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Facts about a store file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Size of the file with its log.
    pub bytes: u64,
    /// When the newest event was accepted.
    pub newest_at: Option<Timestamp>,
}

/// Returns facts about the store; `None` if there is none yet. Refuses a file of another program, or of a newer version.
pub fn probe(path: &Path) -> Result<Option<StoreInfo>, SqliteOpenError> {
    let io = |error| SqliteOpenError::Io { path: path.to_owned(), error };
    let log_bytes = fs::metadata(with_suffix(path, "-wal")).map_or(0, |log| log.len());
    let bytes = match fs::metadata(path) {
        Ok(metadata) => metadata.len() + log_bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let unreadable = |error: rusqlite::Error| SqliteOpenError::NotAStore {
        path: path.to_owned(),
        detail: error.to_string(),
    };
    let connection = connection(path).map_err(unreadable)?;
    if open::check_is_store(&connection, path)? {
        return Ok(Some(StoreInfo { bytes, newest_at: None }));
    }
    // Ids grow with time, so this is one step in the table.
    let newest = connection
        .query_row("SELECT accepted_at FROM events ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
        .optional();
    Ok(Some(StoreInfo { bytes, newest_at: newest.map_err(unreadable)?.map(Timestamp::from_millis) }))
}

/// Returns all encrypted values of endpoints that are not deleted. Empty if there is no store, or none that can be read.
pub fn encrypted_values(path: &Path) -> Vec<Vec<u8>> {
    let Ok(connection) = connection(path) else { return Vec::new() };
    let read = |sql: &str| -> rusqlite::Result<Vec<Vec<u8>>> {
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    // A store of an older version has other names for them, and fewer of them.
    let found = [
        read("SELECT encrypted FROM secrets JOIN endpoints ON id = endpoint WHERE deleted_at IS NULL"),
        read("SELECT sealed FROM secrets JOIN endpoints ON id = endpoint WHERE deleted_at IS NULL"),
        read(
            "SELECT encrypted_headers FROM endpoints WHERE deleted_at IS NULL AND encrypted_headers IS NOT NULL",
        ),
        read("SELECT headers FROM endpoints WHERE deleted_at IS NULL AND headers IS NOT NULL"),
        read("SELECT encrypted_tls FROM endpoints WHERE deleted_at IS NULL AND encrypted_tls IS NOT NULL"),
        read("SELECT tls FROM endpoints WHERE deleted_at IS NULL AND tls IS NOT NULL"),
    ];
    found.into_iter().filter_map(Result::ok).flatten().collect()
}

/// Opens a read-only connection. Without a log no transaction can be unfinished: then SQLite creates no side files either.
fn connection(path: &Path) -> rusqlite::Result<Connection> {
    if with_suffix(path, "-wal").exists() {
        return open::open_reader(path);
    }
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
}

/// Returns the process that uses the store, as far as this machine tells. Does not take the lock, so that a process that
/// starts meanwhile is not refused.
pub fn process_using(path: &Path) -> Option<u32> {
    let lock = fs::metadata(with_suffix(path, ".lock")).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234567 0 EOF
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_lock = words.next() == Some("FLOCK");
        let process = words.nth(2)?.parse().ok()?;
        let inode = words.next()?.rsplit(':').next()?.parse::<u64>().ok()?;
        (is_lock && inode == lock.ino()).then_some(process)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_probed_in_use_or_not_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("50%? #1.db");
        assert_eq!(probe(&path).unwrap(), None);
        let opened = open::open(&path).unwrap();
        let in_use = probe(&path).unwrap().unwrap();
        assert_eq!((in_use.newest_at, process_using(&path)), (None, Some(std::process::id())));
        opened
            .connection
            .execute(
                "INSERT INTO events (id, app, type, created_at, accepted_at, skipped, data) VALUES (1, 1, 't', 5, 7, 1, x'')",
                [],
            )
            .unwrap();
        assert_eq!(probe(&path).unwrap().unwrap().newest_at, Some(Timestamp::from_millis(7)));
        drop(opened);
        assert_eq!(process_using(&path), None);
        let before = (fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count());
        assert_eq!(probe(&path).unwrap().unwrap().newest_at, Some(Timestamp::from_millis(7)));
        assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), before);
    }

    #[test]
    fn another_program_s_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        assert!(matches!(probe(&path), Err(SqliteOpenError::NotAStore { .. })));
        fs::write(&path, "no database at all, but long enough to be looked at").unwrap();
        assert!(matches!(probe(&path), Err(SqliteOpenError::NotAStore { .. })));
    }
}

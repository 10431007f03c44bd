//! Copies the store while it is in use, and restores a copy. A copy gets its name only after it was read through and found
//! undamaged; no existing file is ever overwritten.

use super::open::{self, SqliteOpenError};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::ErrorKind,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no store at {0}")]
    NoStore(PathBuf),
    #[error("{0} exists already: it was not touched; name another file, or move that one away")]
    Exists(PathBuf),
    #[error("another copy is being written to {0}: wait for it, or name another file")]
    UnderWay(PathBuf),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{path} cannot be copied: {error}")]
    Copy { path: PathBuf, error: rusqlite::Error },
    #[error("{path} is damaged: {detail}")]
    Damaged { path: PathBuf, detail: String },
    #[error(transparent)]
    Open(#[from] SqliteOpenError),
}

/// Contents of a copy, counted in the copy itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupContents {
    pub bytes: u64,
    pub apps: u64,
    pub endpoints: u64,
    pub events: u64,
    pub deliveries: u64,
}

/// Copies the store at `store` to the new file `to`, as it is at one instant, and checks the copy. The store may be in use.
pub fn back_up(store: &Path, to: &Path) -> Result<BackupContents, BackupError> {
    must_exist(store)?;
    must_be_free(to)?;
    write_copy(store, to)
}

/// Makes a store at `store` out of a copy, after checking it. There must be no store yet.
pub fn restore(from: &Path, store: &Path) -> Result<BackupContents, BackupError> {
    must_exist(from)?;
    check(from)?;
    must_be_free(store)?;
    for remains in ["-wal", "-shm"] {
        must_be_free(&with_suffix(store, remains))?;
    }
    if let Some(folder) = store.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| BackupError::Io { path: folder.to_owned(), error })?;
    }
    // Copies the log too: the rows that a killed process left in it belong to the copy.
    write_copy(from, store)
}

/// Copies `from` to the new file `to` and checks the copy.
fn write_copy(from: &Path, to: &Path) -> Result<BackupContents, BackupError> {
    let path = with_suffix(to, ".unfinished");
    let _mine = open_draft(&path)?;
    let copied = copy(from, &path).and_then(|()| check(&path));
    put_in_place(copied, &path, to)
}

/// Opens an empty draft, locked against other copies as long as it is held. The draft of an interrupted copy is reused.
fn open_draft(path: &Path) -> Result<File, BackupError> {
    let io = |error| BackupError::Io { path: path.to_owned(), error };
    loop {
        let draft =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(io)?;
        match draft.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::UnderWay(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // The previous holder may have removed the file.
        let is_there =
            fs::metadata(path).is_ok_and(|there| draft.metadata().is_ok_and(|it| it.ino() == there.ino()));
        if is_there {
            draft.set_len(0).map_err(io)?;
            return Ok(draft);
        }
    }
}

fn must_exist(path: &Path) -> Result<(), BackupError> {
    if path.is_file() { Ok(()) } else { Err(BackupError::NoStore(path.to_owned())) }
}

fn must_be_free(path: &Path) -> Result<(), BackupError> {
    match path.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(BackupError::Exists(path.to_owned())),
        Err(error) => Err(BackupError::Io { path: path.to_owned(), error }),
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies in one read transaction: the copy is of one instant, and writers go on meanwhile.
fn copy(store: &Path, draft: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::Copy { path: store.to_owned(), error };
    let connection = open::open_reader(store).map_err(failed)?;
    let target = draft.to_string_lossy();
    connection.execute("VACUUM INTO ?1", [target.as_ref()]).map_err(failed)?;
    Ok(())
}

/// Reads the whole copy and checks it.
fn check(copy: &Path) -> Result<BackupContents, BackupError> {
    let damaged = |detail: String| BackupError::Damaged { path: copy.to_owned(), detail };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags).map_err(|error| damaged(error.to_string()))?;
    open::check_is_store(&connection, copy)?;
    let number = |sql: &str| {
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| damaged(error.to_string()))
    };
    let found: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| damaged(error.to_string()))?;
    if found != "ok" {
        return Err(damaged(found));
    }
    let bytes = copy.metadata().map_err(|error| BackupError::Io { path: copy.to_owned(), error })?.len();
    Ok(BackupContents {
        bytes,
        apps: number("SELECT count(*) FROM apps")? as u64,
        endpoints: number("SELECT count(*) FROM endpoints WHERE deleted_at IS NULL")? as u64,
        events: number("SELECT count(*) FROM events")? as u64,
        deliveries: number("SELECT count(*) FROM deliveries")? as u64,
    })
}

/// Renames a finished draft once it is on the disk; removes an unfinished one.
fn put_in_place(
    copied: Result<BackupContents, BackupError>,
    draft: &Path,
    to: &Path,
) -> Result<BackupContents, BackupError> {
    let io = |error| BackupError::Io { path: to.to_owned(), error };
    let placed = copied.and_then(|inventory| {
        File::open(draft).and_then(|file| file.sync_all()).map_err(io)?;
        // Unlike a rename, a link fails if the file was created meanwhile. Not every file system has links.
        fs::hard_link(draft, to)
            .or_else(|refused| match refused.kind() {
                ErrorKind::PermissionDenied | ErrorKind::Unsupported if !to.exists() => fs::rename(draft, to),
                _ => Err(refused),
            })
            .map_err(io)?;
        if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        }
        Ok(inventory)
    });
    let _ = fs::remove_file(draft);
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_with_apps(folder: &Path, count: i64) -> PathBuf {
        let path = folder.join("store.db");
        let opened = open::open(&path).unwrap();
        for id in 1..=count {
            opened.connection.execute("INSERT INTO apps VALUES (?1, 'app' || ?1, '{}', 0, 0)", [id]).unwrap();
        }
        path
    }

    #[test]
    fn a_copy_is_taken_while_the_store_is_open_and_becomes_a_store_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_apps(folder.path(), 3);
        let in_use = open::open(&store).unwrap();
        let copy = folder.path().join("copy.db");
        let inventory = back_up(&store, &copy).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!([mode(&store), mode(&with_suffix(&store, "-wal")), mode(&copy)], [0o600; 3]);
        assert_eq!((inventory.apps, inventory.events), (3, 0));
        in_use.connection.execute("DELETE FROM apps", []).unwrap();
        let again = folder.path().join("elsewhere/again.db");
        assert_eq!(restore(&copy, &again).unwrap(), inventory);
        let opened = open::open(&again).unwrap();
        let apps: i64 =
            opened.connection.query_row("SELECT count(*) FROM apps", [], |row| row.get(0)).unwrap();
        assert_eq!(apps, 3);
    }

    #[test]
    fn a_log_left_by_a_killed_process_is_part_of_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_apps(folder.path(), 1);
        let running = open::open(&store).unwrap();
        running.connection.execute("INSERT INTO apps VALUES (2, 'late', '{}', 0, 0)", []).unwrap();
        let moved = folder.path().join("moved.db");
        for suffix in ["", "-wal"] {
            fs::copy(with_suffix(&store, suffix), with_suffix(&moved, suffix)).unwrap();
        }
        let again = folder.path().join("again.db");
        assert_eq!(restore(&moved, &again).unwrap().apps, 2);
        assert_eq!(check(&again).unwrap().apps, 2);
    }

    #[test]
    fn two_copies_to_the_same_file_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_apps(folder.path(), 1);
        let copy = folder.path().join("copy.db");
        let draft = with_suffix(&copy, ".unfinished");
        let other = open_draft(&draft).unwrap();
        assert!(matches!(back_up(&store, &copy), Err(BackupError::UnderWay(_))));
        assert!(draft.exists() && !copy.exists());
        // Interrupted: the old draft blocks no later copy.
        fs::write(&draft, "half").unwrap();
        drop(other);
        assert_eq!(back_up(&store, &copy).unwrap().apps, 1);
    }

    #[test]
    fn no_existing_file_is_overwritten_and_no_draft_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_apps(folder.path(), 1);
        let copy = folder.path().join("copy.db");
        fs::write(&copy, "mine").unwrap();
        assert!(matches!(back_up(&store, &copy), Err(BackupError::Exists(_))));
        assert_eq!(fs::read_to_string(&copy).unwrap(), "mine");
        let other = folder.path().join("other.db");
        back_up(&store, &other).unwrap();
        assert!(matches!(restore(&other, &store), Err(BackupError::Exists(_))));
        let drafts = [&other, &store].map(|path| with_suffix(path, ".unfinished").exists());
        assert_eq!(drafts, [false, false]);
    }

    #[test]
    fn a_damaged_or_foreign_file_is_no_backup() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_apps(folder.path(), 500);
        let (copy, target) = (folder.path().join("copy.db"), folder.path().join("target.db"));
        back_up(&store, &copy).unwrap();
        let mut bytes = fs::read(&copy).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4096].fill(0x5a);
        fs::write(&copy, bytes).unwrap();
        assert!(matches!(restore(&copy, &target), Err(BackupError::Damaged { .. })));
        let foreign = folder.path().join("foreign.db");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        assert!(matches!(
            restore(&foreign, &target),
            Err(BackupError::Open(SqliteOpenError::NotAStore { .. }))
        ));
        assert!(matches!(restore(&folder.path().join("none"), &target), Err(BackupError::NoStore(_))));
        assert!(!target.exists() && !with_suffix(&target, ".unfinished").exists());
    }
}

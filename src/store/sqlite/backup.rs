//! A copy of the store while it is in use, and back again. A copy is not called one before it was read through and found
//! whole; nothing that exists is ever overwritten.

use super::open::{self, OpenError};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no store at {0}")]
    NoStore(PathBuf),
    #[error("{0} exists already: it was not touched; name another file, or move that one away")]
    Exists(PathBuf),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{path} cannot be copied: {error}")]
    Copy { path: PathBuf, error: rusqlite::Error },
    #[error("{path} is damaged: {detail}")]
    Damaged { path: PathBuf, detail: String },
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// What a copy holds, counted in the copy itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inventory {
    pub bytes: u64,
    pub apps: u64,
    pub endpoints: u64,
    pub events: u64,
    pub deliveries: u64,
}

/// Copies the store at `store` to the new file `to`, as it is at one instant, and checks the copy. The store may be in use.
pub fn back_up(store: &Path, to: &Path) -> Result<Inventory, BackupError> {
    must_exist(store)?;
    must_be_free(to)?;
    let draft = draft_of(to);
    let copied = copy(store, &draft).and_then(|()| check(&draft));
    put_in_place(copied, &draft, to)
}

/// Makes a store at `store` out of a copy, after checking it. There must be no store yet.
pub fn restore(from: &Path, store: &Path) -> Result<Inventory, BackupError> {
    must_exist(from)?;
    check(from)?;
    must_be_free(store)?;
    for remains in ["-wal", "-shm"] {
        must_be_free(&with_suffix(store, remains))?;
    }
    let draft = draft_of(store);
    let io = |error| BackupError::Io { path: draft.clone(), error };
    let made =
        store.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(Ok(()), fs::create_dir_all);
    let copied = made.and_then(|()| fs::copy(from, &draft)).map_err(io).and_then(|_| check(&draft));
    put_in_place(copied, &draft, store)
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

fn draft_of(path: &Path) -> PathBuf {
    with_suffix(path, ".unfinished")
}

/// One read transaction: the copy is of one instant, and writers go on meanwhile.
fn copy(store: &Path, draft: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::Copy { path: store.to_owned(), error };
    // The remains of a copy that was interrupted are nobody's.
    let _ = fs::remove_file(draft);
    let connection = open::open_reader(store).map_err(failed)?;
    let target = draft.to_string_lossy();
    connection.execute("VACUUM INTO ?1", [target.as_ref()]).map_err(failed)?;
    Ok(())
}

/// Reads all of it.
fn check(copy: &Path) -> Result<Inventory, BackupError> {
    let damaged = |detail: String| BackupError::Damaged { path: copy.to_owned(), detail };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags).map_err(|error| damaged(error.to_string()))?;
    open::must_be_ours(&connection, copy)?;
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
    Ok(Inventory {
        bytes,
        apps: number("SELECT count(*) FROM apps")? as u64,
        endpoints: number("SELECT count(*) FROM endpoints WHERE deleted_at IS NULL")? as u64,
        events: number("SELECT count(*) FROM events")? as u64,
        deliveries: number("SELECT count(*) FROM deliveries")? as u64,
    })
}

/// A finished draft gets its name once it is on the disk; an unfinished one goes.
fn put_in_place(
    copied: Result<Inventory, BackupError>,
    draft: &Path,
    to: &Path,
) -> Result<Inventory, BackupError> {
    let io = |error| BackupError::Io { path: to.to_owned(), error };
    let placed = copied.and_then(|inventory| {
        File::open(draft).and_then(|file| file.sync_all()).map_err(io)?;
        // Unlike a rename, this fails where somebody made the file meanwhile.
        fs::hard_link(draft, to).map_err(io)?;
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
    fn nothing_that_exists_is_overwritten_and_no_draft_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_apps(folder.path(), 1);
        let copy = folder.path().join("copy.db");
        fs::write(&copy, "mine").unwrap();
        assert!(matches!(back_up(&store, &copy), Err(BackupError::Exists(_))));
        assert_eq!(fs::read_to_string(&copy).unwrap(), "mine");
        let other = folder.path().join("other.db");
        back_up(&store, &other).unwrap();
        assert!(matches!(restore(&other, &store), Err(BackupError::Exists(_))));
        assert!(!draft_of(&other).exists() && !draft_of(&store).exists());
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
        assert!(matches!(restore(&foreign, &target), Err(BackupError::Open(OpenError::NotAStore { .. }))));
        assert!(matches!(restore(&folder.path().join("none"), &target), Err(BackupError::NoStore(_))));
        assert!(!target.exists() && !draft_of(&target).exists());
    }
}

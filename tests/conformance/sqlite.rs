//! The suite on SQLite, and tests of its file alone: which process may open it, and rows that cannot be written.

use crate::{
    fixture::{Backend, NOW, draft, perform},
    recorder::RecordingListener,
};
use posthaste::{
    domain::{
        app::{App, AppSettings},
        id::{AppId, EndpointId, EventId},
    },
    store::{
        CommitObservers, Store, StoreError,
        sqlite::{self, QueueLimits, SqliteOpenError},
    },
};
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

const FREE_WITHIN: Duration = Duration::from_secs(10);

/// A store in a folder of its own.
pub(crate) struct SqliteFile(TempDir);

impl SqliteFile {
    pub(crate) fn new_backend() -> Box<dyn Backend> {
        Box::new(Self(TempDir::new().unwrap()))
    }
}

impl Backend for SqliteFile {
    fn open(&self, observers: CommitObservers, events_max: usize, bytes_max: usize) -> Store {
        let limits = QueueLimits { events_max, bytes_max };
        let path = self.0.path().join("posthaste.db");
        let open = || sqlite::open(&path, observers.clone(), limits, Duration::ZERO);
        once_free(open).unwrap()
    }
}

pub(crate) fn open(path: &Path) -> Result<Store, SqliteOpenError> {
    once_free(|| open_now(path))
}

fn open_now(path: &Path) -> Result<Store, SqliteOpenError> {
    let limits = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };
    sqlite::open(path, Arc::<RecordingListener>::default().observers(), limits, Duration::ZERO)
}

/// Opens a file, waiting until it is free. A child process that another test is starting may hold a closed file a moment longer:
/// until it runs its own program, it has every file of this process open.
fn once_free(open: impl Fn() -> Result<Store, SqliteOpenError>) -> Result<Store, SqliteOpenError> {
    let began = Instant::now();
    loop {
        match open() {
            Err(SqliteOpenError::InUse(_)) if began.elapsed() < FREE_WITHIN => std::thread::yield_now(),
            opened => return opened,
        }
    }
}

fn open_error(path: &Path) -> SqliteOpenError {
    match open_now(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

pub(crate) fn new_location() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("posthaste.db");
    (folder, path)
}

fn wal(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

/// Makes a file as a killed process leaves it: the newest commits are still in its log.
fn killed(path: &Path, prepare: impl FnOnce(&Connection)) {
    let folder = TempDir::new().unwrap();
    let alive = folder.path().join("posthaste.db");
    let connection = Connection::open(&alive).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    prepare(&connection);
    fs::copy(&alive, path).unwrap();
    fs::copy(wal(&alive), wal(path)).unwrap();
}

/// Checks that opening is refused and changes neither the file nor its log.
fn refused_untouched(path: &Path) -> SqliteOpenError {
    // Reading may leave an empty log, which does not matter.
    let read = || (fs::read(path).unwrap(), fs::read(wal(path)).unwrap_or_default());
    let before = read();
    let error = open_error(path);
    assert!(read() == before, "touched: {error}");
    error
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn a_store_in_use_is_refused_and_free_again_once_closed() {
    let (_folder, path) = new_location();
    let first = open(&path).unwrap();
    let error = open_error(&path);
    assert!(matches!(&error, SqliteOpenError::InUse(named) if *named == path));
    assert!(error.to_string().contains("another process already uses"), "{error}");
    block_on(first.flush()).unwrap();
    drop(first);
    open(&path).unwrap();
}

#[test]
fn freed_space_is_used_again() {
    perform(SqliteFile::new_backend, crate::retention::freed_space_is_used_again);
}

#[test]
fn a_missing_folder_is_created() {
    let (folder, _) = new_location();
    open(&folder.path().join("a/b/posthaste.db")).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let (_folder, path) = new_location();
    let garbage: Vec<u8> = (0..9000u32).map(|n| (n * 31 % 251) as u8).collect();
    for content in [&garbage[..], b"# my notes\n", &[0; 8192]] {
        fs::write(&path, content).unwrap();
        let error = refused_untouched(&path);
        assert!(matches!(error, SqliteOpenError::NotAStore { .. }), "{error}");
        assert!(error.to_string().contains("it was not touched"), "{error}");
    }
}

#[test]
fn another_program_s_database_is_left_alone() {
    let (_folder, path) = new_location();
    let theirs = |connection: &Connection| {
        connection
            .execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')")
            .unwrap();
    };
    theirs(&Connection::open(&path).unwrap());
    assert!(matches!(refused_untouched(&path), SqliteOpenError::NotAStore { .. }));
    fs::remove_file(&path).unwrap();
    killed(&path, theirs);
    assert!(matches!(refused_untouched(&path), SqliteOpenError::NotAStore { .. }));
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let (_folder, path) = new_location();
    drop(open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    let error = refused_untouched(&path);
    assert!(matches!(error, SqliteOpenError::TooNew { found: 1000, .. }), "{error}");
    assert!(error.to_string().contains("start that version"), "{error}");
}

#[test]
fn a_newer_store_that_was_killed_is_left_alone_with_its_log() {
    let (_folder, path) = new_location();
    killed(&path, |connection| {
        connection.pragma_update(None, "application_id", 0x7068_7374).unwrap();
        connection.pragma_update(None, "user_version", 1000).unwrap();
        connection.execute_batch("CREATE TABLE tomorrow (x)").unwrap();
    });
    assert!(matches!(refused_untouched(&path), SqliteOpenError::TooNew { found: 1000, .. }));
}

#[test]
fn a_store_whose_making_was_interrupted_is_made() {
    for interrupted_at in ["an empty file", "the journal mode"] {
        let (_folder, path) = new_location();
        fs::write(&path, b"").unwrap();
        if interrupted_at == "the journal mode" {
            let connection = Connection::open(&path).unwrap();
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        }
        let store = open(&path).unwrap_or_else(|error| panic!("at {interrupted_at}: {error}"));
        block_on(store.join(NOW)).unwrap();
    }
}

#[test]
fn accepted_events_survive_a_kill() {
    let (folder, path) = new_location();
    let store = open(&path).unwrap();
    let new = draft(AppId::from_i64(1), &[EndpointId::from_i64(2)], 3);
    block_on(store.accept(vec![new])).unwrap();
    // A dead process leaves the file and its log as they are, unclosed.
    let left = folder.path().join("left.db");
    fs::copy(&path, &left).unwrap();
    fs::copy(wal(&path), wal(&left)).unwrap();
    let store = open(&left).unwrap();
    let found = block_on(store.find_event(AppId::from_i64(1), String::new(), Some(EventId::from_i64(3))));
    assert!(found.unwrap().is_some());
    assert_eq!(block_on(store.join(NOW)).unwrap().newest_id, 4);
}

/// Makes a closed store with one pending delivery (id 4), and a direct connection to its file.
fn store_with_direct_connection() -> (TempDir, PathBuf, Connection) {
    let (folder, path) = new_location();
    let store = open(&path).unwrap();
    let app = AppId::from_i64(1);
    let settings = AppSettings::default();
    block_on(
        store.add_app(App { id: app, uid: "a".into(), settings, created_at: NOW, updated_at: NOW }, None),
    )
    .unwrap();
    block_on(store.accept(vec![draft(app, &[EndpointId::from_i64(2)], 3)])).unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    (folder, path, connection)
}

#[test]
fn rows_outside_the_state_table_cannot_be_written() {
    let (_folder, _path, connection) = store_with_direct_connection();
    for (change, why) in [
        ("state = 4", "delivered without an end"),
        ("finished_at = 1", "an end while it waits"),
        ("due = NULL", "waiting for nothing"),
        ("queue = NULL", "waiting where nobody looks"),
        ("queue = 7", "waiting in a queue of another endpoint"),
        ("queue = 0", "waiting and carried"),
        ("state = 2", "carried and in its queue"),
        ("state = 2, queue = NULL", "carried by nobody"),
        ("state = 3", "held and in its queue"),
        ("state = 5, queue = NULL, finished_at = 1", "dead without a reason"),
        ("reason = 1", "a reason while it waits"),
        ("state = 4, queue = NULL, finished_at = 1, reason = 0", "delivered with a reason"),
        ("state = 8, queue = NULL, finished_at = 1, reason = 0", "no such state"),
        ("state = -1", "no such state"),
        ("return_to = 'somewhere'", "a way back that leads nowhere"),
        ("due = 253402300799000", "behind nobody"),
        ("ordering_key = 1, due = 253402300799000, state = 1", "behind others, and tried before"),
        ("ordering_key = 1, state = 4, queue = NULL, finished_at = 1", "in a line, and delivered"),
    ] {
        let changed = connection.execute(&format!("UPDATE deliveries SET {change} WHERE id = 4"), []);
        assert!(changed.is_err(), "{why}: {change}");
    }
    let dead =
        "UPDATE deliveries SET state = 5, queue = NULL, due = NULL, finished_at = 1, reason = 0 WHERE id = 4";
    assert_eq!(connection.execute(dead, []), Ok(1), "and one that it has");
}

#[test]
fn a_damaged_row_is_named() {
    let (_folder, path, connection) = store_with_direct_connection();
    connection.execute_batch("PRAGMA ignore_check_constraints = ON; UPDATE deliveries SET reason = 99; UPDATE apps SET settings = '{'").unwrap();
    drop(connection);
    let store = open(&path).unwrap();
    let delivery = posthaste::domain::id::DeliveryId::from_i64(4);
    let error = block_on(store.delivery(AppId::from_i64(1), delivery)).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(what) if what.contains(&delivery.to_string())), "{error}");
    let error = block_on(store.config_snapshot()).unwrap_err();
    assert!(
        matches!(&error, StoreError::Corrupt(what) if what.contains(&AppId::from_i64(1).to_string())),
        "{error}"
    );
}

//! Moves the write-ahead log into the file, on a thread of its own: the writer never waits for that, so a single event after
//! a busy hour is answered as quickly as any other.
//!
//! Most of the log is moved beside the writer. Only when it has still grown long is the writer blocked while the rest
//! follows: that rest is short, and afterwards the log starts over from its beginning.

use super::open;
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{JoinHandle, Thread},
};

/// The writer wakes the checkpointer after this many commits or commands, whichever comes first; a check of the log is cheap.
const COMMITS_PER_CHECK: usize = 64;
const COMMANDS_PER_CHECK: usize = 1000;

/// Pages of 4 KiB.
const LOG_PAGES_TO_MOVE: i64 = 4_000;
const LOG_PAGES_TOO_LONG: i64 = 16_000;

/// State that the writer and its checkpointer share.
#[derive(Default)]
pub(super) struct CheckpointSignal {
    thread: OnceLock<Thread>,
    commits: AtomicUsize,
    commands: AtomicUsize,
    is_closed: AtomicBool,
    flush_failed: AtomicBool,
}

impl CheckpointSignal {
    /// Counts a commit; called by the writer.
    pub(super) fn committed(&self, commands: usize) {
        // Only the writer counts, so no count is lost between load and store.
        let commits = self.commits.load(Ordering::Relaxed) + 1;
        let commands = self.commands.load(Ordering::Relaxed) + commands;
        let is_time = commits >= COMMITS_PER_CHECK || commands >= COMMANDS_PER_CHECK;
        self.commits.store(if is_time { 0 } else { commits }, Ordering::Relaxed);
        self.commands.store(if is_time { 0 } else { commands }, Ordering::Relaxed);
        if is_time {
            self.wake();
        }
    }

    /// A flush of the file failed here: its contents are unknown, so the writer must confirm nothing more either.
    pub(super) fn flush_failed(&self) -> bool {
        self.flush_failed.load(Ordering::Acquire)
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

pub(super) struct Checkpointer {
    signal: Arc<CheckpointSignal>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, signal: Arc<CheckpointSignal>) -> std::io::Result<Self> {
        let connection = open::open_checkpointer(path).map_err(std::io::Error::other)?;
        let run = {
            let signal = signal.clone();
            move || run(&connection, &signal)
        };
        let thread = std::thread::Builder::new().name("checkpoints".to_owned()).spawn(run)?;
        let _ = signal.thread.set(thread.thread().clone());
        Ok(Self { signal, thread })
    }

    /// Stops the thread. Must end before the writer does: the last to close the file moves the rest of the log.
    pub(super) fn close(self) {
        self.signal.is_closed.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the checkpointer ended with a panic");
        }
    }
}

fn run(connection: &Connection, signal: &CheckpointSignal) {
    while !signal.is_closed.load(Ordering::Acquire) && !signal.flush_failed() {
        if let Err(error) = step(connection) {
            let is_flush = super::writer::is_flush_error(&error);
            signal.flush_failed.store(is_flush, Ordering::Release);
            tracing::error!(%error, "the log could not be moved into the file; it stays as it is");
        }
        std::thread::park();
    }
}

/// Checks the log and moves it if it is large enough.
fn step(connection: &Connection) -> rusqlite::Result<()> {
    let log = run_checkpoint(connection, "NOOP")?;
    if log.pages - log.moved < LOG_PAGES_TO_MOVE {
        return Ok(());
    }
    let before = log.moved;
    let log = run_checkpoint(connection, "PASSIVE")?;
    // Where a reader holds on to the log (a backup, say), waiting for it would only block the writer.
    if log.pages >= LOG_PAGES_TOO_LONG && log.moved > before {
        run_checkpoint(connection, "FULL")?;
    }
    Ok(())
}

/// Pages in the log, and how many of them are in the file already.
struct WalState {
    pages: i64,
    moved: i64,
}

fn run_checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<WalState> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(WalState { pages: row.get(1)?, moved: row.get(2)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with_log(folder: &tempfile::TempDir) -> (open::Opened, Connection) {
        let path = folder.path().join("store.db");
        let opened = open::open(&path).unwrap();
        opened.connection.execute_batch("CREATE TABLE filler (bytes BLOB)").unwrap();
        let checkpointer = open::open_checkpointer(&path).unwrap();
        (opened, checkpointer)
    }

    fn fill(writer: &Connection, pages: i64) {
        let insert = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
            INSERT INTO filler SELECT zeroblob(4000) FROM n";
        writer.execute(insert, [pages]).unwrap();
    }

    #[test]
    fn a_short_log_is_not_moved() {
        let folder = tempfile::tempdir().unwrap();
        let (opened, checkpointer) = file_with_log(&folder);
        fill(&opened.connection, 500);
        let before = run_checkpoint(&checkpointer, "NOOP").unwrap();
        step(&checkpointer).unwrap();
        let after = run_checkpoint(&checkpointer, "NOOP").unwrap();
        assert!(before.pages > 500, "{}", before.pages);
        assert_eq!((before.pages, before.moved), (after.pages, after.moved));
    }

    #[test]
    fn a_large_log_is_moved_beside_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let (opened, checkpointer) = file_with_log(&folder);
        fill(&opened.connection, LOG_PAGES_TO_MOVE);
        let writing = opened.connection.unchecked_transaction().unwrap();
        fill(&writing, 1);
        step(&checkpointer).unwrap();
        let log = run_checkpoint(&checkpointer, "NOOP").unwrap();
        assert!(log.moved >= LOG_PAGES_TO_MOVE, "{}", log.moved);
        writing.commit().unwrap();
    }

    #[test]
    fn a_log_that_is_too_long_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let (opened, checkpointer) = file_with_log(&folder);
        fill(&opened.connection, LOG_PAGES_TOO_LONG + 1);
        step(&checkpointer).unwrap();
        fill(&opened.connection, 1);
        let log = run_checkpoint(&checkpointer, "NOOP").unwrap();
        assert!(log.pages < 100, "{}", log.pages);
    }

    #[test]
    fn the_checkpointer_is_woken_after_enough_commits_or_commands() {
        let signal = CheckpointSignal::default();
        signal.thread.set(std::thread::current()).unwrap();
        let counts = || (signal.commits.load(Ordering::Relaxed), signal.commands.load(Ordering::Relaxed));
        signal.committed(COMMANDS_PER_CHECK - 1);
        assert_eq!(counts(), (1, COMMANDS_PER_CHECK - 1));
        signal.committed(1);
        assert_eq!(counts(), (0, 0));
        (1..COMMITS_PER_CHECK).for_each(|_| signal.committed(1));
        assert_eq!(counts().0, COMMITS_PER_CHECK - 1);
        signal.committed(1);
        assert_eq!(counts(), (0, 0));
        // The thread was woken, so this returns at once.
        std::thread::park();
    }
}

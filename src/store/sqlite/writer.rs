//! The one writer: writes the waiting commands in one transaction with one flush. A thread calls it in a loop, the simulation
//! calls `commit_next`.

use super::checkpointer::CheckpointSignal;
use crate::store::{
    CommitObservers,
    sql::{BatchWriter, Command, CommandQueue, CommitResult, Error, GroupCommit, Result, apply_all},
};
use rusqlite::Connection;
use std::{sync::Arc, time::Duration};

/// The writer's connection to the file.
struct SqliteWriter {
    connection: Connection,
    signal: Arc<CheckpointSignal>,
    /// A flush failed: the file's contents are unknown until it is opened again, so nothing more is confirmed on it.
    flush_failed: bool,
}

pub struct SqliteCommitLoop(GroupCommit<SqliteWriter>);

impl SqliteCommitLoop {
    pub(super) fn new(
        connection: Connection,
        queue: Arc<CommandQueue>,
        observers: CommitObservers,
        signal: Arc<CheckpointSignal>,
    ) -> Self {
        let file = SqliteWriter { connection, signal, flush_failed: false };
        Self(GroupCommit::new(file, queue, observers))
    }

    /// Writes one batch of the waiting commands. After `Nothing` the next command wakes the writer.
    pub fn commit_next(&mut self) -> CommitResult {
        self.0.next()
    }

    /// For the simulation: the connection, to read the file or to make its writes fail.
    pub fn connection(&self) -> &Connection {
        &self.0.store.connection
    }

    /// For the simulation: the file as a dead process leaves it. Waiting commands are dropped, no more are taken.
    pub fn into_connection(self) -> Connection {
        self.0.queue.discard_all();
        self.0.store.connection
    }

    /// Runs until the queue is closed and empty.
    pub(super) fn run(self, window: Duration) {
        self.0.run(window);
    }
}

impl BatchWriter for SqliteWriter {
    fn commit(&mut self, batch: &mut [Box<dyn Command>]) -> Result<i64> {
        self.flush_failed |= self.signal.flush_failed();
        if self.flush_failed {
            return Err(flush_error().into());
        }
        let tx = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let committed = apply_all(&*tx, batch).and_then(|newest_notice| {
            tx.commit()?;
            Ok(newest_notice)
        });
        match &committed {
            Ok(_) => self.signal.committed(batch.len()),
            Err(Error::Sqlite(error)) if is_flush_error(error) => {
                self.flush_failed = true;
                tracing::error!(%error, "a flush failed: nothing more is accepted until the process is started again");
            }
            Err(_) => {}
        }
        committed
    }
}

const FLUSH_CODES: [i32; 2] = [rusqlite::ffi::SQLITE_IOERR_FSYNC, rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC];

fn flush_error() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
    rusqlite::Error::SqliteFailure(code, Some("an earlier flush failed".to_owned()))
}

pub(super) fn is_flush_error(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| FLUSH_CODES.contains(&error.extended_code))
}

//! The embedded store: one file, one writer that commits in batches, a few connections that only read.

mod backup;
mod checkpointer;
mod migrations;
mod node;
pub(super) mod open;
mod probe;
mod readers;
mod shared_file;
mod sql;
mod usage;
mod writer;

pub use super::sql::{CommitResult, QueueLimits};
pub use backup::{BackupContents, BackupError, back_up, restore};
pub use node::{SimCommitLoop, SimNode};
pub use open::SqliteOpenError;
pub use probe::{StoreInfo, encrypted_values, probe, process_using};
pub use shared_file::{LinkFault, SharedFile, StoreClock, StoreLink};
pub use writer::SqliteCommitLoop;

use super::{
    CommitObservers, Reply, Store,
    sql::{Backend, CommandQueue, ReaderPool, Result, Sql, WriterThread},
};
use crate::domain::storage::StorageUsage;
use checkpointer::{CheckpointSignal, Checkpointer};
use rusqlite::Connection;
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Implements the store traits on one file.
pub struct SqliteStore {
    queue: Arc<CommandQueue>,
    /// `None` in memory, where there is only the writer's connection.
    readers: Option<ReaderPool<Connection>>,
    /// The engine's own connections, so that it never waits behind people's lists.
    engine_readers: Option<ReaderPool<Connection>>,
    thread: WriterThread,
    checkpointer: Mutex<Option<Checkpointer>>,
    /// `None` in memory.
    path: Option<PathBuf>,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens or creates the file and starts its writer. Refuses a file that another process uses, that belongs to another
    /// program, or that a newer version wrote, without touching it.
    pub fn open(
        path: &Path,
        observers: CommitObservers,
        limits: QueueLimits,
        window: Duration,
    ) -> Result<Self, SqliteOpenError> {
        let opened = open::open(path)?;
        let bell: Arc<CheckpointSignal> = Arc::default();
        let io = |error| SqliteOpenError::Io { path: path.to_owned(), error };
        let checkpointer = Checkpointer::start(path, bell.clone()).map_err(io)?;
        let write = move |queue| SqliteCommitLoop::new(opened.connection, queue, observers, bell).run(window);
        let (queue, thread) = WriterThread::start(limits, write).map_err(io)?;
        Ok(Self {
            queue,
            readers: Some(readers::on_file(path)),
            engine_readers: Some(readers::on_file(path)),
            thread,
            checkpointer: Mutex::new(Some(checkpointer)),
            path: Some(path.to_owned()),
            _lock: Some(opened.lock),
        })
    }

    /// Opens a store for the simulation and quick tests: the caller drives the writer, `wake` is called when a command waits.
    pub fn in_memory(
        connection: Option<Connection>,
        observers: CommitObservers,
        limits: QueueLimits,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> rusqlite::Result<(Self, SqliteCommitLoop)> {
        let connection = connection.map_or_else(open::open_in_memory, Ok)?;
        let queue = Arc::new(CommandQueue::new(limits, wake));
        let writer = SqliteCommitLoop::new(connection, queue.clone(), observers, Arc::default());
        let store = Self {
            queue,
            readers: None,
            engine_readers: None,
            thread: WriterThread::none(),
            checkpointer: Mutex::new(None),
            path: None,
            _lock: None,
        };
        Ok((store, writer))
    }

    fn read_by<T: Send + 'static>(
        &self,
        readers: Option<&ReaderPool<Connection>>,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        match readers {
            Some(readers) => readers.read(run),
            None => self.write(run),
        }
    }
}

impl Store for SqliteStore {
    fn close(&self) {
        self.queue.close();
        let checkpointer = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(checkpointer) = checkpointer {
            checkpointer.close();
        }
        self.thread.join();
    }
}

impl Backend for SqliteStore {
    fn commands(&self) -> &CommandQueue {
        &self.queue
    }

    fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.read_by(self.readers.as_ref(), run)
    }

    fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.read_by(self.engine_readers.as_ref(), run)
    }

    fn measure(&self) -> Reply<'_, StorageUsage> {
        let path = self.path.clone();
        self.read_for_engine(move |connection| usage::usage(connection, path.as_deref()))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

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
    backend::{Backend, ReadJob, Readers},
    sql::{Command, CommandQueue, ReaderPool, Result, WriterThread},
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

/// Backend on one file.
struct SqliteBackend {
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

/// Opens or creates the file and starts its writer. Refuses a file that another process uses, that belongs to another program, or
/// that a newer version wrote, without touching it.
pub fn open(
    path: &Path,
    observers: CommitObservers,
    limits: QueueLimits,
    window: Duration,
) -> Result<Store, SqliteOpenError> {
    let opened = open::open(path)?;
    let signal: Arc<CheckpointSignal> = Arc::default();
    let io = |error| SqliteOpenError::Io { path: path.to_owned(), error };
    let checkpointer = Checkpointer::start(path, signal.clone()).map_err(io)?;
    let write = move |queue| {
        SqliteCommitLoop::new(opened.connection, queue, observers, signal).run(window);
    };
    let (queue, thread) = WriterThread::start(limits, write).map_err(io)?;
    let backend = SqliteBackend {
        queue,
        readers: Some(readers::on_file(path)),
        engine_readers: Some(readers::on_file(path)),
        thread,
        checkpointer: Mutex::new(Some(checkpointer)),
        path: Some(path.to_owned()),
        _lock: Some(opened.lock),
    };
    Ok(Store::new(Arc::new(backend)))
}

/// Opens a store for the simulation and quick tests: the caller drives the writer, `wake` is called when a command waits.
pub fn in_memory(
    connection: Option<Connection>,
    observers: CommitObservers,
    limits: QueueLimits,
    wake: Box<dyn Fn() + Send + Sync>,
) -> rusqlite::Result<(Store, SqliteCommitLoop)> {
    let connection = connection.map_or_else(open::open_in_memory, Ok)?;
    let queue = Arc::new(CommandQueue::new(limits, wake));
    let writer = SqliteCommitLoop::new(connection, queue.clone(), observers, Arc::default());
    let backend = SqliteBackend {
        queue,
        readers: None,
        engine_readers: None,
        thread: WriterThread::none(),
        checkpointer: Mutex::new(None),
        path: None,
        _lock: None,
    };
    Ok((Store::new(Arc::new(backend)), writer))
}

impl Backend for SqliteBackend {
    fn submit(&self, command: Box<dyn Command>) {
        self.queue.push(command);
    }

    fn submit_accept(&self, command: Box<dyn Command>, events: usize, bytes: usize) {
        self.queue.push_accept(command, events, bytes);
    }

    fn run_read(&self, readers: Readers, job: ReadJob) -> Reply<()> {
        let pool = match readers {
            Readers::Api => &self.readers,
            Readers::Engine => &self.engine_readers,
        };
        match pool {
            Some(pool) => pool.read(job),
            None => (self as &dyn Backend).write(job),
        }
    }

    fn measure(&self) -> Reply<StorageUsage> {
        let path = self.path.clone();
        let backend: &dyn Backend = self;
        backend.read_for_engine(move |connection| usage::usage(connection, path.as_deref()))
    }
    fn close(&self) {
        self.queue.close();
        let checkpointer = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(checkpointer) = checkpointer {
            checkpointer.close();
        }
        self.thread.join();
    }
}

impl Drop for SqliteBackend {
    fn drop(&mut self) {
        self.close();
    }
}

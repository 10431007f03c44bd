//! The embedded store: one file, one writer that commits in batches, a few connections that only read.

mod attempts;
mod audit;
mod backup;
mod browse;
mod checkpointer;
mod cluster;
mod commands;
mod dedup;
mod deliveries;
mod event_types;
mod health;
mod inspections;
mod ledger;
mod look;
mod notices;
mod open;
mod order;
mod outbox;
mod readers;
mod recent;
mod refill;
mod registry;
mod replays;
mod retention;
mod rollup;
mod row;
mod seams;
mod statistics;
mod traffic;
mod upgrade;
mod upkeep;
mod work;
mod writer;

pub use backup::{BackupError, Inventory, back_up, restore};
pub use look::{Look, look, sealed_in, user_of};
pub use open::OpenError;
pub use writer::{QueueLimits, Turn, Writer};

use super::{CommitWatch, Reply};
use crate::domain::port::Handover;
use checkpointer::{Bell, Checkpointer};
use readers::Readers;
use rusqlite::Connection;
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::JoinHandle,
    time::Duration,
};
use work::{Aftermath, Call};
use writer::Queue;

/// Implements the four seams on one file.
pub struct SqliteStore {
    queue: Arc<Queue>,
    readers: Readers,
    /// The engine's own, so that it never waits behind people's lists.
    engine_readers: Readers,
    thread: Mutex<Option<JoinHandle<()>>>,
    checkpointer: Mutex<Option<Checkpointer>>,
    /// `None` in memory.
    path: Option<PathBuf>,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens or creates the file and starts its writer. Refuses a file that another process uses, that is not ours, or that
    /// a newer version wrote, without touching it.
    pub fn open(
        path: &Path,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
        window: Duration,
    ) -> Result<Self, OpenError> {
        let opened = open::open(path)?;
        let thread: Arc<OnceLock<std::thread::Thread>> = Arc::default();
        let wake = {
            let thread = thread.clone();
            Box::new(move || {
                if let Some(thread) = thread.get() {
                    thread.unpark();
                }
            })
        };
        let queue = Arc::new(Queue::new(limits, wake));
        let bell: Arc<Bell> = Arc::default();
        let io = |error| OpenError::Io { path: path.to_owned(), error };
        let checkpointer = Checkpointer::start(path, bell.clone()).map_err(io)?;
        let writer = Writer::new(opened.connection, queue.clone(), handover, watch, bell);
        let started = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run(window))
            .map_err(io)?;
        let _ = thread.set(started.thread().clone());
        // Whatever was pushed before the thread was known rang nobody.
        started.thread().unpark();
        Ok(Self {
            queue,
            readers: Readers::on_file(path),
            engine_readers: Readers::on_file(path),
            thread: Mutex::new(Some(started)),
            checkpointer: Mutex::new(Some(checkpointer)),
            path: Some(path.to_owned()),
            _lock: Some(opened.lock),
        })
    }

    /// For the simulation and quick tests: the caller drives the writer, `wake` is called when something waits for it.
    pub fn in_memory(
        connection: Option<Connection>,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> rusqlite::Result<(Self, Writer)> {
        let connection = connection.map_or_else(open::open_in_memory, Ok)?;
        let queue = Arc::new(Queue::new(limits, wake));
        let writer = Writer::new(connection, queue.clone(), handover, watch, Arc::default());
        let store = Self {
            queue,
            readers: Readers::through_the_writer(),
            engine_readers: Readers::through_the_writer(),
            thread: Mutex::new(None),
            checkpointer: Mutex::new(None),
            path: None,
            _lock: None,
        };
        Ok((store, writer))
    }

    /// Takes nothing more, writes what was taken, closes the file. Blocks until that is done.
    pub fn close(&self) {
        self.queue.close();
        let checkpointer = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(checkpointer) = checkpointer {
            checkpointer.close();
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the writer ended with a panic");
        }
    }

    /// Runs a function in the writer's next batch.
    fn call<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.call_then(run, |_, _| ())
    }

    fn call_then<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        after: impl FnOnce(&T, &mut Aftermath) + Send + 'static,
    ) -> Reply<'static, T> {
        let (work, reply) = Call::prepare(run, after);
        self.queue.push(work);
        reply
    }

    /// Runs a function that only reads, beside the writer where there is a file.
    fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.read_by(&self.readers, run)
    }

    fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.read_by(&self.engine_readers, run)
    }

    fn read_by<T: Send + 'static>(
        &self,
        readers: &Readers,
        run: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        match readers.file() {
            Some(readers) => readers.read(run),
            None => self.call(run),
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

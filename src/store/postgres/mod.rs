//! The store on a PostgreSQL server: one writer that commits in batches, a few connections that only read. Everything is in the
//! schema `posthaste` of the database.

mod cluster;
mod deliveries;
mod open;
mod readers;
mod session;
mod sql;
mod usage;
mod value;
mod writer;

pub use super::sql::QueueLimits;
pub use open::OpenError;

use super::{
    CommitWatch, Reply,
    sql::{Desk, Queue, Readers, Result, Sql, Turns, WriterThread},
};
use crate::domain::{port::Handover, storage::StorageUsage};
use session::Session;
use std::{
    sync::{Arc, mpsc},
    time::Duration,
};
use writer::Writer;

/// Implements the four seams on one database.
pub struct PostgresStore {
    queue: Arc<Queue>,
    readers: Readers<Session>,
    /// The engine's own, so that it never waits behind people's lists.
    engine_readers: Readers<Session>,
    thread: WriterThread,
}

impl PostgresStore {
    /// Connects, brings the schema up to date and starts the writer. Refuses a database that another process uses, that could
    /// lose what it confirmed, or that a newer version prepared, without touching it.
    pub fn open(
        url: &str,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
        window: Duration,
    ) -> Result<Self, OpenError> {
        let config = Arc::new(open::config(url)?);
        let (opened, is_open) = mpsc::channel();
        // All that waits for the server does so on the writer's thread: whoever opens a store may be driving futures.
        let to_write = config.clone();
        let write = move |queue: Arc<Queue>| match open::open(&to_write) {
            Ok((session, epoch)) => {
                let writer = Writer::new(to_write, session, epoch, queue.clone());
                let _ = opened.send(Ok(()));
                Turns::new(writer, queue, handover, watch).run(window);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        };
        let not_prepared = |why: String| OpenError::NotPrepared(why);
        let (queue, thread) =
            WriterThread::start(limits, write).map_err(|error| not_prepared(error.to_string()))?;
        is_open.recv().unwrap_or_else(|_| Err(not_prepared("its writer ended".to_owned())))?;
        let (readers, engine_readers) = (readers::on(&config), readers::on(&config));
        Ok(Self { queue, readers, engine_readers, thread })
    }

    /// Takes nothing more, writes what was taken, and lets another process take over. Blocks until that is done.
    pub fn close(&self) {
        self.queue.close();
        self.thread.join();
    }
}

impl Desk for PostgresStore {
    fn commands(&self) -> &Queue {
        &self.queue
    }

    fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.readers.read(run)
    }

    fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.engine_readers.read(run)
    }

    fn measure(&self) -> Reply<'_, StorageUsage> {
        self.read_for_engine(usage::usage)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}

//! The store on a PostgreSQL server: one writer that commits in batches, a few connections that only read. Everything is in the
//! schema `posthaste` of the database.

mod address;
mod cluster;
mod deliveries;
mod heart;
mod open;
mod readers;
mod session;
mod sql;
mod tls;
mod usage;
mod value;
mod writer;

pub use super::sql::QueueLimits;
pub use address::Address;
pub use open::OpenError;

use super::{
    CommitWatch, Reply, Store,
    sql::{Desk, Queue, Readers, Result, Sql, Turns, WriterThread},
};
use crate::domain::{port::Handover, storage::StorageUsage};
use heart::{Heart, Pulse};
use session::{Server, Session};
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
    pulse: Arc<Pulse>,
    heart: Heart,
}

/// How far a database is prepared, out of how many steps that this version knows, without changing it.
pub fn look(address: &Address) -> Result<(i64, i64), OpenError> {
    open::look(&Server::at(address)?)
}

impl PostgresStore {
    /// Connects, brings the schema up to date and starts the writer. Waits for a server that is away, and for the lease of a
    /// process that died. Refuses a database that another process uses, that could lose what it confirmed, or that a newer
    /// version prepared, without touching it. Blocks until all of that is done.
    pub fn open(
        address: &Address,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
        window: Duration,
    ) -> Result<Self, OpenError> {
        let server = Arc::new(Server::at(address)?);
        let pulse = Arc::new(Pulse::new(watch.clone()));
        let (opened, is_open) = mpsc::channel();
        // All that waits for the server does so on the writer's thread: whoever opens a store may be driving futures.
        let (to_write, pulse_of_writer) = (server.clone(), pulse.clone());
        let write = move |queue: Arc<Queue>| match open::open(&to_write) {
            Ok((session, epoch)) => {
                let writer = Writer::new(to_write, session, epoch, queue.clone(), pulse_of_writer);
                let _ = opened.send(Ok(epoch));
                Turns::new(writer, queue, handover, watch).run(window);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        };
        let not_prepared = |why: String| OpenError::NotPrepared(why);
        let (queue, thread) =
            WriterThread::start(limits, write).map_err(|error| not_prepared(error.to_string()))?;
        let epoch = is_open.recv().unwrap_or_else(|_| Err(not_prepared("its writer ended".to_owned())))?;
        let (readers, engine_readers) = (readers::on(&server), readers::on(&server));
        let heart = Heart::start(server, epoch, pulse.clone());
        let heart = heart.map_err(|error| not_prepared(error.to_string()))?;
        Ok(Self { queue, readers, engine_readers, thread, pulse, heart })
    }
}

impl Store for PostgresStore {
    fn close(&self) {
        self.queue.close();
        // Its lease outlasts what is left to write.
        self.heart.stop();
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

    fn can_record(&self) -> bool {
        self.pulse.can_record()
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

//! Storage backend of a `Store`: takes commands for its writer's batches, runs reads, and knows the other nodes.

pub use super::sql::{BulkOp, Command, Result, Sql};

use super::{
    Reply, StoreError,
    cluster::{ClusterView, Heartbeat, Joined},
    inbox::InboxEvent,
    sql::{CommitEffects, FnCommand},
};
use crate::domain::{storage::StorageUsage, time::Timestamp};
use std::sync::{Arc, Mutex, PoisonError};

/// A function that only reads. It may run again after a connection broke; the last run counts.
pub type ReadJob = Box<dyn FnMut(&dyn Sql) -> Result<()> + Send>;

/// A query that reads the inbox.
pub type InboxQuery = fn(&dyn Sql) -> Result<Vec<InboxEvent>>;

/// The connections that a read uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// For people's queries.
    Api,
    /// For the engine, which never waits behind people's lists.
    Engine,
}

pub trait Backend: Send + Sync {
    /// Queues a command for the writer's next batch. Never refused because the queue is full, as permits and callers bound
    /// such commands.
    fn submit(&self, command: Box<dyn Command>);

    /// Queues a command behind those accepted before it; commands of `submit` overtake it. Refused with `Overloaded` if so
    /// many events and bytes do not fit into the queue.
    fn submit_accept(&self, command: Box<dyn Command>, events: usize, bytes: usize);

    /// Runs a read, beside the writer where that is possible.
    fn run_read(&self, readers: Readers, job: ReadJob) -> Reply<()>;

    /// Membership of this node in a cluster; `None` where there can be only one node.
    fn membership(&self) -> Option<&dyn MembershipBackend> {
        None
    }

    /// The query that reads the inbox; `None` where there is none.
    fn inbox_query(&self) -> Option<InboxQuery> {
        None
    }

    /// Answer of `Store::can_record`.
    fn can_record(&self) -> bool {
        true
    }

    /// Measures how much space the store takes and has left.
    fn measure(&self) -> Reply<StorageUsage>;

    /// Stops taking commands, writes those already taken, and lets another process take over. Blocks until that is done.
    fn close(&self);
}

/// The part of a backend that differs where several nodes share it. Promises are documented at the methods of `Store`.
pub trait MembershipBackend: Send + Sync {
    fn join(&self, now: Timestamp) -> Reply<Joined>;

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<Option<ClusterView>>;

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<Option<usize>>;

    fn nodes(&self) -> Reply<ClusterView>;

    /// Maintains the tables: makes partitions ahead, and moves rows out of nearly empty ones. Whatever conflicts with other
    /// transactions is left for the next time.
    fn maintain(&self) -> Reply<()> {
        Box::pin(async { Ok(()) })
    }

    /// The epoch under which this process leases deliveries now.
    fn epoch(&self) -> i64;
}

impl dyn Backend + '_ {
    /// Runs a function in the writer's next batch.
    pub(super) fn write<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        self.write_then(run, |_, _| ())
    }

    /// Runs a function in the writer's next batch, and `after` adds the effects of its result once that is durable.
    pub(super) fn write_then<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
        after: impl FnOnce(&T, &mut CommitEffects) + Send + 'static,
    ) -> Reply<T> {
        let (command, answer) = FnCommand::prepare(run, after);
        self.submit(command);
        answer
    }

    /// Runs a read for people.
    pub(super) fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        self.read_by(Readers::Api, run)
    }

    /// Runs a read for the engine.
    pub(super) fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        self.read_by(Readers::Engine, run)
    }

    fn read_by<T: Send + 'static>(
        &self,
        readers: Readers,
        mut run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let found = Arc::new(Mutex::new(None));
        let kept = found.clone();
        let job: ReadJob = Box::new(move |connection| {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(run(connection)?);
            Ok(())
        });
        let done = self.run_read(readers, job);
        Box::pin(async move {
            done.await?;
            found.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or(StoreError::Closed)
        })
    }
}

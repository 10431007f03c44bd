//! Store: everything that is read from a database or written to it.
//!
//! Each method of `Store` is one transaction and stands once, in the file of its subject: its promise, its refusals and its
//! body. No transaction handle crosses it, and `now` arrives as an argument. SQL shared by the backends is in `sql`; each
//! backend has a folder of its own.

pub mod audit;
pub mod backend;
#[cfg(test)]
mod closed;
pub mod cluster;
pub mod config;
pub mod deliveries;
pub mod documents;
pub mod fan_out;
pub mod health;
pub mod inbox;
mod inspections;
pub mod notices;
pub mod postgres;
pub mod queries;
pub mod replays;
pub mod retention;
mod sql;
pub mod sqlite;
pub mod statistics;

use crate::domain::{live_update::UpdateSink, ports::CommitListener};
use backend::Backend;
use std::{future::Future, pin::Pin, sync::Arc};

/// Answer of a store method; a change is durable by then.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Error of a store call. None of them means that it was done in part.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The queue is full; the command was not taken.
    #[error("the store's queue is full")]
    Overloaded,
    /// The disk or the database cannot take writes at the moment; nothing was stored. Only if the database went away at the
    /// very end of a commit, it may have been: a retry under the same id finds out.
    #[error("the store cannot write: {0}")]
    Unavailable(String),
    /// Stopping: no more commands are taken.
    #[error("the store is closed")]
    Closed,
    /// A row holds an impossible value; names the row.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
}

/// The store of this node. Clones share it, and it closes with the last of them.
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
}

impl Store {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Stops taking commands, writes those already taken, and lets another process take over. Blocks until that is done.
    pub fn close(&self) {
        self.backend.close();
    }
}

/// Observers of commits: the engine, live updates and the metrics.
#[derive(Clone)]
pub struct CommitObservers {
    pub engine: Arc<dyn CommitListener>,
    /// Subscribers of live updates. Without any, a commit costs one atomic load more.
    pub live_updates: Arc<dyn UpdateSink>,
    pub watch: Arc<dyn CommitWatch>,
}

/// Observes each commit, for the metrics.
pub trait CommitWatch: Send + Sync {
    /// Returns a monotonic reading in microseconds, which also advances while the machine sleeps, because leases do. The
    /// reading at the start of a commit is passed to `committed`.
    fn started(&self) -> u64;
    fn committed(&self, started: u64, commands: usize);
}

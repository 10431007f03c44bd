//! Store: four traits, and the SQL behind them.
//!
//! Each method is one transaction. No transaction handle, SQL type or backend name crosses the traits, and `now` arrives as
//! an argument. Code shared by the backends is in `sql`; each backend has a folder of its own.

pub mod audit;
pub mod cluster;
pub mod config;
pub mod deliveries;
pub mod documents;
pub mod inbox;
pub mod live_updates;
pub mod notices;
pub mod postgres;
pub mod queries;
pub mod replays;
pub mod retention;
mod sql;
pub mod sqlite;
pub mod statistics;

pub use cluster::ClusterStore;
pub use config::ConfigStore;
pub use deliveries::DeliveryStore;
pub use queries::QueryStore;

use std::{future::Future, pin::Pin};

/// Answer of a store method; a change is durable by then.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

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

/// All four traits together.
pub trait Store: DeliveryStore + ConfigStore + QueryStore + ClusterStore {
    /// Stops taking commands, writes those already taken, and lets another process take over. Blocks until that is done.
    fn close(&self);
}

/// Observes each commit, for the metrics.
pub trait CommitWatch: Send + Sync {
    /// Returns a monotonic reading in microseconds, which also advances while the machine sleeps, because leases do. The
    /// reading at the start of a commit is passed to `committed`.
    fn started(&self) -> u64;
    fn committed(&self, started: u64, commands: usize);
}

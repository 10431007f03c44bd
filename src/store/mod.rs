//! The only room with SQL, behind four seams: ledger, registry, browse, cluster.
//!
//! Each method is one transaction. No transaction handle, SQL type or backend name crosses a seam, and `now` arrives
//! as an argument. What every backend says alike is in `sql`; what differs has a folder of its own.

pub mod audit;
pub mod births;
pub mod browse;
pub mod cluster;
pub mod inbox;
pub mod ledger;
pub mod notices;
pub mod postgres;
pub mod registry;
pub mod replays;
pub mod retention;
mod sql;
pub mod sqlite;
pub mod statistics;
pub mod told;

pub use browse::Browse;
pub use cluster::Cluster;
pub use ledger::Ledger;
pub use registry::Registry;

use std::{future::Future, pin::Pin};

/// What a seam answers, once it is durable where it changes something.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Why the store could not do it. None of these says that it was done in part.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Too much waits already; nothing was taken.
    #[error("the store's queue is full")]
    Overloaded,
    /// The disk or the database cannot take writes at the moment; nothing was taken. Only if the database went away at the very
    /// end of its work, it may have been: whoever asks again under the same id finds out.
    #[error("the store cannot write: {0}")]
    Unavailable(String),
    /// Stopping: nothing more is taken.
    #[error("the store is closed")]
    Closed,
    /// A row says something that cannot be; names the row.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
}

/// All four seams on one place.
pub trait Store: Ledger + Registry + Browse + Cluster {
    /// Takes nothing more, writes what was taken, and lets another process take over. Blocks until that is done.
    fn close(&self);
}

/// Told about each commit, for the metrics.
pub trait CommitWatch: Send + Sync {
    /// What it shows now, in microseconds: it only ever runs on, also while the machine sleeps, because leases do. Whatever it was
    /// at the start of a commit is handed to `committed`.
    fn started(&self) -> u64;
    fn committed(&self, started: u64, commands: usize);
}

//! The state of a node, and everything that depends on the machine: clock, randomness, shutdown signal and threads.
//!
//! All other code takes these as arguments, so that a test can control them.

mod cached_key;
mod clock;
mod config_cache;
mod entropy;
mod id_generator;
mod metrics;
mod node_lease;
mod outage_detector;
mod own_thread;
mod shutdown;
mod storage_space;
mod subscriber_index;

pub use cached_key::CachedKey;
pub use clock::{Clock, Sleep, SystemClock, VirtualClock};
pub use config_cache::{CachedApp, ConfigCache};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use id_generator::IdGenerator;
pub use metrics::{Histogram, MailResult, Metrics, RemovedKind};
pub use node_lease::{LeaderGuard, NodeLease, ShardOwnership};
pub use outage_detector::OutageDetector;
pub use own_thread::run_on_own_thread;
pub use shutdown::{Shutdown, ShutdownHandle};
pub use storage_space::StorageSpace;
pub use subscriber_index::SubscriberIndex;

//! Membership: the part of a backend that differs where several nodes share it.

use crate::{
    domain::time::Timestamp,
    store::{
        Reply,
        cluster::{ClusterView, Heartbeat, Joined},
    },
};

/// Promises are documented at the trait `ClusterStore`.
pub(in crate::store) trait MembershipBackend: Send + Sync {
    fn join(&self, now: Timestamp) -> Reply<'static, Joined>;

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<'static, Option<ClusterView>>;

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'static, Option<usize>>;

    fn nodes(&self) -> Reply<'static, ClusterView>;

    /// Maintains the tables: makes partitions ahead, and moves rows out of nearly empty ones. Whatever conflicts with other
    /// transactions is left for the next time.
    fn maintain(&self) -> Reply<'static, ()> {
        Box::pin(async { Ok(()) })
    }

    /// The epoch under which this process leases deliveries now.
    fn epoch(&self) -> i64;
}

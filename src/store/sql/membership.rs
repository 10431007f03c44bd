//! What a store does in its own way where several nodes share it.

use crate::{
    domain::time::Timestamp,
    store::{
        Reply,
        cluster::{Beat, Joined, View},
    },
};

/// What is promised here is said at the seam, `store/cluster.rs`.
pub(in crate::store) trait Membership: Send + Sync {
    fn join(&self, now: Timestamp) -> Reply<'static, Joined>;

    fn beat(&self, beat: Beat) -> Reply<'static, Option<View>>;

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'static, Option<usize>>;

    fn nodes(&self) -> Reply<'static, View>;

    /// Keeps the tables in order: makes room ahead for what is to come, and gives back what little is left in. What meets others is left
    /// for the next time.
    fn tend(&self) -> Reply<'static, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Under which this process carries at this moment.
    fn epoch(&self) -> i64;
}

//! Storage backend: runs reads and writes for the store traits. A type that implements it implements all four.

use super::{CommandQueue, CommitEffects, MembershipBackend, Result, Sql, command::FnCommand};
use crate::{
    domain::storage::StorageUsage,
    store::{Reply, inbox::InboxEvent},
};

pub(in crate::store) trait Backend: Send + Sync {
    /// Commands that wait for the writer's next batch.
    fn commands(&self) -> &CommandQueue;

    /// Runs a function that only reads, beside the writer where that is possible.
    fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T>;

    /// Runs a read for the engine, which never waits behind people's lists.
    fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T>;

    /// Membership of this node in a cluster; `None` where there can be only one node.
    fn membership(&self) -> Option<&dyn MembershipBackend> {
        None
    }

    /// Reads the inbox; `None` where there is none.
    fn inbox_page(&self) -> Option<Reply<'static, Vec<InboxEvent>>> {
        None
    }

    /// Answer of `DeliveryStore::can_record`.
    fn can_record(&self) -> bool {
        true
    }

    /// Measures how much space the store takes and has left.
    fn measure(&self) -> Reply<'_, StorageUsage>;

    /// Runs a function in the writer's next batch.
    fn write<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.write_then(run, |_, _| ())
    }

    fn write_then<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
        after: impl FnOnce(&T, &mut CommitEffects) + Send + 'static,
    ) -> Reply<'static, T> {
        let (work, reply) = FnCommand::prepare(run, after);
        self.commands().push(work);
        reply
    }
}

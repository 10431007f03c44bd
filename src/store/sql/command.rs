//! Command of a batch, and the effects of a batch after its commit.

use super::{BulkOp, Result, Sql};
use crate::{
    domain::{
        endpoint::Disabled,
        event::DedupKey,
        id::{AppId, EndpointId},
        live_update::LiveUpdate,
        ports::LeasedDelivery,
        statistics::StatBatch,
        time::Timestamp,
    },
    store::{CommitObservers, Reply, StoreError},
};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// A command waiting for its batch. `apply` runs inside the transaction and may run again after a rollback, so it must not
/// consume anything; `committed` and `failed` do.
pub trait Command: Send {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()>;

    /// Whether all that it reads to change has a lock of its own, so that it runs beside commands of other nodes.
    fn takes_row_locks(&self) -> bool {
        false
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Other
    }

    /// Dedup keys of what it publishes: of two commands with the same key the first is stored.
    fn keys(&self) -> Vec<DedupKey> {
        Vec::new()
    }

    /// Its form for a backend that writes many commands at once. The bulk write must write what `apply` would have written.
    fn bulk_op(&mut self) -> BulkOp<'_> {
        BulkOp::NotBulk
    }

    /// Adds the locks that it will take, as far as it knows.
    fn locks(&self, _locks: &mut Locks) {}

    /// Adds its events and attempts to the statistics; called after all commands of the batch were applied.
    fn add_statistics(&self, _sums: &mut StatBatch) {}

    /// Whether the transaction is durable is not known, and will not be soon: a waiting caller gets the error now.
    /// `committed` or `failed` follows all the same.
    fn in_doubt(&mut self, _error: &StoreError) {}

    /// Called once the transaction is durable.
    fn committed(self: Box<Self>, after: &mut CommitEffects);

    /// Called if no part of it was stored. Returns itself to be tried again, or answers with the error.
    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>>;
}

/// Kind of a command: which commands may overtake it in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Does not depend on results recorded before.
    Accept,
    /// Depends on results recorded before at the same endpoint.
    Success(EndpointId),
    /// Depends on them as well; it has to read and to decide, several times, which takes long where the database is far away.
    Failure(EndpointId),
    /// Needs the lock of an endpoint's queue, which another node may hold.
    NeedsQueueLock,
    Other,
}

/// Locks of a batch. All are taken at the start and in one order, so that batches of two nodes cannot deadlock; a lock that a
/// command needs unexpectedly is taken then.
#[derive(Default)]
pub struct Locks {
    pub(in crate::store) queues: BTreeSet<EndpointId>,
    pub(in crate::store) health: BTreeSet<EndpointId>,
    /// Health locks that are taken only if the endpoint is not healthy.
    pub(in crate::store) health_if_unhealthy: BTreeSet<EndpointId>,
    pub(in crate::store) digests: BTreeSet<AppId>,
}

impl Locks {
    /// Whether only `health_if_unhealthy` has locks: if all endpoints are healthy, none is taken.
    pub(in crate::store) fn is_conditional(&self) -> bool {
        self.queues.is_empty() && self.health.is_empty() && self.digests.is_empty()
    }
}

/// Effects of a batch, passed on once it is durable.
#[derive(Default)]
pub struct CommitEffects {
    pub(in crate::store) leased: Vec<LeasedDelivery>,
    pub(in crate::store) waiting: Vec<(EndpointId, Timestamp)>,
    /// Waiting as well, and requested manually.
    pub(in crate::store) manual: Vec<(EndpointId, Timestamp)>,
    pub(in crate::store) disabled: Vec<(EndpointId, Disabled, u32)>,
    pub(in crate::store) inspections_wait: bool,
    pub(in crate::store) notices_wait: bool,
    /// For other nodes only: the caller on this node notifies its own engine.
    pub(in crate::store) replays_wait: bool,
    /// `None` where there are no subscribers: then none is made.
    live_updates: Option<Vec<LiveUpdate>>,
}

impl CommitEffects {
    pub(super) fn new(has_subscribers: bool) -> Self {
        Self { live_updates: has_subscribers.then(Vec::new), ..Self::default() }
    }
    /// Effects of a takeover: endpoint queues in which something waits now.
    pub(in crate::store) fn of_takeover(waiting: impl IntoIterator<Item = (EndpointId, Timestamp)>) -> Self {
        Self { waiting: waiting.into_iter().collect(), ..Self::default() }
    }

    /// Adds live updates for the subscribers.
    pub(in crate::store) fn publish(&mut self, updates: impl IntoIterator<Item = LiveUpdate>) {
        if let Some(live_updates) = &mut self.live_updates {
            live_updates.extend(updates);
        }
    }

    /// Notifies the engine, and then the subscribers of live updates: a client that reads an endpoint again because of one sees
    /// it as the engine does.
    pub(in crate::store) fn notify(mut self, observers: &CommitObservers) {
        if let Some(live_updates) = &mut self.live_updates {
            live_updates.extend(self.leased.iter().map(|leased| LiveUpdate::delivery(&leased.delivery)));
        }
        let engine = &observers.engine;
        for (endpoint, off, revision) in self.disabled {
            engine.endpoint_disabled(endpoint, off, revision);
        }
        for (endpoint, due) in self.waiting {
            engine.delivery_waiting(endpoint, due);
        }
        for (endpoint, due) in self.manual {
            engine.manual_waiting(endpoint, due);
        }
        if !self.leased.is_empty() {
            engine.deliveries_leased(self.leased);
        }
        if self.inspections_wait {
            engine.inspection_waiting();
        }
        if self.notices_wait {
            engine.notice_waiting();
        }
        for update in self.live_updates.into_iter().flatten() {
            observers.live_updates.publish(update);
        }
    }
}

/// A command that is only a function of the connection and an answer.
pub(in crate::store) struct FnCommand<T, F, A> {
    run: F,
    after: A,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F, A> FnCommand<T, F, A>
where
    T: Send + 'static,
    F: FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    A: FnOnce(&T, &mut CommitEffects) + Send + 'static,
{
    /// Makes the command, and the future of its answer.
    pub(in crate::store) fn prepare(run: F, after: A) -> (Box<dyn Command>, Reply<T>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { run, after, result: None, reply }), answered(answer))
    }
}

impl<T, F, A> Command for FnCommand<T, F, A>
where
    T: Send,
    F: FnMut(&dyn Sql) -> Result<T> + Send,
    A: FnOnce(&T, &mut CommitEffects) + Send,
{
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.result = Some((self.run)(tx)?);
        Ok(())
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        let Self { after: then, result, reply, .. } = *self;
        if let Some(result) = result {
            then(&result, after);
            // The caller may have gone away; the change is made all the same.
            let _ = reply.send(Ok(result));
        }
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        let _ = self.reply.send(Err(error.clone()));
        None
    }
}

/// Flush command: answered when every earlier command is done.
struct FlushCommand {
    reply: oneshot::Sender<Result<(), StoreError>>,
}

pub(in crate::store) fn flush_command() -> (Box<dyn Command>, Reply<()>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(FlushCommand { reply }), answered(answer))
}

impl Command for FlushCommand {
    fn apply(&mut self, _tx: &dyn Sql) -> Result<()> {
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn bulk_op(&mut self) -> BulkOp<'_> {
        BulkOp::Nothing
    }

    fn committed(self: Box<Self>, _after: &mut CommitEffects) {
        let _ = self.reply.send(Ok(()));
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        let _ = self.reply.send(Err(error.clone()));
        None
    }
}

/// The receiving end of an answer; a writer that went away answers `Closed`.
pub(in crate::store) fn answered<T: Send + 'static>(
    answer: oneshot::Receiver<Result<T, StoreError>>,
) -> Reply<T> {
    Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
}

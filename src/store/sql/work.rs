//! One command of a batch, and what a batch leaves to be told after its commit.

use super::{Hot, Result, Sql};
use crate::{
    domain::{
        endpoint::SwitchedOff,
        event::DedupKey,
        hint::Hint,
        id::{AppId, EndpointId},
        port::{Carried, Handover},
        statistics::Batch,
        time::Timestamp,
    },
    store::{Reply, StoreError},
};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// A command waiting for its batch. `apply` runs inside the transaction and may run again after a rollback, so it must
/// not use itself up; `committed` and `failed` do.
pub(in crate::store) trait Work: Send {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()>;

    /// Whatever it reads to change has a lock of its own, so that it runs beside commands of other nodes.
    fn is_hot(&self) -> bool {
        false
    }

    fn kind(&self) -> Kind {
        Kind::Other
    }

    /// By which what is published is known again: of two with the same one the first is stored.
    fn keys(&self) -> Vec<DedupKey> {
        Vec::new()
    }

    /// What it is to a store that writes many commands at once. Whatever it writes itself is what `apply` would have written.
    fn hot(&mut self) -> Hot<'_> {
        Hot::No
    }

    /// Which locks it is going to take, as far as it knows.
    fn locks(&self, _locks: &mut Locks) {}

    /// What the events and attempts that it wrote add to the statistics; asked after everything of the batch was applied.
    fn count(&self, _sums: &mut Batch) {}

    /// It is not known whether the transaction is durable, and will not be soon: whoever waits is told so now. One of the two
    /// below follows all the same.
    fn in_doubt(&mut self, _error: &StoreError) {}

    /// The transaction is durable.
    fn committed(self: Box<Self>, after: &mut Aftermath);

    /// Nothing of it was stored. Gives itself back to be tried again, or answers with the error.
    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Work>>;
}

/// What may overtake what in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Kind {
    /// Takes no notice of what was recorded before.
    Accept,
    /// Takes notice of what was recorded before at the same endpoint.
    Success(EndpointId),
    /// The same; it has to read and to decide, and that more than once, which takes long where the store is far away.
    Failure(EndpointId),
    /// Needs the lane of an endpoint for itself, which another node may have.
    InLine,
    Other,
}

/// What a batch is going to lock. All of it is locked at the start and in one order, so that two batches of two nodes do not
/// wait for each other; what a command finds out later it locks then.
#[derive(Default)]
pub(in crate::store) struct Locks {
    pub(in crate::store) lanes: BTreeSet<EndpointId>,
    pub(in crate::store) health: BTreeSet<EndpointId>,
    /// The same if it is not well.
    pub(in crate::store) health_if_unwell: BTreeSet<EndpointId>,
    pub(in crate::store) digests: BTreeSet<AppId>,
}

impl Locks {
    /// If all endpoints are well there are none.
    pub(in crate::store) fn are_for_the_unwell(&self) -> bool {
        self.lanes.is_empty() && self.health.is_empty() && self.digests.is_empty()
    }
}

/// What the engine is told once the batch is durable.
#[derive(Default)]
pub(in crate::store) struct Aftermath {
    pub(super) carried: Vec<Carried>,
    pub(in crate::store) waiting: Vec<(EndpointId, Timestamp)>,
    /// Waiting as well, and somebody asked for it.
    pub(in crate::store) asked: Vec<(EndpointId, Timestamp)>,
    pub(super) switched_off: Vec<(EndpointId, SwitchedOff, u32)>,
    pub(in crate::store) inspections_wait: bool,
    pub(in crate::store) notices_wait: bool,
    /// Only other nodes have to be told: whoever asks for it here tells the engine.
    pub(in crate::store) replays_wait: bool,
    /// What nobody else tells those who watch.
    pub(super) hints: Vec<Hint>,
}

impl Aftermath {
    /// Of a takeover: lanes in which something waits now.
    pub(in crate::store) fn of_lanes(waiting: impl IntoIterator<Item = (EndpointId, Timestamp)>) -> Self {
        Self { waiting: waiting.into_iter().collect(), ..Self::default() }
    }

    pub(in crate::store) fn tell(self, handover: &dyn Handover) {
        for (endpoint, off, revision) in self.switched_off {
            handover.switched_off(endpoint, off, revision);
        }
        for (endpoint, due) in self.waiting {
            handover.waiting(endpoint, due);
        }
        for (endpoint, due) in self.asked {
            handover.asked(endpoint, due);
        }
        if !self.carried.is_empty() {
            handover.carry(self.carried);
        }
        if self.inspections_wait {
            handover.inspections_wait();
        }
        if self.notices_wait {
            handover.notices_wait();
        }
        for hint in self.hints {
            handover.changed(hint);
        }
    }
}

/// Any command that is no more than a function of the connection and an answer.
pub(super) struct Call<T, F, A> {
    run: F,
    after: A,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F, A> Call<T, F, A>
where
    T: Send + 'static,
    F: FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    A: FnOnce(&T, &mut Aftermath) + Send + 'static,
{
    /// The work, and where its answer comes.
    pub(super) fn prepare(run: F, after: A) -> (Box<dyn Work>, Reply<'static, T>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { run, after, result: None, reply }), answered(answer))
    }
}

impl<T, F, A> Work for Call<T, F, A>
where
    T: Send,
    F: FnMut(&dyn Sql) -> Result<T> + Send,
    A: FnOnce(&T, &mut Aftermath) + Send,
{
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.result = Some((self.run)(tx)?);
        Ok(())
    }

    fn committed(self: Box<Self>, after: &mut Aftermath) {
        let Self { after: then, result, reply, .. } = *self;
        if let Some(result) = result {
            then(&result, after);
            // Whoever asked may have gone away; what was asked is done all the same.
            let _ = reply.send(Ok(result));
        }
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Work>> {
        let _ = self.reply.send(Err(error.clone()));
        None
    }
}

/// Answered when everything before it is done.
struct Nothing {
    reply: oneshot::Sender<Result<(), StoreError>>,
}

pub(super) fn nothing() -> (Box<dyn Work>, Reply<'static, ()>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Nothing { reply }), answered(answer))
}

impl Work for Nothing {
    fn apply(&mut self, _tx: &dyn Sql) -> Result<()> {
        Ok(())
    }

    fn is_hot(&self) -> bool {
        true
    }

    fn hot(&mut self) -> Hot<'_> {
        Hot::Nothing
    }

    fn committed(self: Box<Self>, _after: &mut Aftermath) {
        let _ = self.reply.send(Ok(()));
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Work>> {
        let _ = self.reply.send(Err(error.clone()));
        None
    }
}

/// The other end of an answer; a writer that went away answers `Closed`.
pub(in crate::store) fn answered<T: Send + 'static>(
    answer: oneshot::Receiver<Result<T, StoreError>>,
) -> Reply<'static, T> {
    Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
}

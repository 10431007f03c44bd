//! One command of a batch, and what a batch leaves to be told after its commit.

use super::{Result, Sql};
use crate::{
    domain::{
        endpoint::SwitchedOff,
        hint::Hint,
        id::EndpointId,
        port::{Carried, Handover},
        statistics::Batch,
        time::Timestamp,
    },
    store::{Reply, StoreError},
};
use tokio::sync::oneshot;

/// A command waiting for its batch. `apply` runs inside the transaction and may run again after a rollback, so it must
/// not use itself up; `committed` and `failed` do.
pub(in crate::store) trait Work: Send {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()>;

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

/// What the engine is told once the batch is durable.
#[derive(Default)]
pub(in crate::store) struct Aftermath {
    pub(super) carried: Vec<Carried>,
    pub(super) waiting: Vec<(EndpointId, Timestamp)>,
    /// Waiting as well, and somebody asked for it.
    pub(super) asked: Vec<(EndpointId, Timestamp)>,
    pub(super) switched_off: Vec<(EndpointId, SwitchedOff, u32)>,
    pub(super) inspections_wait: bool,
    pub(super) notices_wait: bool,
    /// What nobody else tells those who watch.
    pub(super) hints: Vec<Hint>,
}

impl Aftermath {
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

/// The other end of an answer; a writer that went away answers `Closed`.
pub(super) fn answered<T: Send + 'static>(
    answer: oneshot::Receiver<Result<T, StoreError>>,
) -> Reply<'static, T> {
    Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
}

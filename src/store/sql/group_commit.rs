//! Group commit loop, shared by both backends. Takes all queued commands, writes them in one transaction, then completes or
//! requeues them.
//!
//! Commands that arrive during a commit form the next batch, so a single event is committed at once. Attempt results are
//! written before new events.

use super::{Command, CommandQueue, CommitEffects, Error, Result, Sql, notices, rollup, store_error};
use crate::{
    domain::statistics::StatBatch,
    store::{CommitObservers, StoreError},
};
use std::{sync::Arc, time::Duration};

const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How often a closing store tries to write the rest, before it is left for the next start to take over.
pub(in crate::store) const TRIES_WHILE_CLOSING: usize = 10;

/// Result of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitResult {
    Committed(usize),
    /// No command was stored; those that must not be lost wait for the next commit.
    Failed,
    Nothing,
}

/// Reason that commands were not stored.
enum Failure {
    /// Caused by one command; others can be stored.
    Command,
    Store(StoreError),
}

/// Writes batches. Each backend implements it, SQLite also for several nodes on one file.
pub(in crate::store) trait BatchWriter {
    /// Writes a batch in one transaction and makes it durable; returns the id of the newest notice. After an error nothing of
    /// it is stored, unless that is `InDoubt`: then `stored` is called until it knows, before anything else is written.
    fn commit(&mut self, batch: &mut [Box<dyn Command>]) -> Result<i64>;

    /// Finds out whether the batch in doubt is stored: returns the newest notice if it is, `None` if it is not. After
    /// `Fenced` that can never be known.
    fn resolve_doubt(&mut self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Splits a batch into the transactions it is written in, one after the other.
    fn parts(&self, batch: Vec<Box<dyn Command>>) -> Vec<Vec<Box<dyn Command>>> {
        vec![batch]
    }

    /// Notifies other nodes of a durable batch, where they have to know of it.
    fn notify_peers(&mut self, _after: &CommitEffects) {}

    /// Sleeps until the thread is unparked; may also wake now and then to check for work.
    fn wait(&mut self) {
        std::thread::park();
    }

    /// Called when nothing more will be written.
    fn end(&mut self) {}
}

/// Applies every command of a batch and adds to the statistics log; returns the newest notice.
pub(in crate::store) fn apply_all(tx: &dyn Sql, batch: &mut [Box<dyn Command>]) -> Result<i64> {
    for work in batch.iter_mut() {
        work.apply(tx)?;
    }
    rollup::log(tx, &counters(batch))?;
    notices::newest(tx)
}

/// Returns the rows that a batch adds to the statistics log, once every command was applied.
pub(in crate::store) fn added_by(batch: &[Box<dyn Command>]) -> Result<Vec<String>> {
    rollup::documents(&counters(batch))
}

fn counters(batch: &[Box<dyn Command>]) -> StatBatch {
    let mut counters = StatBatch::default();
    for work in batch {
        work.add_statistics(&mut counters);
    }
    counters
}

/// A batch that may or may not be stored. If it is, this process has its deliveries in flight.
struct InDoubtBatch {
    batch: Vec<Box<dyn Command>>,
    started: u64,
    /// Why it is not known, as far as the database said.
    cause: String,
}

pub(in crate::store) struct GroupCommit<S> {
    pub(in crate::store) store: S,
    pub(in crate::store) queue: Arc<CommandQueue>,
    observers: CommitObservers,
    in_doubt: Option<InDoubtBatch>,
    /// The newest notice that the engine was notified of.
    newest_notice: i64,
    /// The last commit failed, which was logged.
    is_failing: bool,
}

impl<S: BatchWriter> GroupCommit<S> {
    pub(in crate::store) fn new(store: S, queue: Arc<CommandQueue>, observers: CommitObservers) -> Self {
        Self { store, queue, observers, in_doubt: None, newest_notice: 0, is_failing: false }
    }

    /// Writes one batch of the waiting commands. After `Nothing` the next command wakes the thread.
    pub(in crate::store) fn next(&mut self) -> CommitResult {
        if let Some(doubt) = self.in_doubt.take() {
            return self.resolve(doubt);
        }
        let batch = self.queue.next_batch();
        if batch.is_empty() {
            return CommitResult::Nothing;
        }
        let size = batch.len();
        let started = self.observers.watch.started();
        let parts = self.store.parts(batch);
        if self.commit_each(parts, started).is_ok() {
            self.observers.watch.committed(started, size);
            CommitResult::Committed(size)
        } else {
            CommitResult::Failed
        }
    }

    fn commit_each(&mut self, parts: Vec<Vec<Box<dyn Command>>>, started: u64) -> Result<(), Failure> {
        let mut done = Ok(());
        for part in parts {
            match &done {
                // After the store failed, the remaining portions are not tried.
                Err(Failure::Store(error)) => self.give_back(part, error),
                _ => done = self.commit(part, started).and(done),
            }
        }
        done
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Command>>, started: u64) -> Result<(), Failure> {
        let failed = match self.store.commit(&mut batch) {
            Ok(newest_notice) => {
                self.is_failing = false;
                self.complete(batch, newest_notice);
                return Ok(());
            }
            Err(Error::Busy) => {
                // It waits for the next batch, and delays no other command.
                self.queue.put_back(batch);
                return Ok(());
            }
            Err(Error::InDoubt(cause)) => {
                let doubt = InDoubtBatch { batch, started, cause: String::new() };
                return Err(Failure::Store(self.keep_in_doubt(doubt, &cause)));
            }
            Err(error) => error,
        };
        let (is_stale, error) = (matches!(failed, Error::Stale(_)), store_error(&failed));
        let is_of_one = is_stale || matches!(error, StoreError::Corrupt(_));
        if is_of_one && batch.len() > 1 {
            // One command met an impossible row: the others must not fail because of it.
            return self.commit_each(batch.into_iter().map(|work| vec![work]).collect(), started);
        }
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(%error, commands = batch.len(), "a commit failed; further failures are not logged until a commit works again");
        }
        self.give_back(batch, &error);
        Err(if is_of_one { Failure::Command } else { Failure::Store(error) })
    }

    /// Keeps the batch in doubt; nothing else is written before its fate is known. Waiting callers get an error now.
    fn keep_in_doubt(&mut self, mut doubt: InDoubtBatch, cause: &Error) -> StoreError {
        let cause = cause.to_string();
        if doubt.cause != cause {
            tracing::warn!(error = cause, "whether a batch was stored is not known yet");
            doubt.cause.clone_from(&cause);
        }
        let error = StoreError::Unavailable(cause);
        for work in &mut doubt.batch {
            work.in_doubt(&error);
        }
        self.in_doubt = Some(doubt);
        self.queue.refuse(&error);
        error
    }

    /// Asks the store what became of a batch in doubt.
    fn resolve(&mut self, doubt: InDoubtBatch) -> CommitResult {
        let size = doubt.batch.len();
        match self.store.resolve_doubt() {
            Ok(Some(newest_notice)) => {
                self.is_failing = false;
                self.observers.watch.committed(doubt.started, size);
                self.complete(doubt.batch, newest_notice);
                CommitResult::Committed(size)
            }
            // As if it had never been sent.
            Ok(None) => self
                .commit(doubt.batch, doubt.started)
                .map_or(CommitResult::Failed, |()| CommitResult::Committed(size)),
            Err(error @ Error::Fenced(_)) => {
                tracing::error!(%error, commands = size, "whether a batch was stored will not be known");
                self.give_back(doubt.batch, &store_error(&error));
                CommitResult::Failed
            }
            Err(error) => {
                self.keep_in_doubt(doubt, &error);
                CommitResult::Failed
            }
        }
    }

    /// Requeues the commands that must not be lost.
    fn give_back(&self, batch: Vec<Box<dyn Command>>, error: &StoreError) {
        self.queue.put_back(batch.into_iter().filter_map(|work| work.failed(error)).collect());
    }

    /// Completes a durable batch. Any command may have written a notice, so the newest notice is compared here.
    fn complete(&mut self, batch: Vec<Box<dyn Command>>, newest_notice: i64) {
        let mut after = CommitEffects::new(self.observers.live_updates.has_subscribers());
        for work in batch {
            work.committed(&mut after);
        }
        after.notices_wait = newest_notice > std::mem::replace(&mut self.newest_notice, newest_notice);
        self.store.notify_peers(&after);
        after.notify(&self.observers);
    }

    /// Runs until the queue is closed and empty. Sleeps for `window` before a batch when the last one was busy.
    pub(in crate::store) fn run(mut self, window: Duration) {
        let mut was_busy = false;
        let mut tries_left = TRIES_WHILE_CLOSING;
        loop {
            if was_busy && !window.is_zero() {
                std::thread::sleep(window);
            }
            match self.next() {
                CommitResult::Committed(size) => was_busy = size > 4,
                CommitResult::Failed => {
                    was_busy = false;
                    tries_left -= usize::from(self.queue.is_closed());
                    if tries_left == 0 {
                        tracing::error!(
                            "the store cannot be written: deliveries in flight are taken over at the next start"
                        );
                        break;
                    }
                    std::thread::sleep(PAUSE_AFTER_FAILURE);
                }
                CommitResult::Nothing if self.queue.is_done() => break,
                CommitResult::Nothing => {
                    was_busy = false;
                    self.store.wait();
                }
            }
        }
        self.store.end();
    }
}

#[cfg(test)]
mod tests;

//! The one writer: gathers what waits into a batch, writes it in one transaction with one flush, answers.
//!
//! While one commit is on its way the next batch collects, so a lone event waits for nothing. Results come before accepts.
//! `Writer::commit_next` does one batch and returns; a thread calls it in a loop, the simulation calls it when it likes.

use super::checkpointer::Bell;
use crate::{
    domain::{port::Handover, statistics::Batch},
    store::{
        CommitWatch, StoreError,
        sql::{Aftermath, Error, Queue, Result, Work, log_statistics, newest_notice, store_error},
    },
};
use rusqlite::Connection;
use std::{sync::Arc, time::Duration};

const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How often a closing store is asked to take what is left, before it is left for the next start to take over.
const TRIES_WHILE_CLOSING: usize = 10;

/// What came of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Committed(usize),
    /// The store took nothing; what must not be lost waits for the next turn.
    Failed,
    Nothing,
}

pub struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    handover: Arc<dyn Handover>,
    watch: Arc<dyn CommitWatch>,
    bell: Arc<Bell>,
    /// A flush failed: what the file holds is unknown until it is opened again, so nothing more is promised on it.
    flush_failed: bool,
    /// The newest notice that was told of.
    newest_notice: i64,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        queue: Arc<Queue>,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        bell: Arc<Bell>,
    ) -> Self {
        Self { connection, queue, handover, watch, bell, flush_failed: false, newest_notice: 0 }
    }

    /// Writes one batch of what waits now. After `Nothing` the next command rings.
    pub fn commit_next(&mut self) -> Turn {
        let batch = self.queue.next_batch();
        if batch.is_empty() {
            return Turn::Nothing;
        }
        let size = batch.len();
        let started = self.watch.started();
        if self.commit(batch) {
            self.watch.committed(started, size);
            self.bell.committed(size);
            Turn::Committed(size)
        } else {
            Turn::Failed
        }
    }

    /// For the simulation: the file, to look into it or to make its writes fail.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// For the simulation: the file as a dead process leaves it. What waits is forgotten, nothing more is taken.
    pub fn into_connection(self) -> Connection {
        self.queue.forget();
        self.connection
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Work>>) -> bool {
        self.flush_failed |= self.bell.flush_failed();
        let applied = if self.flush_failed {
            Err(flush_error().into())
        } else {
            apply_all(&mut self.connection, &mut batch)
        };
        let Err(error) = applied else {
            let mut after = Aftermath::default();
            for work in batch {
                work.committed(&mut after);
            }
            after.notices_wait = self.has_new_notices();
            after.tell(&*self.handover);
            return true;
        };
        let is_flush = matches!(&error, Error::Sqlite(error) if is_flush_error(error));
        if !self.flush_failed && is_flush {
            self.flush_failed = true;
            tracing::error!(%error, "a flush failed: nothing more is accepted until the process is started again");
        }
        let error = store_error(&error);
        if matches!(error, StoreError::Corrupt(_)) && batch.len() > 1 {
            // One command met something that cannot be: the others must not suffer for it.
            let mut all = true;
            for work in batch {
                all &= self.commit(vec![work]);
            }
            return all;
        }
        tracing::error!(%error, commands = batch.len(), "a commit failed");
        self.queue.put_back(batch.into_iter().filter_map(|work| work.failed(&error)).collect());
        false
    }

    /// Whether a notice was written since the last look, by whatever command: none of them has to say so itself.
    fn has_new_notices(&mut self) -> bool {
        // A hint: whoever sends notices looks by itself now and then.
        let newest = newest_notice(&self.connection).unwrap_or(self.newest_notice);
        newest > std::mem::replace(&mut self.newest_notice, newest)
    }

    /// Until the queue is closed and empty. `window` is waited before a batch when the last one was busy.
    pub(super) fn run(mut self, window: Duration) {
        let mut was_busy = false;
        let mut tries_left = TRIES_WHILE_CLOSING;
        loop {
            if was_busy && !window.is_zero() {
                std::thread::sleep(window);
            }
            match self.commit_next() {
                Turn::Committed(size) => was_busy = size > 4,
                Turn::Failed => {
                    was_busy = false;
                    tries_left -= usize::from(self.queue.is_closed());
                    if tries_left == 0 {
                        tracing::error!(
                            "the store takes nothing: what was in flight is taken over at the next start"
                        );
                        return;
                    }
                    std::thread::sleep(PAUSE_AFTER_FAILURE);
                }
                Turn::Nothing if self.queue.is_done() => return,
                Turn::Nothing => {
                    was_busy = false;
                    std::thread::park();
                }
            }
        }
    }
}

fn apply_all(connection: &mut Connection, batch: &mut [Box<dyn Work>]) -> Result<()> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for work in batch.iter_mut() {
        work.apply(&*tx)?;
    }
    let mut sums = Batch::default();
    for work in batch.iter() {
        work.count(&mut sums);
    }
    log_statistics(&*tx, &sums)?;
    Ok(tx.commit()?)
}

const FLUSH_CODES: [i32; 2] = [rusqlite::ffi::SQLITE_IOERR_FSYNC, rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC];

fn flush_error() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
    rusqlite::Error::SqliteFailure(code, Some("an earlier flush failed".to_owned()))
}

pub(super) fn is_flush_error(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| FLUSH_CODES.contains(&error.extended_code))
}

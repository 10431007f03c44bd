//! The one writer: gathers what waits into a batch, writes it in one transaction with one flush, answers.
//!
//! While one commit is on its way the next batch collects, so a lone event waits for nothing. Results come before accepts.
//! `Writer::commit_next` does one batch and returns; a thread calls it in a loop, the simulation calls it when it likes.

use super::{
    checkpointer::Bell,
    notices, rollup,
    work::{Aftermath, Work, store_error},
};
use crate::{
    domain::{port::Handover, statistics::Batch},
    store::{CommitWatch, StoreError},
};
use rusqlite::Connection;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Accepts beyond this many in one transaction wait for the next, so that results are never far away.
const ACCEPTS_PER_BATCH: usize = 512;

const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How often a closing store is asked to take what is left, before it is left for the next start to take over.
const TRIES_WHILE_CLOSING: usize = 10;

/// How much may wait to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    pub events_max: usize,
    pub bytes_max: usize,
}

/// What waits for the writer.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    limits: QueueLimits,
    is_idle: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Waiting {
    first: Vec<Box<dyn Work>>,
    accepts: VecDeque<(Box<dyn Work>, usize, usize)>,
    events: usize,
    bytes: usize,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(limits: QueueLimits, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { waiting: Mutex::default(), limits, is_idle: AtomicBool::new(true), wake }
    }

    /// Everything but accepts: never refused for being too much, because hands and callers bound it.
    pub(super) fn push(&self, work: Box<dyn Work>) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            drop(waiting);
            let _ = work.failed(&StoreError::Closed);
            return;
        }
        waiting.first.push(work);
        drop(waiting);
        self.ring();
    }

    pub(super) fn push_accept(&self, work: Box<dyn Work>, events: usize, bytes: usize) {
        let mut waiting = self.lock();
        let full = waiting.events > 0
            && (waiting.events + events > self.limits.events_max
                || waiting.bytes + bytes > self.limits.bytes_max);
        let refused = match (waiting.is_closed, full) {
            (true, _) => StoreError::Closed,
            (_, true) => StoreError::Overloaded,
            _ => {
                waiting.events += events;
                waiting.bytes += bytes;
                waiting.accepts.push_back((work, events, bytes));
                drop(waiting);
                return self.ring();
            }
        };
        drop(waiting);
        let _ = work.failed(&refused);
    }

    /// Nothing more is taken; the writer finishes what is there and ends.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        (self.wake)();
    }

    /// Drops everything that waits, unanswered and unwritten, and takes nothing more.
    fn forget(&self) {
        let mut waiting = self.lock();
        let forgotten = std::mem::replace(&mut *waiting, Waiting { is_closed: true, ..Waiting::default() });
        // Hands go back as these are dropped; whoever they wake must find the queue unlocked.
        drop(waiting);
        drop(forgotten);
    }

    fn ring(&self) {
        if self.is_idle.swap(false, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Box<dyn Work>> {
        let mut waiting = self.lock();
        let mut batch = std::mem::take(&mut waiting.first);
        let mut events = 0;
        while events < ACCEPTS_PER_BATCH
            && let Some((work, count, bytes)) = waiting.accepts.pop_front()
        {
            events += count;
            waiting.events -= count;
            waiting.bytes -= bytes;
            batch.push(work);
        }
        batch
    }

    fn is_done(&self) -> bool {
        let waiting = self.lock();
        waiting.is_closed && waiting.first.is_empty() && waiting.accepts.is_empty()
    }
}

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
        let mut batch = self.queue.take();
        if batch.is_empty() {
            self.queue.is_idle.store(true, Ordering::Release);
            // Registered as idle before the last look, so that no ring is missed.
            batch = self.queue.take();
        }
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
        let applied =
            if self.flush_failed { Err(flush_error()) } else { apply_all(&mut self.connection, &mut batch) };
        let Err(error) = applied else {
            let mut after = Aftermath::default();
            for work in batch {
                work.committed(&mut after);
            }
            after.notices_wait = self.has_new_notices();
            after.tell(&*self.handover);
            return true;
        };
        if !self.flush_failed && is_flush_error(&error) {
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
        let again: Vec<_> = batch.into_iter().filter_map(|work| work.failed(&error)).collect();
        self.queue.lock().first.extend(again);
        false
    }

    /// Whether a notice was written since the last look, by whatever command: none of them has to say so itself.
    fn has_new_notices(&mut self) -> bool {
        // A hint: whoever sends notices looks by itself now and then.
        let newest = notices::newest(&self.connection).unwrap_or(self.newest_notice);
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
                    tries_left -= usize::from(self.queue.lock().is_closed);
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

fn apply_all(connection: &mut Connection, batch: &mut [Box<dyn Work>]) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for work in batch.iter_mut() {
        work.apply(&tx)?;
    }
    let mut sums = Batch::default();
    for work in batch.iter() {
        work.count(&mut sums);
    }
    rollup::log(&tx, &sums)?;
    tx.commit()
}

const FLUSH_CODES: [i32; 2] = [rusqlite::ffi::SQLITE_IOERR_FSYNC, rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC];

fn flush_error() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
    rusqlite::Error::SqliteFailure(code, Some("an earlier flush failed".to_owned()))
}

pub(super) fn is_flush_error(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| FLUSH_CODES.contains(&error.extended_code))
}

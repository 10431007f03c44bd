//! Command queue of the writer. Results come before accepts, and only accepts are ever refused because the queue is full.

use super::Command;
use crate::store::StoreError;
use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Accepts beyond this many in one transaction wait for the next, so that a result never waits long.
const ACCEPTS_PER_BATCH: usize = 512;

/// How much may wait to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    pub events_max: usize,
    pub bytes_max: usize,
}

pub(in crate::store) struct CommandQueue {
    waiting: Mutex<QueueState>,
    limits: QueueLimits,
    is_idle: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct QueueState {
    retried: Vec<Box<dyn Command>>,
    commands: Vec<Box<dyn Command>>,
    accepts: VecDeque<(Box<dyn Command>, usize, usize)>,
    events: usize,
    bytes: usize,
    is_closed: bool,
}

impl CommandQueue {
    pub(in crate::store) fn new(limits: QueueLimits, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { waiting: Mutex::default(), limits, is_idle: AtomicBool::new(true), wake }
    }

    /// Pushes a command other than an accept: never refused because the queue is full, as permits and callers bound them.
    pub(in crate::store) fn push(&self, work: Box<dyn Command>) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            drop(waiting);
            let _ = work.failed(&StoreError::Closed);
            return;
        }
        waiting.commands.push(work);
        drop(waiting);
        self.wake_writer();
    }

    pub(in crate::store) fn push_accept(&self, work: Box<dyn Command>, events: usize, bytes: usize) {
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
                return self.wake_writer();
            }
        };
        drop(waiting);
        let _ = work.failed(&refused);
    }

    /// Puts back commands that were taken and could not be written; they go first again.
    pub(in crate::store) fn put_back(&self, again: Vec<Box<dyn Command>>) {
        self.lock().retried.extend(again);
    }

    /// Answers waiting commands with the error. Commands that must not be lost keep waiting.
    pub(in crate::store) fn refuse(&self, error: &StoreError) {
        self.put_back(self.take().into_iter().filter_map(|work| work.failed(error)).collect());
    }

    /// Takes no more commands; the writer finishes the rest and ends.
    pub(in crate::store) fn close(&self) {
        self.lock().is_closed = true;
        (self.wake)();
    }

    pub(in crate::store) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Whether no command came since the writer found the queue empty.
    pub(in crate::store) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Acquire)
    }

    /// Closed, and nothing is left to be written.
    pub(in crate::store) fn is_done(&self) -> bool {
        let waiting = self.lock();
        let QueueState { retried: again, commands: first, accepts, is_closed, .. } = &*waiting;
        *is_closed && again.is_empty() && first.is_empty() && accepts.is_empty()
    }

    /// Drops all waiting commands, unanswered and unwritten, and takes no more.
    pub(in crate::store) fn discard_all(&self) {
        let mut waiting = self.lock();
        let forgotten =
            std::mem::replace(&mut *waiting, QueueState { is_closed: true, ..QueueState::default() });
        // Permits are released as these are dropped; a worker woken by that must find the queue unlocked.
        drop(waiting);
        drop(forgotten);
    }

    /// Returns the next batch. After an empty one, the next command wakes the writer.
    pub(in crate::store) fn next_batch(&self) -> Vec<Box<dyn Command>> {
        let batch = self.take();
        if !batch.is_empty() {
            return batch;
        }
        self.is_idle.store(true, Ordering::Release);
        // Registered as idle before the last look, so that no wake-up is missed.
        self.take()
    }

    fn take(&self) -> Vec<Box<dyn Command>> {
        let mut waiting = self.lock();
        let mut batch = std::mem::take(&mut waiting.retried);
        batch.append(&mut waiting.commands);
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

    fn wake_writer(&self) {
        if self.is_idle.swap(false, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::event::DedupKey,
        store::sql::{CommitEffects, Result, Sql},
    };

    struct Numbered(u8);

    impl Command for Numbered {
        fn apply(&mut self, _: &dyn Sql) -> Result<()> {
            Ok(())
        }

        fn keys(&self) -> Vec<DedupKey> {
            vec![DedupKey([self.0; 16])]
        }

        fn committed(self: Box<Self>, _: &mut CommitEffects) {}

        fn failed(self: Box<Self>, _: &StoreError) -> Option<Box<dyn Command>> {
            Some(self)
        }
    }

    fn numbers(batch: &[Box<dyn Command>]) -> Vec<u8> {
        batch.iter().map(|work| work.keys()[0].0[0]).collect()
    }

    #[test]
    fn commands_put_back_go_before_newer_ones_and_keep_their_order() {
        let queue = CommandQueue::new(QueueLimits { events_max: 10, bytes_max: 1000 }, Box::new(|| ()));
        let push = |number| queue.push(Box::new(Numbered(number)));
        (1..=4).for_each(push);
        let mut taken = queue.next_batch();
        (5..=6).for_each(push);
        // The portions of a batch, one by one.
        let last = taken.split_off(2);
        queue.put_back(taken);
        queue.put_back(last);
        queue.close();
        assert!(!queue.is_done());
        queue.refuse(&StoreError::Overloaded);
        assert_eq!(numbers(&queue.next_batch()), [1, 2, 3, 4, 5, 6]);
        assert!(queue.is_done());
    }
}

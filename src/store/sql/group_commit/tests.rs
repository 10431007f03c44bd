//! Commits without an answer, and what becomes of their batches.

use super::*;
use crate::{
    domain::{
        endpoint::Disabled,
        id::EndpointId,
        live_update::{LiveUpdate, UpdateSink},
        ports::{CommitListener, LeasedDelivery},
        time::Timestamp,
    },
    store::{CommitWatch, sql::QueueLimits},
};
use std::{
    collections::VecDeque,
    io::ErrorKind::TimedOut,
    sync::{Mutex, PoisonError},
};

/// Answers from a script, and records the sizes of the batches it was given.
#[derive(Default)]
struct Scripted {
    commits: VecDeque<Result<i64>>,
    knows: VecDeque<Result<Option<i64>>>,
    given: Vec<usize>,
}

impl BatchWriter for Scripted {
    fn commit(&mut self, batch: &mut [Box<dyn Command>]) -> Result<i64> {
        self.given.push(batch.len());
        self.commits.pop_front().unwrap_or(Ok(0))
    }

    fn resolve_doubt(&mut self) -> Result<Option<i64>> {
        self.knows.pop_front().unwrap_or_else(|| Err(silence()))
    }
}

fn silence() -> Error {
    Error::Io(TimedOut.into())
}

struct NoObserver;

impl CommitListener for NoObserver {
    fn deliveries_leased(&self, _: Vec<LeasedDelivery>) {}
    fn delivery_waiting(&self, _: EndpointId, _: Timestamp) {}
    fn endpoint_disabled(&self, _: EndpointId, _: Disabled, _: u32) {}
    fn inspection_waiting(&self) {}
    fn notice_waiting(&self) {}
}

impl UpdateSink for NoObserver {
    fn has_subscribers(&self) -> bool {
        false
    }

    fn publish(&self, _: LiveUpdate) {}
}

impl CommitWatch for NoObserver {
    fn started(&self) -> u64 {
        0
    }

    fn committed(&self, _: u64, _: usize) {}
}

/// Calls that a command received, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

struct RecordingCommand(Calls);

impl RecordingCommand {
    fn record_call(&self, what: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Command for RecordingCommand {
    fn apply(&mut self, _: &dyn Sql) -> Result<()> {
        Ok(())
    }

    fn in_doubt(&mut self, _: &StoreError) {
        self.record_call("in doubt");
    }

    fn committed(self: Box<Self>, _: &mut CommitEffects) {
        self.record_call("stored");
    }

    fn failed(self: Box<Self>, _: &StoreError) -> Option<Box<dyn Command>> {
        self.record_call("not stored");
        None
    }
}

/// Commits a batch of one command without an answer; `knows` are the later answers of the store about it.
fn after_silence(knows: impl IntoIterator<Item = Result<Option<i64>>>) -> (GroupCommit<Scripted>, Calls) {
    let in_doubt = Error::InDoubt(Box::new(silence()));
    let store = Scripted {
        commits: [Err(in_doubt)].into(),
        knows: knows.into_iter().collect(),
        ..Scripted::default()
    };
    let limits = QueueLimits { events_max: 10, bytes_max: 1000 };
    let queue = Arc::new(CommandQueue::new(limits, Box::new(|| ())));
    let (engine, live_updates, watch) = (Arc::new(NoObserver), Arc::new(NoObserver), Arc::new(NoObserver));
    let mut group_commit = GroupCommit::new(store, queue, CommitObservers { engine, live_updates, watch });
    let calls = push(&group_commit);
    assert_eq!(group_commit.next(), CommitResult::Failed);
    (group_commit, calls)
}

fn push(group_commit: &GroupCommit<Scripted>) -> Calls {
    let calls = Calls::default();
    group_commit.queue.push(Box::new(RecordingCommand(calls.clone())));
    calls
}

fn names_of(calls: &Calls) -> Vec<&'static str> {
    calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[test]
fn a_batch_in_doubt_that_is_stored_is_completed_and_not_written_again() {
    let (mut group_commit, calls) = after_silence([Ok(Some(0))]);
    assert_eq!(names_of(&calls), ["in doubt"]);
    assert_eq!(group_commit.next(), CommitResult::Committed(1));
    assert_eq!(names_of(&calls), ["in doubt", "stored"]);
    assert_eq!((group_commit.next(), group_commit.store.given), (CommitResult::Nothing, vec![1]));
}

#[test]
fn a_batch_in_doubt_that_is_not_stored_is_written_again() {
    let (mut group_commit, calls) = after_silence([Ok(None)]);
    assert_eq!(group_commit.next(), CommitResult::Committed(1));
    assert_eq!((names_of(&calls), group_commit.store.given), (vec!["in doubt", "stored"], vec![1, 1]));
}

#[test]
fn no_batch_is_written_while_one_is_in_doubt_and_waiting_callers_get_an_error() {
    let (mut group_commit, calls) = after_silence([Err(silence()), Err(silence()), Ok(Some(0))]);
    let next = push(&group_commit);
    assert_eq!(group_commit.next(), CommitResult::Failed);
    assert_eq!((names_of(&next), &group_commit.store.given), (vec!["not stored"], &vec![1]));
    let last = push(&group_commit);
    assert_eq!(group_commit.next(), CommitResult::Failed);
    assert_eq!(names_of(&last), ["not stored"]);
    assert_eq!(group_commit.next(), CommitResult::Committed(1));
    assert_eq!(names_of(&calls).last(), Some(&"stored"));
    let free = push(&group_commit);
    assert_eq!((group_commit.next(), names_of(&free)), (CommitResult::Committed(1), vec!["stored"]));
}

#[test]
fn a_batch_whose_fate_cannot_be_known_counts_as_not_stored() {
    let (mut group_commit, calls) = after_silence([Err(Error::Fenced("another node took over"))]);
    assert_eq!(group_commit.next(), CommitResult::Failed);
    assert_eq!(names_of(&calls), ["in doubt", "not stored"]);
    assert_eq!((group_commit.next(), group_commit.store.given), (CommitResult::Nothing, vec![1]));
}

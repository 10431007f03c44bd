//! Several nodes on one file in memory, each with a queue and a writer of its own: simulates many nodes without a server. The
//! caller's clock stands for the server's, and nodes do not notify each other.

use super::shared_file::{SharedFile, SimTransaction};
use crate::{
    domain::{storage::StorageUsage, time::Timestamp},
    store::{
        CommitObservers, Reply, Store,
        backend::{Backend, MembershipBackend, ReadJob, Readers},
        cluster::{ClusterView, Heartbeat, Joined},
        sql::{
            BatchWriter, Command, CommandQueue, CommitEffects, CommitResult, Error, GroupCommit, QueueLimits,
            Result, Sql, TRIES_WHILE_CLOSING, WriterId, WriterThread, apply_all, newest_id_and_inspections,
            newest_notice, nodes, params, store_error,
            takeover::{self, TakenOver, TakeoverSteps},
        },
    },
};
use std::{
    io::ErrorKind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

/// Backend of one of the nodes.
#[derive(Clone)]
pub struct SimNode {
    queue: Arc<CommandQueue>,
    file: Arc<SharedFile>,
    identity: Arc<NodeIdentity>,
    observers: CommitObservers,
    /// Ends with the last clone of the node.
    thread: Arc<WriterShutdown>,
}

/// Identity and state that the node and its writer share.
struct NodeIdentity {
    writer_id: Mutex<WriterId>,
    /// The epoch of which the file has lost confirmed batches; 0 if there is none.
    lost: AtomicI64,
    /// Whether the last batch is stored is not known.
    is_in_doubt: AtomicBool,
}

impl NodeIdentity {
    fn first(epoch: i64, slot: u8) -> Arc<Self> {
        let (writer_id, lost) = (Mutex::new(WriterId::first(epoch, slot)), AtomicI64::new(0));
        Arc::new(Self { writer_id, lost, is_in_doubt: AtomicBool::new(false) })
    }

    fn writer_id(&self) -> MutexGuard<'_, WriterId> {
        self.writer_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch(&self) -> i64 {
        self.writer_id().epoch
    }

    /// Returns why the writer's row could not be incremented.
    fn fenced(&self, tx: &SimTransaction<'_>, epoch: i64) -> Result<Error> {
        let is_there = "SELECT EXISTS (SELECT 1 FROM writer_batches WHERE epoch = ?1 AND writer = 0)";
        if !(tx as &dyn Sql).exists(is_there, params![epoch])? {
            return Ok(Error::Fenced("another node took over from this one"));
        }
        self.lost.store(epoch, SeqCst);
        Ok(Error::Fenced("the file lost batches that it had confirmed"))
    }

    fn is_lost(&self) -> bool {
        self.lost.load(SeqCst) == self.epoch()
    }
}

struct WriterShutdown(Arc<CommandQueue>, WriterThread);

impl Drop for WriterShutdown {
    fn drop(&mut self) {
        self.0.close();
        self.1.join();
    }
}

/// Writes the waiting commands of one node.
pub struct SimCommitLoop(GroupCommit<SimWriter>);

struct SimWriter {
    file: Arc<SharedFile>,
    identity: Arc<NodeIdentity>,
    epoch: i64,
    last: i64,
}

impl SimNode {
    /// Joins the file beside the others; the caller drives the writer, `wake` is called when a command waits.
    pub fn enter(
        file: &Arc<SharedFile>,
        observers: CommitObservers,
        limits: QueueLimits,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<(Store, SimCommitLoop)> {
        let (epoch, slot) = file.enter().map_err(std::io::Error::other)?;
        let queue = Arc::new(CommandQueue::new(limits, wake));
        let identity = NodeIdentity::first(epoch, slot);
        let pen = SimWriter { file: file.clone(), identity: identity.clone(), epoch, last: 0 };
        let writer = SimCommitLoop(GroupCommit::new(pen, queue.clone(), observers.clone()));
        let thread = Arc::new(WriterShutdown(queue.clone(), WriterThread::none()));
        let node = Self { queue, file: file.clone(), identity, observers, thread };
        Ok((Store::new(Arc::new(node)), writer))
    }

    /// Joins the file, with a thread that writes.
    pub fn start(
        file: &Arc<SharedFile>,
        observers: CommitObservers,
        limits: QueueLimits,
    ) -> std::io::Result<Store> {
        let (epoch, slot) = file.enter().map_err(std::io::Error::other)?;
        let identity = NodeIdentity::first(epoch, slot);
        let pen = SimWriter { file: file.clone(), identity: identity.clone(), epoch, last: 0 };
        let to_notify = observers.clone();
        let write = move |queue| GroupCommit::new(pen, queue, to_notify).run(Duration::ZERO);
        let (queue, thread) = WriterThread::start(limits, write)?;
        let thread = Arc::new(WriterShutdown(queue.clone(), thread));
        let node = Self { queue, file: file.clone(), identity, observers, thread };
        Ok(Store::new(Arc::new(node)))
    }

    fn run_now<T: Send + 'static>(
        &self,
        epoch: i64,
        run: impl FnOnce(&SimTransaction<'_>) -> Result<T>,
    ) -> Reply<T> {
        let answer = self.file.run(epoch, run).map_err(|error| store_error(&error));
        Box::pin(std::future::ready(answer))
    }

    fn publish_takeover(&self, taken: TakenOver) -> usize {
        CommitEffects::of_takeover(taken.newly_due).notify(&self.observers);
        taken.count
    }
}

impl SimCommitLoop {
    /// Writes one batch of the waiting commands. After `Nothing` the next command wakes the writer.
    pub fn commit_next(&mut self) -> CommitResult {
        self.0.next()
    }

    /// Returns the last batch that is known to be stored, and its epoch.
    pub fn confirmed(&self) -> (i64, i64) {
        (self.0.store.epoch, self.0.store.last)
    }

    /// Dies: drops waiting commands, and takes no more.
    pub fn die(self) {
        self.0.queue.discard_all();
    }

    /// Ends as a stopped process does.
    pub fn end(mut self) {
        self.0.queue.close();
        let mut tries_left = TRIES_WHILE_CLOSING;
        while tries_left > 0 {
            match self.0.next() {
                CommitResult::Nothing => break,
                CommitResult::Committed(_) => {}
                CommitResult::Failed => tries_left -= 1,
            }
        }
        self.0.store.end();
    }
}

impl BatchWriter for SimWriter {
    fn commit(&mut self, batch: &mut [Box<dyn Command>]) -> Result<i64> {
        let writer_id = *self.identity.writer_id();
        let epoch = writer_id.epoch;
        if epoch != self.epoch {
            (self.epoch, self.last) = (epoch, 0);
        }
        let last = self.last;
        let stored = self.file.run_at(epoch, Some(writer_id), |tx| {
            let fence =
                "UPDATE writer_batches SET batch = ?2 + 1 WHERE epoch = ?1 AND writer = 0 AND batch = ?2";
            if tx.execute(fence, params![epoch, last])? == 0 {
                return Err(self.identity.fenced(tx, epoch)?);
            }
            apply_all(tx, batch)
        });
        match stored {
            Err(Error::Io(error)) if error.kind() == ErrorKind::TimedOut => {
                self.identity.is_in_doubt.store(true, SeqCst);
                Err(Error::InDoubt(Box::new(error.into())))
            }
            stored => {
                let newest_notice = stored?;
                self.last += 1;
                Ok(newest_notice)
            }
        }
    }

    fn resolve_doubt(&mut self) -> Result<Option<i64>> {
        let (epoch, next) = (self.epoch, self.last + 1);
        let sql = "SELECT batch FROM writer_batches WHERE epoch = ?1 AND writer IN (0, -1)";
        let (last, newest_notice) =
            self.file.run(0, |tx| Ok(((tx as &dyn Sql).number(sql, params![epoch])?, newest_notice(tx)?)))?;
        self.identity.is_in_doubt.store(false, SeqCst);
        let is_stored = last == next;
        self.last += i64::from(is_stored);
        Ok(is_stored.then_some(newest_notice))
    }

    fn end(&mut self) {
        let left = self.file.run(self.epoch, |tx| {
            takeover::leave(tx, tx.now)?;
            takeover::delete_self(tx, tx.now)
        });
        if let Err(error) = left {
            tracing::warn!(%error, "this node could not leave the file");
        }
    }
}

impl Backend for SimNode {
    fn submit(&self, command: Box<dyn Command>) {
        self.queue.push(command);
    }
    fn submit_accept(&self, command: Box<dyn Command>, events: usize, bytes: usize) {
        self.queue.push_accept(command, events, bytes);
    }

    fn run_read(&self, _: Readers, mut job: ReadJob) -> Reply<()> {
        self.run_now(0, |tx| job(tx))
    }

    fn can_record(&self) -> bool {
        !self.identity.is_in_doubt.load(SeqCst)
    }

    fn membership(&self) -> Option<&dyn MembershipBackend> {
        Some(self)
    }

    fn measure(&self) -> Reply<StorageUsage> {
        Box::pin(std::future::ready(Ok(StorageUsage::default())))
    }

    fn close(&self) {
        self.queue.close();
        self.thread.1.join();
    }
}

/// In the writer's batches, so that a node can die between two of them.
impl TakeoverSteps for SimNode {
    fn step<T: Send + 'static>(
        &self,
        mut run: impl FnMut(&dyn Sql, Timestamp) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let clock = self.file.clock.clone();
        (self as &dyn Backend).write(move |tx| run(tx, clock()))
    }
}

impl MembershipBackend for SimNode {
    fn join(&self, now: Timestamp) -> Reply<Joined> {
        let node = self.clone();
        Box::pin(async move {
            let before = node.epoch();
            if node.run_now(before, |tx| nodes::slot(tx)).await?.is_none() || node.identity.is_lost() {
                let (epoch, slot) = node.file.enter().map_err(|error| store_error(&error))?;
                let mut writer_id = node.identity.writer_id();
                *writer_id = writer_id.rejoined(epoch, slot);
            }
            let epoch = node.epoch();
            let mut dead = node.run_now(epoch, |tx| nodes::find_dead(tx, |_, _| false, tx.now)).await?.dead;
            if before != epoch && !dead.contains(&before) {
                dead.push(before);
            }
            let mut taken = TakenOver::default();
            for other in dead {
                takeover::take_over_gone(&node, other, now, &mut taken).await?;
            }
            let (newest_id, inspections_wait) = node.step(|tx, _| newest_id_and_inspections(tx)).await?;
            if inspections_wait {
                node.observers.engine.inspection_waiting();
            }
            let slot = {
                let mut writer_id = node.identity.writer_id();
                *writer_id = writer_id.after_id(newest_id);
                writer_id.slot()
            };
            Ok(Joined { slot, epoch, is_alone: false, newest_id, taken_over: node.publish_takeover(taken) })
        })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<Option<ClusterView>> {
        if self.identity.is_lost() {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.run_now(self.epoch(), |tx| nodes::heartbeat(tx, &heartbeat, tx.now))
    }

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<Option<usize>> {
        let node = self.clone();
        Box::pin(async move {
            Ok(takeover::take_over(&node, epoch, now).await?.map(|taken| node.publish_takeover(taken)))
        })
    }

    fn nodes(&self) -> Reply<ClusterView> {
        self.run_now(self.epoch(), |tx| nodes::cluster_view(tx, tx.now))
    }

    fn epoch(&self) -> i64 {
        self.identity.epoch()
    }
}

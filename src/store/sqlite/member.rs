//! Several nodes on one file in memory, each with a queue and a writer of its own: simulates many nodes without a server. The
//! caller's clock stands for the server's, and nodes do not notify each other.

use super::shared::{Member, SharedFile};
use crate::{
    domain::{port::Handover, storage::StorageUsage, time::Timestamp},
    store::{
        CommitWatch, Reply, Store,
        cluster::{Beat, Joined, View},
        sql::{
            Aftermath, Commit, Desk, Error, Membership, Queue, QueueLimits, Result, Seat, Sql,
            TRIES_WHILE_CLOSING, Turn, Turns, Work, WriterThread, apply_all, newest_notice, nodes, params,
            store_error,
            takeover::{self, Steps, TakenOver},
            what_is_there,
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

/// Implements the store traits for one of the nodes.
#[derive(Clone)]
pub struct SqliteNode {
    queue: Arc<Queue>,
    file: Arc<SharedFile>,
    place: Arc<Place>,
    handover: Arc<dyn Handover>,
    /// Ends with the last clone of the node.
    thread: Arc<Closing>,
}

/// Identity and state that the node and its writer share.
struct Place {
    seat: Mutex<Seat>,
    /// The epoch of which the file has lost confirmed batches; 0 if there is none.
    lost: AtomicI64,
    /// Whether the last batch is stored is not known.
    is_in_doubt: AtomicBool,
}

impl Place {
    fn first(epoch: i64, slot: u8) -> Arc<Self> {
        let (seat, lost) = (Mutex::new(Seat::first(epoch, slot)), AtomicI64::new(0));
        Arc::new(Self { seat, lost, is_in_doubt: AtomicBool::new(false) })
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch(&self) -> i64 {
        self.seat().epoch
    }

    /// Returns why the writer's row could not be incremented.
    fn fenced(&self, tx: &Member<'_>, epoch: i64) -> Result<Error> {
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

struct Closing(Arc<Queue>, WriterThread);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
        self.1.join();
    }
}

/// Writes the waiting commands of one node.
pub struct NodeWriter(Turns<Pen>);

struct Pen {
    file: Arc<SharedFile>,
    place: Arc<Place>,
    epoch: i64,
    last: i64,
}

impl SqliteNode {
    /// Joins the file beside the others; the caller drives the writer, `wake` is called when a command waits.
    pub fn enter(
        file: &Arc<SharedFile>,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<(Self, NodeWriter)> {
        let (epoch, slot) = file.enter().map_err(std::io::Error::other)?;
        let queue = Arc::new(Queue::new(limits, wake));
        let place = Place::first(epoch, slot);
        let pen = Pen { file: file.clone(), place: place.clone(), epoch, last: 0 };
        let writer = NodeWriter(Turns::new(pen, queue.clone(), handover.clone(), watch));
        let thread = Arc::new(Closing(queue.clone(), WriterThread::none()));
        Ok((Self { queue, file: file.clone(), place, handover, thread }, writer))
    }

    /// Joins the file, with a thread that writes.
    pub fn start(
        file: &Arc<SharedFile>,
        handover: Arc<dyn Handover>,
        watch: Arc<dyn CommitWatch>,
        limits: QueueLimits,
    ) -> std::io::Result<Self> {
        let (epoch, slot) = file.enter().map_err(std::io::Error::other)?;
        let place = Place::first(epoch, slot);
        let pen = Pen { file: file.clone(), place: place.clone(), epoch, last: 0 };
        let told = handover.clone();
        let write = move |queue| Turns::new(pen, queue, told, watch).run(Duration::ZERO);
        let (queue, thread) = WriterThread::start(limits, write)?;
        let thread = Arc::new(Closing(queue.clone(), thread));
        Ok(Self { queue, file: file.clone(), place, handover, thread })
    }

    fn at_once<T: Send + 'static>(
        &self,
        epoch: i64,
        run: impl FnOnce(&Member<'_>) -> Result<T>,
    ) -> Reply<'static, T> {
        let answer = self.file.run(epoch, run).map_err(|error| store_error(&error));
        Box::pin(std::future::ready(answer))
    }

    fn tell(&self, taken: TakenOver) -> usize {
        Aftermath::of_lanes(taken.woken).tell(&*self.handover);
        taken.count
    }
}

impl NodeWriter {
    /// Writes one batch of the waiting commands. After `Nothing` the next command wakes the writer.
    pub fn commit_next(&mut self) -> Turn {
        self.0.next()
    }

    /// Returns the last batch that is known to be stored, and its epoch.
    pub fn confirmed(&self) -> (i64, i64) {
        (self.0.store.epoch, self.0.store.last)
    }

    /// Dies: drops waiting commands, and takes no more.
    pub fn forget(self) {
        self.0.queue.forget();
    }

    /// Ends as a stopped process does.
    pub fn end(mut self) {
        self.0.queue.close();
        let mut tries_left = TRIES_WHILE_CLOSING;
        while tries_left > 0 {
            match self.0.next() {
                Turn::Nothing => break,
                Turn::Committed(_) => {}
                Turn::Failed => tries_left -= 1,
            }
        }
        self.0.store.end();
    }
}

impl Commit for Pen {
    fn commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        let seat = *self.place.seat();
        let epoch = seat.epoch;
        if epoch != self.epoch {
            (self.epoch, self.last) = (epoch, 0);
        }
        let last = self.last;
        let stored = self.file.run_at(epoch, Some(seat), |tx| {
            let fence =
                "UPDATE writer_batches SET batch = ?2 + 1 WHERE epoch = ?1 AND writer = 0 AND batch = ?2";
            if tx.execute(fence, params![epoch, last])? == 0 {
                return Err(self.place.fenced(tx, epoch)?);
            }
            apply_all(tx, batch)
        });
        match stored {
            Err(Error::Io(error)) if error.kind() == ErrorKind::TimedOut => {
                self.place.is_in_doubt.store(true, SeqCst);
                Err(Error::InDoubt(Box::new(error.into())))
            }
            stored => {
                let newest_notice = stored?;
                self.last += 1;
                Ok(newest_notice)
            }
        }
    }

    fn stored(&mut self) -> Result<Option<i64>> {
        let (epoch, next) = (self.epoch, self.last + 1);
        let sql = "SELECT batch FROM writer_batches WHERE epoch = ?1 AND writer IN (0, -1)";
        let (last, newest_notice) =
            self.file.run(0, |tx| Ok(((tx as &dyn Sql).number(sql, params![epoch])?, newest_notice(tx)?)))?;
        self.place.is_in_doubt.store(false, SeqCst);
        let is_stored = last == next;
        self.last += i64::from(is_stored);
        Ok(is_stored.then_some(newest_notice))
    }

    fn end(&mut self) {
        let left = self.file.run(self.epoch, |tx| {
            takeover::leave(tx, tx.now)?;
            takeover::be_forgotten(tx, tx.now)
        });
        if let Err(error) = left {
            tracing::warn!(%error, "this node could not leave the file");
        }
    }
}

impl Store for SqliteNode {
    fn close(&self) {
        self.queue.close();
        self.thread.1.join();
    }
}

impl Desk for SqliteNode {
    fn commands(&self) -> &Queue {
        &self.queue
    }

    fn read<T: Send + 'static>(
        &self,
        mut run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.at_once(0, |tx| run(tx))
    }

    fn read_for_engine<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        self.read(run)
    }

    fn can_record(&self) -> bool {
        !self.place.is_in_doubt.load(SeqCst)
    }

    fn membership(&self) -> Option<&dyn Membership> {
        Some(self)
    }

    fn measure(&self) -> Reply<'_, StorageUsage> {
        Box::pin(std::future::ready(Ok(StorageUsage::default())))
    }
}

/// In the writer's batches, so that a node can die between two of them.
impl Steps for SqliteNode {
    fn step<T: Send + 'static>(
        &self,
        mut run: impl FnMut(&dyn Sql, Timestamp) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        let clock = self.file.clock.clone();
        self.call(move |tx| run(tx, clock()))
    }
}

impl Membership for SqliteNode {
    fn join(&self, now: Timestamp) -> Reply<'static, Joined> {
        let node = self.clone();
        Box::pin(async move {
            let before = node.epoch();
            if node.at_once(before, |tx| nodes::slot(tx)).await?.is_none() || node.place.is_lost() {
                let (epoch, slot) = node.file.enter().map_err(|error| store_error(&error))?;
                let mut seat = node.place.seat();
                *seat = seat.moved(epoch, slot);
            }
            let epoch = node.epoch();
            let mut dead = node.at_once(epoch, |tx| nodes::fallen(tx, |_, _| false, tx.now)).await?.dead;
            if before != epoch && !dead.contains(&before) {
                dead.push(before);
            }
            let mut taken = TakenOver::default();
            for other in dead {
                takeover::succeed(&node, other, now, &mut taken).await?;
            }
            let (newest_id, inspections_wait) = node.step(|tx, _| what_is_there(tx)).await?;
            if inspections_wait {
                node.handover.inspections_wait();
            }
            let slot = {
                let mut seat = node.place.seat();
                *seat = seat.behind(newest_id);
                seat.slot()
            };
            Ok(Joined { slot, epoch, is_alone: false, newest_id, taken_over: node.tell(taken) })
        })
    }

    fn beat(&self, beat: Beat) -> Reply<'static, Option<View>> {
        if self.place.is_lost() {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.at_once(self.epoch(), |tx| nodes::beat(tx, &beat, tx.now))
    }

    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'static, Option<usize>> {
        let node = self.clone();
        Box::pin(
            async move { Ok(takeover::take_over(&node, epoch, now).await?.map(|taken| node.tell(taken))) },
        )
    }

    fn nodes(&self) -> Reply<'static, View> {
        self.at_once(self.epoch(), |tx| nodes::view(tx, tx.now))
    }

    fn epoch(&self) -> i64 {
        self.place.epoch()
    }
}

//! This process as a node of a database: its epoch, and how it takes over from others. Each step of a takeover is fenced by
//! this node's own row in `writer_batches`, as writer 1.

use super::{
    migrations::{self, is_busy},
    partitions,
    session::{Server, Session},
    sql::Transaction,
    transient_errors::may_succeed_later,
    writer::ANSWER_TIMEOUT,
    writer_lease::WriterLease,
};
use crate::{
    domain::{cluster::JOIN_GRACE, id::NODE_SLOTS, time::Timestamp},
    store::{
        Reply, StoreError,
        cluster::Joined,
        sql::{
            Error, NewNode, Result, Sql, WriterId, newest_id_and_inspections, nodes, params, store_error,
            takeover::{self, TakenOver, TakeoverSteps},
        },
    },
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

/// Nodes enter one at a time, each to find a free slot.
pub(super) const ENTER: &str = "SELECT pg_advisory_xact_lock(8102099357864587378)";
/// How often a step is tried that conflicted with another node's batch.
const STEP_TRIES: usize = 5;
/// How long a takeover waits for a batch of the dead node.
const BATCH_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '3s'";
/// How often a node that found no slot tries again.
const SLOT_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Happens after a fail-over to a standby that had not received everything, or a crash of a server that does not flush.
pub(super) const LOST_BATCHES: &str =
    "the database and this process count batches differently: it lost some that it had confirmed";

pub(super) struct NodeHandle {
    server: Arc<Server>,
    writer_id: Mutex<WriterId>,
    /// The last batch that the database confirmed, and its epoch.
    confirmed: Mutex<(i64, i64)>,
    /// The epoch of which the database has lost confirmed batches; 0 if there is none.
    lost: AtomicI64,
    /// A joining node may have much to take over before its engine sends heartbeats.
    is_joining: AtomicBool,
    pub(super) lease: Arc<WriterLease>,
    session: Mutex<Option<Session>>,
}

impl NodeHandle {
    pub(super) fn new(server: Arc<Server>, writer_id: WriterId, writer_lease: Arc<WriterLease>) -> Self {
        let (lost, is_joining) = (AtomicI64::new(0), AtomicBool::new(false));
        let (writer_id, confirmed, session) = (Mutex::new(writer_id), Mutex::default(), Mutex::new(None));
        Self { server, writer_id, confirmed, lost, is_joining, lease: writer_lease, session }
    }

    /// Returns epoch and slot together, so that rows are written and ids assigned under the same identity.
    pub(super) fn writer_id(&self) -> WriterId {
        *self.lock_writer_id()
    }

    fn lock_writer_id(&self) -> MutexGuard<'_, WriterId> {
        self.writer_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoch(&self) -> i64 {
        self.writer_id().epoch
    }

    /// Stores that this batch is in the database.
    pub(super) fn confirm(&self, epoch: i64, batch: i64) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = (epoch, batch);
    }

    /// Returns the last confirmed batch of an epoch; 0 if there was none.
    pub(super) fn confirmed(&self, epoch: i64) -> i64 {
        let (of, batch) = *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if of == epoch { batch } else { 0 }
    }

    /// Marks the epoch as lost: no more can be written under it. Logged once per epoch.
    pub(super) fn mark_lost(&self, epoch: i64) {
        if self.lost.swap(epoch, SeqCst) != epoch {
            tracing::error!(epoch, "{LOST_BATCHES}");
        }
    }

    pub(super) fn is_joining(&self) -> bool {
        self.is_joining.load(SeqCst)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(SeqCst) == self.epoch()
    }

    /// Enters again if this epoch is fenced or lost; returns the nodes that are known to be dead. Blocks.
    fn enter(&self) -> Result<Vec<i64>> {
        self.with_session(|session| {
            let before = self.epoch();
            let known = Transaction::run(session, before, |tx| nodes::slot(tx))?;
            if known.is_none() || self.is_lost() {
                let (epoch, slot) = enter(session)?;
                let mut writer_id = self.lock_writer_id();
                *writer_id = writer_id.rejoined(epoch, slot);
                tracing::info!(epoch, "this node goes on under a new epoch");
            }
            let host = host();
            let is_gone = |of: &str, pid: u32| !host.is_empty() && of == host && !is_running(pid);
            let epoch = self.epoch();
            let look = || Transaction::run(session, epoch, |tx| nodes::find_dead(tx, is_gone, tx.clock()?));
            let mut fallen = look()?;
            if let Some(wait) = fallen.in_doubt_for {
                std::thread::sleep(wait);
                fallen = look()?;
            }
            let mut dead = fallen.dead;
            if before != epoch && !dead.contains(&before) {
                dead.push(before);
            }
            Ok(dead)
        })
    }

    /// Sets the newest id: from here on this node may assign ids in its slot. Returns the slot.
    fn joined(&self, newest_id: i64) -> u8 {
        let mut writer_id = self.lock_writer_id();
        *writer_id = writer_id.after_id(newest_id);
        self.lease.joined();
        writer_id.slot()
    }

    /// Leaves the cluster: this process writes nothing more. Its deliveries in flight may be taken over at once; without any,
    /// its row is deleted.
    pub(super) fn leave(&self, session: &Session) -> Result<()> {
        let epoch = self.epoch();
        Transaction::run(session, epoch, |tx| takeover::leave(tx, tx.clock()?))?;
        Transaction::run(session, epoch, |tx| takeover::delete_self(tx, tx.clock()?))
    }

    /// Runs a step in a transaction that increments this node's second row in `writer_batches`; again after a conflict.
    /// Blocks.
    fn fenced<T>(&self, run: &mut impl FnMut(&dyn Sql, Timestamp) -> Result<T>) -> Result<T> {
        let epoch = self.epoch();
        let fence = format!(
            "UPDATE writer_batches SET batch = batch + 1 WHERE epoch = {epoch} AND writer = 1 RETURNING 1"
        );
        let mut attempt = || {
            self.with_session(|session| {
                let (tx, counted) = Transaction::begin(session, epoch, &fence)?;
                if counted == 0 {
                    return Err(Error::Fenced(
                        "another node took over from this one, which takes over nothing",
                    ));
                }
                let done = run(&tx, tx.clock()?)?;
                tx.commit()?;
                Ok(done)
            })
        };
        let mut tries_left = STEP_TRIES;
        loop {
            tries_left -= 1;
            match attempt() {
                Err(error) if tries_left > 0 && may_succeed_later(&error) => {}
                result => return result,
            }
        }
    }

    /// Fences a dead node. Waits for a batch that it is committing, but not for one whose client neither reads nor goes away:
    /// the server's process that serves it is ended, and its batch is rolled back.
    fn fence(&self, epoch: i64) -> Result<()> {
        let mut tries_left = STEP_TRIES;
        loop {
            tries_left -= 1;
            let done = self.fenced(&mut |tx, clock| {
                tx.execute(BATCH_LOCK_TIMEOUT, &[])?;
                takeover::fence(tx, epoch, clock)
            });
            match done {
                Err(error) if tries_left > 0 && is_busy(&error) => {
                    let ended =
                        self.with_session(|session| Transaction::run(session, epoch, end_dead_batches))?;
                    if ended > 0 {
                        tracing::warn!(epoch, "a dead node kept a batch open, which was ended");
                    } else {
                        tracing::warn!(epoch, "a dead node keeps a batch open, which this role may not end");
                    }
                }
                done => return done,
            }
        }
    }

    fn with_session<T>(&self, run: impl FnOnce(&Session) -> Result<T>) -> Result<T> {
        let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = match kept.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => Session::connect(&self.server, ANSWER_TIMEOUT)?,
        };
        run(kept.insert(session))
    }
}

/// Marks the node as joining while it exists.
struct JoinGuard<'a>(&'a NodeHandle);

impl<'a> JoinGuard<'a> {
    fn begin(node: &'a NodeHandle) -> Self {
        node.is_joining.store(true, SeqCst);
        Self(node)
    }
}

impl Drop for JoinGuard<'_> {
    fn drop(&mut self) {
        self.0.is_joining.store(false, SeqCst);
    }
}

/// Runs database work beside the writer, on threads that may block.
pub(super) struct BlockingSession(pub(super) Arc<NodeHandle>);

impl BlockingSession {
    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&NodeHandle) -> Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let node = self.0.clone();
        let done = tokio::task::spawn_blocking(move || run(&node)).await;
        done.map_err(|_| StoreError::Closed)?.map_err(|error| store_error(&error))
    }

    /// Joins, under another epoch if this one is fenced. Also returns what was taken over, and whether inspections wait.
    pub(super) async fn join(&self, now: Timestamp) -> Result<(Joined, TakenOver, bool), StoreError> {
        let _joining = JoinGuard::begin(&self.0);
        let dead = self.run(NodeHandle::enter).await?;
        let mut taken = TakenOver::default();
        for other in dead {
            takeover::take_over_gone(self, other, now, &mut taken).await?;
        }
        let (newest_id, inspections_wait) = self.step(|tx, _| newest_id_and_inspections(tx)).await?;
        let (slot, epoch) = (self.0.joined(newest_id), self.0.epoch());
        let joined = Joined { slot, epoch, is_alone: false, newest_id, taken_over: taken.count };
        Ok((joined, taken, inspections_wait))
    }

    /// Maintains partitions. Needs no fence, because it changes no result of a query.
    pub(super) async fn maintain(&self) -> Result<(), StoreError> {
        self.run(|node| node.with_session(partitions::maintain)).await
    }
}

impl TakeoverSteps for BlockingSession {
    fn step<T: Send + 'static>(
        &self,
        mut run: impl FnMut(&dyn Sql, Timestamp) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        let aside = Self(self.0.clone());
        Box::pin(async move { aside.run(move |node| node.fenced(&mut run)).await })
    }

    fn fence(&self, epoch: i64) -> Reply<'static, ()> {
        let aside = Self(self.0.clone());
        Box::pin(async move { aside.run(move |node| node.fence(epoch)).await })
    }
}

/// How far the batches of an epoch are stored.
pub(super) enum StoredBatches {
    /// This was the last so far.
    Upto(i64),
    /// This was the last, and there will be no more: another node took over.
    FencedAt(i64),
    Unknown,
}

/// Reads how far the batches of this epoch are stored. Waits for a batch that is being committed.
pub(super) fn stored(tx: &Transaction<'_>) -> Result<StoredBatches> {
    let sql =
        "SELECT batch, writer >= 0 FROM writer_batches WHERE epoch = ?1 AND writer IN (0, -1) FOR UPDATE";
    let found = (tx as &dyn Sql).one(sql, params![tx.epoch()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match found {
        Some((batch, true)) => StoredBatches::Upto(batch),
        Some((batch, false)) => StoredBatches::FencedAt(batch),
        None => StoredBatches::Unknown,
    })
}

/// Ends the server's processes that are in the middle of a dead node's batch; returns how many. A transaction that has
/// incremented a row and not ended is recorded in that row.
fn end_dead_batches(tx: &Transaction<'_>) -> Result<i64> {
    let sql = "SELECT count(pg_terminate_backend(a.pid)) FROM writer_batches l JOIN pg_stat_activity a ON a.backend_xid = l.xmax
         WHERE l.epoch IN (SELECT epoch FROM nodes WHERE dead = 1) AND l.writer >= 0 AND a.pid <> pg_backend_pid()";
    (tx as &dyn Sql).number(sql, &[])
}

/// Gives this process a new epoch, and a slot. If no slot is free, it waits as long as every node has to send a heartbeat,
/// and takes the slot of a silent one.
pub(super) fn enter(session: &Session) -> Result<(i64, u8)> {
    let (mut waits_since, mut tries_left) = (None, STEP_TRIES);
    loop {
        let (tx, _) = Transaction::begin(session, 0, ENTER)?;
        (&tx as &dyn Sql).execute(BATCH_LOCK_TIMEOUT, &[])?;
        let now = tx.clock()?;
        let since = *waits_since.get_or_insert(now);
        match enter_now(&tx, since, now) {
            Ok(Some(entered)) => {
                tx.commit()?;
                return Ok(entered);
            }
            Ok(None) if since.plus(JOIN_GRACE) <= now => {
                return Err(Error::Wrong(format!(
                    "there are {NODE_SLOTS} nodes already, and no room for more"
                )));
            }
            Err(error) if tries_left == 0 || !is_busy(&error) && !may_succeed_later(&error) => {
                return Err(error);
            }
            // Others may enter and leave meanwhile.
            Ok(None) => drop(tx),
            Err(_) => {
                tries_left -= 1;
                drop(tx);
                Transaction::run(session, 0, end_dead_batches)?;
            }
        }
        std::thread::sleep(SLOT_RETRY_INTERVAL);
    }
}

fn enter_now(tx: &Transaction<'_>, waits_since: Timestamp, now: Timestamp) -> Result<Option<(i64, u8)>> {
    // The server's random number: 59 bits of it, and never 0.
    let random = "SELECT CAST(CAST('x' || replace(CAST(gen_random_uuid() AS text), '-', '') AS bit(64)) AS bigint) & 9223372036854775807";
    let epoch = (tx as &dyn Sql).number(random, &[])?;
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let new = NewNode { epoch, name: name.trim().to_owned(), host: host(), pid: std::process::id() };
    if (tx as &dyn Sql).exists("SELECT EXISTS (SELECT 1 FROM sqlite_import WHERE finished = 0)", &[])? {
        return Err(Error::Fenced("a store is being moved into this database: it is not complete yet"));
    }
    let Some(slot) = nodes::enter(tx, &new, waits_since, now)? else { return Ok(None) };
    migrations::announce_version(tx, epoch, migrations::NEWEST)?;
    Ok(Some((epoch, slot)))
}

/// Identifies the machine and process namespace: processes there can see whether this one runs. Containers have processes of
/// their own. Empty where the system does not say.
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let space = std::fs::read_link("/proc/self/ns/pid");
    match (boot, space) {
        (Ok(boot), Ok(space)) => format!("{} {}", boot.trim(), space.display()),
        _ => String::new(),
    }
}

/// Whether there is such a process here. If that cannot be determined, its lease has to end first.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

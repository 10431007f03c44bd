//! The one writer of a process: writes the waiting commands in one transaction, which begins by incrementing its row in
//! `writer_batches`. So a batch is stored once, even if the answer to its COMMIT is lost, and never after another process took
//! over.

use super::{
    batch_split::{needs_global_lock, split_batch},
    bulk_commit,
    heartbeat::NotifySender,
    migrations::is_busy,
    node::{self, LOST_BATCHES, NodeHandle, StoredBatches},
    notify::NotifyMessage,
    open,
    scan_watermarks::ScanWatermarks,
    session::{Server, Session},
    session_settings::keep_write_settings,
    single_statement_commit::{self, SimpleBatch},
    sql::{Transaction, Uncommitted},
    transient_errors::{is_rolled_back, may_succeed_later},
    writer_lease::WriterLease,
};
use crate::{
    domain::{id::EndpointId, ports::CommitListener},
    store::{
        StoreError,
        sql::{
            BatchWriter, Command, CommandQueue, CommitEffects, Error, Locks, Result, Sql, WriterId,
            newest_notice, params, store_error,
        },
    },
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How often a batch is tried that conflicted with another one, or whose connection broke before it was complete.
const COMMIT_TRIES: usize = 5;
/// How often a writer with nothing to write checks whether the database can be written again.
const WRITE_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// For any one answer. After that the connection is given up, and with it everything not committed.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Only commands of the hot path have locks of their own for what they read to change: of other commands one batch at a time
/// runs. The lock is waited for in short pieces, between which hot-path commands are written.
const ONE_AT_A_TIME: &str = "SET LOCAL lock_timeout = '100ms'; DO 'BEGIN PERFORM pg_advisory_xact_lock(8102099357864587376); END'; \
     SET LOCAL lock_timeout = '7s'; ";
/// Number of unhealthy endpoints that are remembered; beyond that the set is cleared.
const UNHEALTHY_MAX: usize = 1_000;
/// All pieces together, before waiting callers get an error.
const ONE_AT_A_TIME_WAIT_MAX: Duration = Duration::from_secs(7);

pub(super) struct PostgresCommitLoop {
    server: Arc<Server>,
    /// `None` while there is no connection.
    session: Option<Session>,
    node: Arc<NodeHandle>,
    /// Epoch and number of the last batch that was written.
    epoch: i64,
    last: i64,
    /// Whether that batch changed the configuration, or the one in doubt does.
    has_changes: bool,
    /// Endpoints that were unhealthy in the sense of `IS_UNHEALTHY` when they were last read.
    unhealthy: BTreeSet<EndpointId>,
    /// Since when the lock of ONE_AT_A_TIME is held by other nodes, by the `CommitWatch` clock.
    busy_since_us: Option<u64>,
    watermarks: Arc<ScanWatermarks>,
    queue: Arc<CommandQueue>,
    lease: Arc<WriterLease>,
    notify_sender: NotifySender,
    commit_listener: Arc<dyn CommitListener>,
}

impl PostgresCommitLoop {
    pub(super) fn new(
        server: Arc<Server>,
        session: Session,
        node: Arc<NodeHandle>,
        queue: Arc<CommandQueue>,
        notify_sender: NotifySender,
        commit_listener: Arc<dyn CommitListener>,
    ) -> Self {
        let (session, epoch, writer_lease) = (Some(session), node.epoch(), node.lease.clone());
        let (last, has_changes, busy_since_us, watermarks) =
            (0, false, None, Arc::new(ScanWatermarks::new(writer_lease.clone())));
        let unhealthy = BTreeSet::new();
        Self {
            server,
            session,
            node,
            epoch,
            last,
            has_changes,
            unhealthy,
            busy_since_us,
            watermarks,
            queue,
            lease: writer_lease,
            notify_sender,
            commit_listener,
        }
    }

    fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take().filter(|session| !session.has_ended()) {
            Some(session) => session,
            None => open::connect_to_write(&self.server)?,
        };
        Ok(self.session.insert(session))
    }

    fn try_commit(&mut self, batch: &mut [Box<dyn Command>]) -> Result<i64> {
        let writer_id = self.node.writer_id();
        if writer_id.epoch != self.epoch {
            // It joined again: deliveries leased before are not leased any more.
            (self.epoch, self.last) = (writer_id.epoch, 0);
        }
        let mut locks = Locks::default();
        for work in batch.iter() {
            work.locks(&mut locks);
        }
        if let Some(newest_notice) = self.commit_as_one_statement(writer_id, batch, &locks)? {
            return Ok(newest_notice);
        }
        self.commit_in_steps(writer_id, batch, &locks)
    }

    /// Commits the batch as one statement, if that is possible. `None` if nothing was stored: then it is written in steps.
    fn commit_as_one_statement(
        &mut self,
        writer_id: WriterId,
        batch: &mut [Box<dyn Command>],
        locks: &Locks,
    ) -> Result<Option<i64>> {
        let (last, endpoints) = (self.last, &locks.health_if_unhealthy);
        let may_be_plain = locks.is_conditional() && endpoints.is_disjoint(&self.unhealthy);
        if !may_be_plain || self.server.is_pooled() {
            return Ok(None);
        }
        let Some(plain) = SimpleBatch::of(writer_id, batch, endpoints)? else { return Ok(None) };
        let session = self.session()?;
        keep_write_settings(session)?;
        // Until it is sent, it cannot be in doubt.
        let answer = plain
            .run(writer_id, last, |command| session.prepare(&[command]).map(|_| session.run_one(command)))?;
        match answer.and_then(|answer| single_statement_commit::stored(&answer)) {
            Ok(None) => Ok(None),
            Ok(Some(newest_notice)) => {
                self.confirm(last + 1);
                self.has_changes = false;
                Ok(Some(newest_notice))
            }
            // Writing in steps would wait as long again.
            Err(error) if is_busy(&error) => Err(error),
            Err(error) if is_rolled_back(&error) => {
                tracing::debug!(%error, "a batch was refused as a whole and is written in steps");
                Ok(None)
            }
            Err(_) => self.resolve_on_new_connection(),
        }
    }

    fn commit_in_steps(
        &mut self,
        writer_id: WriterId,
        batch: &mut [Box<dyn Command>],
        locks: &Locks,
    ) -> Result<i64> {
        let (epoch, last) = (self.epoch, self.last);
        let next = last + 1;
        let needs_lock = needs_global_lock(batch);
        let alone = if needs_lock { ONE_AT_A_TIME } else { "" };
        let fence = format!(
            "{alone}UPDATE writer_batches SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING 1"
        );
        let watermarks = self.watermarks.clone();
        let (tx, counted) = match Transaction::begin_at(self.session()?, writer_id, watermarks, &fence, locks)
        {
            Err(error) if needs_lock && is_busy(&error) => return Err(Error::Busy),
            begun => begun?,
        };
        if counted == 0 {
            let found = node::stored(&tx)?;
            drop(tx);
            return Err(self.fenced(&found));
        }
        let (unhealthy, healthy) =
            locks.health_if_unhealthy.iter().partition(|endpoint| tx.has_health(**endpoint));
        let rest = bulk_commit::apply_all(&tx, writer_id, batch)?;
        let has_changes = tx.has_changes();
        let committed = rest.commit(tx);
        self.has_changes = has_changes;
        self.remember_health(&unhealthy, &healthy);
        if needs_lock {
            self.busy_since_us = None;
        }
        match committed {
            Ok(newest_notice) => {
                self.confirm(next);
                Ok(newest_notice)
            }
            Err(Uncommitted::RolledBack(error)) => Err(error),
            Err(Uncommitted::InDoubt(error)) => {
                let stored = self.resolve_on_new_connection()?;
                if stored.is_none() {
                    // As if it had broken before: that may be retried.
                    self.session = None;
                }
                stored.ok_or(error)
            }
        }
    }

    /// Asks over another connection whether the batch after the last one is stored.
    fn resolve_on_new_connection(&mut self) -> Result<Option<i64>> {
        self.session = None;
        self.resolve_doubt().map_err(|error| match error {
            fenced @ Error::Fenced(_) => fenced,
            error => Error::InDoubt(Box::new(error)),
        })
    }

    /// Remembers unhealthy endpoints: a batch for one of them is not tried as one statement.
    fn remember_health(&mut self, unhealthy: &BTreeSet<EndpointId>, healthy: &BTreeSet<EndpointId>) {
        if self.unhealthy.len() > UNHEALTHY_MAX {
            self.unhealthy.clear();
        }
        self.unhealthy.retain(|endpoint| !healthy.contains(endpoint));
        self.unhealthy.extend(unhealthy);
    }

    /// Stores that the database has counted up to this batch.
    fn confirm(&mut self, last: i64) {
        self.last = last;
        self.node.confirm(self.epoch, last);
    }

    /// Returns why the writer's row could not be incremented.
    fn fenced(&self, found: &StoredBatches) -> Error {
        match found {
            StoredBatches::Upto(_) => {
                self.node.mark_lost(self.epoch);
                Error::Fenced(LOST_BATCHES)
            }
            StoredBatches::FencedAt(_) | StoredBatches::Unknown => Error::Fenced(
                "another node took over from this one, which writes nothing more before it joins again",
            ),
        }
    }

    /// Other nodes hold the lock of ONE_AT_A_TIME: the batch is retried for a while.
    fn busy(&mut self) -> Error {
        let now_us = self.lease.now_us();
        let since_us = *self.busy_since_us.get_or_insert(now_us);
        if Duration::from_micros(now_us.saturating_sub(since_us)) < ONE_AT_A_TIME_WAIT_MAX {
            return Error::Busy;
        }
        Error::Stale("other nodes have been at what one does at a time for too long; try again")
    }

    /// Whether a retry may succeed: it conflicted with another transaction, or the server went away.
    fn may_try_again(&self, error: &Error) -> bool {
        may_succeed_later(error)
            || matches!(error, Error::Postgres(_)) && self.session.as_ref().is_none_or(Session::is_closed)
    }

    /// Stops leasing and sending, unless this node has joined again since.
    fn fence(&self) {
        if self.node.epoch() == self.epoch {
            self.lease.fence();
        }
    }

    fn note(&mut self, error: &Error) {
        if matches!(error, Error::Stale(_)) {
            return;
        }
        if matches!(error, Error::Fenced(_)) {
            self.fence();
        }
        if matches!(store_error(error), StoreError::Unavailable(_)) {
            self.lease.set_writing(false);
            // A new connection may succeed, for example where this one leads to a server that has become a standby.
            self.session = None;
        }
    }
}

impl BatchWriter for PostgresCommitLoop {
    fn parts(&self, batch: Vec<Box<dyn Command>>) -> Vec<Vec<Box<dyn Command>>> {
        split_batch(batch, &self.unhealthy)
    }

    fn commit(&mut self, batch: &mut [Box<dyn Command>]) -> Result<i64> {
        let mut tries_left = COMMIT_TRIES;
        loop {
            let result = self.try_commit(batch);
            tries_left -= 1;
            if !matches!(result, Ok(_) | Err(Error::Busy)) {
                self.watermarks.clear();
            }
            match &result {
                Err(error) if tries_left > 0 && self.may_try_again(error) => {
                    // While the server is away this would be logged many times a second.
                    if self.lease.is_writing() {
                        tracing::info!(%error, "a batch is retried");
                    }
                    continue;
                }
                Err(Error::Busy) => {
                    // The server answered, although it did not get the lock.
                    self.lease.set_writing(true);
                    return Err(self.busy());
                }
                Err(error) => self.note(error),
                Ok(_) => self.lease.set_writing(true),
            }
            return result;
        }
    }

    /// Asks over another connection, which waits until a COMMIT under way has ended. If the batch is not stored, two are
    /// counted: a batch still on its way then fails, whenever it arrives.
    fn resolve_doubt(&mut self) -> Result<Option<i64>> {
        let (epoch, last) = (self.epoch, self.last);
        let (next, too_late) = (last + 1, last + 2);
        let found = self.session().and_then(|session| {
            let (tx, _) = Transaction::begin(session, epoch, "")?;
            let (mut found, newest_notice) = (node::stored(&tx)?, newest_notice(&tx)?);
            if matches!(found, StoredBatches::Upto(found) if found == last) {
                let count = "UPDATE writer_batches SET batch = ?2 WHERE epoch = ?1 AND writer = 0";
                (&tx as &dyn Sql).execute(count, params![epoch, too_late])?;
                tx.commit()?;
                found = StoredBatches::Upto(too_late);
            }
            Ok((found, newest_notice))
        });
        let (found, newest_notice) = match found {
            Ok((StoredBatches::Upto(found), newest_notice)) => (found, newest_notice),
            Ok((StoredBatches::FencedAt(found), newest_notice)) => {
                self.fence();
                (found, newest_notice)
            }
            Ok((StoredBatches::Unknown, _)) => {
                self.fence();
                return Err(Error::Fenced("it is not known what became of the last batch of this process"));
            }
            Err(error) => {
                self.lease.set_writing(false);
                self.session = None;
                return Err(error);
            }
        };
        if found == next {
            self.lease.set_writing(true);
            self.confirm(next);
            return Ok(Some(newest_notice));
        }
        if found == too_late {
            self.confirm(too_late);
        }
        Ok(None)
    }

    fn notify_peers(&mut self, after: &CommitEffects) {
        self.notify_sender.send(NotifyMessage::of(after, self.has_changes, &*self.commit_listener));
    }

    fn wait(&mut self) {
        // No caller waits.
        self.busy_since_us = None;
        if self.lease.is_writing() {
            std::thread::park();
            return;
        }
        std::thread::park_timeout(WRITE_CHECK_INTERVAL);
        // No command is pushed before the writer lease says that the database can be written.
        let answered = self.session().and_then(|session| session.run("SELECT 1"));
        if self.queue.is_idle() && answered.is_ok() {
            self.lease.set_writing(true);
        }
    }

    fn end(&mut self) {
        let node = self.node.clone();
        let left = self.session().and_then(|session| node.leave(session));
        if let Err(error) = left {
            tracing::warn!(%error, "this node could not leave the database");
        }
    }
}

//! The one writer of a process: writes the waiting commands in one transaction, which begins by incrementing its row in
//! `ledger`. So a batch is stored once, even if the answer to its COMMIT is lost, and never after another process took over.

use super::{
    at_once::{self, Plain},
    beat::Ringer,
    bell::Bell,
    bulk,
    cluster::{self, LOST_BATCHES, Place, Stored},
    floors::Floors,
    open,
    portions::{in_portions, is_cold},
    pulse::Pulse,
    session::{Server, Session},
    settings::keep_to_write,
    sql::{Transaction, Uncommitted},
    versions::is_busy,
};
use crate::{
    domain::{id::EndpointId, port::Handover},
    store::{
        StoreError,
        sql::{
            Aftermath, Commit, Error, Locks, Queue, Result, Seat, Sql, Work, newest_notice, params,
            store_error,
        },
    },
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio_postgres::error::{DbError, Severity, SqlState};

/// How often a batch is tried that conflicted with another one, or whose connection broke before it was complete.
const TRIES: usize = 5;
/// How often a writer with nothing to write checks whether the database can be written again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// For any one answer. After that the connection is given up, and with it everything not committed.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Only commands of the hot path have locks of their own for what they read to change: of other commands one batch at a time
/// runs. The lock is waited for in short pieces, between which hot-path commands are written.
const ONE_AT_A_TIME: &str = "SET LOCAL lock_timeout = '100ms'; DO 'BEGIN PERFORM pg_advisory_xact_lock(8102099357864587376); END'; \
     SET LOCAL lock_timeout = '7s'; ";
/// Number of unhealthy endpoints that are remembered; beyond that the set is cleared.
const UNWELL_MAX: usize = 1_000;
/// All pieces together, before waiting callers get an error.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(7);

pub(super) struct Writer {
    server: Arc<Server>,
    /// `None` while there is no connection.
    session: Option<Session>,
    place: Arc<Place>,
    /// Epoch and number of the last batch that was written.
    epoch: i64,
    last: i64,
    /// Whether that batch changed the configuration, or the one in doubt does.
    has_changes: bool,
    /// Endpoints that were unhealthy in the sense of `UNWELL` when they were last read.
    unwell: BTreeSet<EndpointId>,
    /// Since when the lock of ONE_AT_A_TIME is held by other nodes, by the `CommitWatch` clock.
    busy_since_us: Option<u64>,
    floors: Arc<Floors>,
    queue: Arc<Queue>,
    pulse: Arc<Pulse>,
    ringer: Ringer,
    handover: Arc<dyn Handover>,
}

impl Writer {
    pub(super) fn new(
        server: Arc<Server>,
        session: Session,
        place: Arc<Place>,
        queue: Arc<Queue>,
        ringer: Ringer,
        handover: Arc<dyn Handover>,
    ) -> Self {
        let (session, epoch, pulse) = (Some(session), place.epoch(), place.pulse.clone());
        let (last, has_changes, busy_since_us, floors) =
            (0, false, None, Arc::new(Floors::new(pulse.clone())));
        let unwell = BTreeSet::new();
        Self {
            server,
            session,
            place,
            epoch,
            last,
            has_changes,
            unwell,
            busy_since_us,
            floors,
            queue,
            pulse,
            ringer,
            handover,
        }
    }

    fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take().filter(|session| !session.has_ended()) {
            Some(session) => session,
            None => open::connect_to_write(&self.server)?,
        };
        Ok(self.session.insert(session))
    }

    fn try_commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        let seat = self.place.seat();
        if seat.epoch != self.epoch {
            // It joined again: deliveries leased before are not leased any more.
            (self.epoch, self.last) = (seat.epoch, 0);
        }
        let mut locks = Locks::default();
        for work in batch.iter() {
            work.locks(&mut locks);
        }
        if let Some(newest_notice) = self.commit_at_once(seat, batch, &locks)? {
            return Ok(newest_notice);
        }
        self.commit_in_steps(seat, batch, &locks)
    }

    /// Commits the batch as one statement, if that is possible. `None` if nothing was stored: then it is written in steps.
    fn commit_at_once(
        &mut self,
        seat: Seat,
        batch: &mut [Box<dyn Work>],
        locks: &Locks,
    ) -> Result<Option<i64>> {
        let (last, endpoints) = (self.last, &locks.health_if_unwell);
        let may_be_plain = locks.are_for_the_unwell() && endpoints.is_disjoint(&self.unwell);
        if !may_be_plain || self.server.is_pooled() {
            return Ok(None);
        }
        let Some(plain) = Plain::of(seat, batch, endpoints)? else { return Ok(None) };
        let session = self.session()?;
        keep_to_write(session)?;
        // Until it is sent, it cannot be in doubt.
        let answer = plain.say(seat, last, |asked| session.prepare(&[asked]).map(|_| session.say(asked)))?;
        match answer.and_then(|answer| at_once::stored(&answer)) {
            Ok(None) => Ok(None),
            Ok(Some(newest_notice)) => {
                self.confirm(last + 1);
                self.has_changes = false;
                Ok(Some(newest_notice))
            }
            // Writing in steps would wait as long again.
            Err(error) if is_busy(&error) => Err(error),
            Err(error) if is_refused(&error) => {
                tracing::debug!(%error, "a batch was refused as a whole and is written in steps");
                Ok(None)
            }
            Err(_) => self.ask_elsewhere(),
        }
    }

    fn commit_in_steps(&mut self, seat: Seat, batch: &mut [Box<dyn Work>], locks: &Locks) -> Result<i64> {
        let (epoch, last) = (self.epoch, self.last);
        let next = last + 1;
        let is_cold = is_cold(batch);
        let alone = if is_cold { ONE_AT_A_TIME } else { "" };
        let fence = format!(
            "{alone}UPDATE writer_batches SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING 1"
        );
        let floors = self.floors.clone();
        let (tx, counted) = match Transaction::begin_at(self.session()?, seat, floors, &fence, locks) {
            Err(error) if is_cold && is_busy(&error) => return Err(Error::Busy),
            begun => begun?,
        };
        if counted == 0 {
            let found = cluster::stored(&tx)?;
            drop(tx);
            return Err(self.fenced(&found));
        }
        let (unwell, well) = locks.health_if_unwell.iter().partition(|endpoint| tx.has_health(**endpoint));
        let rest = bulk::apply_all(&tx, seat, batch)?;
        let has_changes = tx.has_changes();
        let committed = rest.commit(tx);
        self.has_changes = has_changes;
        self.know_of(&unwell, &well);
        if is_cold {
            self.busy_since_us = None;
        }
        match committed {
            Ok(newest_notice) => {
                self.confirm(next);
                Ok(newest_notice)
            }
            Err(Uncommitted::TakenBack(error)) => Err(error),
            Err(Uncommitted::InDoubt(error)) => {
                let stored = self.ask_elsewhere()?;
                if stored.is_none() {
                    // As if it had broken before: that may be retried.
                    self.session = None;
                }
                stored.ok_or(error)
            }
        }
    }

    /// Asks over another connection whether the batch after the last one is stored.
    fn ask_elsewhere(&mut self) -> Result<Option<i64>> {
        self.session = None;
        self.stored().map_err(|error| match error {
            fenced @ Error::Fenced(_) => fenced,
            error => Error::InDoubt(Box::new(error)),
        })
    }

    /// Remembers unhealthy endpoints: a batch for one of them is not tried as one statement.
    fn know_of(&mut self, unwell: &BTreeSet<EndpointId>, well: &BTreeSet<EndpointId>) {
        if self.unwell.len() > UNWELL_MAX {
            self.unwell.clear();
        }
        self.unwell.retain(|endpoint| !well.contains(endpoint));
        self.unwell.extend(unwell);
    }

    /// Stores that the database has counted up to this batch.
    fn confirm(&mut self, last: i64) {
        self.last = last;
        self.place.confirm(self.epoch, last);
    }

    /// Returns why the writer's row could not be incremented.
    fn fenced(&self, found: &Stored) -> Error {
        match found {
            Stored::Upto(_) => {
                self.place.lose(self.epoch);
                Error::Fenced(LOST_BATCHES)
            }
            Stored::UptoItsEnd(_) | Stored::Unknown => Error::Fenced(
                "another node took over from this one, which writes nothing more before it joins again",
            ),
        }
    }

    /// Other nodes hold the lock of ONE_AT_A_TIME: the batch is retried for a while.
    fn busy(&mut self) -> Error {
        let now_us = self.pulse.now_us();
        let since_us = *self.busy_since_us.get_or_insert(now_us);
        if Duration::from_micros(now_us.saturating_sub(since_us)) < WAIT_FOR_OTHERS {
            return Error::Busy;
        }
        Error::Stale("other nodes have been at what one does at a time for too long; try again")
    }

    /// Whether a retry may succeed: it conflicted with another transaction, or the server went away.
    fn may_try_again(&self, error: &Error) -> bool {
        may_pass(error)
            || matches!(error, Error::Postgres(_)) && self.session.as_ref().is_none_or(Session::is_closed)
    }

    /// Stops leasing and sending, unless this node has joined again since.
    fn be_fenced(&self) {
        if self.place.epoch() == self.epoch {
            self.pulse.fence();
        }
    }

    fn note(&mut self, error: &Error) {
        if matches!(error, Error::Stale(_)) {
            return;
        }
        if matches!(error, Error::Fenced(_)) {
            self.be_fenced();
        }
        if matches!(store_error(error), StoreError::Unavailable(_)) {
            self.pulse.writes(false);
            // A new connection may succeed, for example where this one leads to a server that has become a standby.
            self.session = None;
        }
    }
}

/// Whether the server said that it rolled back a statement that was a transaction of its own. It does not say so of one whose
/// connection it ended.
fn is_refused(error: &Error) -> bool {
    let said = |error: &tokio_postgres::Error| error.as_db_error().and_then(DbError::parsed_severity);
    matches!(error, Error::Postgres(error) if said(error) == Some(Severity::Error))
}

/// Whether the error may be gone at a retry, because another transaction or the server caused it.
pub(super) fn may_pass(error: &Error) -> bool {
    let passes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        // A day was attached while the row was on its way to the rest partition: now it belongs to the day.
        SqlState::CHECK_VIOLATION,
    ];
    matches!(error, Error::Postgres(error) if error.code().is_some_and(|code| passes.contains(code)))
}

impl Commit for Writer {
    fn portions(&self, batch: Vec<Box<dyn Work>>) -> Vec<Vec<Box<dyn Work>>> {
        in_portions(batch, &self.unwell)
    }

    fn commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        let mut tries_left = TRIES;
        loop {
            let result = self.try_commit(batch);
            tries_left -= 1;
            if !matches!(result, Ok(_) | Err(Error::Busy)) {
                self.floors.forget();
            }
            match &result {
                Err(error) if tries_left > 0 && self.may_try_again(error) => {
                    // While the server is away this would be logged many times a second.
                    if self.pulse.is_writing() {
                        tracing::info!(%error, "a batch is retried");
                    }
                    continue;
                }
                Err(Error::Busy) => {
                    // The server answered, although it did not get the lock.
                    self.pulse.writes(true);
                    return Err(self.busy());
                }
                Err(error) => self.note(error),
                Ok(_) => self.pulse.writes(true),
            }
            return result;
        }
    }

    /// Asks over another connection, which waits until a COMMIT under way has ended. If the batch is not stored, two are
    /// counted: a batch still on its way then fails, whenever it arrives.
    fn stored(&mut self) -> Result<Option<i64>> {
        let (epoch, last) = (self.epoch, self.last);
        let (next, too_late) = (last + 1, last + 2);
        let found = self.session().and_then(|session| {
            let (tx, _) = Transaction::begin(session, epoch, "")?;
            let (mut found, newest_notice) = (cluster::stored(&tx)?, newest_notice(&tx)?);
            if matches!(found, Stored::Upto(found) if found == last) {
                let count = "UPDATE writer_batches SET batch = ?2 WHERE epoch = ?1 AND writer = 0";
                (&tx as &dyn Sql).execute(count, params![epoch, too_late])?;
                tx.commit()?;
                found = Stored::Upto(too_late);
            }
            Ok((found, newest_notice))
        });
        let (found, newest_notice) = match found {
            Ok((Stored::Upto(found), newest_notice)) => (found, newest_notice),
            Ok((Stored::UptoItsEnd(found), newest_notice)) => {
                self.be_fenced();
                (found, newest_notice)
            }
            Ok((Stored::Unknown, _)) => {
                self.be_fenced();
                return Err(Error::Fenced("it is not known what became of the last batch of this process"));
            }
            Err(error) => {
                self.pulse.writes(false);
                self.session = None;
                return Err(error);
            }
        };
        if found == next {
            self.pulse.writes(true);
            self.confirm(next);
            return Ok(Some(newest_notice));
        }
        if found == too_late {
            self.confirm(too_late);
        }
        Ok(None)
    }

    fn told(&mut self, after: &Aftermath) {
        self.ringer.ring(Bell::of(after, self.has_changes, &*self.handover));
    }

    fn rest(&mut self) {
        // No caller waits.
        self.busy_since_us = None;
        if self.pulse.is_writing() {
            std::thread::park();
            return;
        }
        std::thread::park_timeout(LOOK_AGAIN_AFTER);
        // No command is pushed before the pulse says that the database can be written.
        let answered = self.session().and_then(|session| session.run("SELECT 1"));
        if self.queue.is_idle() && answered.is_ok() {
            self.pulse.writes(true);
        }
    }

    fn end(&mut self) {
        let place = self.place.clone();
        let left = self.session().and_then(|session| place.leave(session));
        if let Err(error) = left {
            tracing::warn!(%error, "this node could not leave the database");
        }
    }
}

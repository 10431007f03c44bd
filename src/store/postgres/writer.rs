//! The one writer of a process: writes what waits in one transaction, which begins by counting its row in `ledger` up. So a
//! batch is stored once, whatever became of the answer to its COMMIT, and never after another process took over.

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

/// How often a batch is tried that met another one, or whose connection broke before it was complete.
const TRIES: usize = 5;
/// How often a writer with nothing to write looks whether it could again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// For any one answer. After that the connection is given up, and with it what was not committed.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// What is read to be changed has no locks of its own but in the commands of the hot path: one batch of others at a time. It is waited
/// for in short pieces, between which what is hot is written.
const ONE_AT_A_TIME: &str = "SET LOCAL lock_timeout = '100ms'; DO 'BEGIN PERFORM pg_advisory_xact_lock(8102099357864587376); END'; \
     SET LOCAL lock_timeout = '7s'; ";
/// Endpoints that are remembered not to be well; beyond that the memory begins anew.
const UNWELL_MAX: usize = 1_000;
/// All pieces together, before whoever waits for an answer is told that there is none.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(7);

pub(super) struct Writer {
    server: Arc<Server>,
    /// `None` while there is no connection.
    session: Option<Session>,
    place: Arc<Place>,
    /// Under which the last batch was written, and its number.
    epoch: i64,
    last: i64,
    /// That batch changed the configuration, or the one in doubt does.
    has_changes: bool,
    /// Endpoints that were not well when they were last seen.
    unwell: BTreeSet<EndpointId>,
    /// Since when other nodes are at what one does at a time, on the watch.
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
            // It joined again. What was carried before is not carried any more.
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

    /// If all of it is plain. `None` if nothing was stored: then it goes the long way.
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
        // Before it is sent nothing is in doubt.
        let answer = plain.say(seat, last, |asked| session.prepare(&[asked]).map(|_| session.say(asked)))?;
        match answer.and_then(|answer| at_once::stored(&answer)) {
            Ok(None) => Ok(None),
            Ok(Some(newest_notice)) => {
                self.confirm(last + 1);
                self.has_changes = false;
                Ok(Some(newest_notice))
            }
            // The other way would wait as long again.
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
            "{alone}UPDATE ledger SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING 1"
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
                    // As if it had broken before: that may be tried again.
                    self.session = None;
                }
                stored.ok_or(error)
            }
        }
    }

    /// Whatever became of its connection, another one answers whether the batch after the last one is stored.
    fn ask_elsewhere(&mut self) -> Result<Option<i64>> {
        self.session = None;
        self.stored().map_err(|error| match error {
            fenced @ Error::Fenced(_) => fenced,
            error => Error::InDoubt(Box::new(error)),
        })
    }

    /// What goes to an endpoint that is not well is not tried at once before it is.
    fn know_of(&mut self, unwell: &BTreeSet<EndpointId>, well: &BTreeSet<EndpointId>) {
        if self.unwell.len() > UNWELL_MAX {
            self.unwell.clear();
        }
        self.unwell.retain(|endpoint| !well.contains(endpoint));
        self.unwell.extend(unwell);
    }

    /// The database has counted so far.
    fn confirm(&mut self, last: i64) {
        self.last = last;
        self.place.confirm(self.epoch, last);
    }

    /// Why its row could not be counted up, if this is what it says.
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

    /// Others are at what one does at a time: it is tried again for a while.
    fn busy(&mut self) -> Error {
        let now_us = self.pulse.now_us();
        let since_us = *self.busy_since_us.get_or_insert(now_us);
        if Duration::from_micros(now_us.saturating_sub(since_us)) < WAIT_FOR_OTHERS {
            return Error::Busy;
        }
        Error::Stale("other nodes have been at what one does at a time for too long; try again")
    }

    /// Another try may do better: it met another transaction, or the server went away under it.
    fn may_try_again(&self, error: &Error) -> bool {
        may_pass(error)
            || matches!(error, Error::Postgres(_)) && self.session.as_ref().is_none_or(Session::is_closed)
    }

    /// Nothing more is begun, unless it joined again since.
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
            // A new one may do better, for example where this one leads to what has become a standby.
            self.session = None;
        }
    }
}

/// The server said that it took a statement back which was a transaction of its own. Of one whose connection it ended it does not say so.
fn is_refused(error: &Error) -> bool {
    let said = |error: &tokio_postgres::Error| error.as_db_error().and_then(DbError::parsed_severity);
    matches!(error, Error::Postgres(error) if said(error) == Some(Severity::Error))
}

/// What a transaction met may be gone when it is tried again.
pub(super) fn may_pass(error: &Error) -> bool {
    let passes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        // A day was attached while the row was on its way to the rest: now it belongs there.
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
                    // While the server is away it would be said many times a second.
                    if self.pulse.is_writing() {
                        tracing::info!(%error, "a batch is tried again");
                    }
                    continue;
                }
                Err(Error::Busy) => {
                    // The server answered, only not with what it was asked for.
                    self.pulse.writes(true);
                    return Err(self.busy());
                }
                Err(error) => self.note(error),
                Ok(_) => self.pulse.writes(true),
            }
            return result;
        }
    }

    /// Another connection says so, once nobody is committing it any more. If it is not stored, two are counted: a batch that is still on
    /// its way then finds that it is too late, whenever it arrives.
    fn stored(&mut self) -> Result<Option<i64>> {
        let (epoch, last) = (self.epoch, self.last);
        let (next, too_late) = (last + 1, last + 2);
        let found = self.session().and_then(|session| {
            let (tx, _) = Transaction::begin(session, epoch, "")?;
            let (mut found, newest_notice) = (cluster::stored(&tx)?, newest_notice(&tx)?);
            if matches!(found, Stored::Upto(found) if found == last) {
                let count = "UPDATE ledger SET batch = ?2 WHERE epoch = ?1 AND writer = 0";
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
        // Nobody waits.
        self.busy_since_us = None;
        if self.pulse.is_writing() {
            std::thread::park();
            return;
        }
        std::thread::park_timeout(LOOK_AGAIN_AFTER);
        // Nobody gives it anything to write before it says that it can.
        let answered = self.session().and_then(|session| session.run("SELECT 1"));
        if self.queue.is_idle() && answered.is_ok() {
            self.pulse.writes(true);
        }
    }

    fn end(&mut self) {
        let place = self.place.clone();
        let left = self.session().and_then(|session| place.leave(session));
        if let Err(error) = left {
            tracing::warn!(%error, "the database was not told that this process ends");
        }
    }
}

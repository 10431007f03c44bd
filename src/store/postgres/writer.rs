//! The one writer of a process: writes what waits in one transaction, which begins by counting its row in `ledger` up. So a
//! batch is stored once, whatever became of the answer to its COMMIT, and never after another process took over.

use super::{beat::Ringer, bell::Bell, cluster::Place, session::Session, sql::Transaction};
use crate::{
    domain::port::Handover,
    store::sql::{
        Aftermath, Commit, Error, Locks, PAUSE_AFTER_FAILURE, Queue, Result, Sql, TRIES_WHILE_CLOSING, Work,
        apply_all, params,
    },
};
use std::sync::Arc;
use tokio_postgres::{Config, error::SqlState};

/// How often a batch is tried that met another one, or whose connection broke before it was complete.
const TRIES: usize = 5;
/// What is read to be changed has no locks of its own but in the commands of the hot path: one batch of others at a time.
const ONE_AT_A_TIME: &str = "pg_advisory_xact_lock(8102099357864587376)";

pub(super) struct Writer {
    config: Arc<Config>,
    /// `None` while there is no connection.
    session: Option<Session>,
    place: Arc<Place>,
    /// Under which the last batch was written, and its number.
    epoch: i64,
    last: i64,
    /// That batch changed the configuration.
    has_changes: bool,
    queue: Arc<Queue>,
    ringer: Ringer,
    handover: Arc<dyn Handover>,
}

impl Writer {
    pub(super) fn new(
        config: Arc<Config>,
        session: Session,
        place: Arc<Place>,
        queue: Arc<Queue>,
        ringer: Ringer,
        handover: Arc<dyn Handover>,
    ) -> Self {
        let (session, epoch) = (Some(session), place.epoch());
        Self { config, session, place, epoch, last: 0, has_changes: false, queue, ringer, handover }
    }

    fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => Session::connect(&self.config)?,
        };
        Ok(self.session.insert(session))
    }

    fn try_commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        if self.place.epoch() != self.epoch {
            // It joined again. What was carried before is not carried any more.
            (self.epoch, self.last) = (self.place.epoch(), 0);
        }
        let (epoch, last) = (self.epoch, self.last);
        let next = last + 1;
        let alone = if batch.iter().all(|work| work.is_hot()) { "1" } else { ONE_AT_A_TIME };
        let fence = format!(
            "UPDATE ledger SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING {alone}"
        );
        let (tx, counted) = Transaction::begin(self.session()?, epoch, &fence)?;
        if counted == 0 {
            let found = stored(&tx)?;
            drop(tx);
            return Err(self.fenced(found));
        }
        let mut locks = Locks::default();
        batch.iter().for_each(|work| work.locks(&mut locks));
        tx.lock_all(&locks)?;
        let newest_notice = apply_all(&tx, batch)?;
        let has_changes = tx.has_changes();
        if let Err(error) = tx.commit()
            && !self.is_stored(next)?
        {
            return Err(error);
        }
        (self.last, self.has_changes) = (next, has_changes);
        Ok(newest_notice)
    }

    /// Why its row could not be counted up, if this is what it says.
    fn fenced(&self, found: Option<(i64, bool)>) -> Error {
        let Some((_, false)) = found else {
            return Error::Fenced(
                "another node took over from this one, which writes nothing more before it joins again",
            );
        };
        self.place.lose();
        Error::Fenced(
            "the database and this process count batches differently: it lost some that it had confirmed",
        )
    }

    /// Whether a batch is in the database of which the COMMIT failed or was not answered. Nothing goes on before that is known.
    fn is_stored(&mut self, batch: i64) -> Result<bool> {
        let mut tries_left = TRIES_WHILE_CLOSING;
        loop {
            let epoch = self.epoch;
            let found = self.session().and_then(|session| {
                let (tx, _) = Transaction::begin(session, epoch, "")?;
                stored(&tx)
            });
            match found {
                Ok(found) => return Ok(found.is_some_and(|(last, _)| last == batch)),
                Err(error) => {
                    tries_left -= usize::from(self.queue.is_closed());
                    if tries_left == 0 {
                        return Err(error);
                    }
                    tracing::warn!(%error, "whether a batch was stored is not known yet");
                    std::thread::sleep(PAUSE_AFTER_FAILURE);
                }
            }
        }
    }

    /// Another try may do better: it met another transaction, or the server went away under it.
    fn may_try_again(&self, error: &Error) -> bool {
        may_pass(error)
            || matches!(error, Error::Postgres(_)) && self.session.as_ref().is_some_and(Session::is_closed)
    }
}

/// What a transaction met may be gone when it is tried again.
pub(super) fn may_pass(error: &Error) -> bool {
    let passes = |code: &SqlState| {
        [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED].contains(&code)
            || code.code().starts_with("57P")
    };
    matches!(error, Error::Postgres(error) if error.code().is_some_and(passes))
}

/// The last batch of this epoch that is stored, also if it was fenced since; waits for one that is being committed.
fn stored(tx: &Transaction<'_>) -> Result<Option<(i64, bool)>> {
    let sql = "SELECT batch, writer < 0 FROM ledger WHERE epoch = ?1 AND writer IN (0, -1) FOR UPDATE";
    (tx as &dyn Sql).one(sql, params![tx.epoch()], |row| Ok((row.get(0)?, row.get(1)?)))
}

impl Commit for Writer {
    fn commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        let mut tries_left = TRIES;
        loop {
            let result = self.try_commit(batch);
            tries_left -= 1;
            match &result {
                Err(error) if tries_left > 0 && self.may_try_again(error) => {
                    tracing::info!(%error, "a batch is tried again");
                }
                _ => return result,
            }
        }
    }

    fn told(&mut self, after: &Aftermath) {
        self.ringer.ring(Bell::of(after, self.has_changes, &*self.handover));
    }

    fn end(&mut self) {
        let place = self.place.clone();
        let left = self.session().and_then(|session| place.leave(session));
        if let Err(error) = left {
            tracing::warn!(%error, "the database was not told that this process ends");
        }
    }
}

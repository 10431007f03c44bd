//! The one writer of a process: writes what waits in one transaction, which begins by counting its row in `ledger` up. So a
//! batch is stored once, whatever became of the answer to its COMMIT, and never after another process took over.

use super::{
    cluster::{self, Epoch, Stored},
    heart::Pulse,
    session::{Server, Session},
    sql::Transaction,
};
use crate::store::{
    StoreError,
    sql::{
        Commit, Error, PAUSE_AFTER_FAILURE, Queue, Result, TRIES_WHILE_CLOSING, Work, apply_all, store_error,
    },
};
use std::{sync::Arc, time::Duration};
use tokio_postgres::error::SqlState;

/// How often a batch is tried that met another one, or whose connection broke before it was complete.
const TRIES: usize = 5;
/// How often a writer with nothing to write looks whether it could again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// For any one answer. After that the connection is given up, and with it what was not committed.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// What is read to be changed has no locks of its own everywhere: one batch at a time.
const ONE_AT_A_TIME: &str = "pg_advisory_xact_lock(8102099357864587376)";

pub(super) struct Writer {
    server: Arc<Server>,
    /// `None` while there is no connection.
    session: Option<Session>,
    epoch: Epoch,
    /// The number of the last batch that is stored.
    last: i64,
    queue: Arc<Queue>,
    pulse: Arc<Pulse>,
}

impl Writer {
    pub(super) fn new(
        server: Arc<Server>,
        session: Session,
        epoch: Epoch,
        queue: Arc<Queue>,
        pulse: Arc<Pulse>,
    ) -> Self {
        Self { server, session: Some(session), epoch, last: 0, queue, pulse }
    }

    fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => Session::connect(&self.server, PATIENCE)?,
        };
        Ok(self.session.insert(session))
    }

    fn try_commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        let (epoch, last) = (self.epoch, self.last);
        let next = last + 1;
        let fence = format!(
            "UPDATE ledger SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING {ONE_AT_A_TIME}"
        );
        let (tx, counted) = Transaction::begin(self.session()?, epoch, &fence)?;
        if counted == 0 {
            return Err(match cluster::stored(&tx)? {
                Stored::Upto(_) => Error::Fenced(
                    "the database and this process count batches differently: it lost some that it had confirmed",
                ),
                Stored::UptoItsEnd(_) | Stored::Unknown => {
                    Error::Fenced("another process took over from this one, which writes nothing more")
                }
            });
        }
        let newest_notice = apply_all(&tx, batch)?;
        if let Err(error) = tx.commit()
            && !self.is_stored(next, batch)?
        {
            return Err(error);
        }
        self.last = next;
        Ok(newest_notice)
    }

    /// Whether a batch is in the database of which the COMMIT failed or was not answered. Nothing goes on before that is known:
    /// meanwhile whoever waits for an answer is told that there is none.
    fn is_stored(&mut self, batch: i64, works: &mut [Box<dyn Work>]) -> Result<bool> {
        let mut tries_left = TRIES_WHILE_CLOSING;
        let mut was_told = false;
        loop {
            let epoch = self.epoch;
            let found = self.session().and_then(|session| {
                let (tx, _) = Transaction::begin(session, epoch, "")?;
                cluster::stored(&tx)
            });
            let error = match found {
                Ok(Stored::Upto(last)) => return Ok(last == batch),
                Ok(Stored::UptoItsEnd(last)) => {
                    self.pulse.fence();
                    return Ok(last == batch);
                }
                Ok(Stored::Unknown) => {
                    return Err(Error::Fenced(
                        "it is not known what became of the last batch of this process",
                    ));
                }
                Err(error) => error,
            };
            tries_left -= usize::from(self.queue.is_closed());
            if tries_left == 0 {
                return Err(error);
            }
            if !was_told {
                tracing::warn!(%error, "whether a batch was stored is not known yet");
                was_told = true;
            }
            self.pulse.writes(false);
            let unavailable = StoreError::Unavailable(error.to_string());
            for work in works.iter_mut() {
                work.in_doubt(&unavailable);
            }
            self.queue.refuse(&unavailable);
            std::thread::sleep(PAUSE_AFTER_FAILURE);
        }
    }

    /// Another try may do better: it met another transaction, or the server went away under it.
    fn may_try_again(&self, error: &Error) -> bool {
        let Error::Postgres(error) = error else { return false };
        let passes = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
        ];
        error.code().is_some_and(|code| passes.contains(code))
            || self.session.as_ref().is_some_and(Session::is_closed)
    }

    fn note(&mut self, error: &Error) {
        if matches!(error, Error::Fenced(_)) {
            self.pulse.fence();
        }
        if matches!(store_error(error), StoreError::Unavailable(_)) {
            self.pulse.writes(false);
            // A new one may do better, for example where this one leads to what has become a standby.
            self.session = None;
        }
    }
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
                    continue;
                }
                Err(error) => self.note(error),
                Ok(_) => self.pulse.writes(true),
            }
            return result;
        }
    }

    fn rest(&mut self) {
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
        let epoch = self.epoch;
        let left = self.session().and_then(|session| cluster::leave(session, epoch));
        if let Err(error) = left {
            tracing::warn!(%error, "the database was not told that this process ends");
        }
    }
}

//! The one writer of a process: writes what waits in one transaction, which begins by counting its row in `ledger` up. So a
//! batch is stored once, whatever became of the answer to its COMMIT, and never after another process took over.

use super::{
    cluster::{self, Epoch},
    session::Session,
    sql::Transaction,
};
use crate::store::sql::{
    Commit, Error, PAUSE_AFTER_FAILURE, Queue, Result, Sql, TRIES_WHILE_CLOSING, Work, apply_all, params,
};
use std::{sync::Arc, time::Duration};
use tokio_postgres::{Config, error::SqlState};

/// How often a batch is tried that met another one, or whose connection broke before it was complete.
const TRIES: usize = 5;
/// How long a writer rests before it says again that it lives.
const REST_MAX: Duration = Duration::from_secs(1);
/// What is read to be changed has no locks of its own everywhere: one batch at a time.
const ONE_AT_A_TIME: &str = "pg_advisory_xact_lock(8102099357864587376)";

pub(super) struct Writer {
    config: Arc<Config>,
    /// `None` while there is no connection.
    session: Option<Session>,
    epoch: Epoch,
    /// The number of the last batch that is stored.
    last: i64,
    queue: Arc<Queue>,
}

impl Writer {
    pub(super) fn new(config: Arc<Config>, session: Session, epoch: Epoch, queue: Arc<Queue>) -> Self {
        Self { config, session: Some(session), epoch, last: 0, queue }
    }

    fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => Session::connect(&self.config)?,
        };
        Ok(self.session.insert(session))
    }

    fn try_commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<i64> {
        let (epoch, last) = (self.epoch, self.last);
        let next = last + 1;
        let fence = format!(
            "UPDATE ledger SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING {ONE_AT_A_TIME};
             {}",
            cluster::beat(epoch)
        );
        let (tx, counted) = Transaction::begin(self.session()?, epoch, &fence)?;
        if counted == 0 {
            return Err(match stored(&tx)? {
                None => Error::Fenced("another process took over from this one, which writes nothing more"),
                Some(_) => Error::Fenced(
                    "the database and this process count batches differently: it lost some that it had confirmed",
                ),
            });
        }
        let newest_notice = apply_all(&tx, batch)?;
        if let Err(error) = tx.commit()
            && !self.is_stored(next)?
        {
            return Err(error);
        }
        self.last = next;
        Ok(newest_notice)
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
                Ok(found) => return Ok(found == Some(batch)),
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
        let Error::Postgres(error) = error else { return false };
        let passes = |code: &SqlState| {
            [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED].contains(&code)
                || code.code().starts_with("57P")
        };
        error.code().is_some_and(passes) || self.session.as_ref().is_some_and(Session::is_closed)
    }
}

/// The last batch of this epoch that is stored; waits for one that is being committed.
fn stored(tx: &Transaction<'_>) -> Result<Option<i64>> {
    let sql = "SELECT batch FROM ledger WHERE epoch = ?1 AND writer = 0 FOR UPDATE";
    (tx as &dyn Sql).one(sql, params![tx.epoch.as_i64()], |row| row.get(0))
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

    fn rest(&mut self) {
        std::thread::park_timeout(REST_MAX);
        // Every batch says so as well.
        if self.queue.is_idle() {
            let epoch = self.epoch;
            let said = self.session().and_then(|session| session.run(&cluster::beat(epoch)));
            if let Err(error) = said {
                tracing::warn!(%error, "the database was not told that this process lives");
            }
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

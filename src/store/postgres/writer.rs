//! The one writer of a process: writes what waits in one transaction, which begins by counting its row in `ledger` up. So a
//! batch is stored once, whatever became of the answer to its COMMIT, and never after another process took over.

use super::{
    beat::Ringer,
    bell::Bell,
    bulk,
    cluster::{self, LOST_BATCHES, Place, Stored},
    floors::Floors,
    open,
    pulse::Pulse,
    session::{Server, Session},
    sql::{Transaction, Uncommitted},
    versions::is_busy,
};
use crate::{
    domain::port::Handover,
    store::{
        StoreError,
        sql::{Aftermath, Commit, Error, Hot, Locks, Queue, Result, Work, newest_notice, store_error},
    },
};
use std::{sync::Arc, time::Duration};
use tokio_postgres::error::SqlState;

/// How often a batch is tried that met another one, or whose connection broke before it was complete.
const TRIES: usize = 5;
/// How often a writer with nothing to write looks whether it could again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Records of failures in one transaction: each takes some round trips.
const SLOW_MAX: usize = 128;
/// For any one answer. After that the connection is given up, and with it what was not committed.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// What is read to be changed has no locks of its own but in the commands of the hot path: one batch of others at a time. It is waited
/// for in short pieces, between which what is hot is written.
const ONE_AT_A_TIME: &str = "SET LOCAL lock_timeout = '100ms'; DO 'BEGIN PERFORM pg_advisory_xact_lock(8102099357864587376); END'; \
     SET LOCAL lock_timeout = '7s'; ";
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
        Self {
            server,
            session,
            place,
            epoch,
            last,
            has_changes,
            busy_since_us,
            floors,
            queue,
            pulse,
            ringer,
            handover,
        }
    }

    fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take().filter(|session| !session.is_closed()) {
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
        let (epoch, last) = (self.epoch, self.last);
        let next = last + 1;
        let is_cold = is_cold(batch);
        let alone = if is_cold { ONE_AT_A_TIME } else { "" };
        let fence = format!(
            "{alone}UPDATE ledger SET batch = {next} WHERE epoch = {epoch} AND writer = 0 AND batch = {last} RETURNING 1"
        );
        let (floors, mut locks) = (self.floors.clone(), Locks::default());
        for work in batch.iter() {
            work.locks(&mut locks);
        }
        let (tx, counted) = match Transaction::begin_at(self.session()?, seat, floors, &fence, &locks) {
            Err(error) if is_cold && is_busy(&error) => return Err(Error::Busy),
            begun => begun?,
        };
        if counted == 0 {
            let found = cluster::stored(&tx)?;
            drop(tx);
            return Err(self.fenced(&found));
        }
        let rest = bulk::apply_all(&tx, batch)?;
        let has_changes = tx.has_changes();
        let committed = rest.commit(tx);
        self.has_changes = has_changes;
        if is_cold {
            self.busy_since_us = None;
        }
        let newest_notice = match committed {
            Ok(newest_notice) => newest_notice,
            Err(Uncommitted::TakenBack(error)) => return Err(error),
            Err(Uncommitted::InDoubt(error)) => {
                // Whatever becomes of this connection, another one answers.
                self.session = None;
                return match self.stored() {
                    Ok(Some(newest_notice)) => Ok(newest_notice),
                    Ok(None) => {
                        // As if it had broken before: that may be tried again.
                        self.session = None;
                        Err(error)
                    }
                    Err(fenced @ Error::Fenced(_)) => Err(fenced),
                    Err(error) => Err(Error::InDoubt(Box::new(error))),
                };
            }
        };
        self.confirm();
        Ok(newest_notice)
    }

    /// The batch after the last one is in the database.
    fn confirm(&mut self) {
        self.last += 1;
        self.place.confirm(self.epoch, self.last);
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

fn is_cold(batch: &[Box<dyn Work>]) -> bool {
    batch.iter().any(|work| !work.is_hot())
}

/// What is hot waits for no other node, so it does not go together with what does; and it takes a lock for each failure, which
/// others may wait for, so there are not too many of those in one.
fn in_portions(batch: Vec<Box<dyn Work>>) -> Vec<Vec<Box<dyn Work>>> {
    let (mut portions, mut hot, mut cold, mut slow) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for mut work in batch {
        if !work.is_hot() {
            cold.push(work);
            continue;
        }
        slow += usize::from(matches!(work.hot(), Hot::Record(record) if !record.is_delivered()));
        hot.push(work);
        if slow == SLOW_MAX {
            portions.push(std::mem::take(&mut hot));
            slow = 0;
        }
    }
    portions.extend([hot, cold]);
    portions.retain(|portion| !portion.is_empty());
    portions
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
        in_portions(batch)
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

    /// Another connection says so, once nobody is committing it any more.
    fn stored(&mut self) -> Result<Option<i64>> {
        let (epoch, next) = (self.epoch, self.last + 1);
        let found = self.session().and_then(|session| {
            let (tx, _) = Transaction::begin(session, epoch, "")?;
            Ok((cluster::stored(&tx)?, newest_notice(&tx)?))
        });
        let (last, newest_notice) = match found {
            Ok((Stored::Upto(last), newest_notice)) => (last, newest_notice),
            Ok((Stored::UptoItsEnd(last), newest_notice)) => {
                self.be_fenced();
                (last, newest_notice)
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
        let is_stored = last == next;
        if is_stored {
            self.pulse.writes(true);
            self.confirm();
        }
        Ok(is_stored.then_some(newest_notice))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::Sql;

    struct Command {
        is_hot: bool,
    }

    impl Work for Command {
        fn apply(&mut self, _: &dyn Sql) -> Result<()> {
            Ok(())
        }

        fn is_hot(&self) -> bool {
            self.is_hot
        }

        fn committed(self: Box<Self>, _: &mut Aftermath) {}

        fn failed(self: Box<Self>, _: &StoreError) -> Option<Box<dyn Work>> {
            None
        }
    }

    #[test]
    fn what_is_hot_goes_before_what_waits_for_other_nodes_and_without_it() {
        let portions = |batch: &[bool]| -> Vec<Vec<bool>> {
            let batch = batch.iter().map(|is_hot| Box::new(Command { is_hot: *is_hot }) as Box<dyn Work>);
            let portions = in_portions(batch.collect());
            portions.iter().map(|portion| portion.iter().map(|work| work.is_hot()).collect()).collect()
        };
        assert_eq!(portions(&[false, true, false, true]), [vec![true, true], vec![false, false]]);
        assert_eq!(portions(&[true]), [vec![true]]);
        assert_eq!(portions(&[false]), [vec![false]]);
        assert!(portions(&[]).is_empty());
    }
}

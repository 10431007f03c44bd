//! This process's place among the nodes of a database: under which epoch it works, and how it takes over from others. Each step
//! of a takeover is fenced by this node's own row in `ledger`, as writer 1.

use super::{
    partitions,
    pulse::Pulse,
    session::{Server, Session},
    sql::Transaction,
    versions::{self, is_busy},
    writer::{PATIENCE, may_pass},
};
use crate::{
    domain::{id::SLOTS, time::Timestamp},
    store::{
        Reply, StoreError,
        cluster::Joined,
        sql::{
            Error, Newcomer, Result, Seat, Sql, nodes, params, store_error,
            takeover::{self, Steps, TakenOver},
            what_is_there,
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

/// One at a time finds itself a slot.
pub(super) const ENTER: &str = "SELECT pg_advisory_xact_lock(8102099357864587378)";
/// How often a step is tried that met a batch of another node.
const TRIES: usize = 5;
/// How long whoever takes over waits for a batch of the dead node.
const WAIT_FOR_A_BATCH: &str = "SET LOCAL lock_timeout = '3s'";
/// How often somebody looks again who found no slot.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// After a fail-over to a standby that had not got everything, or a crash of a server that does not flush.
pub(super) const LOST_BATCHES: &str =
    "the database and this process count batches differently: it lost some that it had confirmed";

pub(super) struct Place {
    server: Arc<Server>,
    seat: Mutex<Seat>,
    /// The last batch that the database confirmed, and its epoch.
    confirmed: Mutex<(i64, i64)>,
    /// The epoch under which the database has not got what it confirmed; 0 if there is none.
    lost: AtomicI64,
    /// Whoever joins may have much to take over before it says by itself that it lives.
    is_joining: AtomicBool,
    pub(super) pulse: Arc<Pulse>,
    session: Mutex<Option<Session>>,
}

impl Place {
    pub(super) fn new(server: Arc<Server>, seat: Seat, pulse: Arc<Pulse>) -> Self {
        let (lost, is_joining) = (AtomicI64::new(0), AtomicBool::new(false));
        let (seat, confirmed, session) = (Mutex::new(seat), Mutex::default(), Mutex::new(None));
        Self { server, seat, confirmed, lost, is_joining, pulse, session }
    }

    /// What is written there and numbered there goes together.
    pub(super) fn seat(&self) -> Seat {
        *self.sitting()
    }

    fn sitting(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoch(&self) -> i64 {
        self.seat().epoch
    }

    /// This batch is in the database.
    pub(super) fn confirm(&self, epoch: i64, batch: i64) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = (epoch, batch);
    }

    /// The last batch of an epoch that was confirmed so far; 0 if there was none.
    pub(super) fn confirmed(&self, epoch: i64) -> i64 {
        let (of, batch) = *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if of == epoch { batch } else { 0 }
    }

    /// Nothing more can be written under this epoch. Said at once, whatever else was in the log a moment ago.
    pub(super) fn lose(&self, epoch: i64) {
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

    /// Enters anew if this epoch is no more; others that are known to be dead. Blocks.
    fn enter(&self) -> Result<Vec<i64>> {
        self.with_session(|session| {
            let before = self.epoch();
            let known = Transaction::run(session, before, |tx| nodes::slot(tx))?;
            if known.is_none() || self.is_lost() {
                let (epoch, slot) = enter(session)?;
                let mut seat = self.sitting();
                *seat = seat.moved(epoch, slot);
                tracing::info!(epoch, "this node goes on under a new epoch");
            }
            let host = host();
            let is_gone = |of: &str, pid: u32| !host.is_empty() && of == host && !is_running(pid);
            let epoch = self.epoch();
            let look = || Transaction::run(session, epoch, |tx| nodes::fallen(tx, is_gone, tx.clock()?));
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

    /// It is known what is there: from here on it may number in its slot, which it is told.
    fn settle(&self, newest_id: i64) -> u8 {
        let mut seat = self.sitting();
        *seat = seat.behind(newest_id);
        self.pulse.joined();
        seat.slot()
    }

    /// This process writes nothing more; what it still carries may be taken over at once, and otherwise nothing is left of it.
    pub(super) fn leave(&self, session: &Session) -> Result<()> {
        let epoch = self.epoch();
        Transaction::run(session, epoch, |tx| takeover::leave(tx, tx.clock()?))?;
        Transaction::run(session, epoch, |tx| takeover::be_forgotten(tx, tx.clock()?))
    }

    /// Runs a step in a transaction that counts this node's second row in `ledger` up; again if it met another. Blocks.
    fn fenced<T>(&self, run: &mut impl FnMut(&dyn Sql, Timestamp) -> Result<T>) -> Result<T> {
        let epoch = self.epoch();
        let fence =
            format!("UPDATE ledger SET batch = batch + 1 WHERE epoch = {epoch} AND writer = 1 RETURNING 1");
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
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            match attempt() {
                Err(error) if tries_left > 0 && may_pass(&error) => {}
                result => return result,
            }
        }
    }

    /// Waits for a batch that the dead node is committing, but not for one whose client neither reads what it is sent nor goes
    /// away: the server's process that serves it is ended, and its batch is taken back.
    fn fence(&self, epoch: i64) -> Result<()> {
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            let done = self.fenced(&mut |tx, clock| {
                tx.execute(WAIT_FOR_A_BATCH, &[])?;
                takeover::fence(tx, epoch, clock)
            });
            match done {
                Err(error) if tries_left > 0 && is_busy(&error) => {
                    let ended = self
                        .with_session(|session| Transaction::run(session, epoch, end_batches_of_the_dead))?;
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
            None => Session::connect(&self.server, PATIENCE)?,
        };
        run(kept.insert(session))
    }
}

/// While it joins.
struct Joining<'a>(&'a Place);

impl<'a> Joining<'a> {
    fn begin(place: &'a Place) -> Self {
        place.is_joining.store(true, SeqCst);
        Self(place)
    }
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        self.0.is_joining.store(false, SeqCst);
    }
}

/// Beside the writer, on threads that may block.
pub(super) struct Aside(pub(super) Arc<Place>);

impl Aside {
    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Place) -> Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = self.0.clone();
        let done = tokio::task::spawn_blocking(move || run(&place)).await;
        done.map_err(|_| StoreError::Closed)?.map_err(|error| store_error(&error))
    }

    /// Joins, under another epoch if this one is no more. Answers also what was taken over, and whether inspections wait.
    pub(super) async fn join(&self, now: Timestamp) -> Result<(Joined, TakenOver, bool), StoreError> {
        let _joining = Joining::begin(&self.0);
        let dead = self.run(Place::enter).await?;
        let mut taken = TakenOver::default();
        for other in dead {
            takeover::succeed(self, other, now, &mut taken).await?;
        }
        let (newest_id, inspections_wait) = self.step(|tx, _| what_is_there(tx)).await?;
        let (slot, epoch) = (self.0.settle(newest_id), self.0.epoch());
        let joined = Joined { slot, epoch, is_alone: false, newest_id, taken_over: taken.count };
        Ok((joined, taken, inspections_wait))
    }

    /// What changes nothing that anybody sees needs no fence.
    pub(super) async fn tend(&self) -> Result<(), StoreError> {
        self.run(|place| place.with_session(partitions::tend)).await
    }
}

impl Steps for Aside {
    fn step<T: Send + 'static>(
        &self,
        mut run: impl FnMut(&dyn Sql, Timestamp) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        let aside = Self(self.0.clone());
        Box::pin(async move { aside.run(move |place| place.fenced(&mut run)).await })
    }

    fn fence(&self, epoch: i64) -> Reply<'static, ()> {
        let aside = Self(self.0.clone());
        Box::pin(async move { aside.run(move |place| place.fence(epoch)).await })
    }
}

/// What is known of the batches of an epoch.
pub(super) enum Stored {
    /// This was the last so far.
    Upto(i64),
    /// This was the last, and there will be no more: another node took over.
    UptoItsEnd(i64),
    Unknown,
}

/// Waits for a batch that is being committed.
pub(super) fn stored(tx: &Transaction<'_>) -> Result<Stored> {
    let sql = "SELECT batch, writer >= 0 FROM ledger WHERE epoch = ?1 AND writer IN (0, -1) FOR UPDATE";
    let found = (tx as &dyn Sql).one(sql, params![tx.epoch()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match found {
        Some((batch, true)) => Stored::Upto(batch),
        Some((batch, false)) => Stored::UptoItsEnd(batch),
        None => Stored::Unknown,
    })
}

/// Ends the server's processes that are in the middle of one; how many. Whichever transaction has counted a row up and is not
/// over stands in that row.
fn end_batches_of_the_dead(tx: &Transaction<'_>) -> Result<i64> {
    let sql = "SELECT count(pg_terminate_backend(a.pid)) FROM ledger l JOIN pg_stat_activity a ON a.backend_xid = l.xmax
         WHERE l.epoch IN (SELECT epoch FROM nodes WHERE dead = 1) AND l.writer >= 0 AND a.pid <> pg_backend_pid()";
    (tx as &dyn Sql).number(sql, &[])
}

/// Gives this process an epoch of its own, and a slot. Where there is none it waits as long as everybody has to say that he
/// lives, and takes that of one who did not.
pub(super) fn enter(session: &Session) -> Result<(i64, u8)> {
    let (mut waits_since, mut tries_left) = (None, TRIES);
    loop {
        let (tx, _) = Transaction::begin(session, 0, ENTER)?;
        (&tx as &dyn Sql).execute(WAIT_FOR_A_BATCH, &[])?;
        let now = tx.clock()?;
        let since = *waits_since.get_or_insert(now);
        match enter_now(&tx, since, now) {
            Ok(Some(entered)) => {
                tx.commit()?;
                return Ok(entered);
            }
            Ok(None) if since.plus(nodes::GRACE) <= now => {
                return Err(Error::Wrong(format!("there are {SLOTS} nodes already, and no room for more")));
            }
            Err(error) if tries_left == 0 || !is_busy(&error) && !may_pass(&error) => return Err(error),
            // Others may enter and leave meanwhile.
            Ok(None) => drop(tx),
            Err(_) => {
                tries_left -= 1;
                drop(tx);
                Transaction::run(session, 0, end_batches_of_the_dead)?;
            }
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

fn enter_now(tx: &Transaction<'_>, waits_since: Timestamp, now: Timestamp) -> Result<Option<(i64, u8)>> {
    // The server's chance: 59 bits of it, and never 0.
    let random = "SELECT CAST(CAST('x' || replace(CAST(gen_random_uuid() AS text), '-', '') AS bit(64)) AS bigint) & 9223372036854775807";
    let epoch = (tx as &dyn Sql).number(random, &[])?;
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let new = Newcomer { epoch, name: name.trim().to_owned(), host: host(), pid: std::process::id() };
    if (tx as &dyn Sql).exists("SELECT EXISTS (SELECT 1 FROM moving WHERE done = 0)", &[])? {
        return Err(Error::Fenced("a store is being moved into this database: it is not complete yet"));
    }
    let Some(slot) = nodes::enter(tx, &new, waits_since, now)? else { return Ok(None) };
    versions::present(tx, epoch, versions::NEWEST)?;
    Ok(Some((epoch, slot)))
}

/// Where this process runs: others there can see whether it still does. Containers have processes of their own. Empty where
/// the system does not say.
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let space = std::fs::read_link("/proc/self/ns/pid");
    match (boot, space) {
        (Ok(boot), Ok(space)) => format!("{} {}", boot.trim(), space.display()),
        _ => String::new(),
    }
}

/// Whether there is such a process here. If that cannot be told, its lease has to end first.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

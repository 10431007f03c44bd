//! Runs the shared statements in a PostgreSQL transaction.

use super::{
    asked::{Answer, Asked},
    columns::{Rows, Shape},
    deliveries,
    floors::Floors,
    locks::{DIGESTS, HEALTH, LINES, Wanted},
    session::Session,
    settings::{opening, opening_to_read},
};
use crate::{
    domain::{
        delivery::{Delivery, State},
        id::{AppId, DeliveryId, EndpointId},
        order::OrderKey,
        time::Timestamp,
    },
    store::sql::{
        Change, Error, Give, Locks, Over, Result, Row, Seat, Sql, ToValue, Was, begin_version, log_change,
        params,
    },
};
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    ops::ControlFlow,
    sync::Arc,
};

/// The server's clock, in milliseconds.
pub(super) const CLOCK: &str = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)";

/// Error of a COMMIT.
pub(super) enum Uncommitted {
    /// A statement failed: nothing of the transaction is stored.
    TakenBack(Error),
    /// The COMMIT was sent, and the answer does not say whether it succeeded.
    InDoubt(Error),
}

impl Uncommitted {
    fn cause(self) -> Error {
        let (Self::TakenBack(error) | Self::InDoubt(error)) = self;
        error
    }
}

/// A transaction. Ends with `commit`, or is rolled back when dropped.
pub(super) struct Transaction<'a> {
    session: &'a Session,
    /// The epoch under which deliveries are leased; 0 where none are.
    epoch: i64,
    /// Checks ids that are assigned; `None` where any id is allowed.
    seat: Option<Seat>,
    /// Where the search of endpoint queues starts; `None`: at their beginning.
    floors: Option<Arc<Floors>>,
    /// Rows of `locks` that it holds: those locked at its start, and those that a command locked later.
    held: RefCell<HashSet<(i64, i64)>>,
    late: RefCell<HashSet<(i64, i64)>>,
    /// Version of the configuration and its time, once this transaction changes it.
    version: Cell<Option<(i64, Timestamp)>>,
    /// The server refuses all statements until a savepoint is rolled back.
    has_failed: Cell<bool>,
    is_over: bool,
}

impl<'a> Transaction<'a> {
    /// Begins a transaction to write. `first` runs in the same round trip; returns how many rows it gave.
    pub(super) fn begin(session: &'a Session, epoch: i64, first: &str) -> Result<(Self, usize)> {
        let tx = Self::new(session, epoch);
        let rows = session.run(&opening(session, first)?)?;
        Ok((tx, rows))
    }

    /// Begins a transaction of a writer, with all of these locks, taken in the one order that every writer keeps.
    pub(super) fn begin_at(
        session: &'a Session,
        seat: Seat,
        floors: Arc<Floors>,
        first: &str,
        locks: &Locks,
    ) -> Result<(Self, usize)> {
        let mut tx = Self::new(session, seat.epoch);
        (tx.seat, tx.floors) = (Some(seat), Some(floors));
        let (opening, wanted) = (opening(session, first)?, Wanted::of(locks));
        let params = wanted.params();
        let asked: Vec<_> = [Asked::Plain(&opening)].into_iter().chain(wanted.asked(&params)).collect();
        let answers = tx.say_all(&asked)?;
        if let [_, .., taken] = &answers[..] {
            tx.held = RefCell::new(taken.read(|row| Ok((row.get(0)?, row.get(1)?)))?);
        }
        Ok((tx, answers[0].count))
    }

    /// Runs a function in a transaction of its own.
    pub(super) fn run<T>(
        session: &'a Session,
        epoch: i64,
        run: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let (tx, _) = Self::begin(session, epoch, "")?;
        let done = run(&tx)?;
        tx.commit()?;
        Ok(done)
    }

    /// Begins a transaction that reads one snapshot.
    pub(super) fn snapshot(session: &'a Session) -> Result<Self> {
        session.run(&opening_to_read(session)?)?;
        Ok(Self::new(session, 0))
    }

    fn new(session: &'a Session, epoch: i64) -> Self {
        let (held, late, version) = (RefCell::default(), RefCell::default(), Cell::new(None));
        let (seat, floors, has_failed) = (None, None, Cell::new(false));
        Self { session, epoch, seat, floors, held, late, version, has_failed, is_over: false }
    }

    /// Runs statements that are not worth preparing.
    pub(super) fn once(&self, sql: &str) -> Result<()> {
        self.heeded(self.session.run(sql)).map(drop)
    }

    pub(super) fn clock(&self) -> Result<Timestamp> {
        Ok(Timestamp::from_millis((self as &dyn Sql).number(CLOCK, &[])?))
    }

    /// Whether this transaction changes the configuration, which other nodes have to follow.
    pub(super) fn has_changes(&self) -> bool {
        self.version.get().is_some()
    }

    pub(super) fn commit(self) -> Result<()> {
        self.commit_with(&[]).map(drop).map_err(Uncommitted::cause)
    }

    /// Commits, with these last statements in the same round trip.
    pub(super) fn commit_with(mut self, last: &[Asked<'_>]) -> Result<Vec<Answer>, Uncommitted> {
        if self.has_failed.get() {
            // To this COMMIT the server would answer without an error.
            let error = Error::Wrong("a statement failed and its transaction went on".to_owned());
            return Err(Uncommitted::TakenBack(error));
        }
        let asked: Vec<_> = last.iter().copied().chain([Asked::Plain("COMMIT")]).collect();
        self.session.prepare(&asked).map_err(Uncommitted::TakenBack)?;
        let answers = self.session.say_all(&asked);
        self.is_over = !matches!(&answers, Ok(answers) if answers.len() < asked.len());
        let answers = answers.map_err(Uncommitted::InDoubt)?;
        let (is_sent, is_answered) = (self.is_over, answers.last().is_some_and(Result::is_ok));
        answers.into_iter().collect::<Result<_>>().map_err(|error| {
            // An error answer to a COMMIT means that the server rolled it back.
            let is_refused = matches!(&error, Error::Postgres(error) if error.as_db_error().is_some());
            let is_taken_back = !is_sent || is_answered && is_refused;
            if is_taken_back { Uncommitted::TakenBack(error) } else { Uncommitted::InDoubt(error) }
        })
    }

    /// Whether this transaction has locked the endpoint's health: then that may be unhealthy, or is being changed.
    pub(super) fn has_health(&self, endpoint: EndpointId) -> bool {
        let row = (HEALTH, endpoint.as_i64());
        self.held.borrow().contains(&row) || self.late.borrow().contains(&row)
    }

    /// Runs all of these, one after the other, in one round trip.
    pub(super) fn say_all(&self, asked: &[Asked<'_>]) -> Result<Vec<Answer>> {
        self.heeded(self.session.say_all(asked).and_then(|answers| answers.into_iter().collect()))
    }

    /// Runs a statement that takes many rows and returns some.
    pub(super) fn read_rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        rows: &[&Rows],
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<C> {
        self.heeded(self.session.say(Asked::Look(sql, params, rows)))?.read(read)
    }

    fn heeded<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.has_failed.set(true);
        }
        result
    }

    fn lock(&self, kind: i64, of: i64) -> Result<()> {
        if self.held.borrow().contains(&(kind, of)) || !self.late.borrow_mut().insert((kind, of)) {
            return Ok(());
        }
        let lock = "SELECT 1 FROM locks WHERE kind = ?1 AND endpoint = ?2 FOR UPDATE";
        let make = "INSERT INTO locks (kind, endpoint) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let row = params![kind, of];
        // The transaction that inserts the row has it locked.
        if self.execute(lock, row)? == 0 && self.execute(make, row)? == 0 {
            self.execute(lock, row)?;
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.session.is_closed() {
            // If the connection cannot do even this, it is closed, which rolls back as well.
            let _ = self.session.run("ROLLBACK");
        }
    }
}

impl Sql for Transaction<'_> {
    fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        let changed = self.heeded(self.session.execute(sql, params))?;
        if sql.starts_with("ROLLBACK TO ") {
            self.has_failed.set(false);
            // A savepoint's rollback releases the locks taken since.
            self.late.borrow_mut().clear();
            self.version.set(None);
        }
        Ok(changed)
    }

    fn query(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        for row in &self.heeded(self.session.query(sql, params))? {
            if each(&Row::new(row))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn over(
        &self,
        over: &Over<'_>,
        give: &mut dyn FnMut(&mut Give<'_>) -> Result<()>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let shape = Shape(over.shape);
        let mut rows = Rows::new(shape);
        give(&mut |row| rows.push(row))?;
        if rows.len() == 0 {
            return Ok(());
        }
        let (sql, rows) = (over.all_rows(&shape.unnest(1)), [&rows]);
        let answer = self.heeded(self.session.say(Asked::Look(&sql, &[], &rows)))?;
        answer.rows.iter().try_for_each(|row| each(&Row::new(row)))
    }

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()> {
        self.owns(delivery.id.as_i64())?;
        deliveries::insert(self, delivery)
    }

    fn replace_delivery(&self, was: Was, delivery: &Delivery) -> Result<bool> {
        deliveries::replace(self, was, delivery)
    }

    fn carry_all(&self, taken: &[(State, &Delivery)]) -> Result<Vec<bool>> {
        deliveries::carry_all(self, taken)
    }

    fn step_up(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()> {
        self.execute(
            "UPDATE deliveries_open SET due = ?2, order_seq = NULL WHERE id = ?1",
            params![delivery, due],
        )?;
        Ok(())
    }

    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderKey>)>> {
        let sql =
            "WITH over AS (DELETE FROM deliveries_ended WHERE id = ?1 RETURNING endpoint, ordering_key),
                 gone AS (DELETE FROM deliveries_open WHERE id = ?1 RETURNING endpoint, ordering_key)
             SELECT endpoint, ordering_key FROM over UNION ALL SELECT endpoint, ordering_key FROM gone";
        (self as &dyn Sql).one(sql, params![delivery], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn delete_each(&self, ids: &[DeliveryId]) -> Result<Vec<(EndpointId, Option<OrderKey>)>> {
        let sql = "WITH ids AS (SELECT id FROM {given}),
                 over AS (DELETE FROM deliveries_ended WHERE id IN (SELECT id FROM ids) RETURNING endpoint, ordering_key),
                 gone AS (DELETE FROM deliveries_open WHERE id IN (SELECT id FROM ids) RETURNING endpoint, ordering_key)
             SELECT endpoint, ordering_key FROM over UNION ALL SELECT endpoint, ordering_key FROM gone";
        let mut deleted = Vec::new();
        self.over(
            &Over { sql, columns: "id", shape: "n" },
            &mut |give| ids.iter().try_for_each(|id| give(params![id])),
            &mut |row| {
                deleted.push((row.get(0)?, row.get(1)?));
                Ok(())
            },
        )?;
        Ok(deleted)
    }

    fn delete_deliveries(&self, app: AppId, after: i64, upto: i64) -> Result<()> {
        for sql in [
            "DELETE FROM deliveries_open WHERE app = ?1 AND id > ?2 AND id <= ?3",
            "DELETE FROM deliveries_ended WHERE app = ?1 AND id > ?2 AND id <= ?3",
        ] {
            self.execute(sql, params![app, after, upto])?;
        }
        Ok(())
    }

    fn lock_lane(&self, endpoint: EndpointId) -> Result<()> {
        self.lock(LINES, endpoint.as_i64())
    }

    fn lock_health(&self, endpoint: EndpointId) -> Result<()> {
        self.lock(HEALTH, endpoint.as_i64())
    }

    fn lock_digests(&self, app: AppId) -> Result<()> {
        self.lock(DIGESTS, app.as_i64())
    }

    fn lock_delivery(&self, delivery: DeliveryId) -> Result<()> {
        // A row goes back from `done` to `live` only through this code, and one node at a time does that.
        if self.execute("SELECT 1 FROM deliveries_open WHERE id = ?1 FOR UPDATE", params![delivery])? == 0 {
            self.execute("SELECT 1 FROM deliveries_ended WHERE id = ?1 FOR UPDATE", params![delivery])?;
        }
        Ok(())
    }

    fn to_change(&self) -> (&'static str, &'static str) {
        ("deliveries_open", "FOR UPDATE OF d SKIP LOCKED")
    }

    fn look_through_lanes(&self) {
        if let Some(floors) = &self.floors {
            floors.begin();
        }
    }

    fn lane_begins(&self, lane: EndpointId) -> Option<Timestamp> {
        self.floors.as_ref().and_then(|floors| floors.of(lane))
    }

    fn lane_goes_on(&self, lane: EndpointId, from: Option<Timestamp>) {
        if let Some(floors) = &self.floors {
            floors.reached(lane, from);
        }
    }

    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn owns(&self, number: i64) -> Result<()> {
        self.seat.map_or(Ok(()), |seat| seat.owns(number))
    }

    fn changed(&self, change: Change) -> Result<()> {
        let (version, at) = if let Some(begun) = self.version.get() {
            begun
        } else {
            let at = self.clock()?;
            (begin_version(self, at)?, at)
        };
        self.version.set(Some((version, at)));
        log_change(self, version, change, at)
    }
}

//! How the shared statements are run in a transaction of this store.

use super::{
    columns::{Rows, Shape},
    deliveries,
    floors::Floors,
    locks::{DIGESTS, HEALTH, LINES, MAKE_LOCKS, TAKE_LOCKS},
    session::Session,
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

/// What every transaction begins with: nothing stays with a connection, which a pooler may have lent. For a lock nobody waits longer
/// than for an answer: a server that waits for one does not notice that its client has gone, and each further try
/// would leave another such connection behind.
pub(super) const SETTINGS: &str = "SET LOCAL search_path = posthaste, pg_temp; SET LOCAL idle_in_transaction_session_timeout = '5s'; \
     SET LOCAL lock_timeout = '7s'";

/// The same to write. Whatever is written is found by an index, row by row: the other ways to join read a whole table, which
/// looks small to a server that has not counted it yet, and is full of rows that are no more. A table that can be read in no other
/// way looks very dear then, which is no reason to compile the statement first.
const SETTINGS_TO_WRITE: &str = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off; \
     SET LOCAL jit = off";

/// What the server's clock shows, in milliseconds.
pub(super) const CLOCK: &str = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)";

/// Ends with `commit`, or is taken back.
pub(super) struct Transaction<'a> {
    session: &'a Session,
    /// Under which deliveries are carried; 0 where nothing is.
    epoch: i64,
    /// Which numbers it may give; any where nobody looks.
    seat: Option<Seat>,
    /// From where on it looks lanes through; from their beginning where nobody keeps that.
    floors: Option<Arc<Floors>>,
    /// Rows of `locks` that it has: those from its start, and those that a command came upon.
    held: RefCell<HashSet<(i64, i64)>>,
    late: RefCell<HashSet<(i64, i64)>>,
    /// Of the configuration, once this changes it, and when that was.
    version: Cell<Option<(i64, Timestamp)>>,
    /// The server refuses everything until something is taken back.
    has_failed: Cell<bool>,
    is_over: bool,
}

impl<'a> Transaction<'a> {
    /// To write. What begins it comes in the same round trip; answers how many rows that gave.
    pub(super) fn begin(session: &'a Session, epoch: i64, first: &str) -> Result<(Self, usize)> {
        let tx = Self::new(session, epoch);
        let rows = session.run(&format!("BEGIN; {SETTINGS}; {SETTINGS_TO_WRITE}; {first}"))?;
        Ok((tx, rows))
    }

    /// The same by whoever sits there.
    pub(super) fn begin_at(
        session: &'a Session,
        seat: Seat,
        floors: Arc<Floors>,
        first: &str,
    ) -> Result<(Self, usize)> {
        let (mut tx, rows) = Self::begin(session, seat.epoch, first)?;
        (tx.seat, tx.floors) = (Some(seat), Some(floors));
        Ok((tx, rows))
    }

    /// All of a transaction that only does this.
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

    /// To read one instant.
    pub(super) fn snapshot(session: &'a Session) -> Result<Self> {
        session.run(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SETTINGS}"))?;
        Ok(Self::new(session, 0))
    }

    fn new(session: &'a Session, epoch: i64) -> Self {
        let (held, late, version) = (RefCell::default(), RefCell::default(), Cell::new(None));
        let (seat, floors, has_failed) = (None, None, Cell::new(false));
        Self { session, epoch, seat, floors, held, late, version, has_failed, is_over: false }
    }

    /// Statements that are not worth keeping prepared.
    pub(super) fn once(&self, sql: &str) -> Result<()> {
        self.heeded(self.session.run(sql)).map(drop)
    }

    pub(super) fn clock(&self) -> Result<Timestamp> {
        Ok(Timestamp::from_millis((self as &dyn Sql).number(CLOCK, &[])?))
    }

    /// Whether others have to follow a change of the configuration.
    pub(super) fn has_changes(&self) -> bool {
        self.version.get().is_some()
    }

    /// All of these at once, in the one order that everybody keeps.
    pub(super) fn lock_all(&self, locks: &Locks) -> Result<()> {
        fn numbers<T: Copy>(ids: impl IntoIterator<Item = T>, number: fn(T) -> i64) -> String {
            ids.into_iter().map(|id| number(id).to_string()).collect::<Vec<_>>().join(" ")
        }
        let Locks { lanes, health, health_if_unwell, digests } = locks;
        let has_all_rows = lanes.is_empty() && health.is_empty() && digests.is_empty();
        if has_all_rows && health_if_unwell.is_empty() {
            return Ok(());
        }
        let [lanes, health, unwell] =
            [lanes, health, health_if_unwell].map(|ids| numbers(ids.iter().copied(), EndpointId::as_i64));
        let digests = numbers(digests.iter().copied(), AppId::as_i64);
        let wanted = params![lanes, health, unwell, digests];
        // Whoever is unwell was locked when it failed.
        if !has_all_rows {
            self.execute(MAKE_LOCKS, wanted)?;
        }
        let taken = (self as &dyn Sql).all(TAKE_LOCKS, wanted, |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.held.borrow_mut().extend(taken);
        Ok(())
    }

    pub(super) fn commit(mut self) -> Result<()> {
        if self.has_failed.get() {
            // To COMMIT the server would answer as if all were well.
            return Err(Error::Wrong("a statement failed and its transaction went on".to_owned()));
        }
        self.is_over = true;
        self.session.run("COMMIT").map(drop)
    }

    /// Whether this transaction has the endpoint's health locked: then that may not be well, or is being changed.
    pub(super) fn has_health(&self, endpoint: EndpointId) -> bool {
        let row = (HEALTH, endpoint.as_i64());
        self.held.borrow().contains(&row) || self.late.borrow().contains(&row)
    }

    /// Runs a statement that takes many rows; how many it changed.
    pub(super) fn write_rows(&self, sql: &str, params: &[&dyn ToValue], rows: &[&Rows]) -> Result<usize> {
        self.heeded(self.session.execute_rows(sql, params, rows))
    }

    /// The same for one that answers with rows.
    pub(super) fn read_rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        rows: &[&Rows],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<C> {
        let found = self.heeded(self.session.query_rows(sql, params, rows))?;
        found.iter().map(|row| read(&Row::new(row))).collect()
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
        // Whoever makes the row has it.
        if self.execute(lock, row)? == 0 && self.execute(make, row)? == 0 {
            self.execute(lock, row)?;
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.session.is_closed() {
            // A connection that cannot do even this is closed, which takes it back as well.
            let _ = self.session.run("ROLLBACK");
        }
    }
}

impl Sql for Transaction<'_> {
    fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        let changed = self.heeded(self.session.execute(sql, params))?;
        if sql.starts_with("ROLLBACK TO ") {
            self.has_failed.set(false);
            // Locks go with what took them.
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
        let found = self.heeded(self.session.query_rows(&over.all_rows(&shape.unnest(1)), &[], &[&rows]))?;
        found.iter().try_for_each(|row| each(&Row::new(row)))
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
        self.execute("UPDATE live SET due = ?2, turn = NULL WHERE id = ?1", params![delivery, due])?;
        Ok(())
    }

    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderKey>)>> {
        let sql = "WITH over AS (DELETE FROM done WHERE id = ?1 RETURNING endpoint, okey),
                 gone AS (DELETE FROM live WHERE id = ?1 RETURNING endpoint, okey)
             SELECT endpoint, okey FROM over UNION ALL SELECT endpoint, okey FROM gone";
        (self as &dyn Sql).one(sql, params![delivery], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn delete_each(&self, ids: &[DeliveryId]) -> Result<Vec<(EndpointId, Option<OrderKey>)>> {
        let sql = "WITH ids AS (SELECT id FROM {given}),
                 over AS (DELETE FROM done WHERE id IN (SELECT id FROM ids) RETURNING endpoint, okey),
                 gone AS (DELETE FROM live WHERE id IN (SELECT id FROM ids) RETURNING endpoint, okey)
             SELECT endpoint, okey FROM over UNION ALL SELECT endpoint, okey FROM gone";
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
            "DELETE FROM live WHERE app = ?1 AND id > ?2 AND id <= ?3",
            "DELETE FROM done WHERE app = ?1 AND id > ?2 AND id <= ?3",
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
        // Only what passes through here goes back from `done` to `live`, and that is done by one node at a time.
        if self.execute("SELECT 1 FROM live WHERE id = ?1 FOR UPDATE", params![delivery])? == 0 {
            self.execute("SELECT 1 FROM done WHERE id = ?1 FOR UPDATE", params![delivery])?;
        }
        Ok(())
    }

    fn to_change(&self) -> (&'static str, &'static str) {
        ("live", "FOR UPDATE OF d SKIP LOCKED")
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

//! Runs the shared statements in a PostgreSQL transaction.

use super::{
    columns::{ColumnRows, ColumnTypes},
    deliveries,
    locks::{DIGESTS, HEALTH, LockRequest, ORDERING},
    scan_watermarks::ScanWatermarks,
    session::Session,
    session_settings::{begin_read_sql, begin_sql},
    statement::{Statement, StatementResult},
};
use crate::{
    domain::{
        delivery::{Delivery, DeliveryState},
        id::{AppId, DeliveryId, EndpointId},
        ordering::OrderingKey,
        time::Timestamp,
    },
    store::sql::{
        BulkStatement, ConfigChange, Error, ExpectedState, Locks, Result, Row, RowSink, Sql, ToValue,
        WriterId, begin_version, log_change, params,
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
    RolledBack(Error),
    /// The COMMIT was sent, and the answer does not say whether it succeeded.
    InDoubt(Error),
}

impl Uncommitted {
    fn cause(self) -> Error {
        let (Self::RolledBack(error) | Self::InDoubt(error)) = self;
        error
    }
}

/// A transaction. Ends with `commit`, or is rolled back when dropped.
pub(super) struct Transaction<'a> {
    session: &'a Session,
    /// The epoch under which deliveries are leased; 0 where none are.
    epoch: i64,
    /// Checks ids that are assigned; `None` where any id is allowed.
    writer_id: Option<WriterId>,
    /// Where the search of endpoint queues starts; `None`: at their beginning.
    watermarks: Option<Arc<ScanWatermarks>>,
    /// Rows of `locks` that it holds: those locked at its start, and those that a command locked later.
    held: RefCell<HashSet<(i64, i64)>>,
    locked_later: RefCell<HashSet<(i64, i64)>>,
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
        let rows = session.run(&begin_sql(session, first)?)?;
        Ok((tx, rows))
    }

    /// Begins a transaction of a writer, with all of these locks, taken in the one order that every writer keeps.
    pub(super) fn begin_at(
        session: &'a Session,
        writer_id: WriterId,
        watermarks: Arc<ScanWatermarks>,
        first: &str,
        locks: &Locks,
    ) -> Result<(Self, usize)> {
        let mut tx = Self::new(session, writer_id.epoch);
        (tx.writer_id, tx.watermarks) = (Some(writer_id), Some(watermarks));
        let (opening, wanted) = (begin_sql(session, first)?, LockRequest::of(locks));
        let params = wanted.params();
        let statements: Vec<_> =
            [Statement::Batch(&opening)].into_iter().chain(wanted.statements(&params)).collect();
        let answers = tx.pipeline(&statements)?;
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
        session.run(&begin_read_sql(session)?)?;
        Ok(Self::new(session, 0))
    }

    fn new(session: &'a Session, epoch: i64) -> Self {
        let (held, late, version) = (RefCell::default(), RefCell::default(), Cell::new(None));
        let (writer_id, watermarks, has_failed) = (None, None, Cell::new(false));
        Self {
            session,
            epoch,
            writer_id,
            watermarks,
            held,
            locked_later: late,
            version,
            has_failed,
            is_over: false,
        }
    }

    /// Runs statements that are not worth preparing.
    pub(super) fn once(&self, sql: &str) -> Result<()> {
        self.note_failure(self.session.run(sql)).map(drop)
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
    pub(super) fn commit_with(mut self, last: &[Statement<'_>]) -> Result<Vec<StatementResult>, Uncommitted> {
        if self.has_failed.get() {
            // To this COMMIT the server would answer without an error.
            let error = Error::Wrong("a statement failed and its transaction went on".to_owned());
            return Err(Uncommitted::RolledBack(error));
        }
        let statements: Vec<_> = last.iter().copied().chain([Statement::Batch("COMMIT")]).collect();
        self.session.prepare(&statements).map_err(Uncommitted::RolledBack)?;
        let answers = self.session.pipeline(&statements);
        self.is_over = !matches!(&answers, Ok(answers) if answers.len() < statements.len());
        let answers = answers.map_err(Uncommitted::InDoubt)?;
        let (is_sent, is_answered) = (self.is_over, answers.last().is_some_and(Result::is_ok));
        answers.into_iter().collect::<Result<_>>().map_err(|error| {
            // An error answer to a COMMIT means that the server rolled it back.
            let is_refused = matches!(&error, Error::Postgres(error) if error.as_db_error().is_some());
            let is_taken_back = !is_sent || is_answered && is_refused;
            if is_taken_back { Uncommitted::RolledBack(error) } else { Uncommitted::InDoubt(error) }
        })
    }

    /// Whether this transaction has locked the endpoint's health: then that may be unhealthy, or is being changed.
    pub(super) fn has_health(&self, endpoint: EndpointId) -> bool {
        let row = (HEALTH, endpoint.as_i64());
        self.held.borrow().contains(&row) || self.locked_later.borrow().contains(&row)
    }

    /// Runs all of these, one after the other, in one round trip.
    pub(super) fn pipeline(&self, statements: &[Statement<'_>]) -> Result<Vec<StatementResult>> {
        self.note_failure(self.session.pipeline(statements).and_then(|answers| answers.into_iter().collect()))
    }

    /// Runs a statement that takes many rows and returns some.
    pub(super) fn read_rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        rows: &[&ColumnRows],
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<C> {
        self.note_failure(self.session.run_one(Statement::Query(sql, params, rows)))?.read(read)
    }

    fn note_failure<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.has_failed.set(true);
        }
        result
    }

    fn lock(&self, kind: i64, of: i64) -> Result<()> {
        if self.held.borrow().contains(&(kind, of)) || !self.locked_later.borrow_mut().insert((kind, of)) {
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
        let changed = self.note_failure(self.session.execute(sql, params))?;
        if sql.starts_with("ROLLBACK TO ") {
            self.has_failed.set(false);
            // A savepoint's rollback releases the locks taken since.
            self.locked_later.borrow_mut().clear();
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
        for row in &self.note_failure(self.session.query(sql, params))? {
            if each(&Row::new(row))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn query_each_row(
        &self,
        over: &BulkStatement<'_>,
        give: &mut dyn FnMut(&mut RowSink<'_>) -> Result<()>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let shape = ColumnTypes(over.shape);
        let mut rows = ColumnRows::new(shape);
        give(&mut |row| rows.push(row))?;
        if rows.len() == 0 {
            return Ok(());
        }
        let (sql, rows) = (over.all_rows(&shape.unnest(1)), [&rows]);
        let answer = self.note_failure(self.session.run_one(Statement::Query(&sql, &[], &rows)))?;
        answer.rows.iter().try_for_each(|row| each(&Row::new(row)))
    }

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()> {
        self.check_id(delivery.id.as_i64())?;
        deliveries::insert(self, delivery)
    }

    fn replace_delivery(&self, was: ExpectedState, delivery: &Delivery) -> Result<bool> {
        deliveries::replace(self, was, delivery)
    }

    fn lease_all(&self, taken: &[(DeliveryState, &Delivery)]) -> Result<Vec<bool>> {
        deliveries::lease_all(self, taken)
    }

    fn promote(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()> {
        self.execute(
            "UPDATE deliveries_open SET due = ?2, order_seq = NULL WHERE id = ?1",
            params![delivery, due],
        )?;
        Ok(())
    }

    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderingKey>)>> {
        let sql =
            "WITH over AS (DELETE FROM deliveries_ended WHERE id = ?1 RETURNING endpoint, ordering_key),
                 gone AS (DELETE FROM deliveries_open WHERE id = ?1 RETURNING endpoint, ordering_key)
             SELECT endpoint, ordering_key FROM over UNION ALL SELECT endpoint, ordering_key FROM gone";
        (self as &dyn Sql).one(sql, params![delivery], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn delete_each(&self, ids: &[DeliveryId]) -> Result<Vec<(EndpointId, Option<OrderingKey>)>> {
        let sql = "WITH ids AS (SELECT id FROM {given}),
                 over AS (DELETE FROM deliveries_ended WHERE id IN (SELECT id FROM ids) RETURNING endpoint, ordering_key),
                 gone AS (DELETE FROM deliveries_open WHERE id IN (SELECT id FROM ids) RETURNING endpoint, ordering_key)
             SELECT endpoint, ordering_key FROM over UNION ALL SELECT endpoint, ordering_key FROM gone";
        let mut deleted = Vec::new();
        self.query_each_row(
            &BulkStatement { sql, columns: "id", shape: "n" },
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

    fn lock_queue(&self, endpoint: EndpointId) -> Result<()> {
        self.lock(ORDERING, endpoint.as_i64())
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

    fn start_queue_search(&self) {
        if let Some(watermarks) = &self.watermarks {
            watermarks.begin();
        }
    }

    fn search_start(&self, endpoint: EndpointId) -> Option<Timestamp> {
        self.watermarks.as_ref().and_then(|watermarks| watermarks.of(endpoint))
    }

    fn set_search_start(&self, endpoint: EndpointId, from: Option<Timestamp>) {
        if let Some(watermarks) = &self.watermarks {
            watermarks.record(endpoint, from);
        }
    }

    fn epoch(&self) -> i64 {
        self.epoch
    }

    fn check_id(&self, number: i64) -> Result<()> {
        self.writer_id.map_or(Ok(()), |writer_id| writer_id.check_id(number))
    }

    fn log_change(&self, change: ConfigChange) -> Result<()> {
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

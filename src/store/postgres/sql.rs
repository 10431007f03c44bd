//! How the shared statements are run in a transaction of this store.

use super::{cluster::Epoch, deliveries, session::Session};
use crate::{
    domain::{
        delivery::{Delivery, State},
        id::{AppId, DeliveryId, EndpointId},
        order::OrderKey,
        time::Timestamp,
    },
    store::sql::{Error, Result, Row, Sql, ToValue, params},
};
use std::{cell::Cell, ops::ControlFlow};

/// What every transaction begins with: nothing stays with a connection, which a pooler may have lent.
const SETTINGS: &str =
    "SET LOCAL search_path = posthaste, pg_temp; SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// Kinds of rows in `locks`.
const LINES: i64 = 0;
const HEALTH: i64 = 1;

/// Ends with `commit`, or is taken back.
pub(super) struct Transaction<'a> {
    session: &'a Session,
    /// Under which deliveries are carried.
    pub(super) epoch: Epoch,
    /// The server refuses everything until something is taken back.
    has_failed: Cell<bool>,
    is_over: bool,
}

impl<'a> Transaction<'a> {
    /// To write. What begins it comes in the same round trip; answers how many rows that gave.
    pub(super) fn begin(session: &'a Session, epoch: Epoch, first: &str) -> Result<(Self, usize)> {
        let tx = Self { session, epoch, has_failed: Cell::new(false), is_over: false };
        let rows = session.run(&format!("BEGIN; {SETTINGS}; {first}"))?;
        Ok((tx, rows))
    }

    /// To read one instant.
    pub(super) fn snapshot(session: &'a Session) -> Result<Self> {
        session.run(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SETTINGS}"))?;
        Ok(Self { session, epoch: Epoch::NONE, has_failed: Cell::new(false), is_over: false })
    }

    pub(super) fn commit(mut self) -> Result<()> {
        if self.has_failed.get() {
            // To COMMIT the server would answer as if all were well.
            return Err(Error::Wrong("a statement failed and its transaction went on".to_owned()));
        }
        self.is_over = true;
        self.session.run("COMMIT").map(drop)
    }

    fn heeded<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.has_failed.set(true);
        }
        result
    }

    fn lock(&self, kind: i64, endpoint: EndpointId) -> Result<()> {
        let lock = "SELECT 1 FROM locks WHERE kind = ?1 AND endpoint = ?2 FOR UPDATE";
        let make = "INSERT INTO locks (kind, endpoint) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let row = params![kind, endpoint];
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

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()> {
        deliveries::insert(self, delivery)
    }

    fn replace_delivery(&self, from: State, delivery: &Delivery) -> Result<bool> {
        deliveries::replace(self, from, delivery)
    }

    fn set_due(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()> {
        self.execute("UPDATE live SET due = ?2 WHERE id = ?1", params![delivery, due])?;
        Ok(())
    }

    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderKey>)>> {
        let sql = "WITH over AS (DELETE FROM done WHERE id = ?1 RETURNING endpoint, okey),
                 gone AS (DELETE FROM live WHERE id = ?1 RETURNING endpoint, okey)
             SELECT endpoint, okey FROM over UNION ALL SELECT endpoint, okey FROM gone";
        (self as &dyn Sql).one(sql, params![delivery], |row| Ok((row.get(0)?, row.get(1)?)))
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
        self.lock(LINES, endpoint)
    }

    fn lock_health(&self, endpoint: EndpointId) -> Result<()> {
        self.lock(HEALTH, endpoint)
    }

    /// The dead write nothing more, so that whatever is theirs stays as it is until somebody takes it over.
    fn abandoned(&self) -> &'static str {
        "d.id IN (SELECT l.id FROM live l JOIN nodes n ON n.epoch = l.owner WHERE l.lane = 0 AND n.dead)"
    }
}

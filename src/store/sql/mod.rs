//! What both stores say alike: the SQL of the four seams and what is done with it, written against `Sql`. How a store is
//! opened, written and read stays with it.
//!
//! The text must be what SQLite and PostgreSQL 14 both understand, parameters written as `?1`; PostgreSQL's side leaves out
//! `INDEXED BY`. `deliveries` is only read here, because there it is a view: whatever changes one is a method of `Sql`.

mod accountable;
mod attempts;
mod audit;
mod browse;
pub(super) mod changes;
mod cluster;
mod commands;
mod dedup;
mod deliveries;
mod desk;
mod error;
mod event_types;
mod given;
mod health;
mod hot;
mod inbox;
mod inspections;
mod ledger;
mod membership;
pub(super) mod nodes;
mod notices;
mod order;
mod outbox;
mod queue;
mod readers;
mod recent;
mod refill;
mod registry;
mod removal;
mod replays;
mod retention;
mod rollup;
mod row;
mod seams;
mod seat;
mod shards;
mod statistics;
pub(super) mod takeover;
mod thread;
mod traffic;
mod turns;
mod upkeep;
mod value;
mod work;

pub use queue::QueueLimits;
pub use turns::Turn;

pub(super) use attempts::COLUMNS_WRITTEN as ATTEMPT;
pub(super) use changes::{Change, begin as begin_version, log as log_change};
pub(super) use cluster::{join_alone, what_is_there};
pub(super) use commands::Recording;
pub(super) use deliveries::{Was, lane};
pub(super) use desk::Desk;
pub(super) use error::{Error, Result, store_error};
pub(super) use given::{Give, Over};
pub(super) use hot::Hot;
pub(super) use ledger::{EVENT_COLUMNS_WRITTEN as EVENT, event_row};
pub(super) use membership::Membership;
pub(super) use nodes::Newcomer;
pub(super) use notices::{NEWEST as NEWEST_NOTICE, newest as newest_notice};
pub(super) use queue::Queue;
pub(super) use readers::{Reader, Readers};
pub(super) use rollup::LOG as LOG_STATISTICS;
#[cfg(test)]
pub(super) use rollup::tests::roll_up_all;
pub(super) use row::write_return_to;
pub(super) use seat::Seat;
pub(super) use thread::WriterThread;
pub(super) use turns::{Commit, TRIES_WHILE_CLOSING, Turns, added_by, apply_all};
pub(super) use value::{Columns, Row, ToValue, Value, WrongValue, params};
pub(super) use work::{Aftermath, Kind, Locks, Work, answered};

use crate::domain::{
    delivery::{Delivery, State},
    id::{AppId, DeliveryId, EndpointId},
    order::OrderKey,
    time::Timestamp,
};
use std::ops::ControlFlow;

/// A transaction, or a connection that reads one instant.
pub(super) trait Sql {
    /// How many rows were changed.
    fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize>;

    /// Hands over row by row, until there is no more or `each` has enough. `each` may run statements of its own.
    fn query(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()>;

    /// Runs a statement over all the rows that `give` gives, and hands over what it answers.
    fn over(
        &self,
        over: &Over<'_>,
        give: &mut dyn FnMut(&mut Give<'_>) -> Result<()>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let sql = over.one_row();
        give(&mut |row| self.query(&sql, row, &mut |found| each(found).map(ControlFlow::Continue)))
    }

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()>;

    /// Writes a delivery over its row if that is still what it was; whether it is.
    fn replace_delivery(&self, was: Was, delivery: &Delivery) -> Result<bool>;

    /// The same for deliveries that waited and are in flight now, which is all that changed of them.
    fn carry_all(&self, taken: &[(State, &Delivery)]) -> Result<Vec<bool>> {
        taken.iter().map(|(from, delivery)| self.replace_delivery(Was::In(*from), delivery)).collect()
    }

    /// One that stood behind in its line stands there no more: it is due then.
    fn step_up(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()>;

    /// Where it was, and in which line; `None` if there is no such row.
    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderKey>)>>;

    /// The same of many; of those that there were.
    fn delete_each(&self, deliveries: &[DeliveryId]) -> Result<Vec<(EndpointId, Option<OrderKey>)>> {
        let deleted = deliveries.iter().filter_map(|id| self.delete_delivery(*id).transpose());
        deleted.collect()
    }

    /// Those of an app with ids after the first and up to the last, whatever their lines.
    fn delete_deliveries(&self, app: AppId, after: i64, upto: i64) -> Result<()>;

    /// Nobody else reads or changes the endpoint's lines until this transaction ends. Called before a line is looked at to
    /// decide about it.
    fn lock_lane(&self, endpoint: EndpointId) -> Result<()>;

    /// The same for the endpoint's health, called before that is read to be changed.
    fn lock_health(&self, endpoint: EndpointId) -> Result<()>;

    /// The same for the digests of the app that are open.
    fn lock_digests(&self, app: AppId) -> Result<()>;

    /// Nobody else changes this delivery until this transaction ends.
    fn lock_delivery(&self, delivery: DeliveryId) -> Result<()>;

    /// For a statement that reads deliveries `d` which are not over, to change them: where they are, and how it ends so that
    /// others leave them alone and it passes over those that others are changing.
    fn to_change(&self) -> (&'static str, &'static str);

    /// Lanes are about to be looked through.
    fn look_through_lanes(&self) {}

    /// From where on a lane is looked through for what has waited longest; `None`: from its beginning.
    fn lane_begins(&self, _lane: EndpointId) -> Option<Timestamp> {
        None
    }

    /// What is due and still waits in a lane begins there; `None` if nothing does.
    fn lane_goes_on(&self, _lane: EndpointId, _from: Option<Timestamp>) {}

    /// Under which this process carries what it is given; 0 where there is no other.
    fn epoch(&self) -> i64;

    /// Asked before anything is stored under a new number: refuses one that this process must not give any more.
    fn owns(&self, _number: i64) -> Result<()> {
        Ok(())
    }

    /// Notes for other nodes that this transaction changes the configuration.
    fn changed(&self, change: Change) -> Result<()>;
}

impl dyn Sql + '_ {
    /// The first row.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.query(sql, params, &mut |row| {
            found = Some(read(row)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        self.each(sql, params, |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Every row, to the last.
    pub(super) fn each(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        mut each: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.query(sql, params, &mut |row| each(row).map(ControlFlow::Continue))
    }

    /// What a `SELECT EXISTS` says.
    pub(super) fn exists(&self, sql: &str, params: &[&dyn ToValue]) -> Result<bool> {
        Ok(self.one(sql, params, |row| row.get(0))?.unwrap_or_default())
    }

    /// The one number of the one row of a count, a sum or a maximum; of nothing it is 0.
    pub(super) fn number(&self, sql: &str, params: &[&dyn ToValue]) -> Result<i64> {
        Ok(self.one(sql, params, |row| row.get::<Option<i64>>(0))?.flatten().unwrap_or_default())
    }
}

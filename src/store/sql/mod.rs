//! SQL shared by both backends: the statements behind the methods of `Store`, the commands of the hot path, and the group
//! commit. How a store is opened, written and read belongs to the backend.
//!
//! The text must be understood by SQLite and PostgreSQL 14, with parameters written as `?1`; PostgreSQL's side leaves out
//! `INDEXED BY`. `deliveries` is only read here, because it is a view there: every change of a delivery is a method of `Sql`.

pub(super) mod adjusted_clock;
mod attempts;
pub(super) mod audit;
mod bulk_ops;
mod bulk_statement;
pub(super) mod changes;
mod command;
mod command_queue;
mod commands;
pub(super) mod config;
pub(super) mod dedup;
mod deliveries;
pub(super) mod delivery_statements;
mod error;
pub(super) mod event_types;
mod group_commit;
pub(super) mod health;
mod inbox;
pub(super) mod inspections;
mod lease_commands;
pub(super) mod lease_due;
pub(super) mod maintenance;
pub(super) mod nodes;
pub(super) mod notices;
mod ordering;
pub(super) mod outbox;
pub(super) mod queries;
mod readers;
pub(super) mod recent;
pub(super) mod replays;
pub(super) mod retention;
mod retention_delete;
mod retention_reader;
pub(super) mod retention_records;
pub(super) mod rollup;
mod row;
pub(super) mod shards;
mod statistics;
pub(super) mod statistics_query;
pub(super) mod takeover;
mod value;
mod writer_id;
mod writer_thread;

pub use bulk_ops::BulkOp;
pub use command::Command;
pub use command_queue::QueueLimits;
pub use error::Result;
pub use group_commit::CommitResult;

pub(super) use attempts::COLUMNS_WRITTEN as ATTEMPT;
pub(super) use bulk_statement::{BulkStatement, RowSink};
pub(super) use changes::{ConfigChange, begin as begin_version, log as log_change};
pub(super) use command::{CommandKind, CommitEffects, FnCommand, Locks, answered, flush_command};
pub(super) use command_queue::CommandQueue;
pub(super) use commands::{Accept, RecordResult};
pub(super) use deliveries::{ExpectedState, queue_column};
pub(super) use delivery_statements::{EVENT_COLUMNS_WRITTEN as EVENT, event_row};
pub(super) use error::{Error, store_error};
pub(super) use group_commit::{BatchWriter, GroupCommit, TRIES_WHILE_CLOSING, added_by, apply_all};
pub(super) use inbox::AcceptInbox;
pub(super) use lease_commands::{LeaseDue, Release};
pub(super) use maintenance::{join_alone, newest_id_and_inspections};
pub(super) use nodes::NewNode;
pub(super) use notices::{NEWEST as NEWEST_NOTICE, newest as newest_notice};
pub(super) use readers::{ReadConnection, ReaderPool};
#[cfg(test)]
pub(super) use rollup::tests::roll_up_all;
pub(super) use rollup::{LOG as LOG_STATISTICS, LogLine};
pub(super) use row::write_saved_state;
pub(super) use value::{Columns, Row, ToValue, Value, WrongValue, params};
pub(super) use writer_id::WriterId;
pub(super) use writer_thread::WriterThread;

use crate::domain::{
    delivery::{Delivery, DeliveryState},
    id::{AppId, DeliveryId, EndpointId},
    ordering::OrderingKey,
    time::Timestamp,
};
use std::ops::ControlFlow;

/// A transaction, or a connection that reads one instant.
pub trait Sql {
    /// Runs a statement; returns how many rows were changed.
    fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize>;

    /// Passes row by row to `each`, until there are no more or `each` breaks. `each` may run statements of its own.
    fn query(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()>;

    /// Runs a statement over all the rows that `give` supplies, and passes the rows of its result to `each`.
    fn query_each_row(
        &self,
        over: &BulkStatement<'_>,
        give: &mut dyn FnMut(&mut RowSink<'_>) -> Result<()>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let sql = over.one_row();
        give(&mut |row| self.query(&sql, row, &mut |found| each(found).map(ControlFlow::Continue)))
    }

    fn insert_delivery(&self, delivery: &Delivery) -> Result<()>;

    /// Writes a delivery over its row if that is still what it was; returns whether it did.
    fn replace_delivery(&self, was: ExpectedState, delivery: &Delivery) -> Result<bool>;

    /// Writes waiting deliveries as in flight, which is all that changed of them; returns which rows were still what they
    /// were.
    fn lease_all(&self, taken: &[(DeliveryState, &Delivery)]) -> Result<Vec<bool>> {
        taken
            .iter()
            .map(|(from, delivery)| self.replace_delivery(ExpectedState::State(*from), delivery))
            .collect()
    }

    /// Promotes a delivery that was queued in its ordering group: it becomes due then.
    fn promote(&self, delivery: DeliveryId, due: Option<Timestamp>) -> Result<()>;

    /// Deletes a delivery. Returns its endpoint and ordering key; `None` if there is no such row.
    fn delete_delivery(&self, delivery: DeliveryId) -> Result<Option<(EndpointId, Option<OrderingKey>)>>;

    /// Deletes several deliveries; returns the endpoint and ordering key of each that existed.
    fn delete_each(&self, deliveries: &[DeliveryId]) -> Result<Vec<(EndpointId, Option<OrderingKey>)>> {
        let deleted = deliveries.iter().filter_map(|id| self.delete_delivery(*id).transpose());
        deleted.collect()
    }

    /// Deletes an app's deliveries with ids after the first and up to the last, whatever their ordering groups.
    fn delete_deliveries(&self, app: AppId, after: i64, upto: i64) -> Result<()>;

    /// Locks the endpoint's ordering groups until this transaction ends. Called before an ordering group is read to decide
    /// about it.
    fn lock_queue(&self, endpoint: EndpointId) -> Result<()>;

    /// Locks the endpoint's health, before it is read to be changed.
    fn lock_health(&self, endpoint: EndpointId) -> Result<()>;

    /// Locks the app's open digests.
    fn lock_digests(&self, app: AppId) -> Result<()>;

    /// Locks the delivery against changes until this transaction ends.
    fn lock_delivery(&self, delivery: DeliveryId) -> Result<()>;

    /// For a statement that reads deliveries `d` which have not ended, to change them: the table to read, and the clause that
    /// locks the rows and skips those that other transactions have locked.
    fn to_change(&self) -> (&'static str, &'static str);

    /// Called before endpoint queues are searched for due deliveries.
    fn start_queue_search(&self) {}

    /// Returns where the search of an endpoint queue for its oldest due delivery starts; `None`: at its beginning.
    fn search_start(&self, _endpoint: EndpointId) -> Option<Timestamp> {
        None
    }

    /// Stores where the oldest due delivery of an endpoint queue is; `None` if nothing is due.
    fn set_search_start(&self, _endpoint: EndpointId, _from: Option<Timestamp>) {}

    /// The epoch under which this process leases deliveries; 0 where there is no other process.
    fn epoch(&self) -> i64;

    /// Checks an id before something is stored under it: refuses one that this process must not assign any more.
    fn check_id(&self, _number: i64) -> Result<()> {
        Ok(())
    }

    /// Notes for other nodes that this transaction changes the configuration.
    fn log_change(&self, change: ConfigChange) -> Result<()>;
}

impl dyn Sql + '_ {
    /// Returns the first row.
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

    /// Calls `each` for every row.
    pub(super) fn each(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        mut each: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.query(sql, params, &mut |row| each(row).map(ControlFlow::Continue))
    }

    /// Returns the result of a `SELECT EXISTS`.
    pub(super) fn exists(&self, sql: &str, params: &[&dyn ToValue]) -> Result<bool> {
        Ok(self.one(sql, params, |row| row.get(0))?.unwrap_or_default())
    }

    /// Returns the number that a count, a sum or a maximum gives; 0 if it gives none.
    pub(super) fn number(&self, sql: &str, params: &[&dyn ToValue]) -> Result<i64> {
        Ok(self.one(sql, params, |row| row.get::<Option<i64>>(0))?.flatten().unwrap_or_default())
    }
}

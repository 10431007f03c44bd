//! A connection, with the runtime that drives it. Statements come in the form that both backends understand; each is prepared
//! once, unless a pooler lends the connection: then each is sent whole, with the types of its parameters.

use super::{
    driver_config::driver_config,
    hosts::Hosts,
    open::PostgresOpenError,
    statement::{Statement, StatementResult, pipeline},
    tls::DatabaseTlsConnector,
    value::FetchedRow,
};
use crate::{
    domain::database_address::DatabaseAddress,
    store::sql::{Error, Result, ToValue, WrongValue},
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    error::Error as Cause,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::UnboundedSender,
    time::{Sleep, sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client, SimpleQueryMessage, Statement as PreparedStatement};

/// For connecting, encryption and login included.
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);

/// Everything that is needed to connect.
pub(super) struct Server {
    hosts: Hosts,
    tls: DatabaseTlsConnector,
    is_pooled: bool,
}

impl Server {
    pub(super) fn at(address: &DatabaseAddress) -> Result<Self, PostgresOpenError> {
        let (hosts, tls) = (Hosts::of(&driver_config(address)?), DatabaseTlsConnector::of(address)?);
        Ok(Self { hosts, tls, is_pooled: address.is_pooled })
    }

    /// Whether a pooler lends its connections, so that no state can stay with them.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }
}

pub(super) struct Session {
    client: Arc<Client>,
    /// Prepared statements, by the text of the shared code; `None` where nothing may stay with the connection.
    statements: Option<RefCell<HashMap<String, PreparedStatement>>>,
    /// Settings that were set for all later statements.
    kept: Cell<Option<&'static str>>,
    /// How long it waits for any one answer.
    patience: Duration,
    has_given_up: Cell<bool>,
    /// The connection's own runtime: a caller drives the connection while it waits, so that no other thread has to be woken.
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Session {
    pub(super) fn connect(server: &Server, patience: Duration) -> Result<Self> {
        Self::listen(server, patience, None)
    }

    /// Connects, and forwards the payload of notifications that arrive.
    pub(super) fn listen(
        server: &Server,
        patience: Duration,
        notifications: Option<UnboundedSender<String>>,
    ) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, mut connection) = runtime
            .block_on(async { timeout(CONNECTED_WITHIN, server.hosts.connect(&server.tls)).await })
            .map_err(|_| timed_out())??;
        runtime.spawn(async move {
            loop {
                match (poll_fn(|context| connection.poll_message(context)).await, &notifications) {
                    (Some(Ok(AsyncMessage::Notification(said))), Some(notifications)) => {
                        let _ = notifications.send(said.payload().to_owned());
                    }
                    (Some(Ok(_)), _) => {}
                    // The next caller gets the error that the connection is closed.
                    (Some(Err(error)), _) => {
                        tracing::debug!(%error, "a connection to the database ended");
                        return;
                    }
                    (None, _) => return,
                }
            }
        });
        let (client, statements) = (Arc::new(client), (!server.is_pooled).then(RefCell::default));
        let (kept, has_given_up) = (Cell::new(None), Cell::new(false));
        Ok(Self { client, statements, kept, patience, has_given_up, runtime: Some(runtime) })
    }

    /// Whether a pooler lent it, so that no state can stay with it.
    pub(super) fn is_lent(&self) -> bool {
        self.statements.is_none()
    }

    /// Whether the connection is unusable.
    pub(super) fn is_closed(&self) -> bool {
        self.has_given_up.get() || self.client.is_closed()
    }

    /// Whether the connection is unusable, after handling what arrived while it was idle. A statement sent on a connection
    /// that has ended may or may not have arrived.
    pub(super) fn has_ended(&self) -> bool {
        let look = async {
            // The first lets the runtime see the event, and the second its connection.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        };
        self.is_closed() || self.drive(look).is_err() || self.is_closed()
    }

    /// Applies settings for all later statements, once. Only on a connection of this process's own, and always the same
    /// settings on one: earlier others stay.
    pub(super) fn keep_settings(&self, settings: &'static str) -> Result<()> {
        if self.kept.get() != Some(settings) {
            self.run(settings)?;
            self.kept.set(Some(settings));
        }
        Ok(())
    }

    /// Runs several statements without parameters in one round trip; returns how many rows they gave.
    pub(super) fn run(&self, sql: &str) -> Result<usize> {
        self.run_one(Statement::Batch(sql)).map(|answer| answer.count)
    }

    /// Sends several statements without waiting, neither for earlier answers nor for theirs. `then` gets the answer while the
    /// session is driven, or is dropped with it.
    pub(super) fn send(
        &self,
        sql: String,
        then: impl FnOnce(Result<Vec<SimpleQueryMessage>>) + Send + 'static,
    ) -> Result<()> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        let (client, patience) = (self.client.clone(), self.patience);
        runtime.spawn(async move {
            let answer = timeout(patience, client.simple_query(&sql)).await;
            then(answer.map_or_else(|_| Err(timed_out()), |answer| answer.map_err(Error::Postgres)));
        });
        Ok(())
    }

    /// Returns the server process that answers.
    pub(super) fn process(&self) -> Result<Option<String>> {
        let messages = self.wait(self.client.simple_query("SELECT pg_backend_pid()"))?;
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    pub(super) fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        self.run_one(Statement::Change(sql, params, &[])).map(|answer| answer.count)
    }

    /// Returns all rows at once, so that other statements can run while they are read.
    pub(super) fn query(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<FetchedRow>> {
        self.run_one(Statement::Query(sql, params, &[])).map(|answer| answer.rows)
    }

    pub(super) fn run_one(&self, command: Statement<'_>) -> Result<StatementResult> {
        self.pipeline(&[command])?.remove(0)
    }

    /// Runs these in one round trip, one after the other. In a transaction, statements after a failed one do nothing, and
    /// there is no answer after one that could not be sent.
    pub(super) fn pipeline(&self, command: &[Statement<'_>]) -> Result<Vec<Result<StatementResult>>> {
        let statements = self.prepare(command)?;
        let answers = command.iter().zip(&statements).map(|(command, statement)| {
            let future: Pin<Box<dyn Future<Output = _> + '_>> =
                Box::pin(command.answer(&self.client, statement.as_ref()));
            future
        });
        let answers = self.drive(pipeline(answers, self.patience))?;
        let answers = answers.ok_or_else(|| self.give_up())?;
        Ok(answers.into_iter().map(|answer| answer.map_err(wrong_or_refused)).collect())
    }

    /// Prepares those of these that can be prepared, in their order.
    pub(super) fn prepare(&self, command: &[Statement<'_>]) -> Result<Vec<Option<PreparedStatement>>> {
        command.iter().map(|command| self.statement(command)).collect()
    }

    /// Returns the prepared statement; `None` if there is nothing to prepare, or if none may be kept.
    fn statement(&self, command: &Statement<'_>) -> Result<Option<PreparedStatement>> {
        let (Some(statements), Some(sql)) = (&self.statements, command.sql()) else { return Ok(None) };
        if let Some(known) = statements.borrow().get(sql) {
            return Ok(Some(known.clone()));
        }
        let statement = self.wait(self.client.prepare(&to_postgres_sql(sql)))?;
        statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(Some(statement))
    }

    /// Runs the future to its end; handles what arrives on the connection meanwhile.
    pub(super) fn drive<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        Ok(runtime.block_on(future))
    }

    /// Returns a timer that runs while the session is driven.
    pub(super) fn timer(&self, duration: Duration) -> Result<Pin<Box<Sleep>>> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        let _inside = runtime.enter();
        Ok(Box::pin(sleep(duration)))
    }

    fn wait<T>(&self, command: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        let answer = self.drive(async { timeout(self.patience, command).await })?;
        answer.map_err(|_| self.give_up())?.map_err(wrong_or_refused)
    }

    /// Gives the connection up: no more is sent after an unanswered statement.
    fn give_up(&self) -> Error {
        self.has_given_up.set(true);
        timed_out()
    }
}

fn wrong_or_refused(error: tokio_postgres::Error) -> Error {
    let is_wrong = error.source().is_some_and(<dyn Cause>::is::<WrongValue>);
    if is_wrong { Error::Wrong(error.to_string()) } else { Error::Postgres(error) }
}

pub(super) fn timed_out() -> Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time").into()
}

impl Drop for Session {
    fn drop(&mut self) {
        // Stores are dropped on threads that drive futures, where a runtime must not wait for its own.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Translates shared SQL: `?1` becomes `$1`, and SQLite's index hints are removed.
pub(super) fn to_postgres_sql(sql: &str) -> String {
    const PROMISE: &str = "INDEXED BY ";
    let mut said = String::with_capacity(sql.len());
    let (mut is_quoted, mut characters) = (false, sql.chars().peekable());
    while let Some(character) = characters.next() {
        is_quoted ^= character == '\'';
        let is_param = character == '?' && !is_quoted && characters.peek().is_some_and(char::is_ascii_digit);
        said.push(if is_param { '$' } else { character });
    }
    while let Some(start) = said.find(PROMISE) {
        let name = &said[start + PROMISE.len()..];
        let length = name.find(|character: char| character != '_' && !character.is_ascii_alphanumeric());
        said.replace_range(start..start + PROMISE.len() + length.unwrap_or(name.len()), "");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_translated_to_postgresql() {
        for (shared, here) in [
            ("SELECT 1 WHERE a = ?1 AND b = ?12", "SELECT 1 WHERE a = $1 AND b = $12"),
            ("SELECT '?1', 'it''s ?2', ?3", "SELECT '?1', 'it''s ?2', $3"),
            ("FROM d INDEXED BY d_a WHERE b", "FROM d  WHERE b"),
            ("FROM d INDEXED BY d_a\nJOIN c INDEXED BY c_1", "FROM d \nJOIN c "),
        ] {
            assert_eq!(to_postgres_sql(shared), here);
        }
    }
}

//! One connection with what drives it. Statements come as both stores understand them; each is prepared once, unless the
//! connection is lent by a pooler: then each is sent whole, with the types of its parameters.

use super::{
    address::Address,
    columns::Rows,
    hosts::Hosts,
    open::OpenError,
    tls::Connector,
    value::{Bound, Fetched},
};
use crate::store::sql::{Error, Result, ToValue, WrongValue};
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
use tokio_postgres::{
    AsyncMessage, Client, SimpleQueryMessage, Statement,
    types::{ToSql, Type},
};

/// For all that it takes to connect, encryption and logging in included.
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);

/// What it takes to connect.
pub(super) struct Server {
    hosts: Hosts,
    tls: Connector,
    is_pooled: bool,
}

impl Server {
    pub(super) fn at(address: &Address) -> Result<Self, OpenError> {
        let (hosts, tls) = (Hosts::of(&address.config), Connector::of(address)?);
        Ok(Self { hosts, tls, is_pooled: address.is_pooled })
    }

    /// Whether its connections are lent by a pooler, so that nothing can stay with them.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }
}

pub(super) struct Session {
    client: Arc<Client>,
    /// As the server knows them, by what the shared code says; `None` where nothing may stay with the connection.
    statements: Option<RefCell<HashMap<String, Statement>>>,
    /// How long it waits for any one answer.
    patience: Duration,
    has_given_up: Cell<bool>,
    /// Its own: whoever asks for something drives the connection meanwhile, and no other thread has to be woken. `None` only
    /// while it is dropped.
    runtime: Option<Runtime>,
}

impl Session {
    pub(super) fn connect(server: &Server, patience: Duration) -> Result<Self> {
        Self::hearing(server, patience, None)
    }

    /// Passes on what notifications say that come on it.
    pub(super) fn hearing(
        server: &Server,
        patience: Duration,
        heard: Option<UnboundedSender<String>>,
    ) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, mut connection) = runtime
            .block_on(async { timeout(CONNECTED_WITHIN, server.hosts.connect(&server.tls)).await })
            .map_err(|_| silent())??;
        runtime.spawn(async move {
            loop {
                match (poll_fn(|context| connection.poll_message(context)).await, &heard) {
                    (Some(Ok(AsyncMessage::Notification(said))), Some(heard)) => {
                        let _ = heard.send(said.payload().to_owned());
                    }
                    (Some(Ok(_)), _) => {}
                    // Whoever asks next is told that the connection is closed.
                    (Some(Err(error)), _) => {
                        tracing::debug!(%error, "a connection to the database ended");
                        return;
                    }
                    (None, _) => return,
                }
            }
        });
        let (client, statements) = (Arc::new(client), (!server.is_pooled).then(RefCell::default));
        Ok(Self { client, statements, patience, has_given_up: Cell::new(false), runtime: Some(runtime) })
    }

    /// Nothing can be asked on it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.has_given_up.get() || self.client.is_closed()
    }

    /// Several statements without parameters in one round trip; how many rows they gave.
    pub(super) fn run(&self, sql: &str) -> Result<usize> {
        let messages = self.wait(self.client.simple_query(sql))?;
        Ok(messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count())
    }

    /// The same, sent without waiting for what was asked before or for the answer: `then` is given that while this is driven, or
    /// is dropped with it.
    pub(super) fn ask(
        &self,
        sql: String,
        then: impl FnOnce(Result<Vec<SimpleQueryMessage>>) + Send + 'static,
    ) -> Result<()> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        let (client, patience) = (self.client.clone(), self.patience);
        runtime.spawn(async move {
            let answer = timeout(patience, client.simple_query(&sql)).await;
            then(answer.map_or_else(|_| Err(silent()), |answer| answer.map_err(Error::Postgres)));
        });
        Ok(())
    }

    /// Which process of the server answers.
    pub(super) fn process(&self) -> Result<Option<String>> {
        let messages = self.wait(self.client.simple_query("SELECT pg_backend_pid()"))?;
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    pub(super) fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        self.execute_rows(sql, params, &[])
    }

    /// The columns of these rows are the parameters behind the others.
    pub(super) fn execute_rows(&self, sql: &str, params: &[&dyn ToValue], rows: &[&Rows]) -> Result<usize> {
        let changed = if let Some(statement) = self.statement(sql)? {
            self.wait(with(params, rows, async |bound| self.client.execute(&statement, bound).await))?
        } else {
            let sql = in_this_dialect(sql);
            self.wait(with_types(params, rows, async |bound| self.client.execute_typed(&sql, bound).await))?
        };
        Ok(changed as usize)
    }

    pub(super) fn query(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<Fetched>> {
        self.query_rows(sql, params, &[])
    }

    /// All rows at once, so that other statements can be run while they are looked at.
    pub(super) fn query_rows(
        &self,
        sql: &str,
        params: &[&dyn ToValue],
        rows: &[&Rows],
    ) -> Result<Vec<Fetched>> {
        let rows = if let Some(statement) = self.statement(sql)? {
            self.wait(with(params, rows, async |bound| self.client.query(&statement, bound).await))?
        } else {
            let sql = in_this_dialect(sql);
            self.wait(with_types(params, rows, async |bound| self.client.query_typed(&sql, bound).await))?
        };
        Ok(rows.into_iter().map(Fetched::new).collect())
    }

    /// `None` if none may be kept.
    fn statement(&self, sql: &str) -> Result<Option<Statement>> {
        let Some(statements) = &self.statements else { return Ok(None) };
        if let Some(known) = statements.borrow().get(sql) {
            return Ok(Some(known.clone()));
        }
        let statement = self.wait(self.client.prepare(&in_this_dialect(sql)))?;
        statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(Some(statement))
    }

    /// Until the future has ended; whatever comes on the connection is taken in meanwhile.
    pub(super) fn drive<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        Ok(runtime.block_on(future))
    }

    /// One that runs while this is driven.
    pub(super) fn timer(&self, duration: Duration) -> Result<Pin<Box<Sleep>>> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        let _inside = runtime.enter();
        Ok(Box::pin(sleep(duration)))
    }

    fn wait<T>(&self, asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        let Ok(answer) = self.drive(async { timeout(self.patience, asked).await })? else {
            // What it answers later would be taken for the answer to something else.
            self.has_given_up.set(true);
            return Err(silent());
        };
        answer.map_err(|error| {
            let is_wrong = error.source().is_some_and(<dyn Cause>::is::<WrongValue>);
            if is_wrong { Error::Wrong(error.to_string()) } else { Error::Postgres(error) }
        })
    }
}

pub(super) fn silent() -> Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time").into()
}

impl Drop for Session {
    fn drop(&mut self) {
        // Stores are dropped where futures are driven, and there a runtime must not wait for its own.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a statement with these.
async fn with<T>(
    params: &[&dyn ToValue],
    rows: &[&Rows],
    run: impl AsyncFnOnce(&[&(dyn ToSql + Sync)]) -> T,
) -> T {
    let bound: Vec<_> = params.iter().map(|param| Bound(param.value())).collect();
    let columns = rows.iter().flat_map(|rows| rows.columns()).map(|column| column as &(dyn ToSql + Sync));
    let all: Vec<_> = bound.iter().map(|bound| bound as &(dyn ToSql + Sync)).chain(columns).collect();
    run(&all).await
}

/// The same with what each of them is; of an empty one that is for the server to see.
async fn with_types<T>(
    params: &[&dyn ToValue],
    rows: &[&Rows],
    run: impl AsyncFnOnce(&[(&(dyn ToSql + Sync), Type)]) -> T,
) -> T {
    let bound: Vec<_> = params.iter().map(|param| Bound(param.value())).collect();
    let typed = bound.iter().map(|bound| (bound as &(dyn ToSql + Sync), bound.kind()));
    let columns = rows.iter().flat_map(|rows| rows.columns());
    let all: Vec<_> =
        typed.chain(columns.map(|column| (column as &(dyn ToSql + Sync), column.kind()))).collect();
    run(&all).await
}

/// `?1` becomes `$1`, and promises to the other store about its indexes are left out.
pub(super) fn in_this_dialect(sql: &str) -> String {
    const PROMISE: &str = "INDEXED BY ";
    let mut said = String::with_capacity(sql.len());
    let (mut is_quoted, mut letters) = (false, sql.chars().peekable());
    while let Some(letter) = letters.next() {
        is_quoted ^= letter == '\'';
        let is_param = letter == '?' && !is_quoted && letters.peek().is_some_and(char::is_ascii_digit);
        said.push(if is_param { '$' } else { letter });
    }
    while let Some(start) = said.find(PROMISE) {
        let name = &said[start + PROMISE.len()..];
        let length = name.find(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
        said.replace_range(start..start + PROMISE.len() + length.unwrap_or(name.len()), "");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_said_in_this_dialect() {
        for (shared, here) in [
            ("SELECT 1 WHERE a = ?1 AND b = ?12", "SELECT 1 WHERE a = $1 AND b = $12"),
            ("SELECT '?1', 'it''s ?2', ?3", "SELECT '?1', 'it''s ?2', $3"),
            ("FROM d INDEXED BY d_a WHERE b", "FROM d  WHERE b"),
            ("FROM d INDEXED BY d_a\nJOIN c INDEXED BY c_1", "FROM d \nJOIN c "),
        ] {
            assert_eq!(in_this_dialect(shared), here);
        }
    }
}

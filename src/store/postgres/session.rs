//! One connection with what drives it. Statements come as both stores understand them; each is prepared once.

use super::value::{Bound, Fetched};
use crate::store::sql::{Error, Result, ToValue, WrongValue};
use std::{
    cell::RefCell,
    collections::HashMap,
    error::Error as Cause,
    future::{Future, poll_fn},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::UnboundedSender,
};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage, Statement, types::ToSql};

pub(super) struct Session {
    client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    /// Its own: whoever asks for something drives the connection meanwhile, and no other thread has to be woken. `None` only
    /// while it is dropped.
    runtime: Option<Runtime>,
}

impl Session {
    pub(super) fn connect(config: &Config) -> Result<Self> {
        Self::hearing(config, None)
    }

    /// Passes on what notifications say that come on it.
    pub(super) fn hearing(config: &Config, heard: Option<UnboundedSender<String>>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, mut connection) = runtime.block_on(config.connect(NoTls))?;
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
        Ok(Self { client, statements: RefCell::default(), runtime: Some(runtime) })
    }

    /// Nothing can be asked on it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Several statements without parameters in one round trip; how many rows they gave.
    pub(super) fn run(&self, sql: &str) -> Result<usize> {
        let messages = self.wait(self.client.simple_query(sql))?;
        Ok(messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count())
    }

    pub(super) fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<usize> {
        let statement = self.statement(sql)?;
        self.wait(with(params, async |bound| self.client.execute(&statement, bound).await))
            .map(|changed| changed as usize)
    }

    /// All rows at once, so that other statements can be run while they are looked at.
    pub(super) fn query(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<Fetched>> {
        let statement = self.statement(sql)?;
        let rows = self.wait(with(params, async |bound| self.client.query(&statement, bound).await))?;
        Ok(rows.into_iter().map(Fetched::new).collect())
    }

    fn statement(&self, sql: &str) -> Result<Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = self.wait(self.client.prepare(&in_this_dialect(sql)))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Until the future has ended; whatever comes on the connection is taken in meanwhile.
    pub(super) fn drive<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        let runtime = self.runtime.as_ref().ok_or(Error::Fenced("the session is over"))?;
        Ok(runtime.block_on(future))
    }

    fn wait<T>(&self, asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        self.drive(asked)?.map_err(|error| {
            let is_wrong = error.source().is_some_and(<dyn Cause>::is::<WrongValue>);
            if is_wrong { Error::Wrong(error.to_string()) } else { Error::Postgres(error) }
        })
    }
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
async fn with<T>(params: &[&dyn ToValue], run: impl AsyncFnOnce(&[&(dyn ToSql + Sync)]) -> T) -> T {
    let bound: Vec<_> = params.iter().map(|param| Bound(param.value())).collect();
    let bound: Vec<_> = bound.iter().map(|bound| bound as &(dyn ToSql + Sync)).collect();
    run(&bound).await
}

/// `?1` becomes `$1`, and promises to the other store about its indexes are left out.
fn in_this_dialect(sql: &str) -> String {
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

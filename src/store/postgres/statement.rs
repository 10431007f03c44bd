//! Statements on a connection, and their results. Several may be sent at once: a round trip costs more than most statements,
//! and more than all of them where the server is far away.

use super::{
    columns::ColumnRows,
    session::to_postgres_sql,
    value::{BoundValue, FetchedRow},
};
use crate::store::sql::{Result, Row, ToValue};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};
use tokio::time::timeout;
use tokio_postgres::{
    Client, Error, SimpleQueryMessage, Statement as PreparedStatement,
    types::{ToSql, Type},
};

/// A statement to run. The values of its `ColumnRows` are the parameters after the others.
#[derive(Clone, Copy)]
pub(super) enum Statement<'a> {
    /// Statements without parameters, whose rows are only counted.
    Batch(&'a str),
    /// A statement whose changed rows are counted.
    Change(&'a str, &'a [&'a dyn ToValue], &'a [&'a ColumnRows]),
    /// A query whose rows are all fetched, so that other statements can run while they are read.
    Query(&'a str, &'a [&'a dyn ToValue], &'a [&'a ColumnRows]),
}

#[derive(Default)]
pub(super) struct StatementResult {
    pub(super) count: usize,
    pub(super) rows: Vec<FetchedRow>,
}

impl StatementResult {
    pub(super) fn read<T, C: FromIterator<T>>(
        &self,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<C> {
        self.rows.iter().map(|row| read(&Row::new(row))).collect()
    }
}

impl Statement<'_> {
    /// Returns the SQL, if it can be prepared.
    pub(super) fn sql(&self) -> Option<&str> {
        match self {
            Self::Batch(_) => None,
            Self::Change(sql, ..) | Self::Query(sql, ..) => Some(sql),
        }
    }

    /// Sends the statement when first polled; whole, with the types of its parameters, if it is not prepared.
    pub(super) async fn answer(
        self,
        client: &Client,
        known: Option<&PreparedStatement>,
    ) -> Result<StatementResult, Error> {
        let mut answer = StatementResult::default();
        match (self, known) {
            (Self::Batch(sql), _) => {
                let messages = client.simple_query(sql).await?;
                let rows = messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_)));
                answer.count = rows.count();
            }
            (Self::Change(_, params, rows), Some(statement)) => {
                let bound = bind(params);
                answer.count = client.execute(statement, &all(&bound, rows)).await? as usize;
            }
            (Self::Change(sql, params, rows), None) => {
                let (sql, bound) = (to_postgres_sql(sql), bind(params));
                answer.count = client.execute_typed(&sql, &all_typed(&bound, rows)).await? as usize;
            }
            (Self::Query(_, params, rows), Some(statement)) => {
                let bound = bind(params);
                let found = client.query(statement, &all(&bound, rows)).await?;
                answer.rows = found.into_iter().map(FetchedRow::new).collect();
            }
            (Self::Query(sql, params, rows), None) => {
                let (sql, bound) = (to_postgres_sql(sql), bind(params));
                let found = client.query_typed(&sql, &all_typed(&bound, rows)).await?;
                answer.rows = found.into_iter().map(FetchedRow::new).collect();
            }
        }
        Ok(answer)
    }
}

fn bind<'a>(params: &'a [&'a dyn ToValue]) -> Vec<BoundValue<'a>> {
    params.iter().map(|param| BoundValue(param.value())).collect()
}

fn all<'a>(bound: &'a [BoundValue<'a>], rows: &'a [&'a ColumnRows]) -> Vec<&'a (dyn ToSql + Sync)> {
    let columns = rows.iter().flat_map(|rows| rows.columns()).map(|column| column as &(dyn ToSql + Sync));
    bound.iter().map(|bound| bound as &(dyn ToSql + Sync)).chain(columns).collect()
}

/// Returns the parameters with their types; of an empty one the server finds the type.
fn all_typed<'a>(
    bound: &'a [BoundValue<'a>],
    rows: &'a [&'a ColumnRows],
) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    let columns = rows.iter().flat_map(|rows| rows.columns());
    let typed = bound.iter().map(|bound| (bound as &(dyn ToSql + Sync), bound.kind()));
    typed.chain(columns.map(|column| (column as &(dyn ToSql + Sync), column.kind()))).collect()
}

/// Starts all futures in their order before it waits for the first, and waits no longer than this for each; `None` if one
/// took longer. A future that fails before it is sent is the last: the ones behind it depend on it.
pub(super) async fn pipeline<'a, T, E>(
    futures: impl IntoIterator<Item = Pin<Box<dyn Future<Output = Result<T, E>> + 'a>>>,
    patience: Duration,
) -> Option<Vec<Result<T, E>>> {
    let mut begun = Vec::new();
    for mut future in futures {
        let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        let is_last = matches!(first, Poll::Ready(Err(_)));
        begun.push((future, first));
        if is_last {
            break;
        }
    }
    let mut answers = Vec::with_capacity(begun.len());
    for (future, first) in begun {
        answers.push(match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => timeout(patience, future).await.ok()?,
        });
    }
    Some(answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::{Cell, RefCell},
        future::{pending, ready},
    };

    type Said<'a> = Pin<Box<dyn Future<Output = Result<u8, &'static str>> + 'a>>;

    #[tokio::test]
    async fn all_statements_are_sent_before_the_first_is_answered() {
        let begun = RefCell::new(Vec::new());
        let say = |number: u8| -> Said<'_> {
            let begun = &begun;
            Box::pin(async move {
                begun.borrow_mut().push(number);
                // Answered only once the last of them was sent.
                poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if begun.borrow().len() == 3 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                Ok(number)
            })
        };
        let answers = pipeline([say(1), say(2), say(3)], Duration::from_secs(10)).await;
        assert_eq!((answers, begun.take()), (Some(vec![Ok(1), Ok(2), Ok(3)]), vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn no_statement_is_sent_after_one_that_could_not_be() {
        let has_committed = Cell::new(false);
        let commit: Said<'_> = Box::pin(async {
            has_committed.set(true);
            Ok(3)
        });
        let said: [Said<'_>; 3] = [Box::pin(ready(Ok(1))), Box::pin(ready(Err("no such value"))), commit];
        let answers = pipeline(said, Duration::from_secs(10)).await;
        assert_eq!((answers, has_committed.get()), (Some(vec![Ok(1), Err("no such value")]), false));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_not_waited_for_forever() {
        let said: [Said<'_>; 2] = [Box::pin(ready(Ok(1))), Box::pin(pending())];
        assert_eq!(pipeline(said, Duration::from_secs(10)).await, None);
    }
}

//! SQL of a heartbeat: renews the lease and reads the cluster view in one round trip, so that a distant database does not
//! endanger the lease. The statements are those of the shared code, with their parameters written into them: numbers, and the
//! server's clock.

use super::{session::to_postgres_sql, session_settings::SETTINGS, sql::CLOCK};
use crate::{
    domain::{
        cluster::{JOIN_GRACE, NODE_LEASE},
        time::Timestamp,
    },
    store::{
        cluster::{ClusterView, Heartbeat, SHARD_COUNT},
        sql::{Columns, Error, Result, Row, Value, changes, nodes},
    },
};
use std::time::Duration;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

/// The shards of each epoch: as many rows as there are nodes.
const SHARDS_OF: &str = "SELECT epoch, string_agg(CAST(shard AS text), ' ') FROM shards GROUP BY epoch";

/// Column types of each result: numbers, texts or booleans (`c`).
const OF_NODES: &str = "nnttcnntnnn";
const OF_SHARDS: &str = "nt";

/// SQL that renews the lease of this epoch, and reads the cluster view.
pub(super) fn heartbeat_sql(epoch: i64, heartbeat: &Heartbeat) -> String {
    let Heartbeat { config_version: seen, free_permits: free_hands, is_stopping, .. } = heartbeat;
    let (until, help) = (later(NODE_LEASE), format!("'{}'", nodes::overloaded_queues_text(heartbeat)));
    let values = [
        epoch.to_string(),
        until,
        seen.to_string(),
        free_hands.to_string(),
        help,
        now(),
        u8::from(*is_stopping).to_string(),
    ];
    let said = with_values(nodes::HEARTBEAT, &values);
    let stored = format!("SELECT batch FROM writer_batches WHERE epoch = {epoch} AND writer = 0");
    format!("BEGIN; {SETTINGS}; {said}; {stored}; {}; COMMIT", view_statements(epoch))
}

/// SQL that reads the cluster view.
pub(super) fn view_sql(epoch: i64) -> String {
    format!("BEGIN; {SETTINGS}; {}; COMMIT", view_statements(epoch))
}

fn view_statements(epoch: i64) -> String {
    let epoch = epoch.to_string();
    let long_ago = format!("({} - {})", now(), JOIN_GRACE.as_millis());
    [
        CLOCK.to_owned(),
        with_values(nodes::NODES, &[now()]),
        with_values(nodes::WRITE_COUNTER, std::slice::from_ref(&epoch)),
        SHARDS_OF.to_owned(),
        changes::VERSION.to_owned(),
        with_values(nodes::IS_STEADY, &[epoch, now(), long_ago]),
    ]
    .join("; ")
}

fn now() -> String {
    format!("({CLOCK})")
}

fn later(by: Duration) -> String {
    format!("(({CLOCK}) + {})", by.as_millis())
}

/// Replaces the parameters of the statement by these values.
fn with_values(sql: &str, values: &[String]) -> String {
    let mut said = to_postgres_sql(sql);
    for (number, value) in values.iter().enumerate().rev() {
        said = said.replace(&format!("${}", number + 1), value);
    }
    said
}

/// Results of the statements: their rows, and how many rows they returned or changed.
struct StatementResults(std::vec::IntoIter<(Vec<SimpleQueryRow>, u64)>);

impl StatementResults {
    fn of(messages: Vec<SimpleQueryMessage>) -> Self {
        let (mut all, mut rows) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => rows.push(row),
                SimpleQueryMessage::CommandComplete(count) => all.push((std::mem::take(&mut rows), count)),
                _ => {}
            }
        }
        let mut answers = all.into_iter();
        // The statements that begin the transaction have no results.
        answers.by_ref().take(1 + SETTINGS.split(';').count()).for_each(drop);
        Self(answers)
    }

    fn next(&mut self) -> Result<(Vec<SimpleQueryRow>, u64)> {
        self.0.next().ok_or_else(|| Error::Wrong("the server left a question unanswered".to_owned()))
    }

    fn read<T>(
        &mut self,
        kinds: &'static str,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (rows, _) = self.next()?;
        rows.iter().map(|row| read(&Row::new(&TextRow { row, kinds }))).collect()
    }

    fn one<T: Default>(&mut self, kinds: &'static str, read: impl FnMut(&Row<'_>) -> Result<T>) -> Result<T> {
        Ok(self.read(kinds, read)?.into_iter().next().unwrap_or_default())
    }

    fn view(mut self) -> Result<ClusterView> {
        let now = Timestamp::from_millis(self.one("n", |row| row.get(0))?);
        let nodes = self.read(OF_NODES, |row| nodes::node(row, now))?;
        let written = self.one("n", |row| row.get(0))?;
        let mut shards = vec![0; SHARD_COUNT];
        self.read(OF_SHARDS, |row| {
            let (epoch, of_it): (i64, &str) = (row.get(0)?, row.get(1)?);
            for shard in of_it.split(' ').filter_map(|shard| shard.parse::<u8>().ok()) {
                shards[usize::from(shard)] = epoch;
            }
            Ok(())
        })?;
        let version = self.one("n", |row| row.get(0))?;
        Ok(ClusterView {
            nodes,
            shards,
            version,
            write_counter: written,
            may_take_over: self.one("c", |row| row.get(0))?,
        })
    }
}

/// Reads the answer to a heartbeat: the last stored batch of this node, and the cluster view; `None` if the node was taken
/// over.
pub(super) fn read_heartbeat(messages: Vec<SimpleQueryMessage>) -> Result<Option<(i64, ClusterView)>> {
    let mut answers = StatementResults::of(messages);
    let (_, lives) = answers.next()?;
    let stored = answers.one("n", |row| row.get(0))?;
    if lives == 0 { Ok(None) } else { answers.view().map(|view| Some((stored, view))) }
}

/// Reads the cluster view.
pub(super) fn read_view(messages: Vec<SimpleQueryMessage>) -> Result<ClusterView> {
    StatementResults::of(messages).view()
}

/// A row of an unprepared statement: all values are text.
struct TextRow<'a> {
    row: &'a SimpleQueryRow,
    kinds: &'static str,
}

impl Columns for TextRow<'_> {
    fn value(&self, column: usize) -> Result<Value<'_>> {
        let wrong = |what: &str| Error::Wrong(format!("column {column}: {what}"));
        let Some(text) = self.row.get(column) else { return Ok(Value::Null) };
        Ok(match self.kinds.as_bytes().get(column) {
            Some(b'n') => Value::Integer(text.parse().map_err(|_| wrong("no number"))?),
            Some(b'c') => Value::Integer(i64::from(text == "t")),
            _ => Value::Text(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_replaced_by_values() {
        let values: Vec<String> = (1..=12).map(|number| format!("v{number}")).collect();
        assert_eq!(with_values("a = ?1 AND b = ?12 AND c = ?2", &values), "a = v1 AND b = v12 AND c = v2");
    }
}

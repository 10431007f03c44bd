//! Imports a stopped embedded store into a database, table by table in the order of its keys. Each page is a transaction, and
//! the largest copied key says how far the copy is, so that a kill costs a page. No node starts on half a copy.

use super::{
    open::{self, PostgresOpenError},
    partitions,
    session::{Server, Session},
    sql::Transaction,
};
use crate::{
    domain::{database_address::DatabaseAddress, time::Timestamp},
    store::{
        sql::{Error, Result, Row, Sql, ToValue, Value, join_alone, nodes, params},
        sqlite,
    },
};
use rusqlite::Connection;
use std::path::Path;

const COPY_PAGE_ROWS: i64 = 500;

/// Every table that is copied, and its key columns.
const TABLES: [(&str, &[&str]); 21] = [
    ("apps", &["id"]),
    ("endpoints", &["id"]),
    ("secrets", &["endpoint", "position"]),
    ("keys", &["id"]),
    ("contracts", &["hash"]),
    ("event_types", &["id"]),
    ("app_deletions", &["app"]),
    ("id_watermark", &["only_row"]),
    ("events", &["id"]),
    (DELIVERIES, &["id"]),
    ("attempts", &["delivery", "position"]),
    ("dedup", &["key"]),
    ("replays", &["id"]),
    ("inspections", &["id"]),
    ("audit", &["id"]),
    ("notices", &["id"]),
    ("health", &["endpoint"]),
    ("statistics", &["app", "endpoint", "width", "start"]),
    ("statistics_by_type", &["app", "width", "start", "type"]),
    ("statistics_log", &["id"]),
    ("adjusted_clock", &["only_row"]),
];
/// Split into two tables in PostgreSQL.
const DELIVERIES: &str = "deliveries";
/// Tables that assign numbers. Numbers below 1 were not assigned by the table.
const NUMBERED: [&str; 2] = ["notices", "statistics_log"];

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    From(#[from] sqlite::SqliteOpenError),
    #[error(transparent)]
    To(#[from] PostgresOpenError),
    #[error("there is no store at {0}")]
    NoStore(String),
    #[error("the database is in use by {0} nodes: stop them first")]
    InUse(usize),
    #[error("the database has data of its own, which a copy would mix with: name an empty one")]
    NotEmpty,
    #[error(
        "the database has a copy of {0}, begun or done: name an empty one, or go on with that store as it was then"
    )]
    OfAnother(String),
    #[error("the store was moved into this database before, all of it")]
    Done,
    #[error(
        "{table} has {copied} rows in the database and {there} in the store, counted as {what}: it is not to be used"
    )]
    Differs { table: &'static str, what: String, copied: i64, there: i64 },
    #[error("the copy was interrupted ({0}): run it again, and it goes on")]
    Interrupted(String),
}

impl From<Error> for ImportError {
    fn from(error: Error) -> Self {
        Self::Interrupted(error.to_string())
    }
}

impl From<rusqlite::Error> for ImportError {
    fn from(error: rusqlite::Error) -> Self {
        Error::from(error).into()
    }
}

/// Copies a store, continues an interrupted copy, and verifies it. `progress` is called for each table with how many of its
/// rows are copied. Deliveries that a killed process had in flight are taken over as at any start. Blocks.
pub fn import(
    from: &Path,
    to: &DatabaseAddress,
    now: Timestamp,
    progress: &mut dyn FnMut(&'static str, i64, i64),
) -> Result<Vec<(&'static str, i64)>, ImportError> {
    if !from.exists() {
        return Err(ImportError::NoStore(from.display().to_string()));
    }
    let opened = sqlite::open::open(from)?;
    let source = &opened.connection;
    let transaction = source.unchecked_transaction()?;
    let newest = join_alone(source, now)?.newest_id;
    transaction.commit()?;
    let (session, _) = open::connect_and_migrate(&Server::at(to)?)?;
    let path = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    start_copy(&session, &format!("{} up to {newest}", path.display()))?;
    // Made while the tables are empty: a row without a day would stay in the rest partition for good.
    partitions::make_for(&session, |table, key, from| {
        let table = if table == "deliveries_ended" { DELIVERIES } else { table };
        let next = format!("SELECT min({key}) FROM {table} WHERE {key} >= ?1");
        (source as &dyn Sql).one(&next, params![from], |row| row.get(0)).map(Option::flatten)
    })?;
    for (table, keys) in TABLES {
        copy(source, &session, table, keys, progress)?;
    }
    let counts = verify(source, &session)?;
    Transaction::run(&session, 0, |tx| {
        for table in NUMBERED {
            let sequence = format!(
                "SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) > 0"
            );
            tx.execute(&sequence, &[])?;
        }
        tx.execute(super::locks::LOCK_ALL_HEALTH, &[])?;
        tx.execute("UPDATE sqlite_import SET finished = 1", &[])
    })?;
    Ok(counts)
}

/// Starts or continues the copy; refuses a database that is not this copy's. Nodes are kept out from here on.
fn start_copy(session: &Session, origin: &str) -> Result<(), ImportError> {
    let refused = Transaction::run(session, 0, |tx| {
        tx.execute(super::node::ENTER, &[])?;
        let tx: &dyn Sql = tx;
        let alive =
            nodes::cluster_view(tx, now_of(tx)?)?.nodes.iter().filter(|node| !node.is_expired).count();
        if alive > 0 {
            return Ok(Some(ImportError::InUse(alive)));
        }
        let begun = "SELECT origin, finished FROM sqlite_import";
        if let Some((known, done)) = tx.one(begun, &[], |row| Ok((row.get::<String>(0)?, row.get(1)?)))? {
            return Ok(match done {
                _ if known != origin => Some(ImportError::OfAnother(known)),
                1_i64 => Some(ImportError::Done),
                _ => None,
            });
        }
        for (table, _) in TABLES {
            if tx.exists(&format!("SELECT EXISTS (SELECT 1 FROM {table})"), &[])? {
                return Ok(Some(ImportError::NotEmpty));
            }
        }
        tx.execute(
            "INSERT INTO sqlite_import (only_row, origin, finished) VALUES (1, ?1, 0)",
            params![origin],
        )?;
        Ok(None)
    })?;
    refused.map_or(Ok(()), Err)
}

fn now_of(tx: &dyn Sql) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(tx.number(super::sql::CLOCK, &[])?))
}

/// A value that outlives its row.
#[derive(Clone, Debug)]
enum OwnedValue {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl OwnedValue {
    fn of(row: &Row<'_>, column: usize) -> Result<Self> {
        Ok(match row.value(column)? {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Blob(bytes) => Self::Blob(bytes.to_owned()),
        })
    }
}

impl ToValue for OwnedValue {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

fn all(row: &Row<'_>, count: usize) -> Result<Vec<OwnedValue>> {
    (0..count).map(|column| OwnedValue::of(row, column)).collect()
}

fn borrowed(values: &[OwnedValue]) -> Vec<&dyn ToValue> {
    values.iter().map(|value| value as &dyn ToValue).collect()
}

fn numbered(from: usize, count: usize) -> String {
    (from..from + count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
}

fn count(sql: &dyn Sql, table: &str) -> Result<i64> {
    sql.number(&format!("SELECT count(*) FROM {table}"), &[])
}

fn copy(
    source: &Connection,
    session: &Session,
    table: &'static str,
    keys: &[&str],
    progress: &mut dyn FnMut(&'static str, i64, i64),
) -> Result<(), ImportError> {
    let from: &dyn Sql = source;
    let columns =
        from.all("SELECT name FROM pragma_table_info(?1)", params![table], |row| row.get::<String>(0))?;
    let index = |name: &str| columns.iter().position(|column| column == name);
    let key_places: Vec<usize> = keys.iter().filter_map(|key| index(key)).collect();
    let (listed, key) = (columns.join(", "), keys.join(", "));
    let insert =
        |into: &str| format!("INSERT INTO {into} ({listed}) VALUES ({})", numbered(1, columns.len()));
    let (insert, insert_live, insert_done) =
        (insert(table), insert("deliveries_open"), insert("deliveries_ended"));
    let (state, ordering_key) = (index("state"), index("ordering_key"));
    let total = count(from, table)?;
    let (mut last, mut there) = Transaction::run(session, 0, |tx| {
        let tx: &dyn Sql = tx;
        let largest = format!("SELECT {key} FROM {table} ORDER BY {} DESC LIMIT 1", keys.join(" DESC, "));
        Ok((tx.one(&largest, &[], |row| all(row, keys.len()))?, count(tx, table)?))
    })?;
    let rest = format!("WHERE ({key}) > ({})", numbered(2, keys.len()));
    progress(table, there, total);
    while there < total {
        let rest = if last.is_some() { rest.as_str() } else { "" };
        let page = format!("SELECT {listed} FROM {table} {rest} ORDER BY {key} LIMIT ?1");
        let mut params: Vec<&dyn ToValue> = vec![&COPY_PAGE_ROWS];
        params.extend(last.iter().flatten().map(|value| value as &dyn ToValue));
        let (copied, reached) = Transaction::run(session, 0, |tx| {
            let (mut copied, mut reached) = (0, None);
            from.each(&page, &params, |row| {
                let values = all(row, columns.len())?;
                let is_live = |(state, ordering_key): (usize, usize)| {
                    matches!(values[state], OwnedValue::Integer(..=3))
                        || !matches!(values[ordering_key], OwnedValue::Null)
                };
                let insert = match state.zip(ordering_key).filter(|_| table == DELIVERIES) {
                    Some(places) if is_live(places) => &insert_live,
                    Some(_) => &insert_done,
                    None => &insert,
                };
                tx.execute(insert, &borrowed(&values))?;
                copied += 1;
                reached = Some(key_places.iter().map(|index| values[*index].clone()).collect());
                Ok(())
            })?;
            Ok((copied, reached))
        })?;
        if copied == 0 {
            break;
        }
        (last, there) = (reached, there + copied);
        progress(table, there, total);
    }
    Ok(())
}

/// Compares the row counts of every table, and of some tables by a column.
fn verify(source: &Connection, session: &Session) -> Result<Vec<(&'static str, i64)>, ImportError> {
    let by = [(DELIVERIES, "state"), (DELIVERIES, "endpoint"), ("events", "app"), ("attempts", "class")];
    let whole = TABLES.iter().map(|(table, _)| (*table, "1"));
    for (table, what) in whole.clone().chain(by) {
        let sql = format!("SELECT {what} AS what, count(*) FROM {table} GROUP BY {what} ORDER BY 1");
        let read = |tx: &dyn Sql| tx.all(&sql, &[], |row| Ok((row.get(0)?, row.get(1)?)));
        let there: Vec<(i64, i64)> = read(source)?;
        let copied = Transaction::run(session, 0, |tx| read(tx))?;
        if there != copied {
            let sum = |rows: &[(i64, i64)]| rows.iter().map(|(_, count)| count).sum();
            let what = if what == "1" { "a whole".to_owned() } else { format!("rows of each {what}") };
            return Err(ImportError::Differs { table, what, copied: sum(&copied), there: sum(&there) });
        }
    }
    whole.map(|(table, _)| Ok((table, count(source, table)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Tables about a store's own nodes, which are not copied.
    const OF_NODES: [&str; 5] = ["config_changes", "config_version", "writer_batches", "nodes", "shards"];

    #[test]
    fn every_table_of_a_store_is_copied_or_is_about_its_nodes() {
        let schema = include_str!("../sqlite/schema.sql");
        let tables = schema.lines().filter_map(|line| line.strip_prefix("CREATE TABLE "));
        let there: BTreeSet<&str> = tables.filter_map(|line| line.split([' ', '(']).next()).collect();
        let copied = TABLES.iter().map(|(table, _)| *table);
        assert_eq!(there, copied.chain(OF_NODES).collect());
    }
}

//! The numbered schema steps of the embedded store, all in one transaction: killed at any point, it is still the older one.
//!
//! `PRAGMA user_version` is the number of the last step. Steps are forward only, and a released one is never changed; the next
//! change is another step. `schema.sql` is where they lead: new files are made by it.

use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeSet;

/// The schema up to step 5. Steps 1 to 4 only added tables, columns and indexes to the first one.
const TABLES: &str = include_str!("migrations/0005_tables.sql");

struct Step {
    number: i64,
    run: fn(&Connection) -> Result<(), MigrationError>,
}

const STEPS: &[Step] = &[
    Step { number: 5, run: add_missing },
    Step { number: 6, run: |store| Ok(store.execute_batch(include_str!("migrations/0006_names.sql"))?) },
];

/// The step that this version was built with.
pub(super) const NEWEST: i64 = STEPS[STEPS.len() - 1].number;

/// The reason why a file cannot be migrated.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrationError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// No step leads on from what the file has.
    #[error("{0}")]
    Unknown(String),
}

/// Takes the steps after `found`. The caller commits all of them or none.
pub(super) fn migrate(store: &Connection, found: i64) -> Result<(), MigrationError> {
    if found < 1 {
        return Err(MigrationError::Unknown(format!("it says that its schema is {found}")));
    }
    if found == 5 {
        must_have_tables(store)?;
    }
    STEPS.iter().filter(|step| step.number > found).try_for_each(|step| (step.run)(store))
}

/// Refuses a file that says it is at step 5 and has other tables.
fn must_have_tables(store: &Connection) -> Result<(), MigrationError> {
    let known = tables()?;
    let mut names =
        known.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    for table in names.filter(|name| !name.as_ref().is_ok_and(|name| name.starts_with("sqlite_"))) {
        let table = table?;
        let sorted = |of| columns(of, &table).map(|columns| columns.into_iter().collect::<BTreeSet<_>>());
        if sorted(store)? != sorted(&known)? {
            return Err(MigrationError::Unknown(format!("its table {table} is not the one of schema 5")));
        }
    }
    Ok(())
}

fn tables() -> rusqlite::Result<Connection> {
    let known = Connection::open_in_memory()?;
    known.execute_batch(TABLES)?;
    Ok(known)
}

/// Columns that get a value in rows of older versions: table, column, declaration, statement that fills it.
const FILLED: &[(&str, &str, &str, &str)] = &[
    ("keys", "scope", "TEXT NOT NULL DEFAULT 'admin'", "UPDATE keys SET scope = 'app' WHERE app IS NOT NULL"),
    ("replays", "ran_ms", "INTEGER NOT NULL DEFAULT 0", ""),
    ("statistics", "events", "INTEGER NOT NULL DEFAULT 0", ""),
    ("statistics", "unblamed", "INTEGER NOT NULL DEFAULT 0", ""),
    ("statistics", "expired", "INTEGER NOT NULL DEFAULT 0", ""),
    ("statistics", "endings", "TEXT NOT NULL DEFAULT '{}'", WITH_APP_AND_TYPE),
    ("deliveries", "turn", "INTEGER", IN_TURN),
];

/// Log lines of older versions name neither app nor event type, and count neither events nor endings nor all that ended.
const WITH_APP_AND_TYPE: &str = "UPDATE statistics_log SET document =
    (SELECT json_group_array(json_array(
         e.app, e.id, '*', old.value -> 1,
         json_array(0, old.value -> 2, old.value -> 3, old.value -> 4, old.value -> 5, 0, 0, old.value -> 6),
         old.value -> 7, old.value -> 8, json('[]')))
     FROM json_each(document) old JOIN endpoints e ON e.id = old.value ->> 0)";

/// Older versions promoted the deliveries queued in an ordering group by their ids; new ones are queued behind them all.
const IN_TURN: &str = "UPDATE deliveries SET turn = id WHERE okey IS NOT NULL AND due = 253402300799000";

/// Adds every table, column and index of step 5 that is missing, and makes changed indexes again. Only a column that must not
/// be empty needs an entry in `FILLED`.
fn add_missing(store: &Connection) -> Result<(), MigrationError> {
    let wanted = &tables()?;
    let mut objects = wanted.prepare(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'index', rowid",
    )?;
    let objects = objects.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for object in objects {
        let (kind, name, sql): (String, String, String) = object?;
        let found: Option<String> = store
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [&name], |row| row.get(0))
            .optional()?;
        match found {
            None => store.execute_batch(&sql)?,
            Some(_) if kind == "table" => add_columns(store, wanted, &name)?,
            Some(found) if found != sql => store.execute_batch(&format!("DROP INDEX {name}; {sql}"))?,
            Some(_) => {}
        }
    }
    Ok(())
}

fn add_columns(store: &Connection, wanted: &Connection, table: &str) -> rusqlite::Result<()> {
    let known: Vec<String> = columns(store, table)?.into_iter().map(|(name, _)| name).collect();
    for (name, declared) in columns(wanted, table)?.into_iter().filter(|(name, _)| !known.contains(name)) {
        let filled = FILLED.iter().find(|filled| (filled.0, filled.1) == (table, &*name));
        let (declared, fill) = filled.map_or((&*declared, ""), |filled| (filled.2, filled.3));
        store.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {name} {declared}; {fill}"))?;
    }
    Ok(())
}

/// Returns names and types of the columns. Leaves out NOT NULL: a new column is empty in every existing row.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut columns = connection.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    columns.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

#[cfg(test)]
mod tests;

//! Migrates a store of an older version, in one transaction: killed at any point, it is still the older one.
//!
//! `schema.sql` is the target schema. Every missing table, column or index is added, and a changed index is made again;
//! nothing is ever removed. Only a column that must not be empty needs an entry in `FILLED`.

use rusqlite::{Connection, OptionalExtension};

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

/// Brings `store` to the schema of `wanted`, which holds the schema of this version and nothing else.
pub(super) fn upgrade(store: &Connection, wanted: &Connection) -> rusqlite::Result<()> {
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
mod tests {
    use super::*;
    use crate::{
        domain::time::Timestamp,
        store::{sql::roll_up_all, sqlite::open::open_in_memory},
    };
    use std::collections::BTreeSet;

    /// The schema of the first version that was in use.
    const FIRST: &str = include_str!("upgrade/first.sql");

    fn first() -> Connection {
        let store = Connection::open_in_memory().unwrap();
        store.execute_batch(FIRST).unwrap();
        store
    }

    /// Returns tables with their columns, and indexes as they were made.
    fn shape(connection: &Connection) -> BTreeSet<String> {
        let mut shape = BTreeSet::new();
        let mut names =
            connection.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        for object in names.query_map([], read).unwrap() {
            let (kind, name, sql): (String, String, String) = object.unwrap();
            if kind == "table" {
                let columns = columns(connection, &name).unwrap();
                shape.extend(columns.into_iter().map(|(column, kind)| format!("{name}.{column} {kind}")));
            } else {
                shape.insert(sql);
            }
        }
        shape
    }

    #[test]
    fn an_upgraded_store_has_everything_that_a_new_one_has() {
        let (store, new) = (first(), open_in_memory().unwrap());
        assert_ne!(shape(&store), shape(&new));
        upgrade(&store, &new).unwrap();
        assert_eq!(shape(&store), shape(&new));
    }

    #[test]
    fn an_upgrade_of_an_up_to_date_store_changes_nothing() {
        let (store, new) = (first(), open_in_memory().unwrap());
        let version = |store: &Connection| store.pragma_query_value(None, "schema_version", |row| row.get(0));
        upgrade(&store, &new).unwrap();
        let before: i64 = version(&store).unwrap();
        upgrade(&store, &new).unwrap();
        assert_eq!(version(&store).unwrap(), before);
    }

    #[test]
    fn keys_of_the_first_version_keep_their_scope() {
        let store = first();
        store
            .execute_batch(
                "INSERT INTO keys (id, hash, shown, app, created_at) VALUES (1, x'00', 'phk_a', NULL, 0), (2, x'01', 'phk_b', 7, 0)",
            )
            .unwrap();
        upgrade(&store, &open_in_memory().unwrap()).unwrap();
        let scope = |id: i64| {
            store
                .query_row("SELECT scope FROM keys WHERE id = ?1", [id], |row| row.get::<_, String>(0))
                .unwrap()
        };
        assert_eq!((scope(1), scope(2)), ("admin".into(), "app".into()));
    }

    #[test]
    fn statistics_of_version_3_are_kept_and_its_log_is_rolled_up() {
        let (store, new) = (open_in_memory().unwrap(), open_in_memory().unwrap());
        store
            .execute_batch(
                "ALTER TABLE statistics DROP COLUMN events; ALTER TABLE statistics DROP COLUMN endings;
                 ALTER TABLE statistics DROP COLUMN unblamed; ALTER TABLE statistics DROP COLUMN expired;
                 INSERT INTO apps (id, uid, settings, created_at, updated_at) VALUES (7, 'a', '{}', 0, 0);
                 INSERT INTO endpoints (id, app, uid, settings, revision, created_at, updated_at)
                     VALUES (9, 7, 'e', '{}', 1, 0, 0);
                 INSERT INTO statistics (app, endpoint, width, start, ok, failed, delivered, dead, total_us, latency)
                     VALUES (7, 9, 60, 1800000000000, 3, 0, 3, 0, 40, '{\"5\":3}');
                 INSERT INTO statistics_log (document)
                     VALUES ('[[9,30000000,2,1,2,0,90,5,[[5,3]]],[8,30000000,1,0,1,0,9,0,[[5,1]]]]');",
            )
            .unwrap();
        upgrade(&store, &new).unwrap();
        roll_up_all(&store, Timestamp::from_millis(1_800_000_010_000));
        let counted = |endpoint: i64| {
            let sums = "SELECT ok, failed, latency, endings FROM statistics WHERE app = 7 AND endpoint = ?1 AND width = 60";
            store
                .query_row(sums, [endpoint], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
                .unwrap()
        };
        let expected: (i64, i64, String, String) = (5, 1, r#"{"5":6}"#.into(), "{}".into());
        assert_eq!(counted(9), expected);
        // Counters of a whole app start with the log: older versions stored none.
        assert_eq!(counted(0), (2, 1, r#"{"5":3}"#.into(), "{}".into()));
    }
}

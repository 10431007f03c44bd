//! Files of every older schema become what a new file is.

use super::*;
use crate::{
    domain::time::Timestamp,
    store::{sql::roll_up_all, sqlite::open::open_in_memory},
};

/// The schema of the first version that was in use.
const FIRST: &str = include_str!("0001_first.sql");

fn first() -> Connection {
    let store = Connection::open_in_memory().unwrap();
    store.execute_batch(FIRST).unwrap();
    store
}

/// Returns tables with their columns, and indexes as they were made.
fn shape(connection: &Connection) -> BTreeSet<String> {
    let mut shape = BTreeSet::new();
    // A renamed table stands in quotes.
    let plain = |sql: String| sql.replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut names =
        connection.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    for object in names.query_map([], read).unwrap() {
        let (kind, name, sql): (String, String, String) = object.unwrap();
        if kind == "table" {
            let columns = columns(connection, &name).unwrap();
            shape.extend(columns.into_iter().map(|(column, kind)| format!("{name}.{column} {kind}")));
        } else {
            shape.insert(plain(sql));
        }
    }
    shape
}

/// Returns tables and indexes as they are declared, with keys and checks, without comments.
fn declarations(connection: &Connection) -> BTreeSet<String> {
    let mut declared = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
    let plain = |sql: String| {
        let code = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        let words = code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
        words.replace('"', "")
    };
    declared.query_map([], |row| row.get(0)).unwrap().map(|sql| plain(sql.unwrap())).collect()
}

#[test]
fn an_upgraded_store_has_everything_that_a_new_one_has() {
    let (store, new) = (first(), open_in_memory().unwrap());
    assert_ne!(shape(&store), shape(&new));
    migrate(&store, 1).unwrap();
    assert_eq!(shape(&store), shape(&new));
}

#[test]
fn a_store_of_schema_5_has_everything_that_a_new_one_has() {
    let (store, new) = (tables().unwrap(), open_in_memory().unwrap());
    migrate(&store, 5).unwrap();
    assert_eq!(shape(&store), shape(&new));
    assert_eq!(declarations(&store), declarations(&new));
}

#[test]
fn migrating_an_up_to_date_store_changes_nothing() {
    let store = open_in_memory().unwrap();
    let version = |store: &Connection| store.pragma_query_value(None, "schema_version", |row| row.get(0));
    let before: i64 = version(&store).unwrap();
    migrate(&store, NEWEST).unwrap();
    assert_eq!(version(&store).unwrap(), before);
}

#[test]
fn a_store_of_an_unknown_schema_is_refused() {
    let refusal = |store: Connection, found| migrate(&store, found).unwrap_err().to_string();
    assert_eq!(refusal(first(), 0), "it says that its schema is 0");
    assert_eq!(refusal(first(), 5), "its table endpoints is not the one of schema 5");
}

#[test]
fn keys_of_the_first_version_keep_their_scope() {
    let store = first();
    store
        .execute_batch(
            "INSERT INTO keys (id, hash, shown, app, created_at) VALUES (1, x'00', 'phk_a', NULL, 0), (2, x'01', 'phk_b', 7, 0)",
        )
        .unwrap();
    migrate(&store, 1).unwrap();
    let scope = |id: i64| {
        store.query_row("SELECT scope FROM keys WHERE id = ?1", [id], |row| row.get::<_, String>(0)).unwrap()
    };
    assert_eq!((scope(1), scope(2)), ("admin".into(), "app".into()));
}

#[test]
fn statistics_of_version_3_are_kept_and_its_log_is_rolled_up() {
    let store = tables().unwrap();
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
    migrate(&store, 3).unwrap();
    roll_up_all(&store, Timestamp::from_millis(1_800_000_010_000));
    let counted = |endpoint: i64| {
        let counters = "SELECT ok, failed, latency, outcomes FROM statistics WHERE app = 7 AND endpoint = ?1 AND width = 60";
        store
            .query_row(counters, [endpoint], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .unwrap()
    };
    let expected: (i64, i64, String, String) = (5, 1, r#"{"5":6}"#.into(), "{}".into());
    assert_eq!(counted(9), expected);
    // Counters of a whole app start with the log: older versions stored none.
    assert_eq!(counted(0), (2, 1, r#"{"5":3}"#.into(), "{}".into()));
}

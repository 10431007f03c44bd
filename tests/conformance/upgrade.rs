//! A file of the first version: opening it upgrades it with all its data, or leaves it unchanged.

mod copies;
mod names;

use crate::{
    fixture::{NOW, draft},
    sqlite::{block_on, new_location, open},
};
use posthaste::domain::{
    id::{AppId, EndpointId, EventId},
    ordering::OrderingMode,
};
use rusqlite::Connection;
use std::path::Path;

const FIRST: &str = include_str!("../../src/store/sqlite/migrations/0001_first.sql");

/// An app with an endpoint, an event, and a waiting delivery.
const ROWS: &str = "
    INSERT INTO apps VALUES (1, 'shop', '{\"name\":\"Shop\"}', 0, 0);
    INSERT INTO endpoints VALUES (2, 1, 'hook', '{\"url\":\"https://example.com/\"}', NULL, NULL, 1, 0, 0, NULL);
    INSERT INTO events VALUES (3, 1, 'order.paid', 'paid-1', 5, 5, NULL, NULL, 0, NULL, x'31');
    INSERT INTO deliveries VALUES (4, 1, 3, 2, 0, NULL, 0, 0, 0, 2, 5, 0, NULL, NULL, NULL, 4, NULL, NULL);";

fn make(path: &Path, rows: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection.execute_batch(rows).unwrap();
    connection.pragma_update(None, "application_id", 0x7068_7374).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
}

fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_store_of_the_first_version_goes_on_with_everything_that_is_in_it() {
    let (_folder, path) = new_location();
    make(&path, ROWS);
    for _ in 0..2 {
        let store = open(&path).unwrap();
        assert_eq!(block_on(store.join(NOW)).unwrap().newest_id, 4);
        let event = block_on(store.find_event(AppId::from_i64(1), String::new(), Some(EventId::from_i64(3))));
        let event = event.unwrap().unwrap();
        assert_eq!((event.event_type.as_str(), &event.data[..]), ("order.paid", &b"1"[..]));
        let queues = block_on(store.find_queues()).unwrap();
        assert_eq!(queues.len(), 1, "what waited is found");
        assert!(block_on(store.running_replays()).unwrap().is_empty(), "what is new can be asked for");
    }
    assert_eq!(number(&path, "SELECT user_version > 1 FROM pragma_user_version"), 1);
}

#[test]
fn a_failed_upgrade_leaves_the_store_unchanged() {
    let (_folder, path) = new_location();
    // A foreign table in the way of a new one.
    make(&path, &format!("{ROWS} CREATE VIEW audit AS SELECT 1 AS x;"));
    let refused = open(&path).err().expect("it is refused").to_string();
    assert!(refused.contains("what was in it is unchanged"), "{refused}");
    assert_eq!(number(&path, "SELECT user_version FROM pragma_user_version"), 1);
    assert_eq!(number(&path, "SELECT count(*) FROM sqlite_schema WHERE name = 'replays'"), 0);
    assert_eq!(number(&path, "SELECT count(*) FROM deliveries"), 1);
}

/// Turns a file into one of a version that ordered by ids.
const LINES: &str = "
    ALTER TABLE deliveries ADD COLUMN okey INTEGER;
    CREATE INDEX deliveries_behind ON deliveries (endpoint, okey) WHERE okey IS NOT NULL AND due = 253402300799000;
    UPDATE deliveries SET okey = 1;
    INSERT INTO deliveries (id, app, event, endpoint, state, place, attempt_count, history_len, lane, due, at_due, okey) VALUES
        (30, 1, 3, 2, 0, 0, 0, 0, 2, 253402300799000, 0, 1), (20, 1, 3, 2, 0, 0, 0, 0, 2, 253402300799000, 0, 1),
        (10, 1, 3, 2, 0, 0, 0, 0, 2, 5, 0, NULL);";

#[test]
fn a_group_of_an_older_version_keeps_its_order_before_new_deliveries() {
    let (_folder, path) = new_location();
    make(&path, &format!("{ROWS} {LINES}"));
    let store = open(&path).unwrap();
    block_on(store.join(NOW)).unwrap();
    let (app, endpoint, ordering_key) =
        (AppId::from_i64(1), EndpointId::from_i64(2), OrderingMode::Endpoint.ordering_key(None));
    let mut new = draft(app, &[endpoint], 14);
    new.deliveries[0].delivery.ordering_key = ordering_key;
    block_on(store.accept(vec![new])).unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    let sql = "SELECT group_concat(id) FROM (SELECT id FROM deliveries WHERE order_seq IS NOT NULL ORDER BY order_seq)";
    let order_seqs: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(order_seqs, "20,30,15");
}

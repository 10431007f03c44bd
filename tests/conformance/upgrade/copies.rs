//! Stores of commit 80468f2 that reach this version by a copy: backed up and restored, or imported into a database.

use super::names::{Tables, assert_kept, assert_serves, sqlite::make};
use crate::{
    fixture::NOW,
    postgres::{self, Database},
    sqlite::{block_on, new_location, open},
};
use posthaste::{
    domain::database_address::DatabaseAddress,
    store::{
        postgres::import,
        sqlite::{back_up, restore},
    },
};
use rusqlite::Connection;
use std::path::Path;

/// Tables about a store's own nodes, which are not copied.
const OF_NODES: [&str; 5] = ["config_changes", "config_version", "writer_batches", "nodes", "shards"];

#[test]
fn a_backup_is_restored_and_upgraded_with_every_value() {
    let ((folder, path), before) = (new_location(), make(Path::new(":memory:")));
    let in_use = make(&path);
    let (copy, restored) = (folder.path().join("copy.db"), folder.path().join("restored.db"));
    let counted = back_up(&path, &copy).unwrap();
    drop(in_use);
    assert_eq!((counted.apps, counted.endpoints, counted.events), (1, 9, 7));
    assert_eq!(restore(&copy, &restored).unwrap(), counted);
    let step = |path: &Path| -> i64 {
        Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    assert_eq!((step(&copy), step(&restored)), (5, 5), "a copy is what it was copied from");
    drop(open(&restored).unwrap());
    assert_kept(&before, &Connection::open(&restored).unwrap());
    assert_eq!((step(&copy), step(&restored)), (5, 6));
    block_on(assert_serves(&open(&restored).unwrap()));
}

#[test]
fn a_file_is_imported_into_a_database_with_every_value() {
    let ((_folder, path), database) = (new_location(), Database::new());
    drop(make(&path));
    let address = DatabaseAddress::parse(&database.address()).unwrap();
    let counts = import(&path, &address, NOW, &mut |_, _, _| {}).unwrap();
    // The file was upgraded, and deliveries of the killed process were taken over.
    let file = Connection::open(&path).unwrap();
    let mut copied = 0;
    for (table, columns) in file.columns().iter().filter(|(table, _)| !OF_NODES.contains(&table.as_str())) {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let rows = file.rows(table, &columns);
        assert!(!rows.is_empty(), "{table}");
        assert_eq!(database.rows(table, &columns), rows, "{table}");
        copied += rows.len() as i64;
    }
    assert_eq!(counts.iter().map(|(_, rows)| rows).sum::<i64>(), copied);
    block_on(assert_serves(&postgres::open(&database.address()).unwrap()));
}

//! Ages a store that no process uses, as if weeks had passed. Ids contain their time, so they change with it.

use rusqlite::Connection;
use std::{path::Path, time::Duration};

/// The bit where the milliseconds begin in an id.
const TIME_SHIFT: u32 = 22;

pub(crate) fn age(store: &Path, by: Duration) {
    let ms = by.as_millis() as i64;
    let id = ms << TIME_SHIFT;
    let connection = Connection::open(store).unwrap();
    let sql = format!(
        "BEGIN;
         UPDATE events SET id = id - {id}, created_at = created_at - {ms}, accepted_at = accepted_at - {ms},
             deliver_at = deliver_at - {ms};
         UPDATE deliveries SET id = id - {id}, event = event - {id}, root = root - {id}, replay_of = replay_of - {id},
             due = due - {ms}, give_up_at = give_up_at - {ms}, finished_at = finished_at - {ms},
             held_at = held_at - {ms}, restarted_at = restarted_at - {ms};
         UPDATE attempts SET delivery = delivery - {id}, started_at = started_at - {ms};
         UPDATE dedup SET event = event - {id};
         COMMIT;"
    );
    connection.execute_batch(&sql).unwrap();
}

/// Counts the pages of the file, free ones too.
pub(crate) fn pages(store: &Path) -> i64 {
    let connection = Connection::open(store).unwrap();
    connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
}

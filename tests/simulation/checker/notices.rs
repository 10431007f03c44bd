//! Notices: every dead delivery is in one notice, alone or counted in a digest, and every replay that ended has one. All of
//! them have been sent by the end.

use crate::event_log::{Promise, Violation};
use rusqlite::Connection;

pub(crate) fn check(disk: &Connection, violations: &mut Vec<Violation>) {
    let count = |sql: &str| disk.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let mut complain = |what: String| violations.push(Violation { promise: Promise::Notified, what });
    let (died, notices) = (
        count("SELECT count(*) FROM deaths"),
        count("SELECT ifnull(sum(count), 0) FROM notices WHERE kind = 4"),
    );
    if died != notices {
        complain(format!("{died} deliveries died, and notices name {notices}"));
    }
    let alone = "SELECT count(*) FROM notices n WHERE n.kind = 4 AND n.digest IS NULL
        AND NOT EXISTS (SELECT 1 FROM deaths d WHERE d.delivery = n.delivery AND d.at = n.at)";
    if count(alone) > 0 {
        complain(format!("{} notices tell of a death that was none", count(alone)));
    }
    let (ended, notices) = (
        count("SELECT count(*) FROM replays WHERE state = 2"),
        count("SELECT count(*) FROM notices WHERE kind = 5"),
    );
    if ended != notices {
        complain(format!("{ended} replays ended, and notices name {notices}"));
    }
    let waiting = count("SELECT count(*) FROM notices WHERE webhook_pending = 1 AND open_until IS NULL");
    if waiting > 0 {
        complain(format!("{waiting} notices never went out"));
    }
}

//! A standby that stops following and is promoted later: everything confirmed meanwhile is lost. Nodes promise nothing about
//! that, and everything about the rest.

use super::{
    db_triggers::TAKEN_OVER,
    environment::{Loss, NodesEnv},
    sabotage::NodeSabotage,
};
use posthaste::domain::id::{DeliveryId, EventId};
use rusqlite::{Connection, OptionalExtension, config::DbConfig};
use std::collections::{BTreeMap, BTreeSet};

/// Freezes the standby: it has what is stored now, and gets nothing more.
pub(crate) fn stop_following(env: &NodesEnv) {
    let file = env.file().connection();
    if !is_there(&file) {
        file.execute_batch("ATTACH ':memory:' AS standby").unwrap();
    }
    for table in tables(&file) {
        let copy = format!(
            "DROP TABLE IF EXISTS standby.{table}; CREATE TABLE standby.{table} AS SELECT * FROM main.{table}"
        );
        file.execute_batch(&copy).unwrap();
    }
}

/// Promotes the standby, if there is one. `confirmed` says up to which batch each running node knows its own to be stored:
/// unconfirmed ones are not missed.
pub(crate) fn promote(env: &NodesEnv, confirmed: &BTreeMap<i64, i64>) {
    let file = env.file().connection();
    if !is_there(&file) {
        return;
    }
    let events = ids(&file, "SELECT id FROM events");
    let fenced = ids(&file, TAKEN_OVER);
    // No node writes this: the triggers must not note it.
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    let is_kept = |table: &String| env.sabotage == NodeSabotage::KeepCount && table == "writer_batches";
    let forgotten = forgotten(&file, confirmed);
    for table in tables(&file).into_iter().filter(|table| !is_kept(table)) {
        let back =
            format!("DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM standby.{table}");
        file.execute_batch(&back).unwrap();
    }
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true).unwrap();
    file.execute_batch("DETACH standby").unwrap();
    let kept = ids(&file, "SELECT id FROM events");
    let delivered = ids(&file, "SELECT id FROM deliveries WHERE state = 4");
    drop(file);
    let at = env.state().now;
    env.log().losses.push(Loss {
        at,
        events: events.difference(&kept).copied().map(EventId::from_i64).collect(),
        delivered: delivered.into_iter().map(DeliveryId::from_i64).collect(),
        forgotten,
        fenced,
    });
}

fn is_there(file: &Connection) -> bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM pragma_database_list WHERE name = 'standby')";
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn tables(file: &Connection) -> Vec<String> {
    let sql = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut rows = file.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn ids(file: &Connection, sql: &str) -> BTreeSet<i64> {
    let mut rows = file.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Returns epochs that wrote batches which the standby does not have, and that rely on them.
fn forgotten(file: &Connection, confirmed: &BTreeMap<i64, i64>) -> BTreeSet<i64> {
    let sql = "SELECT epoch FROM (SELECT epoch, batch FROM main.writer_batches WHERE writer IN (0, -1)
             EXCEPT SELECT epoch, batch FROM standby.writer_batches WHERE writer IN (0, -1))";
    let kept = "SELECT batch FROM standby.writer_batches WHERE writer IN (0, -1) AND epoch = ?1";
    let has_all = |epoch: &i64| {
        let kept: Option<i64> = file.query_row(kept, [epoch], |row| row.get(0)).optional().unwrap();
        kept.zip(confirmed.get(epoch)).is_some_and(|(kept, confirmed)| kept >= *confirmed)
    };
    ids(file, sql).into_iter().filter(|epoch| !has_all(epoch)).collect()
}

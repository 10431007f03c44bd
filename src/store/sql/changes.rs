//! Log of configuration changes, for other nodes to follow. Every transaction that changes something increments the one row
//! of `clock` and keeps it locked until its end, so that versions come in the order of commits.

use super::{Result, Sql, params};
use crate::{
    domain::{
        id::{AppId, EndpointId, EventTypeId, KeyId},
        time::Timestamp,
    },
    store::cluster::ConfigChanges,
};
use std::time::Duration;

/// How long changes are kept. A node that is further behind reads the whole configuration.
const CHANGES_KEPT: Duration = Duration::from_hours(1);
/// Old entries are removed once in so many versions.
const PRUNE_EVERY: i64 = 64;

pub(in crate::store) const VERSION: &str = "SELECT version FROM config_version WHERE only_row = 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ChangedKind {
    App = 0,
    Endpoint = 1,
    Key = 2,
    EventType = 3,
}

/// A record that was added, changed or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct ConfigChange {
    kind: ChangedKind,
    id: i64,
}

impl From<AppId> for ConfigChange {
    fn from(id: AppId) -> Self {
        Self { kind: ChangedKind::App, id: id.as_i64() }
    }
}

impl From<EndpointId> for ConfigChange {
    fn from(id: EndpointId) -> Self {
        Self { kind: ChangedKind::Endpoint, id: id.as_i64() }
    }
}

impl From<KeyId> for ConfigChange {
    fn from(id: KeyId) -> Self {
        Self { kind: ChangedKind::Key, id: id.as_i64() }
    }
}

impl From<EventTypeId> for ConfigChange {
    fn from(id: EventTypeId) -> Self {
        Self { kind: ChangedKind::EventType, id: id.as_i64() }
    }
}

/// Inserts the row of the clock where it is missing.
pub(super) fn prepare(tx: &dyn Sql) -> Result<()> {
    let sql = "INSERT INTO config_version (only_row, version, trimmed_version) VALUES (1, 0, 0) ON CONFLICT DO NOTHING";
    tx.execute(sql, &[])?;
    Ok(())
}

/// Starts a version: once in a transaction.
pub(in crate::store) fn begin(tx: &dyn Sql, now: Timestamp) -> Result<i64> {
    let version = tx.number(
        "UPDATE config_version SET version = version + 1 WHERE only_row = 1 RETURNING version",
        &[],
    )?;
    if version % PRUNE_EVERY == 0 {
        let before = now.as_millis().saturating_sub(CHANGES_KEPT.as_millis() as i64);
        let old = "SELECT max(version) FROM config_changes WHERE at < ?1";
        let forgotten = tx.number(old, params![before])?;
        tx.execute("DELETE FROM config_changes WHERE version <= ?1", params![forgotten])?;
        let note =
            "UPDATE config_version SET trimmed_version = ?1 WHERE only_row = 1 AND trimmed_version < ?1";
        tx.execute(note, params![forgotten])?;
    }
    Ok(version)
}

pub(in crate::store) fn log(tx: &dyn Sql, version: i64, change: ConfigChange, now: Timestamp) -> Result<()> {
    let sql =
        "INSERT INTO config_changes (version, kind, id, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    tx.execute(sql, params![version, change.kind as i64, change.id, now])?;
    Ok(())
}

pub(super) fn version(connection: &dyn Sql) -> Result<i64> {
    connection.number(VERSION, &[])
}

/// Returns the changes since a version. Also accepts a version that does not exist yet: the database may have lost what it
/// confirmed.
pub(super) fn since(connection: &dyn Sql, after: i64) -> Result<ConfigChanges> {
    let forgotten =
        connection.number("SELECT trimmed_version FROM config_version WHERE only_row = 1", &[])?;
    let mut changes = ConfigChanges { version: version(connection)?, ..ConfigChanges::default() };
    if after < forgotten || after > changes.version {
        return Ok(ConfigChanges { is_all: true, ..changes });
    }
    let sql = "SELECT DISTINCT kind, id FROM config_changes WHERE version > ?1 ORDER BY kind, id";
    connection.each(sql, params![after], |row| {
        let id: i64 = row.get(1)?;
        match row.get::<i64>(0)? {
            0 => changes.apps.push(AppId::from_i64(id)),
            1 => changes.endpoints.push(EndpointId::from_i64(id)),
            2 => changes.keys.push(KeyId::from_i64(id)),
            3 => changes.event_types.push(EventTypeId::from_i64(id)),
            // A newer version may know more kinds: this one then reads all that it knows.
            _ => changes.is_all = true,
        }
        Ok(())
    })?;
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::cluster::NO_CONFIG_VERSION, store::sqlite::open::open_in_memory};

    #[test]
    fn changes_are_kept_for_an_hour_and_a_node_further_behind_reads_everything() {
        let store = open_in_memory().unwrap();
        prepare(&store).unwrap();
        let key = |number| KeyId::from_i64(number);
        let change = |at: i64| {
            let version = begin(&store, Timestamp::from_millis(at)).unwrap();
            log(&store, version, key(version).into(), Timestamp::from_millis(at)).unwrap();
            version
        };
        assert!(since(&store, NO_CONFIG_VERSION).unwrap().is_all, "a node that joined again");
        let hour = CHANGES_KEPT.as_millis() as i64;
        for at in [0, hour + 1] {
            for _ in 0..PRUNE_EVERY {
                change(at);
            }
        }
        assert!(since(&store, PRUNE_EVERY - 1).unwrap().is_all);
        let changes = since(&store, PRUNE_EVERY).unwrap();
        assert_eq!((changes.is_all, changes.version), (false, 2 * PRUNE_EVERY));
        assert_eq!(changes.keys, (PRUNE_EVERY + 1..=2 * PRUNE_EVERY).map(key).collect::<Vec<_>>());
        assert_eq!(since(&store, changes.version).unwrap(), ConfigChanges { keys: vec![], ..changes });
    }
}

//! Database triggers as observers: triggers in the file see every change that any node makes, and note violations of the rules. A
//! note exists if and only if its commit does.

use super::environment::NodesEnv;
use crate::event_log::Promise;
use posthaste::domain::{
    cluster::{SHARD_COUNT, shard_of},
    id::EndpointId,
    time::Timestamp,
};
use rusqlite::{Connection, params};

/// `who` writes: its epoch, and how much of the configuration it has seen. `broken` holds the violations.
const TABLES: &str = "
    CREATE TABLE who (only_row INTEGER PRIMARY KEY, at INTEGER, epoch INTEGER, seen INTEGER);
    INSERT INTO who VALUES (1, 0, 0, 0);
    CREATE TABLE broken (rule TEXT, what TEXT);
    -- By itself if it left.
    CREATE TABLE fenced (epoch INTEGER PRIMARY KEY, by INTEGER);
    CREATE TABLE lines (number INTEGER PRIMARY KEY, delivery INTEGER UNIQUE, endpoint INTEGER, ordering_key INTEGER);
    CREATE TABLE places (endpoint INTEGER PRIMARY KEY, shard INTEGER);
    -- Endpoints that one node alone may send for, and which version of the configuration says so.
    CREATE VIEW exclusive AS SELECT e.id AS endpoint, p.shard,
            (SELECT ifnull(max(c.version), 0) FROM config_changes c WHERE c.kind = 1 AND c.id = e.id) AS version
        FROM endpoints e JOIN places p ON p.endpoint = e.id
        WHERE e.settings ->> 'max_in_flight' IS NOT NULL OR e.settings ->> 'rate_limit' IS NOT NULL
            OR ifnull(e.settings ->> 'ordered', 'none') <> 'none';
    CREATE TRIGGER is_fenced AFTER UPDATE OF writer ON writer_batches WHEN new.writer = -1 BEGIN
        INSERT OR IGNORE INTO fenced SELECT new.epoch, w.epoch FROM who w;
    END;
    CREATE TRIGGER joins_line AFTER INSERT ON deliveries WHEN new.ordering_key IS NOT NULL BEGIN
        INSERT INTO lines (delivery, endpoint, ordering_key) VALUES (new.id, new.endpoint, new.ordering_key);
    END;
    CREATE TRIGGER counts AFTER UPDATE OF batch ON writer_batches WHEN new.batch <> old.batch + 1 BEGIN
        INSERT INTO broken VALUES ('once', 'epoch ' || new.epoch || ' counted from ' || old.batch || ' to ' || new.batch);
    END;
    CREATE TRIGGER shard_moves AFTER UPDATE OF epoch ON shards WHEN old.epoch <> 0 AND new.epoch <> old.epoch BEGIN
        INSERT INTO broken SELECT 'sweep', 'shard ' || new.shard || ' of ' || old.epoch || ' was freed by ' || w.epoch || ' before that was swept'
            FROM who w WHERE w.epoch <> old.epoch
                AND (EXISTS (SELECT 1 FROM deliveries d WHERE d.queue = -old.epoch) OR old.epoch NOT IN (SELECT epoch FROM fenced));
        INSERT INTO broken SELECT 'sole', 'epoch ' || w.epoch || ' gave shard ' || new.shard || ' away and carries something of it'
            FROM who w WHERE w.epoch = old.epoch AND EXISTS (SELECT 1 FROM deliveries d JOIN exclusive x ON x.endpoint = d.endpoint
                WHERE d.queue = -old.epoch AND x.shard = new.shard AND x.version <= w.seen);
    END;
    CREATE TRIGGER node_goes AFTER DELETE ON nodes WHEN EXISTS (SELECT 1 FROM deliveries d WHERE d.queue = -old.epoch) BEGIN
        INSERT INTO broken VALUES ('place', 'epoch ' || old.epoch || ' was forgotten and carries something');
    END;";

/// Epochs whose results other nodes may not know.
pub(crate) const TAKEN_OVER: &str = "SELECT epoch FROM fenced WHERE by <> epoch";

/// Rules of leases: no node leases for another, and deliveries of an exclusive queue are leased by its owner alone.
const LEASE_RULES: &str = "
    INSERT INTO broken SELECT 'place', 'epoch ' || w.epoch || ' lets ' || -new.queue || ' carry ' || new.id
        FROM who w WHERE new.queue <> -w.epoch;
    INSERT INTO broken SELECT 'sole', 'epoch ' || w.epoch || ' carries ' || new.id || ' of endpoint ' || new.endpoint || ' at '
            || w.at || ', which is exclusive since version ' || x.version || ', beside epoch '
            || (SELECT group_concat(DISTINCT -d.queue) FROM deliveries d WHERE d.endpoint = new.endpoint AND d.queue < 0 AND d.queue <> new.queue)
        FROM who w, exclusive x WHERE x.endpoint = new.endpoint AND x.version <= w.seen
            AND EXISTS (SELECT 1 FROM deliveries d WHERE d.endpoint = new.endpoint AND d.queue < 0 AND d.queue <> new.queue);
    INSERT INTO broken SELECT 'sole', 'epoch ' || w.epoch || ' carries ' || new.id || ' of shard ' || x.shard || ', which is at '
            || (SELECT s.epoch FROM shards s WHERE s.shard = x.shard)
        FROM who w, exclusive x WHERE x.endpoint = new.endpoint AND x.version <= w.seen
            AND (SELECT s.epoch FROM shards s WHERE s.shard = x.shard) <> w.epoch;";

/// Tables that a fenced node must not change.
const WRITES: [&str; 6] = [
    "INSERT ON deliveries",
    "UPDATE ON deliveries",
    "DELETE ON deliveries",
    "INSERT ON events",
    "INSERT ON attempts",
    "UPDATE OF batch ON writer_batches",
];

/// Installs the triggers in the file.
pub(crate) fn install(file: &Connection) {
    file.execute_batch(TABLES).unwrap();
    for (number, write) in WRITES.iter().enumerate() {
        let sql = format!(
            "CREATE TRIGGER fence_{number} AFTER {write} WHEN (SELECT epoch FROM who) IN (SELECT epoch FROM fenced) BEGIN
                 INSERT INTO broken SELECT 'fence', 'epoch ' || w.epoch || ' wrote after it was fenced: {write}' FROM who w;
             END"
        );
        file.execute_batch(&sql).unwrap();
    }
    for (name, on) in [("inserted", "INSERT"), ("fetched", "UPDATE OF queue")] {
        let was = if on == "INSERT" { "" } else { "AND old.queue IS NOT new.queue" };
        let sql = format!(
            "CREATE TRIGGER carries_{name} AFTER {on} ON deliveries WHEN new.queue < 0 {was} BEGIN {LEASE_RULES} END"
        );
        file.execute_batch(&sql).unwrap();
    }
}

pub(crate) fn note_who(tx: &Connection, now: Timestamp, epoch: i64, seen: i64) {
    let mut sql = tx.prepare_cached("UPDATE who SET at = ?1, epoch = ?2, seen = ?3").unwrap();
    sql.execute(params![now.as_millis(), epoch, seen]).unwrap();
}

/// Notes which shard an endpoint is in.
pub(crate) fn note_shard(file: &Connection, endpoint: EndpointId) {
    let (id, shard) = (endpoint.as_i64(), shard_of(endpoint));
    assert!(usize::from(shard) < SHARD_COUNT);
    file.execute("INSERT INTO places VALUES (?1, ?2)", params![id, shard]).unwrap();
}

/// Reports the violations that were noted since.
pub(crate) fn report(env: &NodesEnv) {
    let file = env.file().connection();
    let mut sql = file.prepare_cached("DELETE FROM broken RETURNING rule, what").unwrap();
    let violations =
        sql.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    for (rule, what) in violations.map(Result::unwrap) {
        let promise = match rule.as_str() {
            "once" => Promise::Once,
            "sweep" => Promise::Sweep,
            "sole" => Promise::Sole,
            "fence" => Promise::Fence,
            _ => Promise::OnePlace,
        };
        env.complain(promise, what);
    }
}

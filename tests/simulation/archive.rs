//! Archive of removed rows, as they were right before, and when; of every time that an endpoint was disabled or its owner
//! warned; and of every dead delivery, so that each can be found in the notices. Triggers in the file write it, so that the
//! checker can account for every row there ever was.

use posthaste::domain::time::Timestamp;
use rusqlite::{Connection, params};

const ARCHIVE: &str = "
    CREATE TABLE archive_clock (only_row INTEGER PRIMARY KEY, at INTEGER NOT NULL);
    INSERT INTO archive_clock VALUES (1, 0);
    CREATE TABLE gone_events AS SELECT *, 0 AS gone_at FROM events;
    CREATE TABLE gone_deliveries AS SELECT *, 0 AS gone_at FROM deliveries;
    CREATE TABLE gone_attempts AS SELECT *, 0 AS gone_at FROM attempts;
    CREATE TABLE erased (event INTEGER PRIMARY KEY, data BLOB, at INTEGER);
    CREATE TABLE deaths (delivery INTEGER, at INTEGER);
    CREATE TRIGGER delivery_dies AFTER UPDATE OF state ON deliveries
        WHEN new.state = 5 AND old.state IN (0, 1, 2) AND (old.return_to IS NULL OR old.return_to LIKE '%,1')
            AND (SELECT type FROM events WHERE id = new.event) <> 'webhook.test' BEGIN
        INSERT INTO deaths VALUES (new.id, new.finished_at);
    END;
    CREATE TRIGGER event_goes BEFORE DELETE ON events BEGIN
        INSERT INTO gone_events SELECT e.*, c.at FROM events e, archive_clock c WHERE e.id = old.id;
    END;
    CREATE TRIGGER delivery_goes BEFORE DELETE ON deliveries BEGIN
        INSERT INTO gone_deliveries SELECT d.*, c.at FROM deliveries d, archive_clock c WHERE d.id = old.id;
    END;
    CREATE TRIGGER attempt_goes BEFORE DELETE ON attempts BEGIN
        INSERT INTO gone_attempts SELECT a.*, c.at FROM attempts a, archive_clock c
            WHERE a.delivery = old.delivery AND a.position = old.position;
    END;
    CREATE TABLE went_off (endpoint INTEGER NOT NULL, disabled TEXT NOT NULL);
    CREATE TRIGGER endpoint_goes_off AFTER UPDATE OF disabled ON endpoints WHEN old.disabled IS NULL AND new.disabled IS NOT NULL BEGIN
        INSERT INTO went_off VALUES (new.id, new.disabled);
    END;
    CREATE TABLE warned (endpoint INTEGER NOT NULL, at INTEGER NOT NULL);
    CREATE TRIGGER endpoint_is_warned AFTER INSERT ON notices WHEN new.kind = 1 BEGIN
        INSERT INTO warned VALUES (new.endpoint, new.at);
    END;
    CREATE TRIGGER data_goes BEFORE UPDATE OF data ON events WHEN length(old.data) > 0 BEGIN
        INSERT OR IGNORE INTO erased SELECT old.id, old.data, c.at FROM archive_clock c;
    END;";

/// Creates the archive in the file, or goes on with it.
pub(crate) fn open(disk: &Connection) {
    let is_open = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'archive_clock')";
    if !disk.query_row(is_open, [], |row| row.get::<_, bool>(0)).unwrap() {
        disk.execute_batch(ARCHIVE).unwrap();
    }
}

/// Sets the time of removals in the next commit. On a disk that takes no writes nothing is removed either.
pub(crate) fn note_time(disk: &Connection, now: Timestamp) {
    let _ = disk.execute("UPDATE archive_clock SET at = ?1", params![now.as_millis()]);
}

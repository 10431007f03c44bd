//! Reads the inbox. Rows become visible in the order of commits, which is not that of their numbers: each read starts with
//! the first row of each app, and no position is remembered.

use crate::{
    domain::{id::AppId, time::Timestamp},
    store::{
        inbox::InboxEvent,
        sql::{Result, Sql, params},
    },
};
use bytes::Bytes;

/// Rows and bytes that one read returns at most; the first row is always returned.
const INBOX_ROWS_MAX: i64 = 256;
const INBOX_BYTES_MAX: i64 = 8 << 20;

/// Takes the first row of every app, then the second of each: a producer with many events does not delay the others.
const SELECT_WAITING: &str = "WITH RECURSIVE apps (app) AS (
         SELECT min(app) FROM inbox WHERE error IS NULL
         UNION ALL
         SELECT (SELECT min(i.app) FROM inbox i WHERE i.error IS NULL AND i.app > apps.app) FROM apps WHERE apps.app IS NOT NULL),
     page AS (
         SELECT i.* FROM apps CROSS JOIN LATERAL (
             SELECT x.*, row_number() OVER (ORDER BY x.id) AS position FROM inbox x
             WHERE x.error IS NULL AND x.app = apps.app ORDER BY x.id LIMIT ?1) AS i
         ORDER BY i.position, i.id LIMIT ?1)
     SELECT id, app, type, event_id, key,
         CAST(floor(extract(epoch FROM at) * 1000) AS bigint), convert_to(CAST(data AS text), 'UTF8')
     FROM (SELECT p.*, sum(octet_length(CAST(p.data AS text))) OVER (ORDER BY p.position, p.id) AS upto FROM page p) AS w
     WHERE upto - octet_length(CAST(data AS text)) < ?2 ORDER BY id";

pub(super) fn waiting(tx: &dyn Sql) -> Result<Vec<InboxEvent>> {
    tx.all(SELECT_WAITING, params![INBOX_ROWS_MAX, INBOX_BYTES_MAX], |row| {
        let data: &[u8] = row.get(6)?;
        Ok(InboxEvent {
            number: row.get(0)?,
            app: AppId::from_i64(row.get(1)?),
            event_type: row.get(2)?,
            // Over HTTP the space around the value is not kept either.
            data: Bytes::copy_from_slice(data.trim_ascii()),
            id: row.get(3)?,
            key: row.get(4)?,
            at: Timestamp::from_millis(row.get(5)?),
        })
    })
}

//! What waits in the inbox. Rows become visible in the order of commits, which is not that of their numbers: each look is at all
//! that waits, and no place is remembered.

use crate::{
    domain::{id::AppId, time::Timestamp},
    store::{
        inbox::Submission,
        sql::{Result, Sql, params},
    },
};
use bytes::Bytes;

/// What one look brings at most, but for the first of them.
const ROWS_MAX: i64 = 256;
const BYTES_MAX: i64 = 8 << 20;

const WAITING: &str = "SELECT id, app, type, event_id, key,
         CAST(floor(extract(epoch FROM at) * 1000) AS bigint), convert_to(CAST(data AS text), 'UTF8')
     FROM (SELECT i.*, sum(octet_length(CAST(i.data AS text))) OVER (ORDER BY i.id) AS upto
           FROM (SELECT * FROM inbox WHERE error IS NULL ORDER BY id LIMIT ?1) AS i) AS w
     WHERE upto - octet_length(CAST(data AS text)) < ?2 ORDER BY id";

pub(super) fn waiting(tx: &dyn Sql) -> Result<Vec<Submission>> {
    tx.all(WAITING, params![ROWS_MAX, BYTES_MAX], |row| {
        let data: &[u8] = row.get(6)?;
        Ok(Submission {
            number: row.get(0)?,
            app: AppId::from_i64(row.get(1)?),
            event_type: row.get(2)?,
            // Over HTTP nothing around the value is kept either.
            data: Bytes::copy_from_slice(data.trim_ascii()),
            id: row.get(3)?,
            key: row.get(4)?,
            at: Timestamp::from_millis(row.get(5)?),
        })
    })
}

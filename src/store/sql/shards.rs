//! Which node owns each shard of the endpoints.

use super::{Result, Sql, params};
use crate::store::cluster::SHARD_COUNT;

/// Inserts the rows where they are missing.
pub(super) fn prepare(tx: &dyn Sql) -> Result<()> {
    let sql = "INSERT INTO shards (shard, epoch)
         WITH RECURSIVE every (shard) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT shard + 1 FROM every WHERE shard < ?1)
         SELECT shard, 0 FROM every WHERE shard NOT IN (SELECT shard FROM shards)";
    tx.execute(sql, params![SHARD_COUNT as i64 - 1])?;
    Ok(())
}

/// Claims up to `most` free shards, and those of a node that no longer exists.
pub(in crate::store) fn claim(tx: &dyn Sql, most: usize) -> Result<Vec<u8>> {
    let sql = "UPDATE shards SET epoch = ?1 WHERE shard IN
             (SELECT shard FROM shards WHERE epoch = 0 OR epoch NOT IN (SELECT epoch FROM nodes) ORDER BY shard LIMIT ?2)
         RETURNING shard";
    let mut claimed: Vec<u8> = tx.all(sql, params![tx.epoch(), most as i64], |row| row.get(0))?;
    claimed.sort_unstable();
    Ok(claimed)
}

pub(in crate::store) fn release(tx: &dyn Sql, shards: &[u8]) -> Result<()> {
    for shard in shards {
        let sql = "UPDATE shards SET epoch = 0 WHERE shard = ?1 AND epoch = ?2";
        tx.execute(sql, params![shard, tx.epoch()])?;
    }
    Ok(())
}

/// Frees all shards of a node that is deleted.
pub(super) fn free(tx: &dyn Sql, epoch: i64) -> Result<()> {
    tx.execute("UPDATE shards SET epoch = 0 WHERE epoch = ?1", params![epoch])?;
    Ok(())
}

/// Returns the owner's epoch of each shard.
pub(super) fn all(connection: &dyn Sql) -> Result<Vec<i64>> {
    let mut shards = vec![0; SHARD_COUNT];
    connection.each("SELECT shard, epoch FROM shards", &[], |row| {
        shards[usize::from(row.get::<u8>(0)?)] = row.get(1)?;
        Ok(())
    })?;
    Ok(shards)
}

//! Size of the tables. The free space of the server is known only to the server.

use crate::{
    domain::storage::StorageUsage,
    store::sql::{Result, Sql},
};

pub(super) fn usage(connection: &dyn Sql) -> Result<StorageUsage> {
    let used = connection.number(
        "SELECT CAST(sum(pg_total_relation_size(c.oid)) AS bigint)
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'posthaste' AND c.relkind = 'r'",
        &[],
    )?;
    Ok(StorageUsage { used_bytes: used.unsigned_abs(), ..StorageUsage::default() })
}

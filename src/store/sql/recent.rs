//! Latest attempts at an endpoint. Attempts have no index by endpoint, whose cost every delivery would pay: they are found
//! through the deliveries that can have been tried lately.

use super::{Result, Sql, ToValue, attempts, params};
use crate::{
    domain::id::{AppId, DeliveryId, EndpointId},
    store::queries::{AttemptRow, ROWS_EXAMINED_MAX},
};
use std::{cmp::Reverse, collections::BTreeSet};

/// Among all the newest rows, those of one endpoint.
const NEWEST_DELIVERIES: &str = "SELECT id FROM
         (SELECT id, endpoint, history_len FROM deliveries WHERE id > ?3 ORDER BY id DESC LIMIT ?4) AS recent
     WHERE endpoint = ?1 AND history_len > 0 ORDER BY id DESC LIMIT ?2";
const IN_FLIGHT: &str = "SELECT id FROM deliveries INDEXED BY deliveries_by_queue
     WHERE queue <= 0 AND endpoint = ?1 AND history_len > 0 ORDER BY id DESC LIMIT ?2";
/// The first and the last that wait for another attempt: a probe may be at either end.
const RETRYING: [&str; 2] = [
    "SELECT id FROM deliveries INDEXED BY deliveries_retrying
     WHERE queue = ?1 AND state = 1 AND due_action = 0 ORDER BY due LIMIT ?2",
    "SELECT id FROM deliveries INDEXED BY deliveries_retrying
     WHERE queue = ?1 AND state = 1 AND due_action = 0 ORDER BY due DESC LIMIT ?2",
];

pub(in crate::store) fn attempts(
    connection: &dyn Sql,
    app: AppId,
    endpoint: EndpointId,
    most: usize,
) -> Result<Vec<(DeliveryId, AttemptRow)>> {
    let limit = most as i64;
    // No record of an app is older than the app itself.
    let mut tried: BTreeSet<DeliveryId> = BTreeSet::new();
    tried.extend(ids(connection, NEWEST_DELIVERIES, params![endpoint, limit, app, ROWS_EXAMINED_MAX])?);
    for sql in [IN_FLIGHT].into_iter().chain(RETRYING) {
        tried.extend(ids(connection, sql, params![endpoint, limit])?);
    }
    let mut made = Vec::new();
    for delivery in tried {
        let latest = attempts::latest(connection, delivery, limit)?;
        made.extend(latest.into_iter().map(|past| (delivery, past)));
    }
    made.sort_by_key(|(delivery, past)| Reverse((past.attempt.started_at, *delivery, past.position)));
    made.truncate(most);
    Ok(made)
}

fn ids(connection: &dyn Sql, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<DeliveryId>> {
    connection.all(sql, params, |row| row.get(0))
}

//! Ordering groups: deliveries of one endpoint that are sent in order. Every row that joins, leaves or is removed passes
//! through here, in the transaction of that change: a group that is not empty has exactly one head, which its unique index
//! guarantees.
//!
//! A delivery without an ordering key costs no query.

use super::{
    Result, Sql, config, deliveries, params,
    row::{self, DELIVERY, DELIVERY_COLUMNS},
};
use crate::domain::{
    delivery::{Delivery, DeliveryState},
    endpoint::EndpointSettings,
    event::Event,
    id::{DeliveryId, EndpointId},
    ordering::OrderingKey,
    time::Timestamp,
};
use std::collections::BTreeSet;

/// Endpoint queues in which something waits now that did not before, and when it is due; the engine is notified after the
/// commit.
pub(super) type NewlyDue = Vec<(EndpointId, Timestamp)>;

/// Puts a new delivery into its ordering group. The order is decided here, by the order of commits: the group is locked until
/// the commit. Ids do not decide it, because they are only as good as the clocks of the nodes that made them.
pub(super) fn join(tx: &dyn Sql, delivery: &mut Delivery, event: &Event) -> Result<()> {
    let Some(ordering_key) = delivery.ordering_key else { return Ok(()) };
    if delivery.has_left_group(false) {
        delivery.ordering_key = None;
        return Ok(());
    }
    tx.lock_queue(delivery.endpoint)?;
    let (has_first, last_turn) = group_ends(tx, delivery.endpoint, ordering_key)?;
    if has_first {
        delivery.enqueue_behind_head(last_turn.unwrap_or_default() + 1);
    } else if delivery.is_queued_behind() {
        // Queued by an earlier try of its batch, which was rolled back.
        delivery.promote(event.deliver_at, event.accepted_at);
    }
    Ok(())
}

/// Returns whether the group has a head, and the last order number of those queued.
fn group_ends(tx: &dyn Sql, endpoint: EndpointId, ordering_key: OrderingKey) -> Result<(bool, Option<i64>)> {
    let ends = tx.one(
        "SELECT EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_order_head
                 WHERE endpoint = ?1 AND ordering_key = ?2 AND due IS DISTINCT FROM 253402300799000),
             (SELECT order_seq FROM deliveries INDEXED BY deliveries_order_queue
                 WHERE endpoint = ?1 AND ordering_key = ?2 AND due = 253402300799000 ORDER BY order_seq DESC LIMIT 1)",
        params![endpoint, ordering_key],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(ends.unwrap_or_default())
}

/// Takes a delivery that is about to be written out of its ordering group, if it has left that; returns the group's key.
pub(super) fn leave(tx: &dyn Sql, delivery: &mut Delivery, now: Timestamp) -> Result<Option<OrderingKey>> {
    if delivery.ordering_key.is_none() || !delivery.state.is_terminal() {
        return Ok(None);
    }
    tx.lock_queue(delivery.endpoint)?;
    let skips_dead = delivery.state == DeliveryState::Dead && skips_dead(tx, delivery.endpoint)?;
    Ok(delivery.leave_group(skips_dead, now))
}

/// Whether dead deliveries of the endpoint let those behind them go on, as this transaction sees it; also if it is gone.
pub(super) fn skips_dead(connection: &dyn Sql, endpoint: EndpointId) -> Result<bool> {
    let settings: Option<EndpointSettings> = connection.one(
        "SELECT settings FROM endpoints WHERE id = ?1 AND deleted_at IS NULL",
        params![endpoint],
        |row| row::named(endpoint, config::json(row, 0)),
    )?;
    Ok(settings.is_none_or(|settings| settings.skips_dead()))
}

/// Promotes the next of an ordering group, if it has no head any more.
pub(super) fn promote_next(
    tx: &dyn Sql,
    endpoint: EndpointId,
    ordering_key: OrderingKey,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<()> {
    let (has_first, last_turn) = group_ends(tx, endpoint, ordering_key)?;
    if has_first || last_turn.is_none() {
        return Ok(());
    }
    let next = tx.one(
        &format!(
            "SELECT {DELIVERY}, e.deliver_at FROM deliveries d INDEXED BY deliveries_order_queue LEFT JOIN events e ON e.id = d.event
             WHERE d.endpoint = ?1 AND d.ordering_key = ?2 AND d.due = 253402300799000 ORDER BY d.order_seq LIMIT 1"
        ),
        params![endpoint, ordering_key],
        |row| Ok((row::delivery(row)?, row.get(DELIVERY_COLUMNS)?)),
    )?;
    let Some((mut delivery, deliver_at)) = next else { return Ok(()) };
    delivery.promote(deliver_at, now);
    tx.promote(delivery.id, delivery.due)?;
    woken.extend(delivery.due.filter(|_| delivery.state.is_waiting()).map(|due| (endpoint, due)));
    Ok(())
}

/// Removes a delivery's row; `false` if there is none.
pub(super) fn remove(tx: &dyn Sql, id: DeliveryId, now: Timestamp, woken: &mut NewlyDue) -> Result<bool> {
    let removed = tx.delete_delivery(id)?;
    if let Some((endpoint, Some(ordering_key))) = removed {
        tx.lock_queue(endpoint)?;
        promote_next(tx, endpoint, ordering_key, now, woken)?;
    }
    Ok(removed.is_some())
}

/// Removes the rows of all these deliveries; returns how many existed.
pub(super) fn remove_all(
    tx: &dyn Sql,
    ids: &[DeliveryId],
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<usize> {
    let removed = tx.delete_each(ids)?;
    let lines: BTreeSet<(EndpointId, OrderingKey)> =
        removed.iter().filter_map(|(endpoint, ordering_key)| Some((*endpoint, (*ordering_key)?))).collect();
    for (endpoint, ordering_key) in lines {
        tx.lock_queue(endpoint)?;
        promote_next(tx, endpoint, ordering_key, now, woken)?;
    }
    Ok(removed.len())
}

/// Removes up to `most` dead deliveries from their ordering groups, if the endpoint skips them by now; returns how many.
pub(super) fn skip_dead(
    tx: &dyn Sql,
    endpoint: EndpointId,
    most: usize,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<usize> {
    tx.lock_queue(endpoint)?;
    let blocking: Vec<Delivery> = tx.all(
        &format!(
            "SELECT {DELIVERY} FROM deliveries d INDEXED BY deliveries_blocking
             WHERE d.endpoint = ?1 AND d.ordering_key IS NOT NULL AND d.state = 5 LIMIT ?2"
        ),
        params![endpoint, most as i64],
        row::delivery,
    )?;
    if blocking.is_empty() || !skips_dead(tx, endpoint)? {
        return Ok(0);
    }
    for mut delivery in blocking.iter().cloned() {
        deliveries::update_delivery(tx, DeliveryState::Dead, &mut delivery, now, woken)?;
    }
    Ok(blocking.len())
}

/// Returns endpoints whose dead deliveries block others although they should be skipped: a node died before that was done.
pub(super) fn unskipped(connection: &dyn Sql) -> Result<Vec<EndpointId>> {
    let blocked: Vec<EndpointId> = connection.all(
        "WITH RECURSIVE found (endpoint) AS (
             SELECT min(endpoint) FROM deliveries WHERE ordering_key IS NOT NULL AND state = 5
             UNION ALL
             SELECT (SELECT min(endpoint) FROM deliveries
                 WHERE ordering_key IS NOT NULL AND state = 5 AND endpoint > found.endpoint)
             FROM found WHERE found.endpoint IS NOT NULL)
         SELECT endpoint FROM found WHERE endpoint IS NOT NULL",
        &[],
        |row| row.get(0),
    )?;
    let mut unskipped = Vec::new();
    for endpoint in blocked {
        if skips_dead(connection, endpoint)? {
            unskipped.push(endpoint);
        }
    }
    Ok(unskipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{id::EventId, ordering::OrderingMode},
        store::sqlite::open::open_in_memory,
    };
    use bytes::Bytes;

    #[test]
    fn a_delivery_queued_by_a_rolled_back_batch_becomes_head_of_an_empty_group() {
        let (store, now) = (open_in_memory().unwrap(), Timestamp::from_millis(1000));
        let (event, app, endpoint) =
            (EventId::from_i64(3), crate::domain::id::AppId::from_i64(1), EndpointId::from_i64(2));
        let event = Event {
            id: event,
            app,
            external_id: None,
            event_type: "t".into(),
            created_at: now,
            accepted_at: now,
            data: Bytes::new(),
            key: None,
            deliver_at: None,
            has_no_subscribers: false,
        };
        let mut delivery = Delivery::new(DeliveryId::from_i64(4), app, event.id, endpoint, now, None);
        delivery.ordering_key = OrderingMode::Endpoint.ordering_key(None);
        delivery.start_in_flight();
        delivery.enqueue_behind_head(9);
        join(&store, &mut delivery, &event).unwrap();
        assert_eq!(
            (delivery.state, delivery.due, delivery.order_seq),
            (DeliveryState::Pending, Some(now), None)
        );
        store.insert_delivery(&delivery).unwrap();
        let mut second = Delivery { id: DeliveryId::from_i64(5), ..delivery };
        join(&store, &mut second, &event).unwrap();
        assert!(second.is_queued_behind());
    }
}

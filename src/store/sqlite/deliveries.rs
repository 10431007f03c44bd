//! The rows of deliveries, written and read. Whatever changes one passes through `update_delivery`, which keeps the lines.

use super::{
    order::{self, Woken},
    row::{self, DELIVERY},
};
use crate::domain::{
    delivery::{Delivery, State},
    id::DeliveryId,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};

/// The queue's column: 0 while carried, the endpoint while waiting, nothing otherwise.
fn lane(delivery: &Delivery) -> Option<i64> {
    match delivery.state {
        State::InFlight => Some(0),
        state if state.is_waiting() => Some(delivery.endpoint.as_i64()),
        _ => None,
    }
}

pub(super) fn insert_delivery(tx: &Connection, delivery: &Delivery) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO deliveries (id, app, event, endpoint, state, reason, place, attempt_count, history_len, lane, due,
             at_due, give_up_at, finished_at, root, replay_of, held_at, okey, asked)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
    )?
    .execute(params![
        delivery.id,
        delivery.app,
        delivery.event,
        delivery.endpoint,
        delivery.state,
        delivery.reason,
        delivery.place,
        delivery.attempt_count,
        delivery.history_len,
        lane(delivery),
        delivery.due,
        delivery.at_due,
        delivery.give_up_at,
        delivery.finished_at,
        (delivery.root != delivery.id).then_some(delivery.root),
        delivery.replay_of,
        delivery.held_at,
        delivery.okey,
        delivery.is_asked.then_some(true),
    ])?;
    Ok(())
}

/// Writes a delivery over its row if that is still in the state the change started from. If it leaves its line, the next
/// of that steps up.
pub(super) fn update_delivery(
    tx: &Connection,
    from: State,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut Woken,
) -> rusqlite::Result<bool> {
    let left = order::leave(tx, delivery, now)?;
    let changed = tx
        .prepare_cached(
            "UPDATE deliveries SET state = ?3, reason = ?4, place = ?5, attempt_count = ?6, history_len = ?7, lane = ?8,
                 due = ?9, at_due = ?10, give_up_at = ?11, finished_at = ?12, return_to = ?13, held_at = ?14, restarted_at = ?15,
                 okey = ?16, asked = ?17, skipped_at = ?18
             WHERE id = ?1 AND state = ?2",
        )?
        .execute(params![
            delivery.id,
            from,
            delivery.state,
            delivery.reason,
            delivery.place,
            delivery.attempt_count,
            delivery.history_len,
            lane(delivery),
            delivery.due,
            delivery.at_due,
            delivery.give_up_at,
            delivery.finished_at,
            delivery.return_to.as_ref().map(row::write_return_to),
            delivery.held_at,
            delivery.restarted_at,
            delivery.okey,
            delivery.is_asked.then_some(true),
            delivery.skipped_at,
        ])?;
    if changed == 1
        && let Some(okey) = left
    {
        order::advance(tx, delivery.endpoint, okey, now, woken)?;
    }
    Ok(changed == 1)
}

pub(super) fn read_delivery(tx: &Connection, id: DeliveryId) -> rusqlite::Result<Option<Delivery>> {
    tx.prepare_cached(&format!("SELECT {DELIVERY} FROM deliveries d WHERE d.id = ?1"))?
        .query_row([id], row::delivery)
        .optional()
}

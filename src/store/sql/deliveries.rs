//! How deliveries are read and changed. Whatever changes one passes through `update_delivery`, which keeps the lines.

use super::{
    Result, Sql,
    order::{self, Woken},
    params,
    row::{self, DELIVERY},
};
use crate::domain::{
    delivery::{Delivery, State},
    id::DeliveryId,
    time::Timestamp,
};

/// The queue's column: 0 while carried, the endpoint while waiting, nothing otherwise.
pub(in crate::store) fn lane(delivery: &Delivery) -> Option<i64> {
    match delivery.state {
        State::InFlight => Some(0),
        state if state.is_waiting() => Some(delivery.endpoint.as_i64()),
        _ => None,
    }
}

/// Writes a delivery over its row if that is still in the state the change started from. If it leaves its line, the next
/// of that steps up.
pub(super) fn update_delivery(
    tx: &dyn Sql,
    from: State,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut Woken,
) -> Result<bool> {
    let left = order::leave(tx, delivery, now)?;
    let is_changed = tx.replace_delivery(from, delivery)?;
    if let Some(okey) = left.filter(|_| is_changed) {
        order::advance(tx, delivery.endpoint, okey, now, woken)?;
    }
    Ok(is_changed)
}

pub(super) fn read_delivery(tx: &dyn Sql, id: DeliveryId) -> Result<Option<Delivery>> {
    tx.one(&format!("SELECT {DELIVERY} FROM deliveries d WHERE d.id = ?1"), params![id], row::delivery)
}

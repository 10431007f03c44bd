//! How deliveries are read and changed. Whatever changes one passes through here, which keeps the lines.

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

/// What a row must still be so that it is written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Was {
    /// Not in flight.
    In(State),
    /// In flight, and carried under this epoch.
    CarriedBy(i64),
}

impl Was {
    pub(in crate::store) fn state(self) -> State {
        match self {
            Self::In(state) => state,
            Self::CarriedBy(_) => State::InFlight,
        }
    }

    /// The lane of what is in flight.
    pub(in crate::store) fn lane(self) -> i64 {
        match self {
            Self::In(_) => 0,
            Self::CarriedBy(epoch) => -epoch,
        }
    }
}

/// The queue's column: the endpoint while waiting, nothing when neither waiting nor carried, and while carried the epoch of
/// whoever does so, less than nothing. An embedded store has one process, whose epoch is 0.
pub(in crate::store) fn lane(delivery: &Delivery, epoch: i64) -> Option<i64> {
    match delivery.state {
        State::InFlight => Some(-epoch),
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
    update(tx, Was::In(from), delivery, now, woken)
}

/// The same for one in flight, if that is still carried under this epoch: otherwise somebody took it over.
pub(super) fn update_carried(
    tx: &dyn Sql,
    epoch: i64,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut Woken,
) -> Result<bool> {
    update(tx, Was::CarriedBy(epoch), delivery, now, woken)
}

fn update(
    tx: &dyn Sql,
    was: Was,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut Woken,
) -> Result<bool> {
    let left = order::leave(tx, delivery, now)?;
    let is_changed = tx.replace_delivery(was, delivery)?;
    if let Some(okey) = left.filter(|_| is_changed) {
        order::advance(tx, delivery.endpoint, okey, now, woken)?;
    }
    Ok(is_changed)
}

/// Whether it is in flight under this epoch.
pub(super) fn is_carried(tx: &dyn Sql, id: DeliveryId, epoch: i64) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = ?1 AND state = 2 AND lane = ?2)";
    tx.exists(sql, params![id, -epoch])
}

/// To be changed: nobody else changes it until this transaction ends.
pub(super) fn read_delivery(tx: &dyn Sql, id: DeliveryId) -> Result<Option<Delivery>> {
    tx.lock_delivery(id)?;
    tx.one(&format!("SELECT {DELIVERY} FROM deliveries d WHERE d.id = ?1"), params![id], row::delivery)
}

//! Reads and changes single deliveries. Every change that ends one in an ordering group passes through here, which promotes
//! the next of the group.

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

/// Expected state of a row, so that it may be written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Was {
    /// Not in flight.
    In(State),
    /// In flight, and leased under this epoch.
    CarriedBy(i64),
}

impl Was {
    pub(in crate::store) fn state(self) -> State {
        match self {
            Self::In(state) => state,
            Self::CarriedBy(_) => State::InFlight,
        }
    }

    /// The `lane` that a row in flight must have; 0, and not compared, in other states.
    pub(in crate::store) fn lane(self) -> i64 {
        match self {
            Self::In(_) => 0,
            Self::CarriedBy(epoch) => -epoch,
        }
    }
}

/// Value of the column `lane`: the endpoint while waiting, minus the leasing node's epoch while in flight, else `None`. An
/// embedded store has one process, whose epoch is 0.
pub(in crate::store) fn lane(delivery: &Delivery, epoch: i64) -> Option<i64> {
    match delivery.state {
        State::InFlight => Some(-epoch),
        state if state.is_waiting() => Some(delivery.endpoint.as_i64()),
        _ => None,
    }
}

/// Writes a delivery over its row if that is still in the state the change started from. If it leaves its ordering group, the
/// next of that is promoted.
pub(super) fn update_delivery(
    tx: &dyn Sql,
    from: State,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut Woken,
) -> Result<bool> {
    update(tx, Was::In(from), delivery, now, woken)
}

/// Writes a delivery in flight over its row, if that is still leased under this epoch; otherwise another node took it over.
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
    let sql = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = ?1 AND state = 2 AND queue = ?2)";
    tx.exists(sql, params![id, -epoch])
}

/// Reads a delivery to be changed, and locks it until this transaction ends.
pub(super) fn read_delivery(tx: &dyn Sql, id: DeliveryId) -> Result<Option<Delivery>> {
    tx.lock_delivery(id)?;
    tx.one(&format!("SELECT {DELIVERY} FROM deliveries d WHERE d.id = ?1"), params![id], row::delivery)
}

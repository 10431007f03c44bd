//! Reads and changes single deliveries. Every change that ends one in an ordering group passes through here, which promotes
//! the next of the group.

use super::{
    Result, Sql,
    ordering::{self, NewlyDue},
    params,
    row::{self, DELIVERY},
};
use crate::domain::{
    delivery::{Delivery, DeliveryState},
    id::DeliveryId,
    time::Timestamp,
};

/// Expected state of a row, so that it may be written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedState {
    /// Not in flight.
    State(DeliveryState),
    /// In flight, and leased under this epoch.
    LeasedBy(i64),
}

impl ExpectedState {
    pub(in crate::store) fn state(self) -> DeliveryState {
        match self {
            Self::State(state) => state,
            Self::LeasedBy(_) => DeliveryState::InFlight,
        }
    }

    /// Value of the column `queue` that a row in flight must have; 0, and not compared, in other states.
    pub(in crate::store) fn queue_column(self) -> i64 {
        match self {
            Self::State(_) => 0,
            Self::LeasedBy(epoch) => -epoch,
        }
    }
}

/// Value of the column `queue`: the endpoint while waiting, minus the leasing node's epoch while in flight, else `None`. An
/// embedded store has one process, whose epoch is 0.
pub(in crate::store) fn queue_column(delivery: &Delivery, epoch: i64) -> Option<i64> {
    match delivery.state {
        DeliveryState::InFlight => Some(-epoch),
        state if state.is_waiting() => Some(delivery.endpoint.as_i64()),
        _ => None,
    }
}

/// Writes a delivery over its row if that is still in the state the change started from. If it leaves its ordering group, the
/// next of that is promoted.
pub(super) fn update_delivery(
    tx: &dyn Sql,
    from: DeliveryState,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<bool> {
    update(tx, ExpectedState::State(from), delivery, now, woken)
}

/// Writes a delivery in flight over its row, if that is still leased under this epoch; otherwise another node took it over.
pub(super) fn update_leased(
    tx: &dyn Sql,
    epoch: i64,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<bool> {
    update(tx, ExpectedState::LeasedBy(epoch), delivery, now, woken)
}

fn update(
    tx: &dyn Sql,
    was: ExpectedState,
    delivery: &mut Delivery,
    now: Timestamp,
    woken: &mut NewlyDue,
) -> Result<bool> {
    let left = ordering::leave(tx, delivery, now)?;
    let is_changed = tx.replace_delivery(was, delivery)?;
    if let Some(ordering_key) = left.filter(|_| is_changed) {
        ordering::promote_next(tx, delivery.endpoint, ordering_key, now, woken)?;
    }
    Ok(is_changed)
}

/// Whether it is in flight under this epoch.
pub(super) fn is_leased(tx: &dyn Sql, id: DeliveryId, epoch: i64) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = ?1 AND state = 2 AND queue = ?2)";
    tx.exists(sql, params![id, -epoch])
}

/// Reads a delivery to be changed, and locks it until this transaction ends.
pub(super) fn read_delivery(tx: &dyn Sql, id: DeliveryId) -> Result<Option<Delivery>> {
    tx.lock_delivery(id)?;
    tx.one(&format!("SELECT {DELIVERY} FROM deliveries d WHERE d.id = ?1"), params![id], row::delivery)
}

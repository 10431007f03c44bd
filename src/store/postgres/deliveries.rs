//! Tables of deliveries: `live` has those that have not ended, and dead ones that block others of their ordering group;
//! `done` has the rest. Both have the same columns, and a row is in one of them.

use super::{
    columns::{ColumnRows, ColumnTypes},
    sql::Transaction,
};
use crate::{
    domain::{
        delivery::{Delivery, DeliveryState},
        id::DeliveryId,
    },
    store::sql::{ExpectedState, Result, Sql, ToValue, params, queue_column, write_saved_state},
};
use std::{collections::HashSet, sync::LazyLock};

macro_rules! columns {
    () => {
        "id, app, event, endpoint, state, reason, retry_index, attempt_count, history_len, queue, due, due_action, give_up_at, finished_at,
         held_at, root, replay_of, return_to, restarted_at, ordering_key, manual, skipped_at, order_seq"
    };
}

macro_rules! values {
    () => {
        "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23"
    };
}

/// Statements that put a row into a table. `?24` is the state it must still be in, and `?25` its `queue` if that is in flight.
struct DeliveryTable {
    insert: &'static str,
    update: &'static str,
    /// Moves the row out of the other table.
    fetch: &'static str,
}

macro_rules! table {
    ($name:literal, $other:literal) => {
        DeliveryTable {
            insert: concat!("INSERT INTO ", $name, " (", columns!(), ") VALUES (", values!(), ")"),
            update: concat!(
                "UPDATE ",
                $name,
                " SET (",
                columns!(),
                ") = (",
                values!(),
                ") WHERE id = ?1 AND state = ?24 AND (state <> 2 OR queue = ?25)"
            ),
            fetch: concat!(
                "WITH gone AS (DELETE FROM ",
                $other,
                " WHERE id = ?1 AND state = ?24 AND (state <> 2 OR queue = ?25) RETURNING id) ",
                "INSERT INTO ",
                $name,
                " (",
                columns!(),
                ") SELECT ",
                values!(),
                " FROM gone"
            ),
        }
    };
}

const LIVE: DeliveryTable = table!("deliveries_open", "deliveries_ended");
const DONE: DeliveryTable = table!("deliveries_ended", "deliveries_open");

fn is_live(delivery: &Delivery) -> bool {
    !delivery.state.is_terminal() || delivery.ordering_key.is_some()
}

pub(super) fn insert(tx: &Transaction<'_>, delivery: &Delivery) -> Result<()> {
    let table = if is_live(delivery) { LIVE } else { DONE };
    write(tx, table.insert, delivery, None).map(drop)
}

/// Writes a delivery over its row. One that has not ended is in `live`; one that has may be in either table.
pub(super) fn replace(tx: &Transaction<'_>, was: ExpectedState, delivery: &Delivery) -> Result<bool> {
    let run = |sql: &str| write(tx, sql, delivery, Some(was));
    match (was.state().is_terminal(), is_live(delivery)) {
        (false, true) => run(LIVE.update),
        (false, false) => run(DONE.fetch),
        (true, true) => Ok(run(LIVE.update)? || run(LIVE.fetch)?),
        (true, false) => Ok(run(DONE.update)? || run(DONE.fetch)?),
    }
}

const TO_LEASE: ColumnTypes = ColumnTypes("nn");

static LEASE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE deliveries_open l SET state = ?1, queue = ?2, due = NULL FROM {} AS taken (id, state)
         WHERE l.id = taken.id AND l.state = taken.state RETURNING l.id",
        TO_LEASE.unnest(3)
    )
});

/// Marks these waiting deliveries as in flight; returns which were still in their state.
pub(super) fn lease_all(tx: &Transaction<'_>, taken: &[(DeliveryState, &Delivery)]) -> Result<Vec<bool>> {
    let mut rows = ColumnRows::new(TO_LEASE);
    taken.iter().try_for_each(|(from, delivery)| rows.push(params![delivery.id, from]))?;
    let first = params![DeliveryState::InFlight, ExpectedState::LeasedBy(tx.epoch()).queue_column()];
    let leased: HashSet<DeliveryId> = tx.read_rows(&LEASE, first, &[&rows], |row| row.get(0))?;
    Ok(taken.iter().map(|(_, delivery)| leased.contains(&delivery.id)).collect())
}

fn write(tx: &Transaction<'_>, sql: &str, delivery: &Delivery, was: Option<ExpectedState>) -> Result<bool> {
    let was = was.map(|was| (was.state(), was.queue_column()));
    let row = params![
        delivery.id,
        delivery.app,
        delivery.event,
        delivery.endpoint,
        delivery.state,
        delivery.reason,
        delivery.retry_index,
        delivery.attempt_count,
        delivery.history_len,
        queue_column(delivery, tx.epoch()),
        delivery.due,
        delivery.at_due,
        delivery.give_up_at,
        delivery.finished_at,
        delivery.held_at,
        (delivery.root != delivery.id).then_some(delivery.root),
        delivery.replay_of,
        delivery.saved_state.as_ref().map(write_saved_state),
        delivery.restarted_at,
        delivery.ordering_key,
        delivery.is_manual.then_some(true),
        delivery.skipped_at,
        delivery.order_seq,
    ];
    let mut row = row.to_vec();
    if let Some((state, queue)) = &was {
        row.extend([state as &dyn ToValue, queue]);
    }
    Ok(tx.execute(sql, &row)? == 1)
}

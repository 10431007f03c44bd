//! Taking over from a node that is dead, in steps that are transactions of their own: it is declared dead, its writers are
//! fenced, what it carried is swept, its shards are freed and its row goes. Whoever comes next goes on where one ended.
//!
//! In one statement it would miss a batch that the dead node was just committing: what is swept is looked for only after the
//! fence has waited for that.

use super::{
    Result, Sql, attempts,
    deliveries::update_carried,
    inspections,
    ledger::switch_of,
    nodes,
    order::Woken,
    params,
    row::{self, DELIVERY},
    shards,
};
use crate::{
    domain::{
        circuit::PROBE_AHEAD,
        delivery::{Delivery, Switch},
        id::{DeliveryId, EndpointId},
        time::Timestamp,
    },
    store::{Reply, StoreError},
};
use std::collections::{BTreeMap, HashMap};

/// Deliveries that one step sweeps.
const SWEPT_AT_ONCE: i64 = 2000;

/// How a store runs steps: each in a transaction of its own, which fails once this node is taken over itself. It is given what
/// the store's clock shows, and may run again after it met another.
pub(in crate::store) trait Steps: Send + Sync {
    fn step<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql, Timestamp) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T>;

    /// Nothing more is written under this epoch of a dead node. Waits for a batch that is being committed, and may
    /// end one that is not.
    fn fence(&self, epoch: i64) -> Reply<'static, ()> {
        self.step(move |tx, clock| fence(tx, epoch, clock))
    }
}

/// What was taken over.
#[derive(Debug, Default)]
pub(in crate::store) struct TakenOver {
    pub(in crate::store) count: usize,
    /// Lanes in which something waits now, and when its first is due.
    pub(in crate::store) woken: BTreeMap<EndpointId, Timestamp>,
}

/// `None` if that one lives, or this one may not judge.
pub(in crate::store) async fn take_over(
    steps: &impl Steps,
    epoch: i64,
    now: Timestamp,
) -> Result<Option<TakenOver>, StoreError> {
    let is_dead = steps.step(move |tx, clock| declare(tx, epoch, clock)).await?;
    if !is_dead {
        return Ok(None);
    }
    let mut taken = TakenOver::default();
    finish(steps, epoch, now, &mut taken).await?;
    Ok(Some(taken))
}

/// The same for one whose process is known to be no more.
pub(in crate::store) async fn succeed(
    steps: &impl Steps,
    epoch: i64,
    now: Timestamp,
    taken: &mut TakenOver,
) -> Result<(), StoreError> {
    steps.step(move |tx, _| declare_gone(tx, epoch)).await?;
    finish(steps, epoch, now, taken).await
}

async fn finish(
    steps: &impl Steps,
    epoch: i64,
    now: Timestamp,
    taken: &mut TakenOver,
) -> Result<(), StoreError> {
    steps.fence(epoch).await?;
    let mut after = Some(DeliveryId::from_i64(i64::MIN));
    while let Some(from) = after {
        let swept = steps.step(move |tx, _| sweep(tx, epoch, from, now)).await?;
        taken.count += swept.count;
        for (lane, due) in swept.woken {
            let first = taken.woken.entry(lane).or_insert(due);
            *first = due.min(*first);
        }
        after = swept.next;
    }
    steps.step(move |tx, _| bury(tx, epoch, now)).await?;
    tracing::info!(epoch, deliveries = taken.count, "took over from a node");
    Ok(())
}

/// Whether it was declared dead, or is gone altogether, now or before. One whose lease is not over lives.
fn declare(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<bool> {
    if nodes::is_steady(tx, now)? {
        let sql = "UPDATE nodes SET dead = 1 WHERE epoch = ?1 AND dead = 0 AND lease_until < ?2";
        tx.execute(sql, params![epoch, now])?;
    }
    Ok(!tx.exists("SELECT EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1 AND dead = 0)", params![epoch])?)
}

/// Declares one dead whose process is known to be no more.
fn declare_gone(tx: &dyn Sql, epoch: i64) -> Result<()> {
    tx.execute("UPDATE nodes SET dead = 1 WHERE epoch = ?1", params![epoch])?;
    Ok(())
}

/// Its writers find no row to count up any more, and its slot is free for others. Waits for a batch that one of them is
/// committing.
pub(in crate::store) fn fence(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    let sql = "UPDATE ledger SET writer = -1 - writer, fenced_at = ?2 WHERE epoch = ?1 AND writer >= 0";
    tx.execute(sql, params![epoch, now])?;
    nodes::give_slot_up(tx, epoch)
}

/// What a step of a sweep came to.
struct Swept {
    count: usize,
    /// Where the next step goes on; `None` when that was the last.
    next: Option<DeliveryId>,
    /// Lanes in which something waits now.
    woken: Woken,
}

/// Makes deliveries due that were carried under this epoch, with an attempt "outcome unknown" each. Nothing is carried under it
/// that was not when its writers were fenced.
fn sweep(tx: &dyn Sql, epoch: i64, after: DeliveryId, now: Timestamp) -> Result<Swept> {
    let sql =
        format!("SELECT {DELIVERY} FROM deliveries d WHERE d.lane = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3");
    let carried: Vec<Delivery> = tx.all(&sql, params![-epoch, after, SWEPT_AT_ONCE], row::delivery)?;
    let is_last = (carried.len() as i64) < SWEPT_AT_ONCE;
    let next = carried.last().map(|last| last.id).filter(|_| !is_last);
    let mut swept = Swept { count: 0, next, woken: Woken::new() };
    let mut switches: HashMap<EndpointId, Switch> = HashMap::new();
    for mut delivery in carried {
        let switch = match switches.get(&delivery.endpoint) {
            Some(known) => *known,
            None => *switches.entry(delivery.endpoint).or_insert(switch_of(tx, delivery.endpoint)?),
        };
        let note = delivery.is_ahead().then_some(PROBE_AHEAD);
        if delivery.take_over(switch, now).is_ok()
            && update_carried(tx, epoch, &mut delivery, now, &mut swept.woken)?
        {
            attempts::insert_unknown(tx, delivery.id, delivery.history_len, note, now)?;
            swept.count += 1;
            swept.woken.extend(
                delivery.due.filter(|_| delivery.state.is_waiting()).map(|due| (delivery.endpoint, due)),
            );
        }
    }
    Ok(swept)
}

/// Nothing is left of it: its shards are free for others, and its inspections are interrupted.
fn bury(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    inspections::interrupt(tx, epoch, now)?;
    shards::free(tx, epoch)?;
    tx.execute("DELETE FROM nodes WHERE epoch = ?1 AND dead = 1", params![epoch])?;
    Ok(())
}

/// This process writes nothing more. What it still carries may be taken over at once.
pub(in crate::store) fn leave(tx: &dyn Sql, now: Timestamp) -> Result<()> {
    retire(tx, tx.epoch(), now)
}

/// Nothing more is written under this epoch, and what it still carries may be taken over.
pub(super) fn retire(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    // In this order, as whoever fences another: two that do it at once must not wait in a circle.
    fence(tx, epoch, now)?;
    declare_gone(tx, epoch)
}

/// Nothing is left of this process, unless it still carries or inspects something.
pub(in crate::store) fn be_forgotten(tx: &dyn Sql, now: Timestamp) -> Result<()> {
    let is_busy = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE lane = ?1)
         OR EXISTS (SELECT 1 FROM inspections WHERE state < 2 AND state = 1 AND epoch = ?2)";
    if tx.exists(is_busy, params![-tx.epoch(), tx.epoch()])? { Ok(()) } else { bury(tx, tx.epoch(), now) }
}

/// Everything that an earlier process carried, where that is known to be dead before this one begins.
pub(super) fn take_over_all(tx: &dyn Sql, now: Timestamp) -> Result<usize> {
    let (mut count, mut after) = (0, Some(DeliveryId::from_i64(i64::MIN)));
    while let Some(from) = after {
        let swept = sweep(tx, tx.epoch(), from, now)?;
        count += swept.count;
        after = swept.next;
    }
    Ok(count)
}

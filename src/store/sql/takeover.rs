//! Takeover of a dead node, in steps that are transactions of their own: it is marked dead, its writers are fenced, its
//! deliveries in flight are made due, its shards are freed and its row is deleted. The next takeover continues an interrupted
//! one.
//!
//! In one statement it would miss a batch that the dead node was just committing: its deliveries are searched only after the
//! fence has waited for that.

use super::{
    Result, Sql, attempts,
    deliveries::update_leased,
    delivery_statements::availability_of,
    inspections, nodes,
    ordering::NewlyDue,
    params,
    row::{self, DELIVERY},
    shards,
};
use crate::{
    domain::{
        circuit_breaker::EARLY_PROBE_NOTE,
        delivery::{Availability, Delivery},
        id::{DeliveryId, EndpointId},
        time::Timestamp,
    },
    store::{Reply, StoreError},
};
use std::collections::{BTreeMap, HashMap};

/// Deliveries that one step makes due.
const SWEEP_STEP_ROWS: i64 = 2000;

/// Runs takeover steps, each in a transaction of its own, which fails once this node is taken over itself. A step gets the
/// time of the store's clock, and may run again after a conflict with another transaction.
pub(in crate::store) trait TakeoverSteps: Send + Sync {
    fn step<T: Send + 'static>(
        &self,
        run: impl FnMut(&dyn Sql, Timestamp) -> Result<T> + Send + 'static,
    ) -> Reply<T>;

    /// Fences a dead node: nothing more is written under this epoch. Waits for a batch that is being committed, and may end
    /// one that is not.
    fn fence(&self, epoch: i64) -> Reply<()> {
        self.step(move |tx, clock| fence(tx, epoch, clock))
    }
}

/// Result of a takeover.
#[derive(Debug, Default)]
pub(in crate::store) struct TakenOver {
    pub(in crate::store) count: usize,
    /// Endpoint queues in which something waits now, and when the first is due.
    pub(in crate::store) newly_due: BTreeMap<EndpointId, Timestamp>,
}

/// Takes over a node; `None` if it lives, or if this node may not take over others.
pub(in crate::store) async fn take_over(
    steps: &impl TakeoverSteps,
    epoch: i64,
    now: Timestamp,
) -> Result<Option<TakenOver>, StoreError> {
    let is_dead = steps.step(move |tx, clock| mark_dead_if_expired(tx, epoch, clock)).await?;
    if !is_dead {
        return Ok(None);
    }
    let mut taken = TakenOver::default();
    finish(steps, epoch, now, &mut taken).await?;
    Ok(Some(taken))
}

/// Takes over a node whose process is known to be gone.
pub(in crate::store) async fn take_over_gone(
    steps: &impl TakeoverSteps,
    epoch: i64,
    now: Timestamp,
    taken: &mut TakenOver,
) -> Result<(), StoreError> {
    steps.step(move |tx, _| mark_dead(tx, epoch)).await?;
    finish(steps, epoch, now, taken).await
}

async fn finish(
    steps: &impl TakeoverSteps,
    epoch: i64,
    now: Timestamp,
    taken: &mut TakenOver,
) -> Result<(), StoreError> {
    steps.fence(epoch).await?;
    let mut after = Some(DeliveryId::from_i64(i64::MIN));
    while let Some(from) = after {
        let swept = steps.step(move |tx, _| sweep(tx, epoch, from, now)).await?;
        taken.count += swept.count;
        for (queue, due) in swept.woken {
            let first = taken.newly_due.entry(queue).or_insert(due);
            *first = due.min(*first);
        }
        after = swept.next;
    }
    steps.step(move |tx, _| delete_node(tx, epoch, now)).await?;
    tracing::info!(epoch, deliveries = taken.count, "took over from a node");
    Ok(())
}

/// Marks a node dead if its lease is over; returns whether it is dead or gone altogether.
fn mark_dead_if_expired(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<bool> {
    if nodes::is_steady(tx, now)? {
        let sql = "UPDATE nodes SET dead = 1 WHERE epoch = ?1 AND dead = 0 AND lease_until < ?2";
        tx.execute(sql, params![epoch, now])?;
    }
    Ok(!tx.exists("SELECT EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1 AND dead = 0)", params![epoch])?)
}

/// Marks a node dead whose process is known to be gone.
fn mark_dead(tx: &dyn Sql, epoch: i64) -> Result<()> {
    tx.execute("UPDATE nodes SET dead = 1 WHERE epoch = ?1", params![epoch])?;
    Ok(())
}

/// Fences a node: its writers find no row to increment any more, and its slot is free for others. Waits for a batch that one
/// of them is committing.
pub(in crate::store) fn fence(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    let sql =
        "UPDATE writer_batches SET writer = -1 - writer, fenced_at = ?2 WHERE epoch = ?1 AND writer >= 0";
    tx.execute(sql, params![epoch, now])?;
    nodes::release_slot(tx, epoch)
}

/// Result of a sweep step.
struct SweepResult {
    count: usize,
    /// Where the next step starts; `None` when that was the last.
    next: Option<DeliveryId>,
    /// Endpoint queues in which something waits now.
    woken: NewlyDue,
}

/// Makes deliveries due that are in flight under this epoch, with an attempt "outcome unknown" each. No delivery is leased
/// under it after its writers were fenced.
fn sweep(tx: &dyn Sql, epoch: i64, after: DeliveryId, now: Timestamp) -> Result<SweepResult> {
    let sql = format!(
        "SELECT {DELIVERY} FROM deliveries d WHERE d.queue = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3"
    );
    let leased: Vec<Delivery> = tx.all(&sql, params![-epoch, after, SWEEP_STEP_ROWS], row::delivery)?;
    let is_last = (leased.len() as i64) < SWEEP_STEP_ROWS;
    let next = leased.last().map(|last| last.id).filter(|_| !is_last);
    let mut swept = SweepResult { count: 0, next, woken: NewlyDue::new() };
    let mut availabilities: HashMap<EndpointId, Availability> = HashMap::new();
    for mut delivery in leased {
        let availability = match availabilities.get(&delivery.endpoint) {
            Some(known) => *known,
            None => {
                *availabilities.entry(delivery.endpoint).or_insert(availability_of(tx, delivery.endpoint)?)
            }
        };
        let note = delivery.is_early_probe().then_some(EARLY_PROBE_NOTE);
        if delivery.take_over(availability, now).is_ok()
            && update_leased(tx, epoch, &mut delivery, now, &mut swept.woken)?
        {
            attempts::insert_unknown_outcome(tx, delivery.id, delivery.history_len, note, now)?;
            swept.count += 1;
            swept.woken.extend(
                delivery.due.filter(|_| delivery.state.is_waiting()).map(|due| (delivery.endpoint, due)),
            );
        }
    }
    Ok(swept)
}

/// Deletes a dead node: frees its shards and interrupts its inspections.
fn delete_node(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    inspections::interrupt(tx, epoch, now)?;
    shards::free(tx, epoch)?;
    tx.execute("DELETE FROM nodes WHERE epoch = ?1 AND dead = 1", params![epoch])?;
    Ok(())
}

/// Leaves the cluster: this process writes nothing more, and its deliveries in flight may be taken over at once.
pub(in crate::store) fn leave(tx: &dyn Sql, now: Timestamp) -> Result<()> {
    retire(tx, tx.epoch(), now)
}

/// Fences an epoch and marks its node dead, so that its deliveries in flight may be taken over.
pub(super) fn retire(tx: &dyn Sql, epoch: i64, now: Timestamp) -> Result<()> {
    // In this order, as every fencing does: two at once must not deadlock.
    fence(tx, epoch, now)?;
    mark_dead(tx, epoch)
}

/// Deletes this process's node, unless it still has a delivery in flight or a running inspection.
pub(in crate::store) fn delete_self(tx: &dyn Sql, now: Timestamp) -> Result<()> {
    let is_busy = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE queue = ?1)
         OR EXISTS (SELECT 1 FROM inspections WHERE state < 2 AND state = 1 AND epoch = ?2)";
    if tx.exists(is_busy, params![-tx.epoch(), tx.epoch()])? {
        Ok(())
    } else {
        delete_node(tx, tx.epoch(), now)
    }
}

/// Takes over all deliveries in flight of an earlier process, which is known to be dead before this one starts.
pub(super) fn take_over_all(tx: &dyn Sql, now: Timestamp) -> Result<usize> {
    let (mut count, mut after) = (0, Some(DeliveryId::from_i64(i64::MIN)));
    while let Some(from) = after {
        let swept = sweep(tx, tx.epoch(), from, now)?;
        count += swept.count;
        after = swept.next;
    }
    Ok(count)
}

//! Retention: finds events of which a part is due for removal, and removes it inside the writer's batch.
//!
//! A reader examines the events in order of their ids and returns ranges; the writer reads those again, because deliveries
//! change meanwhile, and does what the domain decides then.

use super::{
    Result, Sql,
    deliveries::{read_delivery, update_delivery},
    delivery_statements::NO_DATA,
    maintenance,
    ordering::NewlyDue,
    params,
    retention_delete::{self, ToDelete},
    retention_reader::RetentionReader,
    rollup,
};
use crate::{
    domain::{
        delivery::{Delivery, EndReason, TransitionError},
        event::TEST_EVENT_TYPE,
        id::{AppId, DeliveryId, EndpointId, EventId, made_at},
        retention::{
            DeliveryDecision, DeliveryFacts, EventDecision, EventFacts, RetentionDecision, RetentionPolicy,
            decide,
        },
        statistics::StatBatch,
        time::Timestamp,
    },
    store::retention::{ExpireResult, OverdueEvents, OverdueSearch},
};
use std::{collections::BTreeSet, time::Duration};

/// Rows that one step changes, so that other commands wait only a few milliseconds.
const STEP_ROWS: usize = 1000;
/// So many bytes of a payload count as a row.
const BYTES_PER_ROW: usize = 16 * 1024;
/// How far apart in time the first and the last event of a range may be.
const SPAN_MAX: Duration = Duration::from_secs(10);

/// An event with its deliveries, with the fields that retention needs.
pub(super) struct EventWithDeliveries {
    pub(super) id: EventId,
    pub(super) facts: EventFacts,
    pub(super) data_bytes: usize,
    pub(super) dedup: Option<Vec<u8>>,
    pub(super) deliveries: Vec<DeliveryToCheck>,
}

pub(super) struct DeliveryToCheck {
    pub(super) id: DeliveryId,
    pub(super) facts: DeliveryFacts,
}

impl EventWithDeliveries {
    fn fate(&self, now: Timestamp) -> RetentionDecision {
        let deliveries: Vec<_> = self.deliveries.iter().map(|delivery| delivery.facts).collect();
        decide(&self.facts, &deliveries, now)
    }

    /// About how many rows its removal costs.
    fn rows(&self) -> usize {
        1 + 2 * self.deliveries.len() + self.data_bytes / BYTES_PER_ROW
    }
}

pub(in crate::store) fn overdue(
    connection: &dyn Sql,
    search: &OverdueSearch,
    keeps: &dyn RetentionPolicy,
    now: Timestamp,
) -> Result<OverdueEvents> {
    let mut reader = RetentionReader::new(connection, keeps);
    let page = reader.read(search.after_id, search.to_id, search.most)?;
    let mut overdue = OverdueEvents {
        ranges: Vec::new(),
        reached: page.reached.unwrap_or(search.after_id),
        is_last: page.examined < search.most,
    };
    // Rows of the last range, while the next event may join it.
    let mut open_rows = None;
    for found in &page.found {
        if !has_work(connection, found, &found.fate(now))? {
            open_rows = None;
            continue;
        }
        let (id, rows) = (found.id.as_i64(), found.rows());
        match (overdue.ranges.last_mut(), open_rows) {
            (Some(range), Some(before)) if before + rows <= STEP_ROWS && is_near(range.0, id) => {
                range.1 = id;
                open_rows = Some(before + rows);
            }
            _ => {
                overdue.ranges.push((id, id));
                open_rows = Some(rows);
            }
        }
    }
    Ok(overdue)
}

/// Whether two events may share a range. The writer reads all ids of the range, with replays of other events that were made
/// then.
fn is_near(first: i64, last: i64) -> bool {
    made_at(last).since(made_at(first)) <= SPAN_MAX
}

/// Whether anything is left to remove. Whether a history is gone already is looked up only where that decides.
fn has_work(connection: &dyn Sql, found: &EventWithDeliveries, fate: &RetentionDecision) -> Result<bool> {
    let is_done =
        |fate: DeliveryDecision| matches!(fate, DeliveryDecision::Stays | DeliveryDecision::LosesHistory);
    if fate.event != EventDecision::Stays || !fate.deliveries.iter().all(|fate| is_done(*fate)) {
        return Ok(true);
    }
    let has_history = "SELECT EXISTS (SELECT 1 FROM attempts WHERE delivery = ?1)";
    for (delivery, fate) in found.deliveries.iter().zip(&fate.deliveries) {
        if *fate == DeliveryDecision::LosesHistory && connection.exists(has_history, params![delivery.id])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Endpoints of which deliveries ended.
pub(super) type ChangedEndpoints = BTreeSet<(AppId, EndpointId)>;

pub(in crate::store) fn expire(
    tx: &dyn Sql,
    ranges: &[(i64, i64)],
    keeps: &dyn RetentionPolicy,
    now: Timestamp,
) -> Result<(ExpireResult, (NewlyDue, ChangedEndpoints))> {
    maintenance::remember_newest_id(tx)?;
    let mut reader = RetentionReader::new(tx, keeps);
    let (mut step, mut rows) = (
        RemovalStep {
            expired: ExpireResult::default(),
            newly_due: NewlyDue::new(),
            changed: ChangedEndpoints::new(),
            counted: StatBatch::default(),
            to_delete: ToDelete::default(),
            now,
        },
        0,
    );
    for (index, &(first, last)) in ranges.iter().enumerate() {
        // The next range may be as large as a step.
        if rows > STEP_ROWS / 2 {
            step.expired.remaining.extend(&ranges[index..]);
            break;
        }
        for found in reader.read(first - 1, last + 1, u32::MAX)?.found {
            rows += found.rows();
            let (id, fate) = (found.id.as_i64(), found.fate(now));
            if !step.carry_out(tx, found, &fate)? {
                step.expired.remaining.push((id, id));
            }
        }
    }
    let removed = step.to_delete.remove(tx, now, &mut step.newly_due)?;
    step.expired.events += removed.events;
    step.expired.deliveries += removed.deliveries;
    step.expired.attempts += removed.attempts;
    rollup::log(tx, &step.counted)?;
    Ok((step.expired, (step.newly_due, step.changed)))
}

/// Progress of a removal step.
struct RemovalStep {
    expired: ExpireResult,
    newly_due: NewlyDue,
    changed: ChangedEndpoints,
    counted: StatBatch,
    to_delete: ToDelete,
    now: Timestamp,
}

impl RemovalStep {
    /// Carries out the decision on one event; `false` if that is too much for one step and something is left.
    fn carry_out(
        &mut self,
        tx: &dyn Sql,
        found: EventWithDeliveries,
        fate: &RetentionDecision,
    ) -> Result<bool> {
        if fate.event == EventDecision::Goes {
            return Ok(self.remove(found));
        }
        let mut is_needed = false;
        let done =
            |expired: &ExpireResult| expired.ended.len() as u64 + expired.deliveries + expired.attempts;
        let before = done(&self.expired);
        for (delivery, fate) in found.deliveries.iter().zip(&fate.deliveries) {
            if done(&self.expired) - before >= STEP_ROWS as u64 {
                return Ok(false);
            }
            match fate {
                // A delivery goes only with its event, which is removed as a whole.
                DeliveryDecision::Stays | DeliveryDecision::Goes => {}
                DeliveryDecision::LosesHistory => self.expired.attempts += remove_attempts(tx, delivery.id)?,
                DeliveryDecision::Closes => {
                    self.expired.attempts += remove_attempts(tx, delivery.id)?;
                    self.change(tx, delivery.id, Delivery::close)?;
                }
                DeliveryDecision::Ends => {
                    let now = self.now;
                    if let Some(ended) =
                        self.change(tx, delivery.id, |delivery| delivery.expire_by_retention(now))?
                    {
                        self.expired.ended.push((ended.id, ended.endpoint));
                        self.changed.insert((ended.app, ended.endpoint));
                        self.count(tx, &ended)?;
                    } else {
                        // Another node has just leased it to send it.
                        is_needed = true;
                    }
                }
            }
        }
        if fate.event == EventDecision::LosesData && !is_needed {
            let sql = "UPDATE events SET data = ?2 WHERE id = ?1";
            self.expired.payloads += tx.execute(sql, params![found.id, NO_DATA])? as u64;
        }
        Ok(true)
    }

    fn change(
        &mut self,
        tx: &dyn Sql,
        id: DeliveryId,
        change: impl FnOnce(&mut Delivery) -> Result<(), TransitionError>,
    ) -> Result<Option<Delivery>> {
        let Some(mut delivery) = read_delivery(tx, id)? else { return Ok(None) };
        let from = delivery.state;
        let is_done = change(&mut delivery).is_ok()
            && update_delivery(tx, from, &mut delivery, self.now, &mut self.newly_due)?;
        Ok(is_done.then_some(delivery))
    }

    /// Counts an ended delivery. One that had ended before a manual extra attempt was counted then.
    fn count(&mut self, tx: &dyn Sql, ended: &Delivery) -> Result<()> {
        if ended.reason != Some(EndReason::Retention) {
            return Ok(());
        }
        tx.each("SELECT type FROM events WHERE id = ?1", params![ended.event], |row| {
            let event_type: &str = row.get(0)?;
            if event_type != TEST_EVENT_TYPE {
                self.counted
                    .entry(ended.app, Some(ended.endpoint), event_type, self.now)
                    .add_end(ended.state, false);
            }
            Ok(())
        })
    }

    /// The event goes last: as long as it exists, so does one of its deliveries, which says how long it is kept.
    fn remove(&mut self, found: EventWithDeliveries) -> bool {
        let is_too_much = found.deliveries.len() > STEP_ROWS;
        let most = if is_too_much { STEP_ROWS } else { found.deliveries.len() };
        self.to_delete
            .deliveries
            .extend(found.deliveries.iter().rev().take(most).map(|delivery| delivery.id));
        if !is_too_much {
            self.to_delete.events.push((found.id, found.dedup));
        }
        !is_too_much
    }
}

fn remove_attempts(tx: &dyn Sql, delivery: DeliveryId) -> Result<u64> {
    retention_delete::delete(tx, "attempts", "delivery", &[delivery])
}

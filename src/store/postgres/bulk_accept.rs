//! Events of a batch that are accepted together, with their deliveries: one statement, and one before it for their dedup
//! keys.

use super::{
    columns::{ColumnRows, ColumnTypes},
    sql::Transaction,
};
use crate::{
    domain::{delivery::Delivery, event::DedupKey, id::EventId},
    store::{
        deliveries::NewEvent,
        sql::{BulkOp, Command, EVENT, Result, WriterId, event_row, params, queue_column},
    },
};
use std::{collections::HashSet, sync::LazyLock};

const EVENTS: ColumnTypes = ColumnTypes("nnttnntnnbb");
const DELIVERIES: ColumnTypes = ColumnTypes("nnnnnnnn");
const KEYS: ColumnTypes = ColumnTypes("bnb");

pub(super) static ACCEPT: LazyLock<String> = LazyLock::new(|| {
    let [events, deliveries] = accepting("", 1);
    format!("WITH published AS ({events}) {deliveries}")
});

/// Number of parameters for events and deliveries, and for their keys.
pub(super) const ACCEPT_PARAMS: usize = EVENTS.0.len() + DELIVERIES.0.len();
pub(super) const CLAIM_PARAMS: usize = KEYS.0.len();

/// SQL that stores events and their deliveries, from the parameters from `first` on, if `given` has a row.
pub(super) fn accepting(given: &str, first: usize) -> [String; 2] {
    let (events, deliveries) = (EVENTS.unnest(first), DELIVERIES.unnest(first + EVENTS.0.len()));
    [
        format!("INSERT INTO events ({EVENT}) SELECT published.* FROM {given}{events} AS published"),
        format!(
            "INSERT INTO deliveries_open (id, app, event, endpoint, state, queue, due, give_up_at, retry_index, attempt_count, history_len, due_action)
             SELECT fresh.*, 0, 0, 0, 0 FROM {given}{deliveries} AS fresh"
        ),
    ]
}

/// SQL that stores dedup keys, in the order of the keys, so that two nodes with the same ones do not deadlock. It waits for a
/// transaction that is just storing one.
pub(super) fn claiming(given: &str, first: usize) -> String {
    let claimed = KEYS.unnest(first);
    format!(
        "INSERT INTO dedup (key, event, fingerprint) SELECT claimed.*
         FROM {given}{claimed} AS claimed (key, event, fingerprint) ORDER BY claimed.key"
    )
}

pub(super) static CLAIM: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT DO NOTHING", claiming("", 1)));

/// SQL for the events that did not get all of their keys; the keys that they got are freed.
static LOST: LazyLock<String> = LazyLock::new(|| {
    let rows = KEYS.unnest(1);
    format!(
        "WITH lost AS (
             SELECT DISTINCT claimed.event FROM {rows} AS claimed (key, event, fingerprint) WHERE NOT EXISTS (
                 SELECT 1 FROM dedup d WHERE d.key = claimed.key AND d.event = claimed.event)),
         freed AS (
             DELETE FROM dedup d USING {rows} AS claimed (key, event, fingerprint), lost
             WHERE lost.event = claimed.event AND d.key = claimed.key AND d.event = claimed.event)
         SELECT event FROM lost"
    )
});

/// Position of an event: its command in the batch, and its index in that.
type EventPosition = (usize, usize);

#[derive(Default)]
pub(super) struct BulkAccept {
    gathered: Vec<EventPosition>,
    keys: HashSet<DedupKey>,
}

impl BulkAccept {
    /// Whether an event collected before has one of its keys: then that has to be stored first.
    pub(super) fn has_any_key(&self, new: &NewEvent) -> bool {
        new.dedup.iter().any(|key| self.keys.contains(key))
    }

    pub(super) fn push(&mut self, at: EventPosition, new: &NewEvent) {
        self.keys.extend(&new.dedup);
        self.gathered.push(at);
    }

    /// Returns the keys of all collected events, to be stored first; `None` if they have none.
    pub(super) fn claims(&self, batch: &mut [Box<dyn Command>]) -> Result<Option<ColumnRows>> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let mut claims = ColumnRows::new(KEYS);
        each(batch, &self.gathered, &mut |new| {
            new.dedup.iter().try_for_each(|key| claims.push(params![key.0, new.event.id, new.fingerprint.0]))
        })?;
        Ok(Some(claims))
    }

    /// Returns the rows to be written by this writer, without events that did not get their keys. `None` if there are none.
    pub(super) fn new_rows(
        &self,
        writer_id: WriterId,
        batch: &mut [Box<dyn Command>],
        lost: &HashSet<EventId>,
    ) -> Result<Option<NewEventRows>> {
        let mut accepted =
            NewEventRows { events: ColumnRows::new(EVENTS), deliveries: ColumnRows::new(DELIVERIES) };
        each(batch, &self.gathered, &mut |new| {
            if lost.contains(&new.event.id) { Ok(()) } else { accepted.push(writer_id, new) }
        })?;
        Ok((accepted.events.len() > 0).then_some(accepted))
    }

    /// Accepts, one by one, the events that did not get their keys: another event has a key by now, and is found by it.
    pub(super) fn accept_lost(
        &mut self,
        tx: &Transaction<'_>,
        batch: &mut [Box<dyn Command>],
        lost: &HashSet<EventId>,
    ) -> Result<()> {
        self.keys.clear();
        for (index, event) in std::mem::take(&mut self.gathered) {
            if let BulkOp::Accept(accept) = batch[index].bulk_op()
                && lost.contains(&accept.event(event).event.id)
            {
                accept.apply_one(tx, event)?;
            }
        }
        Ok(())
    }
}

/// Events with their deliveries, as rows.
pub(super) struct NewEventRows {
    events: ColumnRows,
    deliveries: ColumnRows,
}

impl NewEventRows {
    fn push(&mut self, writer_id: WriterId, new: &NewEvent) -> Result<()> {
        writer_id.check_id(new.event.id.as_i64())?;
        event_row(&new.event, &new.dedup, &mut |row| self.events.push(row))?;
        new.deliveries.iter().map(|new_delivery| &new_delivery.delivery).try_for_each(|delivery| {
            let Delivery { id, app, event, endpoint, state, due, give_up_at, .. } = delivery;
            let queue = queue_column(delivery, writer_id.epoch);
            self.deliveries.push(params![id, app, event, endpoint, state, queue, due, give_up_at])
        })
    }

    pub(super) fn rows(&self) -> [&ColumnRows; 2] {
        [&self.events, &self.deliveries]
    }
}

/// Returns the events that did not get all of their keys, if fewer keys were stored than claimed.
pub(super) fn events_without_keys(
    tx: &Transaction<'_>,
    claims: &ColumnRows,
    stored: usize,
) -> Result<HashSet<EventId>> {
    if stored == claims.len() {
        return Ok(HashSet::new());
    }
    tx.read_rows(&LOST, &[], &[claims], |row| row.get(0))
}

fn each(
    batch: &mut [Box<dyn Command>],
    gathered: &[EventPosition],
    with: &mut dyn FnMut(&NewEvent) -> Result<()>,
) -> Result<()> {
    for (index, event) in gathered {
        if let BulkOp::Accept(accept) = batch[*index].bulk_op() {
            with(accept.event(*event))?;
        }
    }
    Ok(())
}

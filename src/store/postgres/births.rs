//! Events of a batch that are accepted together, with their deliveries: one statement, and one before it for the keys by which
//! they are known again.

use super::{
    columns::{Rows, Shape},
    sql::Transaction,
};
use crate::{
    domain::{delivery::Delivery, event::DedupKey, id::EventId},
    store::{
        ledger::NewEvent,
        sql::{EVENT, Hot, Result, Sql, Work, event_row, lane, params},
    },
};
use std::{collections::HashSet, sync::LazyLock};

const EVENTS: Shape = Shape("nnttnntnnbb");
const DELIVERIES: Shape = Shape("nnnnnnnn");
const KEYS: Shape = Shape("bnb");

static ACCEPT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH published AS (INSERT INTO events ({EVENT}) SELECT * FROM {})
         INSERT INTO live (id, app, event, endpoint, state, lane, due, give_up_at, place, attempt_count, history_len, at_due)
         SELECT id, app, event, endpoint, state, lane, due, give_up_at, 0, 0, 0, 0
         FROM {} AS born (id, app, event, endpoint, state, lane, due, give_up_at)",
        EVENTS.unnest(1),
        DELIVERIES.unnest(1 + EVENTS.0.len())
    )
});

/// In the order of the keys, so that two nodes with the same ones do not wait for each other.
static CLAIM: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO dedup (key, event, fingerprint) SELECT key, event, fingerprint
         FROM {} AS claimed (key, event, fingerprint) ORDER BY key ON CONFLICT DO NOTHING",
        KEYS.unnest(1)
    )
});

/// The events that did not get all of their keys; those that they got are free again.
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

/// Where an event is: its command in the batch, and its place in that.
type At = (usize, usize);

#[derive(Default)]
pub(super) struct Births {
    gathered: Vec<At>,
    keys: HashSet<DedupKey>,
}

impl Births {
    /// Whether one of those before it is known by the same: then that has to be stored first.
    pub(super) fn has_any_key(&self, new: &NewEvent) -> bool {
        new.dedup.iter().any(|key| self.keys.contains(key))
    }

    pub(super) fn push(&mut self, at: At, new: &NewEvent) {
        self.keys.extend(&new.dedup);
        self.gathered.push(at);
    }

    pub(super) fn write(&mut self, tx: &Transaction<'_>, batch: &mut [Box<dyn Work>]) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() {
            return Ok(());
        }
        let lost = if self.keys.is_empty() { HashSet::new() } else { claim(tx, batch, &gathered)? };
        self.keys.clear();
        let (mut events, mut deliveries) = (Rows::new(EVENTS), Rows::new(DELIVERIES));
        each(batch, &gathered, &mut |new| {
            if lost.contains(&new.event.id) {
                return Ok(());
            }
            tx.owns(new.event.id.as_i64())?;
            event_row(&new.event, &new.dedup, &mut |row| events.push(row))?;
            new.births.iter().map(|birth| &birth.delivery).try_for_each(|delivery| {
                let Delivery { id, app, event, endpoint, state, due, give_up_at, .. } = delivery;
                let lane = lane(delivery, tx.epoch());
                deliveries.push(params![id, app, event, endpoint, state, lane, due, give_up_at])
            })
        })?;
        if events.len() > 0 {
            tx.write_rows(&ACCEPT, &[], &[&events, &deliveries])?;
        }
        for (place, event) in gathered {
            if let Hot::Accept(accept) = batch[place].hot()
                && lost.contains(&accept.event(event).event.id)
            {
                // Somebody has a key of it by now, and is found by that.
                accept.apply_one(tx, event)?;
            }
        }
        Ok(())
    }
}

/// Stores the keys of all these; answers which events did not get theirs. Waits for whoever is just storing one.
fn claim(tx: &Transaction<'_>, batch: &mut [Box<dyn Work>], gathered: &[At]) -> Result<HashSet<EventId>> {
    let mut keys = Rows::new(KEYS);
    each(batch, gathered, &mut |new| {
        new.dedup.iter().try_for_each(|key| keys.push(params![key.0, new.event.id, new.fingerprint.0]))
    })?;
    if tx.write_rows(&CLAIM, &[], &[&keys])? == keys.len() {
        return Ok(HashSet::new());
    }
    tx.read_rows(&LOST, &[], &[&keys], |row| row.get(0))
}

fn each(
    batch: &mut [Box<dyn Work>],
    gathered: &[At],
    with: &mut dyn FnMut(&NewEvent) -> Result<()>,
) -> Result<()> {
    for (place, event) in gathered {
        if let Hot::Accept(accept) = batch[*place].hot() {
            with(accept.event(*event))?;
        }
    }
    Ok(())
}

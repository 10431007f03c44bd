//! Retention: finds events of which a part is due for removal, and removes it inside the writer's batch.
//!
//! A reader examines the events in order of their ids and returns ranges; the writer reads those again, because deliveries
//! change meanwhile, and does what the domain decides then.

use super::{
    Error, Result, Row, Sql, cluster,
    deliveries::{read_delivery, update_delivery},
    ledger::NO_DATA,
    order::Woken,
    params,
    removal::{self, Gone},
    rollup, row,
};
use crate::{
    domain::{
        contract::{Contract, ContractHash, Keep},
        delivery::{Delivery, Reason, Refusal, ReturnTo, State},
        event::TEST_EVENT_TYPE,
        id::{AppId, DeliveryId, EndpointId, EventId, made_at},
        retention::{DeliveryFacts, DeliveryFate, EventFacts, EventFate, Fate, Keeps, decide},
        statistics::Batch,
        time::Timestamp,
    },
    store::retention::{Expired, Overdue, OverdueSearch},
};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// Rows that one step changes, so that other commands wait only a few milliseconds.
const STEP_ROWS: usize = 1000;
/// So many bytes of a payload count as a row.
const BYTES_PER_ROW: usize = 16 * 1024;
/// How far apart in time the first and the last event of a range may be.
const SPAN_MAX: Duration = Duration::from_secs(10);
/// How far above their event's id the ids of its first deliveries reach.
const FIRST_DELIVERIES: i64 = 65_535;

/// An event with its deliveries, with the fields that retention needs.
struct Found {
    id: EventId,
    facts: EventFacts,
    data_bytes: usize,
    dedup: Option<Vec<u8>>,
    deliveries: Vec<FoundDelivery>,
}

struct FoundDelivery {
    id: DeliveryId,
    facts: DeliveryFacts,
}

impl Found {
    fn fate(&self, now: Timestamp) -> Fate {
        let deliveries: Vec<_> = self.deliveries.iter().map(|delivery| delivery.facts).collect();
        decide(&self.facts, &deliveries, now)
    }

    /// About how many rows its removal costs.
    fn rows(&self) -> usize {
        1 + 2 * self.deliveries.len() + self.data_bytes / BYTES_PER_ROW
    }
}

pub(super) fn overdue(
    connection: &dyn Sql,
    search: &OverdueSearch,
    keeps: &dyn Keeps,
    now: Timestamp,
) -> Result<Overdue> {
    let mut reader = Reader { connection, keeps, dead_letters: HashMap::new() };
    let page = reader.read(search.after_id, search.to_id, search.most)?;
    let mut overdue = Overdue {
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
fn has_work(connection: &dyn Sql, found: &Found, fate: &Fate) -> Result<bool> {
    let is_done = |fate: DeliveryFate| matches!(fate, DeliveryFate::Stays | DeliveryFate::LosesHistory);
    if fate.event != EventFate::Stays || !fate.deliveries.iter().all(|fate| is_done(*fate)) {
        return Ok(true);
    }
    let has_history = "SELECT EXISTS (SELECT 1 FROM attempts WHERE delivery = ?1)";
    for (delivery, fate) in found.deliveries.iter().zip(&fate.deliveries) {
        if *fate == DeliveryFate::LosesHistory && connection.exists(has_history, params![delivery.id])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Endpoints of which deliveries ended.
pub(super) type Changed = BTreeSet<(AppId, EndpointId)>;

pub(super) fn expire(
    tx: &dyn Sql,
    ranges: &[(i64, i64)],
    keeps: &dyn Keeps,
    now: Timestamp,
) -> Result<(Expired, (Woken, Changed))> {
    cluster::remember_newest_id(tx)?;
    let mut reader = Reader { connection: tx, keeps, dead_letters: HashMap::new() };
    let (mut step, mut rows) = (
        Step {
            expired: Expired::default(),
            woken: Woken::new(),
            changed: Changed::new(),
            counted: Batch::default(),
            gone: Gone::default(),
            now,
        },
        0,
    );
    for (place, &(first, last)) in ranges.iter().enumerate() {
        // The next range may be as large as a step.
        if rows > STEP_ROWS / 2 {
            step.expired.left.extend(&ranges[place..]);
            break;
        }
        for found in reader.read(first - 1, last + 1, u32::MAX)?.found {
            rows += found.rows();
            let (id, fate) = (found.id.as_i64(), found.fate(now));
            if !step.carry_out(tx, found, &fate)? {
                step.expired.left.push((id, id));
            }
        }
    }
    let removed = step.gone.remove(tx, now, &mut step.woken)?;
    step.expired.events += removed.events;
    step.expired.deliveries += removed.deliveries;
    step.expired.attempts += removed.attempts;
    rollup::log(tx, &step.counted)?;
    Ok((step.expired, (step.woken, step.changed)))
}

/// AttemptProgress of a removal step.
struct Step {
    expired: Expired,
    woken: Woken,
    changed: Changed,
    counted: Batch,
    gone: Gone,
    now: Timestamp,
}

impl Step {
    /// Carries out the decision on one event; `false` if that is too much for one step and something is left.
    fn carry_out(&mut self, tx: &dyn Sql, found: Found, fate: &Fate) -> Result<bool> {
        if fate.event == EventFate::Goes {
            return Ok(self.remove(found));
        }
        let mut is_needed = false;
        let done = |expired: &Expired| expired.ended.len() as u64 + expired.deliveries + expired.attempts;
        let before = done(&self.expired);
        for (delivery, fate) in found.deliveries.iter().zip(&fate.deliveries) {
            if done(&self.expired) - before >= STEP_ROWS as u64 {
                return Ok(false);
            }
            match fate {
                // A delivery goes only with its event, which is removed as a whole.
                DeliveryFate::Stays | DeliveryFate::Goes => {}
                DeliveryFate::LosesHistory => self.expired.attempts += remove_attempts(tx, delivery.id)?,
                DeliveryFate::Closes => {
                    self.expired.attempts += remove_attempts(tx, delivery.id)?;
                    self.change(tx, delivery.id, Delivery::close)?;
                }
                DeliveryFate::Ends => {
                    let now = self.now;
                    if let Some(ended) = self.change(tx, delivery.id, |delivery| delivery.outlive(now))? {
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
        if fate.event == EventFate::LosesData && !is_needed {
            let sql = "UPDATE events SET data = ?2 WHERE id = ?1";
            self.expired.payloads += tx.execute(sql, params![found.id, NO_DATA])? as u64;
        }
        Ok(true)
    }

    fn change(
        &mut self,
        tx: &dyn Sql,
        id: DeliveryId,
        change: impl FnOnce(&mut Delivery) -> Result<(), Refusal>,
    ) -> Result<Option<Delivery>> {
        let Some(mut delivery) = read_delivery(tx, id)? else { return Ok(None) };
        let from = delivery.state;
        let is_done = change(&mut delivery).is_ok()
            && update_delivery(tx, from, &mut delivery, self.now, &mut self.woken)?;
        Ok(is_done.then_some(delivery))
    }

    /// Counts an ended delivery. One that had ended before a manual extra attempt was counted then.
    fn count(&mut self, tx: &dyn Sql, ended: &Delivery) -> Result<()> {
        if ended.reason != Some(Reason::Retention) {
            return Ok(());
        }
        tx.each("SELECT type FROM events WHERE id = ?1", params![ended.event], |row| {
            let event_type: &str = row.get(0)?;
            if event_type != TEST_EVENT_TYPE {
                self.counted
                    .of(ended.app, Some(ended.endpoint), event_type, self.now)
                    .end(ended.state, false);
            }
            Ok(())
        })
    }

    /// The event goes last: as long as it exists, so does one of its deliveries, which says how long it is kept.
    fn remove(&mut self, found: Found) -> bool {
        let is_too_much = found.deliveries.len() > STEP_ROWS;
        let most = if is_too_much { STEP_ROWS } else { found.deliveries.len() };
        self.gone.deliveries.extend(found.deliveries.iter().rev().take(most).map(|delivery| delivery.id));
        if !is_too_much {
            self.gone.events.push((found.id, found.dedup));
        }
        !is_too_much
    }
}

fn remove_attempts(tx: &dyn Sql, delivery: DeliveryId) -> Result<u64> {
    removal::delete(tx, "attempts", "delivery", &[delivery])
}

/// Events read from a range of ids.
struct Read {
    found: Vec<Found>,
    examined: u32,
    reached: Option<i64>,
}

struct Reader<'a> {
    connection: &'a dyn Sql,
    keeps: &'a dyn Keeps,
    /// Retention of dead letters by the contracts they died under, by contract hash.
    dead_letters: HashMap<[u8; 16], Option<Keep>>,
}

impl Reader<'_> {
    /// Reads events between the two ids with all their deliveries. Leaves out those of deleted apps.
    fn read(&mut self, after_id: i64, to_id: i64, most: u32) -> Result<Read> {
        let mut read = Read { found: Vec::new(), examined: 0, reached: None };
        let sql =
            "SELECT id, app, accepted_at, deliver_at, external_id IS NOT NULL, dedup, length(data) FROM events
             WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3";
        self.connection.each(sql, params![after_id, to_id, most], |row| {
            read.examined += 1;
            read.reached = Some(row.get(0)?);
            read.found.extend(self.event(row)?);
            Ok(())
        })?;
        if let (Some(first), Some(last)) = (read.found.first(), read.found.last()) {
            let (first, last) = (first.id.as_i64(), last.id.as_i64());
            self.add_deliveries(&mut read.found, first, last)?;
        }
        Ok(read)
    }

    fn event(&self, row: &Row<'_>) -> Result<Option<Found>> {
        let Some(keep) = self.keeps.of_app(row.get(1)?) else { return Ok(None) };
        let (has_given_id, dedup): (bool, Option<Vec<u8>>) = (row.get(4)?, row.get(5)?);
        let keys = dedup.as_ref().map_or(0, |keys| keys.len() / 16);
        let data_bytes = row.get::<u32>(6)? as usize;
        let facts = EventFacts {
            accepted_at: row.get(2)?,
            deliver_at: row.get(3)?,
            has_data: data_bytes > 0,
            has_idempotency_key: keys > usize::from(has_given_id),
            keep,
        };
        Ok(Some(Found { id: row.get(0)?, facts, data_bytes, dedup, deliveries: Vec::new() }))
    }

    /// The first deliveries of an event are a range of ids; later ones have an index of their own.
    fn add_deliveries(&mut self, found: &mut [Found], first: i64, last: i64) -> Result<()> {
        const COLUMNS: &str =
            "id, event, endpoint, state, reason, history_len, finished_at, restarted_at, return_to";
        let at_first = format!(
            "SELECT {COLUMNS} FROM deliveries
             WHERE id > ?1 AND id <= CAST(?2 AS bigint) + {FIRST_DELIVERIES} AND id <= event + {FIRST_DELIVERIES}
                 AND event >= ?1 AND event <= ?2 ORDER BY id"
        );
        let later = format!(
            "SELECT {COLUMNS} FROM deliveries INDEXED BY deliveries_later
             WHERE id > event + {FIRST_DELIVERIES} AND event >= ?1 AND event <= ?2"
        );
        let connection = self.connection;
        for sql in [at_first, later] {
            connection.each(&sql, params![first, last], |row| {
                let event: EventId = row.get(1)?;
                if let Ok(place) = found.binary_search_by_key(&event, |found| found.id) {
                    let delivery = self.delivery(row, &found[place])?;
                    found[place].deliveries.push(delivery);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn delivery(&mut self, row: &Row<'_>, event: &Found) -> Result<FoundDelivery> {
        let (id, endpoint): (DeliveryId, EndpointId) = (row.get(0)?, row.get(2)?);
        let (state, is_closed) = (row.get(3)?, row.get::<Option<Reason>>(4)? == Some(Reason::Closed));
        let is_later = id.as_i64() > event.id.as_i64() + FIRST_DELIVERIES;
        let mut keep = self.keeps.of_endpoint(endpoint).unwrap_or(event.facts.keep);
        if state == State::Dead && !is_closed {
            keep.dead_letters = self.dead_letters_of(id)?.unwrap_or(keep.dead_letters);
        }
        let restarted_at: Option<Timestamp> = row.get(7)?;
        let back = row.get::<Option<&str>>(8)?.map(row::read_return_to).transpose()?;
        let is_letter = |back: &ReturnTo| back.state == State::Dead && back.reason != Some(Reason::Closed);
        let facts = DeliveryFacts {
            state,
            is_closed,
            returns_to_dead: back.as_ref().is_some_and(is_letter),
            restarted_at: restarted_at.or(is_later.then(|| made_at(id.as_i64()))),
            finished_at: row.get(6)?,
            has_history: row.get::<u32>(5)? > 0,
            keep,
        };
        Ok(FoundDelivery { id, facts })
    }

    /// Returns how long a dead letter is kept, as decided by the contract of its last attempt, if there was one.
    fn dead_letters_of(&mut self, delivery: DeliveryId) -> Result<Option<Keep>> {
        let hash = self.connection.one(
            "SELECT contract FROM attempts WHERE delivery = ?1 AND contract IS NOT NULL
             ORDER BY position DESC LIMIT 1",
            params![delivery],
            |row| row.get::<[u8; 16]>(0),
        )?;
        let Some(hash) = hash else { return Ok(None) };
        if let Some(known) = self.dead_letters.get(&hash) {
            return Ok(*known);
        }
        let document =
            self.connection.one("SELECT document FROM contracts WHERE hash = ?1", params![hash], |row| {
                row.get::<String>(0)
            })?;
        let contract = document.map(|document| Contract::from_json(&document)).transpose();
        let contract =
            contract.map_err(|error| Error::Wrong(format!("contract {}: {error}", ContractHash(hash))))?;
        let keep = contract.map(|contract| contract.retention.dead_letters);
        self.dead_letters.insert(hash, keep);
        Ok(keep)
    }
}

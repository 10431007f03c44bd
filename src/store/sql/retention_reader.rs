//! Reads the events of a range with their deliveries, and how long each part is kept.

use super::{
    Error, Result, Row, Sql, params,
    retention::{DeliveryToCheck, EventWithDeliveries},
    row,
};
use crate::domain::{
    contract::{Contract, ContractHash, RetentionPeriod},
    delivery::{DeliveryState, EndReason, SavedState},
    id::{DeliveryId, EndpointId, EventId, made_at},
    retention::{DeliveryFacts, EventFacts, RetentionPolicy},
    time::Timestamp,
};
use std::collections::HashMap;

/// How far above their event's id the ids of its first deliveries reach.
const FIRST_DELIVERIES: i64 = 65_535;

/// Events read from a range of ids.
pub(super) struct EventPage {
    pub(super) found: Vec<EventWithDeliveries>,
    pub(super) examined: u32,
    pub(super) reached: Option<i64>,
}

pub(super) struct RetentionReader<'a> {
    connection: &'a dyn Sql,
    keeps: &'a dyn RetentionPolicy,
    /// Retention of dead letters by the contracts they died under, by contract hash.
    dead_letters: HashMap<[u8; 16], Option<RetentionPeriod>>,
}

impl<'a> RetentionReader<'a> {
    pub(super) fn new(connection: &'a dyn Sql, keeps: &'a dyn RetentionPolicy) -> Self {
        Self { connection, keeps, dead_letters: HashMap::new() }
    }

    /// Reads events between the two ids with all their deliveries. Leaves out those of deleted apps.
    pub(super) fn read(&mut self, after_id: i64, to_id: i64, most: u32) -> Result<EventPage> {
        let mut read = EventPage { found: Vec::new(), examined: 0, reached: None };
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

    fn event(&self, row: &Row<'_>) -> Result<Option<EventWithDeliveries>> {
        let Some(keep) = self.keeps.for_app(row.get(1)?) else { return Ok(None) };
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
        Ok(Some(EventWithDeliveries { id: row.get(0)?, facts, data_bytes, dedup, deliveries: Vec::new() }))
    }

    /// The first deliveries of an event are a range of ids; later ones have an index of their own.
    fn add_deliveries(&mut self, found: &mut [EventWithDeliveries], first: i64, last: i64) -> Result<()> {
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
                if let Ok(index) = found.binary_search_by_key(&event, |found| found.id) {
                    let delivery = self.delivery(row, &found[index])?;
                    found[index].deliveries.push(delivery);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn delivery(&mut self, row: &Row<'_>, event: &EventWithDeliveries) -> Result<DeliveryToCheck> {
        let (id, endpoint): (DeliveryId, EndpointId) = (row.get(0)?, row.get(2)?);
        let (state, is_closed) = (row.get(3)?, row.get::<Option<EndReason>>(4)? == Some(EndReason::Closed));
        let is_later = id.as_i64() > event.id.as_i64() + FIRST_DELIVERIES;
        let mut keep = self.keeps.for_endpoint(endpoint).unwrap_or(event.facts.keep);
        if state == DeliveryState::Dead && !is_closed {
            keep.dead_letters = self.dead_letter_retention(id)?.unwrap_or(keep.dead_letters);
        }
        let restarted_at: Option<Timestamp> = row.get(7)?;
        let back = row.get::<Option<&str>>(8)?.map(row::read_saved_state).transpose()?;
        let is_letter =
            |back: &SavedState| back.state == DeliveryState::Dead && back.reason != Some(EndReason::Closed);
        let facts = DeliveryFacts {
            state,
            is_closed,
            returns_to_dead: back.as_ref().is_some_and(is_letter),
            restarted_at: restarted_at.or(is_later.then(|| made_at(id.as_i64()))),
            finished_at: row.get(6)?,
            has_history: row.get::<u32>(5)? > 0,
            keep,
        };
        Ok(DeliveryToCheck { id, facts })
    }

    /// Returns how long a dead letter is kept, as decided by the contract of its last attempt, if there was one.
    fn dead_letter_retention(&mut self, delivery: DeliveryId) -> Result<Option<RetentionPeriod>> {
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

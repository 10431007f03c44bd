//! Order: which endpoints keep it, which events have keys, and the file's notes of when deliveries ended.
//!
//! Drawn from a random generator of its own, so that stories without order stay as they are.

use crate::{
    plan::{AvailabilityAction, AvailabilityPlan, EndpointPlan, EventPlan, Moments, pick},
    simulation_env::SimulationEnv,
};
use fastrand::Rng;
use posthaste::domain::{
    id::DeliveryId,
    ordering::{OnDead, OrderingMode},
    time::Timestamp,
};
use rusqlite::Connection;

/// Gives some endpoints an order and the events keys, and plans changes of what dead deliveries block.
pub(crate) fn plan(
    seed: u64,
    endpoints: &mut [EndpointPlan],
    events: &mut [EventPlan],
    near: &Moments,
) -> Vec<AvailabilityPlan> {
    let mut rng = Rng::with_seed(seed ^ 0x6f72_6465);
    if rng.u8(0..3) > 0 {
        return Vec::new();
    }
    for event in events {
        event.key = pick(&mut rng, &[None, Some("a"), Some("a"), Some("b"), Some("c")]);
    }
    let mut availability_changes = Vec::new();
    for (number, endpoint) in endpoints.iter_mut().enumerate() {
        endpoint.ordered = pick(
            &mut rng,
            &[OrderingMode::None, OrderingMode::Endpoint, OrderingMode::Key, OrderingMode::Key],
        );
        if endpoint.ordered.is_none() {
            continue;
        }
        endpoint.on_dead = pick(&mut rng, &[None, Some(OnDead::Block), Some(OnDead::Skip)]);
        if endpoint.on_dead != Some(OnDead::Skip) && rng.u8(0..3) == 0 {
            let (at, kind) = (near.one(&mut rng), AvailabilityAction::Skip);
            availability_changes.push(AvailabilityPlan { at, endpoint: number, kind });
        }
    }
    availability_changes
}

/// Lets the file note when a delivery ended, was closed or was removed.
pub(crate) fn watch(disk: &Connection) {
    disk.execute_batch(
        "CREATE TABLE IF NOT EXISTS ends (delivery INTEGER NOT NULL, state INTEGER NOT NULL, is_closed INTEGER NOT NULL, at INTEGER NOT NULL);
         CREATE TRIGGER IF NOT EXISTS note_end AFTER UPDATE OF state, reason ON deliveries
         WHEN new.state >= 4 AND (old.state <> new.state OR old.reason IS NOT new.reason)
         BEGIN INSERT INTO ends SELECT new.id, new.state, new.reason IS 4, c.at FROM archive_clock c; END;
         CREATE TRIGGER IF NOT EXISTS note_created_ended AFTER INSERT ON deliveries WHEN new.state >= 4
         BEGIN INSERT INTO ends SELECT new.id, new.state, 0, c.at FROM archive_clock c; END;
         CREATE TRIGGER IF NOT EXISTS note_gone AFTER DELETE ON deliveries
         BEGIN INSERT INTO ends SELECT old.id, old.state, 1, c.at FROM archive_clock c; END;",
    )
    .unwrap();
}

/// A note of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndNote {
    pub(crate) delivery: DeliveryId,
    pub(crate) is_dead: bool,
    /// Dead and no longer replayable: closed or removed.
    pub(crate) is_closed: bool,
    pub(crate) at: Timestamp,
}

pub(crate) fn notes(disk: &Connection) -> Vec<EndNote> {
    let mut rows = disk.prepare("SELECT delivery, state, is_closed, at FROM ends ORDER BY rowid").unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let is_dead = row.get::<_, u8>(1)? == 5;
        let delivery = row.get(0).map(DeliveryId::from_i64)?;
        let at = row.get(3).map(Timestamp::from_millis)?;
        Ok(EndNote { delivery, is_dead, is_closed: row.get(2)?, at })
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

/// Counts ordering groups without a head, or with more than one: there must be none in the file at any time.
pub(crate) fn groups_without_head(disk: &Connection) -> i64 {
    disk.query_row(
        "SELECT count(*) FROM (SELECT sum(due IS NOT 253402300799000) AS firsts FROM deliveries
             WHERE ordering_key IS NOT NULL GROUP BY endpoint, ordering_key HAVING firsts <> 1)",
        [],
        |row| row.get(0),
    )
    .unwrap()
}

/// Returns the earliest time at which a publish of this event was tried first.
pub(crate) fn called_at(event: &EventPlan) -> Timestamp {
    SimulationEnv::instant(event.at)
}

//! Bulk replays: which are begun, changed and cancelled, and the file's notes of each delivery they sent again.
//!
//! The file itself takes notes, by triggers: a note exists if and only if its commit does, whatever was killed when.

use crate::{
    actors::{ADMIN, APP, CALL_TIMEOUT, wait_for_service},
    event_log::{ActionAnswer, ActionFact, EventLog},
    plan::{ActionKind, DAY, HOUR, MINUTE, Moments, SECOND, pick},
    simulation_env::SimulationEnv,
};
use fastrand::Rng;
use posthaste::{
    domain::{
        delivery::Delivery,
        id::{AppId, DeliveryId, EndpointId, EventId, made_at},
        replay::ReplayState,
        time::Timestamp,
    },
    service::{Error, replays::NewReplay},
};
use rusqlite::Connection;
use std::{sync::Arc, time::Duration};

/// Plan of a bulk replay, which is perhaps paused, resumed or cancelled after a while.
#[derive(Clone, Debug)]
pub(crate) struct BulkPlan {
    pub(crate) at: i64,
    /// Number of an endpoint of the plan; absent: all.
    endpoint: Option<usize>,
    is_backfill: bool,
    states: &'static [&'static str],
    per_second: u32,
    changes: &'static [(i64, ReplayState)],
}

const STATES: [&[&str]; 4] = [
    &["dead"],
    &["dead", "cancelled", "expired"],
    &["delivered"],
    &["dead", "delivered", "cancelled", "expired"],
];
const CHANGES: [&[(i64, ReplayState)]; 4] = [
    &[],
    &[],
    &[(2 * SECOND, ReplayState::Paused), (HOUR, ReplayState::Running)],
    &[(3 * SECOND, ReplayState::Cancelled)],
];

pub(crate) fn plans(seed: u64, near: &Moments, endpoints: usize) -> Vec<BulkPlan> {
    // A random generator of its own, so that the rest of the story does not depend on whether there are replays.
    let mut rng = Rng::with_seed(seed ^ 0x6275_6c6b);
    let count = pick(&mut rng, &[0, 0, 1, 1, 2, 3]);
    let late = [SECOND, MINUTE, HOUR, DAY];
    let one = |_| {
        let is_backfill = rng.u8(0..4) == 0;
        BulkPlan {
            at: near.one(&mut rng) + pick(&mut rng, &late),
            endpoint: (is_backfill || rng.bool()).then(|| rng.usize(0..endpoints)),
            is_backfill,
            states: pick(&mut rng, &STATES),
            per_second: pick(&mut rng, &[1, 1, 3, 100]),
            changes: pick(&mut rng, &CHANGES),
        }
    };
    (0..count).map(one).collect()
}

/// Begins the replay once, and changes it as planned if its id was answered.
pub(crate) async fn send_again(env: Arc<SimulationEnv>, plan: BulkPlan) {
    let Some(access) = env.access() else { return };
    let Ok(entry) = access.service.app(ADMIN, APP) else { return };
    let uid = plan.endpoint.map(|endpoint| env.plan.endpoints[endpoint].uid.clone());
    let states = plan.states.iter().map(|state| (*state).to_owned()).collect();
    let mut new = NewReplay { per_second: Some(plan.per_second), ..NewReplay::default() };
    let replay = match (plan.is_backfill, uid) {
        (true, Some(uid)) => access.service.backfill_of(&entry, &uid, &new),
        (_, uid) => {
            (new.endpoint, new.states) = (uid, Some(states));
            access.service.replay_of(&entry, &new)
        }
    };
    // The endpoint may be gone, the disk in trouble, the process dead.
    let Ok(replay) = replay else { return };
    let Ok(begun) = access.service.begin_replay(ADMIN, &entry, replay).await else { return };
    for (after, to) in plan.changes {
        tokio::time::sleep(Duration::from_millis(*after as u64)).await;
        change(&env, &begun.replay.id.to_string(), *to).await;
    }
}

/// Changes a replay, repeated until it is known to be done, or to be too late.
async fn change(env: &SimulationEnv, id: &str, to: ReplayState) {
    loop {
        let access = wait_for_service(env).await;
        let entry = access.service.app(ADMIN, APP).unwrap();
        let done = access.service.change_replay(ADMIN, &entry, id, to).await;
        if !env.is_dead(access.life) && matches!(done, Ok(_) | Err(Error::Conflict(_) | Error::NotFound(_))) {
            return;
        }
        tokio::time::sleep(CALL_TIMEOUT).await;
    }
}

/// Lets the file note what is sent again: terminal deliveries that are reset, and new ones that did not come with an event.
pub(crate) fn watch(disk: &Connection) {
    disk.execute_batch(
        "CREATE TABLE IF NOT EXISTS sent_again (delivery INTEGER NOT NULL, is_made INTEGER NOT NULL, asked_at INTEGER NOT NULL, due INTEGER NOT NULL, history_len INTEGER NOT NULL);
         CREATE TRIGGER IF NOT EXISTS note_restarted AFTER UPDATE OF state ON deliveries
         WHEN old.state >= 5 AND new.state IN (0, 3) AND new.return_to IS NULL
         BEGIN INSERT INTO sent_again VALUES (new.id, 0, new.restarted_at, max(ifnull(new.held_at, 0), ifnull(new.due, 0)), new.history_len); END;
         CREATE TRIGGER IF NOT EXISTS note_made AFTER INSERT ON deliveries WHEN new.id > new.event + 65535
         BEGIN INSERT INTO sent_again VALUES (new.id, 1, 0, max(ifnull(new.held_at, 0), ifnull(new.due, 0)), 0); END;",
    )
    .unwrap();
}

/// A note of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayNote {
    pub(crate) delivery: DeliveryId,
    /// A new delivery; otherwise a terminal one that was reset.
    pub(crate) is_made: bool,
    asked_at: Timestamp,
    due: Timestamp,
    history_len: u32,
}

pub(crate) fn notes(disk: &Connection) -> Vec<ReplayNote> {
    let sql = "SELECT delivery, is_made, asked_at, due, history_len FROM sent_again ORDER BY rowid";
    let mut rows = disk.prepare(sql).unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let (delivery, is_made) = (row.get(0).map(DeliveryId::from_i64)?, row.get(1)?);
        // The id of a new one tells when it was made.
        let asked_at =
            if is_made { made_at(delivery.as_i64()) } else { row.get(2).map(Timestamp::from_millis)? };
        let due = row.get(3).map(Timestamp::from_millis)?;
        Ok(ReplayNote { delivery, is_made, asked_at, due, history_len: row.get(4)? })
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

impl ReplayNote {
    /// Whether this is the answer to a request for just this delivery.
    pub(crate) fn is_answered_by(&self, ask: &ActionFact) -> bool {
        match &ask.said {
            ActionAnswer::Made(made) => self.is_made && made.id == self.delivery,
            ActionAnswer::Done(after) => {
                ask.kind == ActionKind::Replay
                    && !self.is_made
                    && ask.delivery == self.delivery
                    && after.history_len == self.history_len
                    && (ask.called_at..=ask.answered_at).contains(&self.asked_at)
            }
            ActionAnswer::Refused | ActionAnswer::Unknown => false,
        }
    }

    /// Returns the answer to a request for this delivery alone.
    fn as_ask(&self) -> ActionFact {
        let nobody = (AppId::from_i64(0), EventId::from_i64(0), EndpointId::from_i64(0));
        let new = Delivery::new(self.delivery, nobody.0, nobody.1, nobody.2, self.due, None);
        let after = Delivery { history_len: self.history_len, ..new };
        let said = if self.is_made { ActionAnswer::Made(after) } else { ActionAnswer::Done(after) };
        let (delivery, kind) = (self.delivery, ActionKind::Replay);
        let (called_at, answered_at) = (self.asked_at, self.asked_at.max(self.due));
        ActionFact { delivery, is_manual: false, kind, called_at, answered_at, said }
    }
}

/// Adds the effects of bulk replays to the journal, so that the checker follows each delivery through them.
pub(crate) fn add_to_log(event_log: &mut EventLog, disk: &Connection) {
    let untold = |note: &ReplayNote| !event_log.asks.iter().any(|ask| note.is_answered_by(ask));
    let added: Vec<ActionFact> =
        notes(disk).iter().filter(|note| untold(note)).map(ReplayNote::as_ask).collect();
    event_log.asks.extend(added);
    event_log.asks.sort_by_key(|ask| ask.answered_at);
}

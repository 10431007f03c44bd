//! Bulk replays: each ends, reports truly how many deliveries it sent again, and takes no source twice.

use super::evidence::{DeliveryFile, Evidence};
use crate::{
    bulk_replays,
    event_log::{ActionAnswer, Promise, Violation},
    plan::ActionKind,
};
use posthaste::domain::{
    delivery::DeliveryState,
    id::{DeliveryId, EndpointId},
    replay::{ReplaySelection, ReplayState},
};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// A replay as the store has it in the end.
struct ReplayRow {
    id: i64,
    state: ReplayState,
    selection: ReplaySelection,
    to_id: i64,
    replayed: usize,
}

impl ReplayRow {
    /// Whether the delivery may have been one of its sources.
    fn means(&self, file: &DeliveryFile<'_>, endpoint: EndpointId, was_delivered: bool) -> bool {
        let states = self.selection.states();
        file.id.as_i64() < self.to_id
            && self.selection.endpoint().is_none_or(|meant| meant == endpoint)
            && states.iter().any(|state| (*state == DeliveryState::Delivered) == was_delivered)
    }
}

pub(crate) fn check(evidence: &Evidence<'_>, disk: &Connection, violations: &mut Vec<Violation>) -> usize {
    let rows = read(disk);
    let mut complain = |promise, what: String| violations.push(Violation { promise, what });
    for row in rows.iter().filter(|row| row.state == ReplayState::Running) {
        complain(Promise::Stuck, format!("replay {} never ended", row.id));
    }
    let wishes = |said: fn(&ActionAnswer) -> bool| {
        let asks = evidence.event_log.asks.iter();
        asks.filter(move |ask| ask.is_manual && ask.kind == ActionKind::Replay && said(&ask.said))
    };
    let (notified, unknown) = (
        wishes(|said| matches!(said, ActionAnswer::Made(_) | ActionAnswer::Done(_))).count(),
        wishes(|said| matches!(said, ActionAnswer::Unknown)).count(),
    );
    let notes = bulk_replays::notes(disk);
    let replayed: usize = rows.iter().map(|row| row.replayed).sum();
    let expected = replayed + notified..=replayed + notified + unknown;
    if !expected.contains(&notes.len()) {
        let what =
            format!("{} were sent again, and the replays and people know of {expected:?}", notes.len());
        complain(Promise::Replay, what);
    }
    let mut taken: BTreeMap<(DeliveryId, bool), usize> = BTreeMap::new();
    for note in &notes {
        let source = evidence.file(note.delivery).and_then(|file| file.replay_of);
        match (note.is_made, source) {
            (true, None) => violations.extend(check_backfill(evidence, note.delivery)),
            (_, source) => {
                *taken.entry((source.unwrap_or(note.delivery), note.is_made)).or_default() += 1;
            }
        }
    }
    for ((source, was_delivered), times) in taken {
        let Some(file) = evidence.file(source) else { continue };
        let endpoint = evidence.event_log.endpoints[file.receiver];
        let by_wish =
            wishes(|said| !matches!(said, ActionAnswer::Refused)).filter(|ask| ask.delivery == source);
        let by_replay = rows.iter().filter(|row| row.means(file, endpoint, was_delivered));
        if times > by_wish.count() + by_replay.count() {
            let what = format!("{source} was sent again {times} times");
            violations.push(Violation { promise: Promise::Replay, what });
        }
    }
    replayed
}

/// A backfill brings an endpoint events of which it had no delivery.
fn check_backfill(evidence: &Evidence<'_>, delivery: DeliveryId) -> Option<Violation> {
    let file = evidence.file(delivery)?;
    let same = |other: &&DeliveryFile<'_>| {
        other.event == file.event && other.receiver == file.receiver && other.replay_of.is_none()
    };
    let count = evidence.files.iter().filter(same).count();
    (count > 1).then(|| file.complain(Promise::Replay, format!("one of {count} of the same event")))
}

fn read(disk: &Connection) -> Vec<ReplayRow> {
    let mut rows = disk.prepare("SELECT id, state, to_id, replayed, selection FROM replays").unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let state = ReplayState::ALL[row.get::<_, u8>(1)? as usize];
        let selection = serde_json::from_str(&row.get::<_, String>(4)?).unwrap();
        Ok(ReplayRow {
            selection,
            id: row.get(0)?,
            state,
            to_id: row.get(2)?,
            replayed: row.get::<_, i64>(3)? as usize,
        })
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

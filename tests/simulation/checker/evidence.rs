//! All evidence of the checker, put in order: a file for each delivery, and the facts about each endpoint.

use super::{availability::AvailabilityHistory, excuses::Excuses, health};
use crate::{
    event_log::{ActionAnswer, ActionFact, EventLog, ProcessEnd, Promise, Violation},
    network::SeenRequest,
    plan::{ActionKind, Plan},
};
use posthaste::domain::{
    contract::{Contract, ResponseMeaning},
    delivery::{DeliveryState, EndReason},
    event::TEST_EVENT_TYPE,
    id::{DeliveryId, EndpointId, EventId},
    outcome::OutcomeClass,
    time::Timestamp,
};
use rusqlite::Connection;
use std::collections::BTreeMap;

pub(crate) struct Evidence<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) event_log: &'a EventLog,
    pub(crate) events: BTreeMap<EventId, EventRow>,
    pub(crate) files: Vec<DeliveryFile<'a>>,
    pub(crate) receivers: Vec<ReceiverFacts>,
}

#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) accepted_at: Timestamp,
    pub(crate) deliver_at: Option<Timestamp>,
    pub(crate) is_test: bool,
    /// As it was published.
    pub(crate) data: Vec<u8>,
    pub(crate) erased_at: Option<Timestamp>,
    pub(crate) gone_at: Option<Timestamp>,
}

/// Facts about one endpoint.
pub(crate) struct ReceiverFacts {
    pub(crate) contract: Contract,
    pub(crate) availability_changes: AvailabilityHistory,
    pub(crate) excuses: Excuses,
    pub(crate) is_disabled: bool,
    /// When a rule disabled it, and when its owner was warned.
    pub(crate) disabled_by_rule: Vec<Timestamp>,
    pub(crate) warned: Vec<Timestamp>,
}

/// Everything about one delivery.
#[derive(Debug)]
pub(crate) struct DeliveryFile<'a> {
    pub(crate) id: DeliveryId,
    pub(crate) event: EventId,
    pub(crate) receiver: usize,
    pub(crate) state: DeliveryState,
    pub(crate) reason: Option<EndReason>,
    pub(crate) attempt_count: u32,
    pub(crate) history_len: u32,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) replay_of: Option<DeliveryId>,
    pub(crate) rows: Vec<AttemptRow>,
    /// In the order they were made.
    pub(crate) posts: Vec<&'a SeenRequest>,
    pub(crate) asks: Vec<&'a ActionFact>,
    /// The answer that created this delivery, if it is the replay of a delivered one.
    pub(crate) made_by: Option<&'a ActionFact>,
    /// When the delivery was removed; all of this is as it was right before.
    pub(crate) gone_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) struct AttemptRow {
    pub(crate) position: u32,
    pub(crate) number: Option<u32>,
    pub(crate) started_at: Timestamp,
    pub(crate) class: OutcomeClass,
    pub(crate) status: Option<u16>,
    note: Option<String>,
    pub(crate) gone_at: Option<Timestamp>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) events: usize,
    pub(crate) deliveries: usize,
    pub(crate) delivered: usize,
    pub(crate) posts: usize,
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) duplicates: usize,
    /// Endpoints that rules disabled.
    pub(crate) disabled_by_rule: usize,
    /// Deliveries replayed in bulk.
    pub(crate) replayed: usize,
    /// Requests that a dead process never recorded, and lies: the most duplicates there may be.
    pub(crate) excused: usize,
    /// Deliveries that retention ended while they waited, and deliveries that it removed.
    pub(crate) outlived: usize,
    pub(crate) gone: usize,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.deliveries += other.deliveries;
        self.delivered += other.delivered;
        self.posts += other.posts;
        self.kills += other.kills;
        self.stops += other.stops;
        self.duplicates += other.duplicates;
        self.replayed += other.replayed;
        self.disabled_by_rule += other.disabled_by_rule;
        self.excused += other.excused;
        self.outlived += other.outlived;
        self.gone += other.gone;
    }
}

impl<'a> Evidence<'a> {
    pub(crate) fn read(plan: &'a Plan, event_log: &'a EventLog, disk: &Connection) -> Self {
        let (mut files, attempts) = (read_files(event_log, disk), read_attempts(disk));
        let places: BTreeMap<DeliveryId, usize> =
            files.iter().enumerate().map(|(n, file)| (file.id, n)).collect();
        for (delivery, row) in attempts {
            if let Some(&index) = places.get(&delivery) {
                files[index].rows.push(row);
            }
        }
        for post in &event_log.posts {
            if let Some(&index) = places.get(&post.attempt.delivery) {
                files[index].posts.push(post);
            }
        }
        for ask in &event_log.asks {
            if let Some(&index) = places.get(&ask.delivery) {
                files[index].asks.push(ask);
            }
            if let ActionAnswer::Made(made) = &ask.said
                && let Some(&index) = places.get(&made.id)
            {
                files[index].made_by = Some(ask);
            }
        }
        let mut evidence = Self { plan, event_log, events: read_events(disk), files, receivers: Vec::new() };
        evidence.receivers =
            (0..plan.endpoints.len()).map(|number| evidence.receiver(number, disk)).collect();
        evidence
    }

    fn receiver(&self, number: usize, disk: &Connection) -> ReceiverFacts {
        let contract = self.plan.endpoints[number].resolved();
        let id = self.event_log.endpoints[number];
        let is_disabled = "SELECT disabled IS NOT NULL FROM endpoints WHERE id = ?1 AND deleted_at IS NULL";
        let is_disabled = disk.query_row(is_disabled, [id.as_i64()], |row| row.get(0)).unwrap_or(false);
        let excuses = Excuses::of(self.plan, self.event_log, number, &contract);
        // A test says nothing about its endpoint, whatever the answer.
        let counts = |file: &&DeliveryFile<'_>| {
            file.receiver == number && !self.events.get(&file.event).is_some_and(|event| event.is_test)
        };
        let gone = self.files.iter().filter(counts).flat_map(|file| {
            file.rows
                .iter()
                .filter(|row| is_gone(&contract, row))
                .filter_map(|row| file.post_of(row).and_then(|post| post.ended_at))
        });
        let ruled_off = health::ruled_off(disk, id);
        let gone = gone.chain(ruled_off.iter().copied());
        let availability_changes = AvailabilityHistory::of(self.event_log, number, gone.collect(), &excuses);
        ReceiverFacts {
            contract,
            availability_changes,
            excuses,
            is_disabled,
            disabled_by_rule: ruled_off,
            warned: health::warned(disk, id),
        }
    }

    pub(crate) fn file(&self, delivery: DeliveryId) -> Option<&DeliveryFile<'a>> {
        self.files.iter().find(|file| file.id == delivery)
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures {
            events: self.events.len(),
            deliveries: self.files.len(),
            posts: self.event_log.posts.len(),
            disabled_by_rule: self.receivers.iter().map(|receiver| receiver.disabled_by_rule.len()).sum(),
            ..Figures::default()
        };
        let ended = |ending| self.event_log.lives.iter().filter(|life| life.ending == Some(ending)).count();
        (figures.kills, figures.stops) = (ended(ProcessEnd::Killed), ended(ProcessEnd::Stopped));
        for file in &self.files {
            figures.delivered += usize::from(file.state == DeliveryState::Delivered);
            figures.outlived += usize::from(file.reason == Some(EndReason::Retention));
            figures.gone += usize::from(file.gone_at.is_some());
            let done = file.posts.iter().filter(|post| post.done_at.is_some());
            figures.duplicates += done.clone().count().saturating_sub(1);
            figures.excused += done.filter(|post| !file.is_recorded_success(post)).count();
        }
        figures
    }
}

impl DeliveryFile<'_> {
    /// Returns the request that a row of the history is about.
    pub(crate) fn post_of(&self, row: &AttemptRow) -> Option<&SeenRequest> {
        let same =
            |post: &&&SeenRequest| post.attempt.position == row.position && post.started_at == row.started_at;
        self.posts.iter().find(same).copied()
    }

    /// Whether it is a dead letter that was neither replayed in time nor closed by a person.
    pub(crate) fn was_closed_by_retention(&self) -> bool {
        let manual =
            |ask: &&ActionFact| ask.kind == ActionKind::Close && !matches!(ask.said, ActionAnswer::Refused);
        self.reason == Some(EndReason::Closed) && !self.asks.iter().any(manual)
    }

    pub(crate) fn is_recorded_success(&self, post: &SeenRequest) -> bool {
        self.rows.iter().any(|row| {
            row.class == OutcomeClass::Ok
                && row.position == post.attempt.position
                && row.started_at == post.started_at
        })
    }

    pub(crate) fn complain(&self, promise: Promise, what: impl std::fmt::Display) -> Violation {
        Violation { promise, what: format!("{} to receiver-{}: {what}", self.id, self.receiver) }
    }
}

impl AttemptRow {
    /// Whether its note begins like this.
    pub(crate) fn has_note(&self, note: &str) -> bool {
        self.note.as_ref().is_some_and(|text| text.starts_with(note))
    }
}

fn is_gone(contract: &Contract, row: &AttemptRow) -> bool {
    row.class == OutcomeClass::Http
        && row
            .status
            .is_some_and(|status| contract.answers.meaning(status) == ResponseMeaning::DisableEndpoint)
}

/// Builds SQL for the rows that exist and, from the archive, those that were removed, with when that was.
fn with_gone(columns: &str, table: &str, order: &str) -> String {
    format!(
        "SELECT {columns}, NULL AS gone_at FROM {table} UNION ALL SELECT {columns}, gone_at FROM gone_{table} {order}"
    )
}

fn instant(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

fn read_files<'a>(event_log: &EventLog, disk: &Connection) -> Vec<DeliveryFile<'a>> {
    let columns = "id, event, endpoint, state, reason, attempt_count, history_len, finished_at, replay_of";
    let sql = &with_gone(columns, "deliveries", "ORDER BY 1");
    let mut rows = disk.prepare(sql).unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let endpoint = row.get(2).map(EndpointId::from_i64)?;
        Ok(DeliveryFile {
            id: row.get(0).map(DeliveryId::from_i64)?,
            event: row.get(1).map(EventId::from_i64)?,
            receiver: event_log.endpoints.iter().position(|known| *known == endpoint).unwrap(),
            state: DeliveryState::ALL[row.get::<_, u8>(3)? as usize],
            reason: row.get::<_, Option<u8>>(4)?.map(|number| EndReason::ALL[number as usize]),
            attempt_count: row.get(5)?,
            history_len: row.get(6)?,
            finished_at: instant(row, 7)?,
            replay_of: row.get::<_, Option<i64>>(8)?.map(DeliveryId::from_i64),
            rows: Vec::new(),
            posts: Vec::new(),
            asks: Vec::new(),
            made_by: None,
            gone_at: instant(row, 9)?,
        })
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

fn read_attempts(disk: &Connection) -> Vec<(DeliveryId, AttemptRow)> {
    let sql = &with_gone(
        "delivery, position, number, started_at, class, status, note",
        "attempts",
        "ORDER BY 1, 2",
    );
    let mut rows = disk.prepare(sql).unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let attempt = AttemptRow {
            position: row.get(1)?,
            number: row.get(2)?,
            started_at: row.get(3).map(Timestamp::from_millis)?,
            class: OutcomeClass::ALL[row.get::<_, u8>(4)? as usize],
            status: row.get(5)?,
            note: row.get(6)?,
            gone_at: instant(row, 7)?,
        };
        Ok((row.get(0).map(DeliveryId::from_i64)?, attempt))
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

fn read_events(disk: &Connection) -> BTreeMap<EventId, EventRow> {
    let columns = "id, accepted_at, deliver_at, type, (SELECT data FROM erased WHERE event = id),
        (SELECT at FROM erased WHERE event = id), data";
    let mut rows = disk.prepare(&with_gone(columns, "events", "")).unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let event = EventRow {
            accepted_at: row.get(1).map(Timestamp::from_millis)?,
            deliver_at: instant(row, 2)?,
            is_test: row.get::<_, String>(3)? == TEST_EVENT_TYPE,
            data: row.get::<_, Option<Vec<u8>>>(4)?.map_or_else(|| row.get(6), Ok)?,
            erased_at: instant(row, 5)?,
            gone_at: instant(row, 7)?,
        };
        Ok((row.get(0).map(EventId::from_i64)?, event))
    };
    rows.query_map([], read).unwrap().map(Result::unwrap).collect()
}

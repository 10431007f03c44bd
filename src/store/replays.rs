//! Replays: starting and changing them, the search for their sources, and the page of them that is sent at once.

use super::{
    Reply, Store,
    queries::{Cursor, Page},
    sql::{audit, replays},
};
use crate::domain::{
    audit::AuditEntry,
    config_cache::ConfigCache,
    contract::NoticeChannel,
    id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
    live_update::LiveUpdate,
    replay::{Replay, ReplaySelection, ReplayState},
    subscription::Patterns,
    time::Timestamp,
};
use std::collections::{BTreeSet, HashSet};

/// A search for the next sources of a replay.
#[derive(Clone, Debug)]
pub struct SourceSearch {
    pub app: AppId,
    pub selection: ReplaySelection,
    /// The app's endpoints: a deleted one gets nothing.
    pub endpoints: HashSet<EndpointId>,
    /// For a backfill: what its endpoint subscribes to.
    pub patterns: Option<Patterns>,
    /// Only ids larger than this are examined.
    pub after_id: i64,
    /// Only ids smaller than this are examined.
    pub to_id: i64,
}

impl SourceSearch {
    /// Search for the remaining sources of a replay.
    pub fn of(replay: &Replay, config_cache: &ConfigCache) -> Self {
        let subscriber = match &replay.selection {
            ReplaySelection::Deliveries(_) => None,
            ReplaySelection::Backfill(_) => {
                replay.selection.endpoint().and_then(|id| config_cache.endpoint(id))
            }
        };
        Self {
            app: replay.app,
            selection: replay.selection.clone(),
            endpoints: config_cache
                .app_by_id(replay.app)
                .map(|entry| entry.endpoints().iter().map(|endpoint| endpoint.id()).collect())
                .unwrap_or_default(),
            patterns: subscriber.map(|endpoint| endpoint.patterns.clone()),
            // No record of an app is older than the app itself.
            after_id: replay.reached.max(replay.app.as_i64()),
            to_id: replay.to_id,
        }
    }
}

/// Sources found by a search, in order of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Deliveries, or for a backfill events, with the endpoint each is for.
    pub found: Vec<(i64, EndpointId)>,
    /// Every id up to this was examined.
    pub reached: i64,
    /// There are no more sources beyond `reached`.
    pub is_last: bool,
}

impl Sources {
    /// Keeps the first `most`; a later search finds the rest.
    pub fn truncate(&mut self, most: usize) {
        if self.found.len() > most {
            self.found.truncate(most);
            self.reached = self.found.last().map_or(self.reached, |(id, _)| *id);
            self.is_last = false;
        }
    }
}

/// A source of a replay, with the fields that sending it again needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySource {
    pub id: ReplaySourceId,
    /// The id of the delivery that this may make.
    pub new_id: DeliveryId,
    pub give_up_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaySourceId {
    Delivery(DeliveryId),
    Event(EventId),
}

/// A page of a replay: applied as a whole or not at all.
#[derive(Clone, Debug)]
pub struct ReplayPage {
    pub replay: ReplayId,
    /// How far the replay was when the page was made; if it has moved since, the page is not applied.
    pub after_id: i64,
    pub sources: Vec<ReplaySource>,
    pub reached: i64,
    pub is_last: bool,
    /// How a notice of its end is sent.
    pub notify_channel: NoticeChannel,
}

/// Result of a request to pause, resume or cancel a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayChanged {
    Done(Replay),
    /// The replay is in this state already.
    Unchanged(Replay),
    /// The replay has ended already.
    Ended(Replay),
    Absent,
}

impl Store {
    /// Stores a replay, which runs from then on. The engines of other nodes are notified after the commit.
    pub fn start_replay(&self, replay: Replay, entry: Option<AuditEntry>) -> Reply<()> {
        let update = LiveUpdate::replay(&replay);
        self.backend.write_then(
            move |tx| audit::write_if_changed(tx, entry.as_ref(), replays::start(tx, &replay)?),
            move |(), after| {
                after.replays_wait = true;
                after.publish([update]);
            },
        )
    }

    /// Sends a page of sources again and advances the replay, in one transaction; the commit listener wakes the endpoint
    /// queues. `None`, and nothing done, if the replay is not running or has moved since.
    pub fn advance_replay(&self, page: ReplayPage, now: Timestamp) -> Reply<Option<Replay>> {
        let reply = self.backend.write_then(
            move |tx| replays::advance(tx, &page, now),
            |(replay, waiting), after| {
                after.publish(replay.iter().map(LiveUpdate::replay));
                let endpoints: BTreeSet<EndpointId> = waiting.iter().map(|(endpoint, _)| *endpoint).collect();
                for app in replay.iter().map(|replay| replay.app) {
                    after.publish(endpoints.iter().map(|endpoint| LiveUpdate::deliveries(app, *endpoint)));
                }
                after.waiting.extend(waiting);
            },
        );
        Box::pin(async move { reply.await.map(|(replay, _)| replay) })
    }

    /// Pauses, resumes or cancels, as `to` says.
    pub fn change_replay(
        &self,
        app: AppId,
        replay: ReplayId,
        to: ReplayState,
        now: Timestamp,
        entry: Option<AuditEntry>,
    ) -> Reply<ReplayChanged> {
        self.backend.write_then(
            move |tx| audit::write_if_changed(tx, entry.as_ref(), replays::change(tx, app, replay, to, now)?),
            |changed, after| {
                after.replays_wait = true;
                if let ReplayChanged::Done(replay) = changed {
                    after.publish([LiveUpdate::replay(replay)]);
                }
            },
        )
    }

    /// The next sources of a replay, at most `most`; examines a bounded number of rows.
    pub fn replay_sources(&self, search: SourceSearch, most: usize) -> Reply<Sources> {
        self.backend.read_for_engine(move |connection| replays::sources(connection, &search, most))
    }

    /// Counts the sources of a replay, for people: as many as one query examines, without blocking the engine.
    pub fn count_sources(&self, search: SourceSearch) -> Reply<Sources> {
        self.backend.read(move |connection| replays::sources(connection, &search, usize::MAX))
    }

    /// Lists the replays of an app, newest first.
    pub fn replays(&self, app: AppId, after: Option<Cursor>, limit: u32) -> Reply<Page<Replay>> {
        self.backend.read(move |connection| replays::list(connection, app, after, limit))
    }

    /// Returns a replay of the app.
    pub fn replay(&self, app: AppId, replay: ReplayId) -> Reply<Option<Replay>> {
        self.backend.read(move |connection| replays::one(connection, app, replay))
    }

    /// Returns every running replay.
    pub fn running_replays(&self) -> Reply<Vec<Replay>> {
        self.backend.read_for_engine(replays::running)
    }
}

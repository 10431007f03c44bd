//! What the seams say about replays: where their sources are found, and how a page of them is done.

use crate::domain::{
    contract::Channel,
    directory::Directory,
    id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
    replay::{Replay, Selection},
    subscription::Patterns,
    time::Timestamp,
};
use std::collections::HashSet;

/// A search for the next sources of a replay.
#[derive(Clone, Debug)]
pub struct SourceSearch {
    pub app: AppId,
    pub selection: Selection,
    /// Those of the app: nothing can be sent to one that is gone.
    pub endpoints: HashSet<EndpointId>,
    /// For a backfill: what its endpoint subscribes to.
    pub patterns: Option<Patterns>,
    /// Only larger ids than this are looked at,
    pub after_id: i64,
    /// and only smaller ones than this.
    pub to_id: i64,
}

impl SourceSearch {
    /// What is left of a replay.
    pub fn of(replay: &Replay, directory: &Directory) -> Self {
        let subscriber = match &replay.selection {
            Selection::Deliveries(_) => None,
            Selection::Backfill(_) => replay.selection.endpoint().and_then(|id| directory.endpoint(id)),
        };
        Self {
            app: replay.app,
            selection: replay.selection.clone(),
            endpoints: directory
                .app_by_id(replay.app)
                .map(|entry| entry.endpoints().iter().map(|endpoint| endpoint.id()).collect())
                .unwrap_or_default(),
            patterns: subscriber.map(|endpoint| endpoint.patterns.clone()),
            // Nothing of an app is older than the app itself.
            after_id: replay.reached.max(replay.app.as_i64()),
            to_id: replay.to_id,
        }
    }
}

/// What a search found, in order of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Deliveries, or for a backfill events, with the endpoint each is for.
    pub found: Vec<(i64, EndpointId)>,
    /// Everything up to this id was looked at.
    pub reached: i64,
    /// There is nothing beyond.
    pub is_last: bool,
}

impl Sources {
    /// Leaves the first of them; what comes after is for another time.
    pub fn cut(&mut self, most: usize) {
        if self.found.len() > most {
            self.found.truncate(most);
            self.reached = self.found.last().map_or(self.reached, |(id, _)| *id);
            self.is_last = false;
        }
    }
}

/// One source, with what sending it again needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub what: SourceId,
    /// The id of the delivery that this may make.
    pub as_new: DeliveryId,
    pub give_up_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceId {
    Delivery(DeliveryId),
    Event(EventId),
}

/// A page of a replay: done as a whole or not at all.
#[derive(Clone, Debug)]
pub struct ReplayPage {
    pub replay: ReplayId,
    /// How far it was when the page was put together: if that is no longer so, nothing is done.
    pub after_id: i64,
    pub sources: Vec<Source>,
    pub reached: i64,
    pub is_last: bool,
    /// How people hear of the end.
    pub told_by: Channel,
}

/// What came of asking for a replay to be paused, resumed or cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayChanged {
    Done(Replay),
    /// It is so already.
    Unchanged(Replay),
    /// It is over already.
    Over(Replay),
    Absent,
}

//! Replays: the search for their sources, and the page of them that is sent at once.

use crate::domain::{
    contract::NoticeChannel,
    endpoint::Endpoint,
    id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
    replay::{Replay, ReplaySelection},
    subscription::Patterns,
    time::Timestamp,
};
use std::{collections::HashSet, sync::Arc};

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
    /// Search for the remaining sources of a replay. `endpoints` are those of its app.
    pub fn of(replay: &Replay, endpoints: &[Arc<Endpoint>]) -> Self {
        let subscriber = match &replay.selection {
            ReplaySelection::Deliveries(_) => None,
            ReplaySelection::Backfill(_) => {
                let wanted = replay.selection.endpoint();
                endpoints.iter().find(|endpoint| Some(endpoint.id()) == wanted)
            }
        };
        Self {
            app: replay.app,
            selection: replay.selection.clone(),
            endpoints: endpoints.iter().map(|endpoint| endpoint.id()).collect(),
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

//! Brings replays forward: a page now and then, as fast as each may go, and never more than half of what a lane can carry,
//! so that fresh events keep finding free hands.

use super::lanes::Lanes;
use crate::{
    domain::{
        directory::Directory,
        id::{DeliveryId, EndpointId, EventId, Ids},
        replay::{Replay, Selection},
        storage::Storage,
        time::Timestamp,
    },
    store::{
        Browse, Cluster, Ledger, StoreError,
        replays::{ReplayPage, Source, SourceId, SourceSearch, Sources},
    },
    world::{Clock, Shutdown},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

const PAGE_MAX: usize = 64;
/// Before a lane without room is asked again.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(10);
/// After a store error, and while there is no room for more.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Replayer {
    pub(super) lanes: Arc<Lanes>,
    pub(super) directory: Arc<Directory>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) browse: Arc<dyn Browse>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Ids,
    /// Rung when a replay was begun, resumed, paused or cancelled.
    pub(super) asked: Arc<Notify>,
    pub(super) storage: Arc<Storage>,
    pub(super) under_way: Vec<UnderWay>,
}

/// A replay that proceeds, and when its next page may go.
pub(super) struct UnderWay {
    replay: Replay,
    next_at: Timestamp,
}

impl Replayer {
    pub(super) async fn run(mut self, stop: Shutdown) {
        // A page is one transaction: stopping between two of them leaves nothing half done.
        tokio::select! {
            biased;
            () = stop.soft() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let mut is_stale = true;
        loop {
            if is_stale && let Err(error) = self.look_again().await {
                tracing::warn!(%error, "could not look for replays");
                self.clock.sleep_until(self.clock.now().plus(PAUSE)).await;
                continue;
            }
            let come_back = self.step().await;
            is_stale = tokio::select! {
                biased;
                () = self.asked.notified() => true,
                () = self.sleep_until(come_back) => false,
            };
        }
    }

    /// Forever if there is nothing to come back for.
    async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => self.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// What the store says is under way; those that were known keep their pace.
    async fn look_again(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let known = std::mem::take(&mut self.under_way);
        let next_at = |replay: &Replay| {
            known.iter().find(|one| one.replay.id == replay.id).map_or(now, |one| one.next_at)
        };
        let running = self.cluster.running_replays().await?;
        self.under_way =
            running.into_iter().map(|replay| UnderWay { next_at: next_at(&replay), replay }).collect();
        Ok(())
    }

    /// One page for each replay whose turn it is; says when the next turn comes.
    pub(super) async fn step(&mut self) -> Option<Timestamp> {
        let mut going_on = Vec::with_capacity(self.under_way.len());
        for mut one in std::mem::take(&mut self.under_way) {
            let now = self.clock.now();
            if now < one.next_at {
                going_on.push(one);
                continue;
            }
            match self.proceed(&one.replay, now).await {
                Ok(None) => {}
                Ok(Some((replay, next_at))) => going_on.push(UnderWay { replay, next_at }),
                Err(error) => {
                    tracing::warn!(%error, replay = %one.replay.id, "a replay could not proceed");
                    one.next_at = now.plus(PAUSE);
                    going_on.push(one);
                }
            }
        }
        self.under_way = going_on;
        self.under_way.iter().map(|one| one.next_at).min()
    }

    /// The replay after one page and when the next may go; `None` when it is not to go on.
    async fn proceed(
        &self,
        replay: &Replay,
        now: Timestamp,
    ) -> Result<Option<(Replay, Timestamp)>, StoreError> {
        // What was begun goes on by itself once there is room again.
        if self.storage.refusal().is_some() {
            return Ok(Some((replay.clone(), now.plus(PAUSE))));
        }
        let most = self.room(replay).min(PAGE_MAX).min(replay.per_second as usize);
        if most == 0 {
            return Ok(Some((replay.clone(), now.plus(NO_ROOM_PAUSE))));
        }
        let sources = self.browse.replay_sources(SourceSearch::of(replay, &self.directory), most).await?;
        let count = sources.found.len() as u32;
        let Some(replay) = self.ledger.proceed(self.page(replay, sources, now), now).await? else {
            return Ok(None);
        };
        let took = Duration::from_secs(1).saturating_mul(count) / replay.per_second.max(1);
        // Even a page without sources leaves the others their turn.
        let next_at = now.plus(took.max(Duration::from_millis(1)));
        Ok((!replay.state.is_over()).then_some((replay, next_at)))
    }

    /// How many more deliveries the lanes of this replay can take, the fullest of them counting.
    fn room(&self, replay: &Replay) -> usize {
        let room = |endpoint: EndpointId| self.lanes.room_for_replay(endpoint, self.clock.now());
        if let Some(endpoint) = replay.selection.endpoint() {
            return room(endpoint).unwrap_or(PAGE_MAX);
        }
        let Some(entry) = self.directory.app_by_id(replay.app) else { return PAGE_MAX };
        entry.endpoints().iter().filter_map(|endpoint| room(endpoint.id())).min().unwrap_or(PAGE_MAX)
    }

    fn page(&self, replay: &Replay, sources: Sources, now: Timestamp) -> ReplayPage {
        let first_new = self.ids.take(now, sources.found.len() as u32);
        let of_events = matches!(replay.selection, Selection::Backfill(_));
        let source = |((id, endpoint), new): ((i64, EndpointId), i64)| {
            let endpoint = self.directory.endpoint(endpoint);
            let age = endpoint.and_then(|endpoint| endpoint.contract.retry.give_up_after);
            Source {
                what: if of_events {
                    SourceId::Event(EventId::from_i64(id))
                } else {
                    SourceId::Delivery(DeliveryId::from_i64(id))
                },
                as_new: DeliveryId::from_i64(new),
                give_up_at: age.map(|age| now.plus(age)),
            }
        };
        ReplayPage {
            replay: replay.id,
            after_id: replay.reached,
            sources: sources.found.into_iter().zip(first_new..).map(source).collect(),
            reached: sources.reached,
            is_last: sources.is_last,
        }
    }
}

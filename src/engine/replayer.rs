//! Brings replays forward: a page now and then, as fast as each may go, and never more than half of what a queue can take,
//! so that fresh events keep finding free permits.

use super::{endpoint_queues::EndpointQueues, leader::LeaderRole};
use crate::{
    domain::{
        contract::NoticeChannel,
        id::{DeliveryId, EndpointId, EventId},
        replay::{Replay, ReplaySelection},
        time::Timestamp,
    },
    runtime::{Clock, ConfigCache, IdGenerator, Shutdown, StorageSpace},
    store::{
        ClusterStore, DeliveryStore, QueryStore, StoreError,
        replays::{ReplayPage, ReplaySource, ReplaySourceId, SourceSearch, Sources},
    },
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

const REPLAY_PAGE_MAX: usize = 64;
/// Pause before queues without capacity are asked again; twice as long each time. After the longest one source goes all the
/// same: a queue that is always behind slows a replay down and never stops it.
const NO_CAPACITY_PAUSE: Duration = Duration::from_millis(10);
const NO_CAPACITY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Longest time that a page, or a pause for want of capacity, takes.
const PAGE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause after a store error, and while the storage is full.
const REPLAY_ERROR_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Replayer {
    pub(super) queues: Arc<EndpointQueues>,
    pub(super) config_cache: Arc<ConfigCache>,
    pub(super) delivery_store: Arc<dyn DeliveryStore>,
    pub(super) query_store: Arc<dyn QueryStore>,
    pub(super) cluster_store: Arc<dyn ClusterStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: IdGenerator,
    /// Notified when a replay was begun, resumed, paused or cancelled.
    pub(super) replays_changed: Arc<Notify>,
    pub(super) storage: Arc<StorageSpace>,
    pub(super) running: Vec<RunningReplay>,
    pub(super) leader: LeaderRole,
}

/// Replay that proceeds, and when its next page may go.
pub(super) struct RunningReplay {
    replay: Replay,
    next_at: Timestamp,
    /// How long it waited for capacity the last time; zero if there was some.
    waited: Duration,
}

impl Replayer {
    pub(super) async fn run(mut self, stop: Shutdown) {
        // A page is one transaction: stopping between two of them leaves nothing half done.
        tokio::select! {
            biased;
            () = stop.graceful() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let mut is_stale = true;
        loop {
            let leadership = if let Some(leadership) = self.leader.try_lead() {
                leadership
            } else {
                is_stale = true;
                self.leader.lead().await
            };
            if is_stale && let Err(error) = self.reload().await {
                tracing::warn!(%error, "could not read the running replays");
                drop(leadership);
                self.clock.idle_until(self.clock.now().plus(REPLAY_ERROR_PAUSE)).await;
                continue;
            }
            let come_back = self.step().await;
            drop(leadership);
            is_stale = tokio::select! {
                biased;
                () = self.replays_changed.notified() => true,
                () = self.sleep_until_due(come_back) => false,
                () = self.leader.requested_elsewhere() => true,
            };
        }
    }

    /// Sleeps until `at`, or forever without it.
    async fn sleep_until_due(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => self.clock.idle_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Reloads the running replays from the store; those that were known keep their pace.
    async fn reload(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let known = std::mem::take(&mut self.running);
        let as_known = |replay: Replay| {
            let known = known.iter().find(|one| one.replay.id == replay.id);
            let (next_at, waited) = known.map_or((now, Duration::ZERO), |one| (one.next_at, one.waited));
            RunningReplay { replay, next_at, waited }
        };
        self.running = self.cluster_store.running_replays().await?.into_iter().map(as_known).collect();
        Ok(())
    }

    /// Does one page for each replay that is due. Returns when the next is due.
    pub(super) async fn step(&mut self) -> Option<Timestamp> {
        let mut going_on = Vec::with_capacity(self.running.len());
        for mut one in std::mem::take(&mut self.running) {
            let now = self.clock.now();
            // A longer wait is only due to a clock that was set back.
            let is_early = now < one.next_at && one.next_at.since(now) <= PAGE_WAIT_MAX;
            if is_early {
                going_on.push(one);
                continue;
            }
            match self.proceed(&one, now).await {
                Ok(None) => {}
                Ok(Some(next)) => going_on.push(next),
                Err(error) => {
                    tracing::warn!(%error, replay = %one.replay.id, "a replay could not proceed");
                    one.next_at = now.plus(REPLAY_ERROR_PAUSE);
                    going_on.push(one);
                }
            }
        }
        self.running = going_on;
        self.running.iter().map(|one| one.next_at).min()
    }

    /// Brings a replay forward by one page, or one pause for want of capacity. Returns the replay after that; `None` when it
    /// is not to go on.
    async fn proceed(
        &self,
        one: &RunningReplay,
        now: Timestamp,
    ) -> Result<Option<RunningReplay>, StoreError> {
        let RunningReplay { replay, waited, .. } = one;
        // A running replay goes on by itself once the storage has space again.
        if self.storage.full_reason().is_some() {
            let (replay, waited) = (replay.clone(), *waited);
            return Ok(Some(RunningReplay { replay, next_at: now.plus(REPLAY_ERROR_PAUSE), waited }));
        }
        let most = REPLAY_PAGE_MAX.min(replay.per_second as usize);
        let search = SourceSearch::of(replay, &self.config_cache.endpoints_of(replay.app));
        let mut sources = self.query_store.replay_sources(search, most).await?;
        let room = self.capacity_for(&sources.found, now).await?;
        let is_short = room == 0 && !sources.found.is_empty();
        if is_short && *waited < NO_CAPACITY_PAUSE_MAX {
            let waited = (*waited * 2).clamp(NO_CAPACITY_PAUSE, NO_CAPACITY_PAUSE_MAX);
            return Ok(Some(RunningReplay { replay: replay.clone(), next_at: now.plus(waited), waited }));
        }
        sources.truncate(room.max(1));
        let count = sources.found.len() as u32;
        let Some(replay) = self.delivery_store.advance_replay(self.page(replay, sources, now), now).await?
        else {
            return Ok(None);
        };
        // Rounded up, so that it is never faster; even a page without sources leaves the others their turn.
        let took = (u64::from(count) * 1000).div_ceil(u64::from(replay.per_second.max(1)));
        let next_at = now.plus(Duration::from_millis(took.max(1)));
        // Short of capacity, the next page waits as long as this one did.
        let waited = if is_short { NO_CAPACITY_PAUSE_MAX / 2 } else { Duration::ZERO };
        Ok((!replay.state.is_ended()).then_some(RunningReplay { replay, next_at, waited }))
    }

    /// Returns how many of these sources, from the first on, their queues can take now. Only queues of the replay's own
    /// sources can hold it up.
    async fn capacity_for(&self, sources: &[(i64, EndpointId)], now: Timestamp) -> Result<usize, StoreError> {
        let mut left = self.remote_capacities(sources, now).await?;
        let takes = |(_, endpoint): &(i64, EndpointId)| {
            let room = || self.queues.replay_capacity(*endpoint, now).unwrap_or(REPLAY_PAGE_MAX);
            let left = left.entry(*endpoint).or_insert_with(room);
            *left = left.checked_sub(1)?;
            Some(())
        };
        Ok(sources.iter().map_while(takes).count())
    }

    /// Returns the capacity of queues that other nodes own. Only the store knows how far behind those are: none has capacity
    /// while something that is due waits there.
    async fn remote_capacities(
        &self,
        sources: &[(i64, EndpointId)],
        now: Timestamp,
    ) -> Result<HashMap<EndpointId, usize>, StoreError> {
        let room = |(_, endpoint): &(i64, EndpointId)| {
            Some((*endpoint, self.queues.remote_replay_capacity(*endpoint)?))
        };
        let mut elsewhere: HashMap<EndpointId, usize> = sources.iter().filter_map(room).collect();
        if !elsewhere.is_empty() {
            for behind in self.cluster_store.queues_with_due(elsewhere.keys().copied().collect(), now).await?
            {
                // A disabled endpoint holds any number.
                elsewhere
                    .entry(behind)
                    .and_modify(|room| *room = if *room == usize::MAX { *room } else { 0 });
            }
        }
        Ok(elsewhere)
    }

    fn page(&self, replay: &Replay, sources: Sources, now: Timestamp) -> ReplayPage {
        let first_new = self.ids.next_range(now, sources.found.len() as u32);
        let of_events = matches!(replay.selection, ReplaySelection::Backfill(_));
        let source = |((id, endpoint), new): ((i64, EndpointId), i64)| {
            let endpoint = self.config_cache.endpoint(endpoint);
            let age = endpoint.and_then(|endpoint| endpoint.contract.retry.give_up_after);
            ReplaySource {
                id: if of_events {
                    ReplaySourceId::Event(EventId::from_i64(id))
                } else {
                    ReplaySourceId::Delivery(DeliveryId::from_i64(id))
                },
                new_id: DeliveryId::from_i64(new),
                give_up_at: age.map(|age| now.plus(age)),
            }
        };
        let told_by = self.config_cache.app_by_id(replay.app).map(|entry| entry.rules().replay_finished);
        ReplayPage {
            replay: replay.id,
            after_id: replay.reached,
            sources: sources.found.into_iter().zip(first_new..).map(source).collect(),
            reached: sources.reached,
            is_last: sources.is_last,
            notify_channel: told_by.unwrap_or(NoticeChannel::None),
        }
    }
}

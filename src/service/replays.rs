//! Replays and backfills: started, listed, paused, resumed and cancelled. The engine runs them.

use super::{
    Caller, Error, Service,
    paging::{Cursor, Page},
};
use crate::{
    domain::{
        audit::{AuditAction, AuditDetail, AuditEntry},
        contract::PublishedWhileDisabled,
        delivery::DeliveryState,
        endpoint::Endpoint,
        id::{ReplayId, first_id_at},
        replay::{Backfill, REPLAYABLE_STATES, Replay, ReplayFilter, ReplaySelection, ReplayState},
        subscription::check_event_type,
        time::Timestamp,
    },
    runtime::CachedApp,
    store::replays::{ReplayChanged, SourceSearch},
};
use std::{sync::Arc, time::Duration};

const REPLAY_RATE_DEFAULT: u32 = 100;
const REPLAY_RATE_MAX: u32 = 10_000;
/// Unfinished replays of one app, paused ones included.
const UNFINISHED_REPLAYS_MAX: usize = 8;
/// Longest time from creation to end of a delivery, unless it was held.
const DELIVERY_LIFETIME_MAX: Duration = Duration::from_hours(14 * 24);
/// Longest time that enabling an endpoint takes.
const ENABLE_TIME_MAX: Duration = Duration::from_mins(1);

/// Request for a replay or a backfill.
#[derive(Clone, Debug, Default)]
pub struct NewReplay {
    pub endpoint: Option<String>,
    pub event_type: Option<String>,
    /// States of deliveries to replay; `dead` if absent.
    pub states: Option<Vec<String>>,
    /// Creation time of the deliveries, or for a backfill of the events.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub per_second: Option<u32>,
}

/// Period in which an endpoint missed deliveries.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissedPeriod {
    pub(super) since: Timestamp,
    pub(super) disabled_at: Option<Timestamp>,
    pub(super) per_second: Option<u32>,
}

/// A replay with the public id of its endpoint, if it has one.
#[derive(Clone, Debug)]
pub struct NamedReplay {
    pub replay: Replay,
    pub endpoint: Option<String>,
}

impl Service {
    pub async fn replays(
        &self,
        entry: &CachedApp,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedReplay>, Error> {
        let page = self.query_store.replays(entry.app().id, after, limit).await?;
        let mut rows = Vec::with_capacity(page.rows.len());
        for replay in page.rows {
            rows.push(self.with_replay_name(replay).await?);
        }
        Ok(Page { rows, next: page.next })
    }

    pub async fn replay(&self, entry: &CachedApp, id: &str) -> Result<NamedReplay, Error> {
        let id = ReplayId::parse(id).ok_or(Error::NotFound("replay"))?;
        let found = self.query_store.replay(entry.app().id, id).await?;
        self.with_replay_name(found.ok_or(Error::NotFound("replay"))?).await
    }

    /// Pauses, resumes or cancels a replay. Deliveries that it already created stay.
    pub async fn change_replay(
        &self,
        caller: Caller,
        entry: &CachedApp,
        id: &str,
        to: ReplayState,
    ) -> Result<NamedReplay, Error> {
        let id = ReplayId::parse(id).ok_or(Error::NotFound("replay"))?;
        let action = match to {
            ReplayState::Running | ReplayState::Finished => AuditAction::ReplayResumed,
            ReplayState::Paused => AuditAction::ReplayPaused,
            ReplayState::Cancelled => AuditAction::ReplayCancelled,
        };
        let app = entry.app();
        let noted = self.audit_entry_in(caller, &app, action, id.to_string(), None);
        match self.delivery_store.change_replay(app.id, id, to, self.clock.now(), Some(noted)).await? {
            ReplayChanged::Absent => Err(Error::NotFound("replay")),
            ReplayChanged::Unchanged(replay) => self.with_replay_name(replay).await,
            ReplayChanged::Ended(replay) => {
                Err(Error::Conflict(format!("The replay is {} already.", replay.state.name())))
            }
            ReplayChanged::Done(replay) => {
                self.permits.replays_changed();
                self.with_replay_name(replay).await
            }
        }
    }

    /// Starts a replay that `replay_of` or `backfill_of` built.
    pub async fn begin_replay(
        &self,
        caller: Caller,
        entry: &CachedApp,
        replay: Replay,
    ) -> Result<NamedReplay, Error> {
        self.require_storage_space()?;
        let _turn = self.replay_locks.lock(entry.app().id.as_i64()).await;
        self.check_replay_count(entry, 1).await?;
        let (replay, noted) = self.with_total(caller, entry, replay).await?;
        self.delivery_store.start_replay(replay.clone(), Some(noted)).await?;
        self.permits.replays_changed();
        self.with_replay_name(replay).await
    }

    /// Counts the replay's total and builds the audit entry for its start.
    pub(super) async fn with_total(
        &self,
        caller: Caller,
        entry: &CachedApp,
        mut replay: Replay,
    ) -> Result<(Replay, AuditEntry), Error> {
        replay.total = self.count_sources(&replay).await?;
        let detail = Some(AuditDetail::of_replay(replay.selection.kind(), replay.total));
        let noted = self.audit_entry_in(
            caller,
            &entry.app(),
            AuditAction::ReplayBegun,
            replay.id.to_string(),
            detail,
        );
        Ok((replay, noted))
    }

    /// Refuses if `more` additional replays would exceed the limit.
    pub(super) async fn check_replay_count(&self, entry: &CachedApp, more: usize) -> Result<(), Error> {
        let newest = self.query_store.replays(entry.app().id, None, 100).await?;
        if newest.rows.iter().filter(|other| !other.state.is_ended()).count() + more <= UNFINISHED_REPLAYS_MAX
        {
            return Ok(());
        }
        let detail =
            format!("An app has at most {UNFINISHED_REPLAYS_MAX} replays under way; wait, or cancel one.");
        Err(Error::Conflict(detail))
    }

    /// Builds the replays of everything an endpoint missed: deliveries that ended undelivered, and events of the time it was
    /// disabled if its contract created no deliveries then.
    pub(super) fn replays_of_missed(
        &self,
        entry: &CachedApp,
        endpoint: &Endpoint,
        missed: MissedPeriod,
    ) -> Result<Vec<Replay>, Error> {
        let new = NewReplay { per_second: missed.per_second, ..NewReplay::default() };
        let states = [DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Expired]
            .map(|state| state.name().to_owned());
        let deliveries = ReplaySelection::Deliveries(ReplayFilter {
            endpoint: Some(endpoint.id().as_i64()),
            event_type: None,
            states: states.into(),
            missed_since: Some(missed.since),
        });
        let made_from = missed.since.as_millis() - DELIVERY_LIFETIME_MAX.as_millis() as i64;
        let ended = NewReplay { from: Some(Timestamp::from_millis(made_from.max(0))), ..new.clone() };
        let mut replays = vec![self.build_replay(entry, deliveries, &ended)?];
        if let (Some(disables_at), PublishedWhileDisabled::None) =
            (missed.disabled_at, endpoint.contract.off.published)
        {
            let published = NewReplay { from: Some(disables_at), ..new };
            replays.push(self.backfill_of(entry, &endpoint.record.uid, &published)?);
        }
        // Until the endpoint is enabled, more may be cancelled or published without a delivery. Delivered ones are not sent
        // again.
        for replay in &mut replays {
            replay.to_id = first_id_at(replay.created_at.plus(ENABLE_TIME_MAX));
        }
        Ok(replays)
    }

    /// Builds a replay from the request, without starting it.
    pub fn replay_of(&self, entry: &CachedApp, new: &NewReplay) -> Result<Replay, Error> {
        let endpoint = match &new.endpoint {
            None => None,
            Some(uid) => Some(endpoint_named(entry, uid)?.id().as_i64()),
        };
        let states = new.states.clone().unwrap_or_else(|| vec!["dead".to_owned()]);
        let allowed = REPLAYABLE_STATES.map(DeliveryState::name);
        if states.is_empty() || states.iter().any(|state| !allowed.contains(&state.as_str())) {
            return Err(Error::field("status", format!("must be one or more of {}", allowed.join(", "))));
        }
        let event_type = new.event_type.clone();
        let selection =
            ReplaySelection::Deliveries(ReplayFilter { endpoint, event_type, states, missed_since: None });
        self.build_replay(entry, selection, new)
    }

    /// Builds a backfill: deliveries for past events of which the endpoint has none.
    pub fn backfill_of(&self, entry: &CachedApp, uid: &str, new: &NewReplay) -> Result<Replay, Error> {
        let endpoint = Self::endpoint_of(entry, uid)?.id().as_i64();
        let selection = ReplaySelection::Backfill(Backfill { endpoint, event_type: new.event_type.clone() });
        let mut replay = self.build_replay(entry, selection, new)?;
        // Other nodes may not have the endpoint yet, or their ids may be ahead. Events that have a delivery get no second one.
        if new.to.is_none() && !self.node_state.is_single_node() {
            replay.to_id = first_id_at(replay.created_at.plus(ENABLE_TIME_MAX));
        }
        Ok(replay)
    }

    fn build_replay(
        &self,
        entry: &CachedApp,
        selection: ReplaySelection,
        new: &NewReplay,
    ) -> Result<Replay, Error> {
        if let Some(event_type) = &new.event_type {
            check_event_type(event_type).map_err(|message| Error::field("event_type", message))?;
        }
        if let (Some(from), Some(to)) = (new.from, new.to)
            && to <= from
        {
            return Err(Error::field("to", "must be later than `from`"));
        }
        let per_second = new.per_second.unwrap_or(REPLAY_RATE_DEFAULT);
        if !(1..=REPLAY_RATE_MAX).contains(&per_second) {
            return Err(Error::field("per_second", format!("must be 1 to {REPLAY_RATE_MAX}")));
        }
        let now = self.clock.now();
        let id = self.take_ids(now, 1);
        let from_id = new.from.map_or(0, first_id_at);
        Ok(Replay {
            id: ReplayId::from_i64(id),
            app: entry.app().id,
            selection,
            per_second,
            state: ReplayState::Running,
            from_id,
            // Everything created from now on, by this replay too, has a larger id.
            to_id: new.to.map_or(id, |to| first_id_at(to).min(id)),
            reached: from_id - 1,
            total: 0,
            replayed: 0,
            refused: 0,
            last_refusal: None,
            created_at: now,
            changed_at: now,
            running_time: Duration::ZERO,
        })
    }

    /// Counts the sources of a replay without starting it.
    pub async fn count_replay(&self, entry: &CachedApp, replay: &Replay) -> Result<u64, Error> {
        let _turn = self.replay_locks.lock(entry.app().id.as_i64()).await;
        self.count_sources(replay).await
    }

    /// Counts in small queries, so that no reader holds an old snapshot of the file for long.
    async fn count_sources(&self, replay: &Replay) -> Result<u64, Error> {
        let mut search = SourceSearch::of(replay, &self.config_cache.endpoints_of(replay.app));
        let mut count = 0;
        loop {
            let sources = self.query_store.count_sources(search.clone()).await?;
            count += sources.found.len() as u64;
            if sources.is_last {
                return Ok(count);
            }
            search.after_id = sources.reached;
        }
    }

    pub(super) async fn with_replay_name(&self, replay: Replay) -> Result<NamedReplay, Error> {
        let names = self.endpoint_names(replay.selection.endpoint().into_iter()).await?;
        Ok(NamedReplay { replay, endpoint: names.into_values().next().map(|name| name.uid) })
    }
}

fn endpoint_named(entry: &CachedApp, uid: &str) -> Result<Arc<Endpoint>, Error> {
    entry.endpoint(uid).ok_or_else(|| Error::field("endpoint_id", "there is no such endpoint"))
}

//! This node among others: says once a second that it lives, closes the gate when nobody answers, shares shards with the rest,
//! and takes over what dead nodes carried. Not run by a node that is alone.
//!
//! The one thing to know: whoever may take this node over waits for the end of its lease, which runs from when its last beat
//! was executed. So it sends nothing later than a lease after that beat was *sent*, less a margin, on a clock that nobody sets.

mod beats;
mod house;
#[cfg(test)]
mod tests;

use super::lanes::Lanes;
use crate::{
    domain::{
        id::{EndpointId, Ids},
        tenure::{Home, Tenure},
        time::Steady,
    },
    store::{
        Cluster, StoreError,
        cluster::{Beat, Joined, View},
    },
    world::{Clock, Shutdown},
};
use beats::Beats;
use house::House;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::watch;

const BEAT_EVERY: Duration = Duration::from_secs(1);
const BEAT_IN_DOUBT: Duration = Duration::from_millis(250);
/// Rung for, a beat comes sooner, but not at once: what rang may ring again.
const BEAT_SOON: Duration = Duration::from_millis(50);
/// How long a beat holds, by the clock of the store.
const LEASE: Duration = Duration::from_secs(10);
/// Clocks drift, and between the last look at this one and the first byte on the wire is a moment.
const MARGIN: Duration = Duration::from_secs(1);
/// An answer to a beat that takes longer opens nothing.
const PATIENCE: Duration = LEASE.saturating_sub(MARGIN);
/// Without an answer for so long nothing new is sent: what comes of it could perhaps not be recorded.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// The longest that a machine that slept goes unnoticed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

pub(super) struct Membership {
    pub(super) lanes: Arc<Lanes>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Ids,
}

/// What the parts of it tell each other.
struct Shared {
    lanes: Arc<Lanes>,
    cluster: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    ids: Ids,
    lease: Lease,
    stop: Shutdown,
    /// Counts claims and releases of shards: what was seen before one says nothing about shards.
    moves: AtomicU64,
    /// Lanes that may be this node's alone, and which version of the configuration all others have to know before.
    doubts: Mutex<BTreeMap<EndpointId, i64>>,
    /// The last answer to a beat.
    heard: watch::Sender<Option<Arc<Heard>>>,
}

/// On the steady clock, in milliseconds.
#[derive(Default)]
struct Lease {
    heard_at: AtomicI64,
    /// When somebody else may take over.
    ends_at: AtomicI64,
}

/// An answer to a beat, and how things stood here when that was sent.
pub(super) struct Heard {
    view: View,
    moves: u64,
}

impl Membership {
    /// For as long as the store takes beats; the caller ends it when nothing is carried any more.
    pub(super) async fn run(self, stop: Shutdown) -> Result<(), StoreError> {
        let Self { lanes, cluster, clock, ids } = self;
        let lease = Lease::default();
        let shared = Shared {
            lanes,
            cluster,
            clock,
            ids,
            lease,
            stop,
            moves: AtomicU64::new(0),
            doubts: Mutex::default(),
            heard: watch::Sender::new(None),
        };
        shared.begin();
        let house = House::new(&shared);
        tokio::select! {
            biased;
            ended = Beats::new(&shared).run() => ended,
            () = shared.watch_the_gate() => Ok(()),
            () = house.run() => Ok(()),
        }
    }
}

impl Shared {
    fn tenure(&self) -> &Arc<Tenure> {
        self.lanes.tenure()
    }

    /// Nothing is sent before a beat was answered.
    fn begin(&self) {
        self.lanes.close_gate();
        let now = self.clock.steady();
        self.lease.heard_at.store(now.as_millis(), SeqCst);
        self.lease.ends_at.store(now.plus(LEASE).as_millis(), SeqCst);
    }

    /// Shorter while others are waited for.
    fn pause(&self) -> Duration {
        if self.doubts().is_empty() { BEAT_EVERY } else { BEAT_IN_DOUBT }
    }

    fn words(&self) -> Beat {
        let survey = self.lanes.survey(self.clock.now());
        Beat {
            seen: self.tenure().seen(),
            free_hands: u32::try_from(self.lanes.around.pool.free()).unwrap_or(u32::MAX),
            help: survey.help,
            is_stopping: self.stop.is_soft(),
        }
    }

    /// The beat was answered: requests may begin until then.
    fn hold_until(&self, until: Steady) {
        let now = self.clock.steady();
        self.lease.heard_at.store(now.as_millis(), SeqCst);
        self.lease.ends_at.fetch_max(until.as_millis(), SeqCst);
        // Whoever joined again may have missed that a lane became another's alone: it begins nothing before it has read what there is.
        if until > now && self.tenure().seen() != Tenure::NOTHING {
            self.tenure().may_dial_until(until);
            if self.lanes.open_gate() {
                tracing::info!("the store answers: deliveries go out");
            }
        }
    }

    /// Closes the gate in time, and lets go of what must not be on its way when another node takes over.
    async fn watch_the_gate(&self) {
        let mut was_cut_at = None;
        loop {
            let now = self.clock.steady();
            let silent_at = Steady::from_millis(self.lease.heard_at.load(SeqCst)).plus(SILENCE_MAX);
            let ends_at = Steady::from_millis(self.lease.ends_at.load(SeqCst));
            let closes_at = silent_at.min(self.tenure().dial_until());
            if closes_at <= now && self.lanes.close_gate() {
                self.tenure().may_dial_until(now.min(self.tenure().dial_until()));
                tracing::warn!("the store does not answer: nothing is sent until it does");
            }
            if ends_at <= now && was_cut_at != Some(ends_at) {
                was_cut_at = Some(ends_at);
                self.lanes.cut_exclusive();
            }
            let next = [closes_at, ends_at].into_iter().filter(|at| *at > now).min();
            let wait = next.map_or(LOOK_AGAIN_AFTER, |at| at.since(now).min(LOOK_AGAIN_AFTER));
            self.clock.sleep_for(wait).await;
        }
    }

    /// Somebody else carries what this node did: it begins anew, under another epoch and with nothing of its own.
    async fn join_again(&self) -> Result<(), StoreError> {
        tracing::warn!("this node was taken over, because the store did not hear from it; it joins again");
        self.lanes.close_gate();
        self.tenure().may_dial_until(Steady::from_millis(i64::MIN));
        self.lanes.cut_exclusive();
        let joined = loop {
            match self.cluster.join(self.clock.now()).await {
                Ok(joined) => break joined,
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => tracing::warn!(%error, "could not join again"),
            }
            self.clock.sleep_for(PAUSE_AFTER_ERROR).await;
        };
        let Joined { slot, epoch, newest_id, .. } = joined;
        self.ids.move_to(slot, newest_id);
        self.moves.fetch_add(1, SeqCst);
        self.tenure().enter_again(epoch);
        self.lanes.abandon();
        self.doubts().clear();
        self.begin();
        Ok(())
    }

    fn doubts(&self) -> MutexGuard<'_, BTreeMap<EndpointId, i64>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_homes(&self, shards: &[u8], home: Home) {
        for shard in shards {
            self.tenure().set_home(*shard, home);
        }
    }
}

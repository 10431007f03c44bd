//! Whose a lane is, where there are several nodes: what this one may send for, fetch, and has to let go of.
//!
//! Shared lanes are sent for by every node and looked after by one. Exclusive ones (limits, order) are sent for by their home
//! alone, and by that only once it is certain that nobody else has anything of them in flight. Alone, none of this is asked.

#[cfg(test)]
pub(super) mod tests;

use super::{
    lane::Lane,
    lane_state::{LaneSettings, LaneState},
    lanes::Lanes,
};
use crate::domain::{
    id::EndpointId,
    port::Carried,
    tenure::{Home, Tenure},
    time::Timestamp,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

/// Lanes that a node asks others to help with.
const HELP_MAX: usize = 64;

/// What lanes are like at a moment, as far as other nodes are concerned.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Shards with something under way that only their home may do.
    pub(super) busy: BTreeSet<u8>,
    /// Lanes with more to send than this node can carry.
    pub(super) help: Vec<EndpointId>,
}

impl Lane {
    fn tenure(&self) -> &Tenure {
        &self.around.tenure
    }

    fn home(&self, state: &LaneState) -> Home {
        if self.tenure().is_alone() { Home::Here } else { self.tenure().home(state.settings.shard) }
    }

    /// Whether another node is to send for this endpoint, or this one not yet. Tests go to one that is off from anywhere.
    pub(super) fn is_barred(&self, state: &LaneState) -> bool {
        let LaneSettings { is_exclusive, is_off, .. } = state.settings;
        is_exclusive && !is_off && !(state.is_sole && self.home(state) == Home::Here)
    }

    pub(super) fn is_sent_elsewhere(&self) -> bool {
        self.is_barred(&self.lock())
    }

    /// Whether this node has to know what waits for it.
    fn is_looked_after(&self) -> bool {
        let state = self.lock();
        state.is_helping || self.home(&state) != Home::Elsewhere
    }

    /// Whether nothing that waits may be fetched here. If that is only not certain yet, somebody finds out.
    pub(super) fn is_anothers(&self, state: &mut LaneState) -> bool {
        let is_shared = !state.settings.is_exclusive && !state.circuit.is_closed();
        let is_ours = match self.home(state) {
            Home::Here if self.is_barred(state) => {
                self.doubt();
                return true;
            }
            Home::Here => true,
            Home::Leaving => is_shared,
            Home::Elsewhere => is_shared && state.is_helping,
        };
        if !is_ours {
            state.forget_waiting();
        }
        !is_ours
    }

    /// After other settings: they may belong to another node, or to this one alone.
    pub(super) fn settle_in(&self, state: &mut LaneState, before: &LaneSettings) {
        // Between two looks it may have been everybody's for a while, and others may have something of it in flight.
        let is_next = [before.revision, before.revision + 1].contains(&state.settings.revision);
        let has_missed_some = !is_next || state.settings.app_changed_at != before.app_changed_at;
        if !state.settings.is_exclusive || state.settings.shard != before.shard || has_missed_some {
            state.is_sole = false;
        }
        if self.is_barred(state) && self.home(state) == Home::Here {
            self.doubt();
        }
    }

    /// Whether others may have something of it in flight has to be found out.
    fn doubt(&self) {
        self.doubts().insert(self.endpoint);
        self.around.membership.notify_one();
    }

    fn doubts(&self) -> MutexGuard<'_, BTreeSet<EndpointId>> {
        self.around.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else sends for it. What another may have sent until now counts: nothing is saved up. Says when to look.
    fn be_sole(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        if state.is_sole || !state.settings.is_exclusive || self.home(&state) != Home::Here {
            return None;
        }
        state.is_sole = true;
        state.tokens.begin_anew(Some(now));
        if state.settings.is_gated {
            self.gates().begin_anew(self.app, now);
        }
        state.look_at().filter(|_| !state.is_blocked)
    }

    /// Another node looks after it from now on.
    fn depart(&self) {
        let mut state = self.lock();
        state.is_sole = false;
        state.forget_waiting();
        state.circuit.drop_probe();
    }

    /// Others carry what this one did: what is in memory is not sent and not given back.
    fn abandon(&self) -> Vec<Carried> {
        let mut state = self.lock();
        (state.is_sole, state.is_helping, state.is_blocked) = (false, false, false);
        state.forget_waiting();
        state.circuit.drop_probe();
        state.queue.take_all()
    }

    fn help(&self, is_helping: bool) {
        self.lock().is_helping = is_helping;
    }

    fn survey(&self, survey: &mut Survey, now: Timestamp) {
        let mut state = self.lock();
        let is_closed = state.circuit.is_closed();
        let is_here = self.home(&state) != Home::Elsewhere;
        if !is_here && is_closed {
            // A pause that has run out is over when somebody asks with the time.
            let _ = state.may(now);
            state.circuit.lapse(now);
        }
        if (state.settings.is_exclusive || is_closed) && state.held > 0 {
            survey.busy.insert(state.settings.shard);
        }
        let is_wide = !state.settings.is_exclusive && !is_closed && state.circuit.width().is_none();
        if is_here && is_wide && state.is_behind && survey.help.len() < HELP_MAX {
            survey.help.push(self.endpoint);
        }
    }
}

impl LaneState {
    /// What waits in the store is not for this node to know.
    fn forget_waiting(&mut self) {
        (self.next_due, self.backlog_until, self.is_behind) = (None, None, false);
        (self.has_fresh_waiting, self.has_asked_waiting, self.has_none_to_probe) = (false, true, false);
    }
}

impl Lanes {
    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        &self.around.tenure
    }

    /// The lane, if this node has to know what waits for it. Of an endpoint that it does not know it cannot say whose it is:
    /// either that was deleted, and what waits is to be settled, or it comes to know it soon.
    pub(super) fn own_lane(&self, endpoint: EndpointId) -> Option<Arc<Lane>> {
        if !self.tenure().is_alone() && self.directory.endpoint(endpoint).is_none() {
            self.settle_later(endpoint);
            return None;
        }
        Some(self.lane(endpoint)).filter(|lane| lane.is_looked_after())
    }

    pub(super) fn is_at_home(&self, endpoint: EndpointId) -> bool {
        self.tenure().is_alone() || self.tenure().home(self.settings(endpoint).shard) != Home::Elsewhere
    }

    /// Nothing goes out and nobody gets a hand; what is in memory waits there.
    pub(super) fn close_gate(&self) -> bool {
        self.around.pool.close_gate()
    }

    /// Everything goes on.
    pub(super) fn open_gate(&self) -> bool {
        let was_closed = self.around.pool.open_gate();
        if was_closed {
            self.ring_all();
        }
        was_closed
    }

    fn ring_all(&self) {
        for lane in self.all() {
            let _ = self.ready.send(lane);
        }
        self.scheduler.notify_one();
    }

    /// Requests to receivers of exclusive lanes that are on their way are waited for no longer.
    pub(super) fn cut_exclusive(&self) {
        self.around.cut.notify_waiters();
    }

    /// Whatever this node carried is others' now. Couriers that are out let go of it: what has not been sent yet is for others to
    /// send, and nobody heeds what is recorded of the rest.
    pub(super) fn abandon(&self) {
        self.around.abandoned.notify_waiters();
        for lane in self.all() {
            // Their hands go back to the lane, which is not locked any more.
            drop(lane.abandon());
        }
        self.due().clear();
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.take_doubts();
        self.ring_all();
    }

    /// These shards are looked after here from now on: which of their lanes are this node's alone is to be found out before
    /// anybody asks.
    pub(super) fn arrive(&self, shards: &[u8]) {
        for app in self.directory.apps() {
            let Some(entry) = self.directory.app_by_id(app.id) else { continue };
            for endpoint in entry.endpoints().iter() {
                let settings = self.settings(endpoint.id());
                if settings.is_exclusive && shards.contains(&settings.shard) {
                    self.lane(endpoint.id()).doubt();
                }
            }
        }
        self.arrived.notify_one();
        self.wants_recheck.store(true, Relaxed);
        self.scheduler.notify_one();
    }

    /// What is in memory of their exclusive lanes goes back.
    pub(super) fn begin_leaving(&self) {
        for lane in self.all().into_iter().filter(|lane| lane.is_sent_elsewhere()) {
            let _ = self.ready.send(lane);
        }
    }

    /// These shards are looked after elsewhere from now on.
    pub(super) fn depart(&self, shards: &[u8]) {
        for lane in self.all() {
            if shards.contains(&lane.lock().settings.shard) {
                lane.depart();
            }
        }
    }

    /// Looks at every lane once; also ends what keeps lanes of other nodes closed here when its time is over.
    pub(super) fn survey(&self, now: Timestamp) -> Survey {
        let mut survey = Survey::default();
        self.all().iter().for_each(|lane| lane.survey(&mut survey, now));
        survey
    }

    /// Lanes of which it has to be found out whether others have something in flight.
    pub(super) fn take_doubts(&self) -> BTreeSet<EndpointId> {
        std::mem::take(&mut *self.around.doubts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something of it changed since it was last asked about.
    pub(super) fn is_doubted(&self, endpoint: EndpointId) -> bool {
        self.around.doubts.lock().unwrap_or_else(PoisonError::into_inner).contains(&endpoint)
    }

    pub(super) fn doubt_again(&self, doubts: BTreeSet<EndpointId>) {
        self.around.doubts.lock().unwrap_or_else(PoisonError::into_inner).extend(doubts);
    }

    /// No other node has anything of this lane in flight, or will have.
    pub(super) fn be_sole(&self, endpoint: EndpointId, now: Timestamp) {
        let lane = self.lane(endpoint);
        if let Some(due) = lane.be_sole(now) {
            self.put_due(&lane, due);
            self.scheduler.notify_one();
        }
    }

    /// Others cannot carry all of these; those that this node helped with before, and are not among them, are left to them.
    pub(super) fn help(&self, before: &BTreeSet<EndpointId>, wanted: &BTreeSet<EndpointId>, now: Timestamp) {
        for endpoint in before.difference(wanted) {
            self.lane(*endpoint).help(false);
        }
        for endpoint in wanted {
            let lane = self.lane(*endpoint);
            lane.help(true);
            if let Some(due) = lane.note_due(now) {
                self.put_due(&lane, due);
                self.scheduler.notify_one();
            }
        }
    }
}

//! A lane: all that is due for one endpoint. Its own bounded queue in memory, and what waits behind it in the store.

use super::hands::HandPool;
use crate::domain::{
    id::EndpointId,
    port::{Carried, Hand, HandHolder},
    time::Timestamp,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// In memory and not yet sent, beyond what is in flight: enough to keep an endpoint busy between two refills.
const QUEUE_MAX: usize = 256;
/// Tests that a full lane still takes.
const TESTS_MAX: usize = 8;

pub(super) struct Lane {
    pub(super) endpoint: EndpointId,
    pool: Arc<HandPool>,
    scheduler: Arc<Notify>,
    state: Mutex<LaneState>,
}

/// The lane is as full as it was.
pub(super) struct StillBlocked;

#[derive(Debug)]
struct LaneState {
    queue: VecDeque<Carried>,
    /// Requests in flight.
    couriers: usize,
    /// Hands out: in the queue, in flight, or not yet recorded.
    held: usize,
    in_flight_max: usize,
    is_off: bool,
    /// More is due in the store than there is room for: newborns join the end of that queue.
    has_backlog: bool,
    /// The scheduler found no room here and wants to be told when there is.
    is_blocked: bool,
    /// When the first in the store is due, as far as is known.
    next_due: Option<Timestamp>,
}

impl Lane {
    pub(super) fn new(
        endpoint: EndpointId,
        in_flight_max: usize,
        is_off: bool,
        pool: Arc<HandPool>,
        scheduler: Arc<Notify>,
    ) -> Self {
        let state = LaneState {
            queue: VecDeque::new(),
            couriers: 0,
            held: 0,
            in_flight_max,
            is_off,
            has_backlog: false,
            is_blocked: false,
            next_due: None,
        };
        Self { endpoint, pool, scheduler, state: Mutex::new(state) }
    }

    /// A hand for a newborn; none while others wait in the store.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<Hand> {
        let mut state = self.lock();
        if state.has_backlog || state.is_off {
            return None;
        }
        self.take_locked(&mut state, bytes)
    }

    /// A hand for a test: also while the lane is off, and a few beyond its room.
    pub(super) fn take_for_test(self: &Arc<Self>, bytes: usize) -> Option<Hand> {
        let mut state = self.lock();
        let room = state.room_max() + TESTS_MAX;
        self.take_within(&mut state, room, bytes)
    }

    /// Hands for what is due in the store: as many as there is room for, at most `most`. None: the lane is blocked until
    /// something is given back.
    pub(super) fn take_for_refill(self: &Arc<Self>, most: usize) -> Vec<Hand> {
        let mut state = self.lock();
        if state.is_off {
            return Vec::new();
        }
        let mut hands: Vec<Hand> =
            std::iter::from_fn(|| self.take_locked(&mut state, 0)).take(most).collect();
        if hands.is_empty() {
            // Wanted first, then asked once more: a hand that came back in between would ring nobody.
            self.pool.want();
            hands.extend(self.take_locked(&mut state, 0));
        }
        if hands.is_empty() {
            state.has_backlog = true;
            state.is_blocked = true;
        } else {
            // The refill will tell; what is noted while it is under way must not be mistaken for known.
            state.next_due = None;
        }
        hands
    }

    fn take_locked(self: &Arc<Self>, state: &mut LaneState, bytes: usize) -> Option<Hand> {
        let room = state.room_max();
        self.take_within(state, room, bytes)
    }

    fn take_within(self: &Arc<Self>, state: &mut LaneState, room: usize, bytes: usize) -> Option<Hand> {
        if state.held >= room || !self.pool.take(state.held, bytes) {
            return None;
        }
        state.held += 1;
        Some(Hand::new(self.clone(), bytes))
    }

    pub(super) fn push(&self, carried: Carried) {
        self.lock().queue.push_back(carried);
    }

    /// Counts in as many new couriers as the queue can use.
    pub(super) fn send_out(&self) -> usize {
        let mut state = self.lock();
        let more = state.queue.len().min(state.in_flight_max.saturating_sub(state.couriers));
        state.couriers += more;
        more
    }

    /// The next delivery for a courier; `None` counts the courier out.
    pub(super) fn next(&self) -> Option<Carried> {
        let mut state = self.lock();
        let too_many = state.couriers > state.in_flight_max;
        let next = if too_many { None } else { state.queue.pop_front() };
        if next.is_none() {
            state.couriers -= 1;
        }
        next
    }

    /// A courier is gone without asking for the next.
    pub(super) fn count_out(&self) {
        let mut state = self.lock();
        state.couriers = state.couriers.saturating_sub(1);
    }

    /// Everything that no courier has taken yet.
    pub(super) fn empty_queue(&self) -> Vec<Carried> {
        self.lock().queue.drain(..).collect()
    }

    /// Something waits in the store, due then; answers the new first due time if this changed it.
    pub(super) fn note_due(&self, due: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        if state.next_due.is_some_and(|known| known <= due) {
            return None;
        }
        state.next_due = Some(due);
        (!state.is_blocked && !state.is_off).then_some(due)
    }

    pub(super) fn forget_due(&self) {
        self.lock().next_due = None;
    }

    /// What the store says after a refill, together with what was noted meanwhile; when to look again.
    pub(super) fn settle_due(&self, next_due: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        state.has_backlog = next_due.is_some_and(|due| due <= now);
        state.next_due = state.next_due.into_iter().chain(next_due).min();
        state.next_due
    }

    /// A blocked lane that has room again is found at its due time once more; `Err` while it has none.
    pub(super) fn unblock(&self) -> Result<Option<Timestamp>, StillBlocked> {
        let mut state = self.lock();
        if state.is_blocked && !state.is_off {
            // A newborn may have taken the hand that rang: wanted again before looking, so that the next one rings too.
            self.pool.want();
        }
        let may_take = state.has_room() && self.pool.has_one_for(state.held);
        if state.is_blocked && !may_take && !state.is_off {
            return Err(StillBlocked);
        }
        state.is_blocked = false;
        Ok(state.next_due.filter(|_| !state.is_off))
    }

    /// Takes on the endpoint's settings, read under the lane's lock so that the last change is the one that stays.
    pub(super) fn follow(&self, settings: impl FnOnce() -> (usize, bool)) -> Option<Timestamp> {
        let mut state = self.lock();
        let (in_flight_max, is_off) = settings();
        state.in_flight_max = in_flight_max;
        state.is_off = is_off;
        if is_off {
            state.has_backlog = false;
        }
        state.next_due.filter(|_| !is_off && !state.is_blocked)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let state = self.lock();
        state.next_due.filter(|_| !state.is_off)
    }

    /// What is left of the half that replays may use: the other half is for fresh events. An endpoint that is off holds
    /// whatever comes.
    pub(super) fn room_for_replay(&self, now: Timestamp) -> usize {
        let state = self.lock();
        let is_behind = state.has_backlog || state.next_due.is_some_and(|due| due <= now);
        match (state.is_off, is_behind) {
            (true, _) => usize::MAX,
            (false, true) => 0,
            (false, false) => state.in_flight_max.div_ceil(2).saturating_sub(state.held),
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.lock().is_off
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.held == 0 && (state.is_off || state.next_due.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneState {
    fn room_max(&self) -> usize {
        self.in_flight_max + QUEUE_MAX.min(self.in_flight_max * 4)
    }

    /// Not for every single one: half a room lets a refill bring a batch.
    fn has_room(&self) -> bool {
        self.held * 2 <= self.room_max()
    }
}

impl HandHolder for Lane {
    fn give_back(&self, bytes: usize) {
        let mut state = self.lock();
        state.held = state.held.saturating_sub(1);
        self.pool.give_back(state.held, bytes);
        let tell = state.is_blocked && state.has_room();
        drop(state);
        if tell || self.pool.has_enough_again() {
            self.scheduler.notify_one();
        }
    }

    fn weigh(&self, bytes: usize) {
        self.pool.weigh(bytes);
    }
}

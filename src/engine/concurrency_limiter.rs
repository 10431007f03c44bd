//! Limits of apps and of the whole node: how many requests may be in flight, and how many may be sent in a second.
//!
//! A queue that finds a limit reached waits. Free slots go round: across apps first, then across the queues of an app, so
//! that an app with a thousand busy queues gets no more turns than an app with one. Waiting queues are not overtaken.

use crate::domain::{
    id::{AppId, EndpointId},
    rate_limit::{RateLimit, TokenBucket},
    time::Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Limits of one app or of the node; an absent one is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConcurrencyLimit {
    pub(super) in_flight: Option<usize>,
    pub(super) rate: Option<RateLimit>,
}

impl ConcurrencyLimit {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Default)]
struct LimitedScope {
    limit: ConcurrencyLimit,
    in_flight: usize,
    tokens: TokenBucket,
}

/// Why no request is admitted now.
enum LimitReached {
    Full,
    /// There is no token until then.
    Until(Timestamp),
}

impl LimitedScope {
    fn check(&mut self, now: Timestamp) -> Result<(), LimitReached> {
        if self.limit.in_flight.is_some_and(|most| self.in_flight >= most) {
            return Err(LimitReached::Full);
        }
        let Some(rate) = self.limit.rate else { return Ok(()) };
        self.tokens.check(rate, now).map_err(|wait| LimitReached::Until(now.plus(wait)))
    }

    fn has_token(&mut self, now: Timestamp) -> bool {
        self.limit.rate.is_none_or(|rate| self.tokens.check(rate, now).is_ok())
    }

    /// Takes a slot that `look` found free.
    fn take_slot(&mut self) {
        self.in_flight += 1;
        self.tokens.reserve();
    }

    /// Releases one concurrency slot: the request ended or was not sent. Returns the rate token if it was not sent.
    fn release_slot(&mut self, has_gone_out: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if !has_gone_out {
            self.tokens.put_back();
        }
    }

    fn spend_token(&mut self, now: Timestamp) {
        self.tokens.spend(self.limit.rate, now);
    }
}

#[derive(Debug, Default)]
struct AppScope {
    scope: LimitedScope,
    /// Queues that wait for a slot of the app.
    waiting: VecDeque<EndpointId>,
    /// Queues that have one and wait for a slot of the node.
    at_node: VecDeque<EndpointId>,
    /// Slots that queues were granted and have not used yet.
    granted: BTreeMap<EndpointId, usize>,
}

#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimiter {
    node: LimitedScope,
    apps: HashMap<AppId, AppScope>,
    /// Apps with queues that wait for a slot of the node, in turn.
    app_turns: VecDeque<AppId>,
    /// Apps with queues that wait for a slot of the app.
    apps_waiting: BTreeSet<AppId>,
    /// Since when the token buckets of apps that are new here fill.
    started_at: Option<Timestamp>,
}

/// Queues that may send now, and when to check again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WokenQueues {
    pub(super) queues: Vec<EndpointId>,
    pub(super) next_check_at: Option<Timestamp>,
}

impl AppScope {
    fn use_granted(&mut self, queue: EndpointId) -> bool {
        let Some(given) = self.granted.get_mut(&queue) else { return false };
        *given -= 1;
        if *given == 0 {
            self.granted.remove(&queue);
        }
        true
    }
}

impl WokenQueues {
    /// Whether the limit is reached. If time alone frees it, notes when to check again.
    fn is_reached(&mut self, look: &Result<(), LimitReached>) -> bool {
        if let Err(LimitReached::Until(at)) = look {
            self.next_check_at = Some(self.next_check_at.map_or(*at, |known| known.min(*at)));
        }
        look.is_err()
    }
}

impl ConcurrencyLimiter {
    pub(super) fn new(node: ConcurrencyLimit) -> Self {
        Self { node: LimitedScope { limit: node, ..LimitedScope::default() }, ..Self::default() }
    }

    /// Starts all rate limits at `now` with no tokens saved up, as this process has sent nothing before.
    pub(super) fn start(&mut self, now: Timestamp) {
        self.started_at = Some(now);
        let apps = self.apps.values_mut().map(|own| &mut own.scope);
        apps.chain([&mut self.node]).for_each(|gate| gate.tokens = TokenBucket::empty_at(Some(now)));
    }

    /// Sets an app's limits; another rate than before starts with no token.
    pub(super) fn set_limit(&mut self, app: AppId, ceiling: ConcurrencyLimit) {
        let fills_since = self.started_at.filter(|_| !self.apps.contains_key(&app));
        let gate = &mut self.apps.entry(app).or_default().scope;
        if gate.limit.rate != ceiling.rate {
            gate.tokens.reset(fills_since);
        }
        gate.limit = ceiling;
        self.remove_if_idle(app);
    }

    /// Resets an app's tokens: another node may have sent for it until now, so none are saved up.
    pub(super) fn reset_tokens(&mut self, app: AppId, now: Timestamp) {
        if let Some(own) = self.apps.get_mut(&app) {
            own.scope.tokens.reset(Some(now));
        }
    }

    /// Whether the queue may send one request now, and which others may. If it may not, it waits until it is among those
    /// served.
    pub(super) fn try_admit(&mut self, app: AppId, queue: EndpointId, now: Timestamp) -> (bool, WokenQueues) {
        let own = self.apps.entry(app).or_default();
        if own.use_granted(queue) {
            return (true, WokenQueues::default());
        }
        let is_first = own.waiting.is_empty() && self.app_turns.is_empty();
        if is_first && own.scope.check(now).is_ok() && self.node.check(now).is_ok() {
            own.scope.take_slot();
            self.node.take_slot();
            return (true, WokenQueues::default());
        }
        if !own.waiting.contains(&queue) && !own.at_node.contains(&queue) {
            own.waiting.push_back(queue);
            self.apps_waiting.insert(app);
        }
        let mut served = self.grant_free(Some(app), now);
        let index = served.queues.iter().position(|served| *served == queue);
        if let Some(index) = index {
            served.queues.swap_remove(index);
        }
        let may = index.is_some() && self.apps.get_mut(&app).is_some_and(|own| own.use_granted(queue));
        (may, served)
    }

    /// Releases a slot: a request ended, or was admitted and never sent. Returns which queues may send now.
    pub(super) fn release_slot(&mut self, app: AppId, has_gone_out: bool, now: Timestamp) -> WokenQueues {
        self.node.release_slot(has_gone_out);
        if let Some(own) = self.apps.get_mut(&app) {
            own.scope.release_slot(has_gone_out);
        }
        let served = self.grant_free(Some(app), now);
        self.remove_if_idle(app);
        served
    }

    /// Passes slots to others that the queue was granted and does not need.
    pub(super) fn give_up_granted(&mut self, app: AppId, queue: EndpointId, now: Timestamp) -> WokenQueues {
        let Some(own) = self.apps.get_mut(&app) else { return WokenQueues::default() };
        let Some(given) = own.granted.remove(&queue) else { return WokenQueues::default() };
        for _ in 0..given {
            own.scope.release_slot(false);
            self.node.release_slot(false);
        }
        let served = self.grant_free(Some(app), now);
        self.remove_if_idle(app);
        served
    }

    /// Spends the tokens of an admitted request, which is sent now.
    pub(super) fn spend_tokens(&mut self, app: AppId, now: Timestamp) {
        self.node.spend_token(now);
        if let Some(own) = self.apps.get_mut(&app) {
            own.scope.spend_token(now);
        }
    }

    /// Whether an admitted request may be repeated at once; takes the tokens for it if so.
    pub(super) fn may_repeat(&mut self, app: AppId, now: Timestamp) -> bool {
        let own = self.apps.get_mut(&app).map(|own| &mut own.scope);
        let mut limiter: Vec<&mut LimitedScope> = own.into_iter().chain([&mut self.node]).collect();
        let may = limiter.iter_mut().all(|gate| gate.has_token(now));
        for gate in limiter.into_iter().filter(|_| may) {
            gate.tokens.reserve();
            gate.spend_token(now);
        }
        may
    }

    /// Whether the queue waits for a slot, or has one that it has not used.
    pub(super) fn holds_or_awaits_slot(&self, app: AppId, queue: EndpointId) -> bool {
        let has_place = self.apps.get(&app).is_some_and(|own| own.granted.contains_key(&queue));
        has_place || self.is_waiting(app, queue)
    }

    pub(super) fn is_waiting(&self, app: AppId, queue: EndpointId) -> bool {
        self.apps.get(&app).is_some_and(|own| own.waiting.contains(&queue) || own.at_node.contains(&queue))
    }

    /// Grants free slots to waiting queues: of one app, or of all.
    pub(super) fn grant_free(&mut self, only: Option<AppId>, now: Timestamp) -> WokenQueues {
        let mut served = WokenQueues::default();
        match only {
            Some(app) => self.grant_free_of_app(app, now, &mut served),
            None => self
                .apps_waiting
                .clone()
                .into_iter()
                .for_each(|app| self.grant_free_of_app(app, now, &mut served)),
        }
        while let Some(&app) = self.app_turns.front() {
            if served.is_reached(&self.node.check(now)) {
                break;
            }
            self.app_turns.pop_front();
            let Some(own) = self.apps.get_mut(&app) else { continue };
            let Some(queue) = own.at_node.pop_front() else { continue };
            self.node.take_slot();
            *own.granted.entry(queue).or_default() += 1;
            served.queues.push(queue);
            if !own.at_node.is_empty() {
                self.app_turns.push_back(app);
            }
        }
        served
    }

    /// Admits an app's queues by its own limits, to where the apps take turns.
    fn grant_free_of_app(&mut self, app: AppId, now: Timestamp, served: &mut WokenQueues) {
        let Some(own) = self.apps.get_mut(&app) else { return };
        while !own.waiting.is_empty() && !served.is_reached(&own.scope.check(now)) {
            own.scope.take_slot();
            if own.at_node.is_empty() {
                self.app_turns.push_back(app);
            }
            own.at_node.extend(own.waiting.pop_front());
        }
        if own.waiting.is_empty() {
            self.apps_waiting.remove(&app);
        }
    }

    /// Removes an app that has no limits, nothing in flight and no waiting queues.
    fn remove_if_idle(&mut self, app: AppId) {
        let is_idle = |own: &AppScope| {
            let waits = own.waiting.len() + own.at_node.len() + own.granted.len();
            own.scope.limit.is_none() && own.scope.in_flight + waits == 0
        };
        if self.apps.get(&app).is_some_and(is_idle) {
            self.apps.remove(&app);
        }
    }
}

#[cfg(test)]
mod tests;

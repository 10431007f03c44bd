//! Finds endpoint queues that are due, and leases from the store as many deliveries as there are free permits for.

use super::{
    lane::{Asking, Brought, Refillable},
    lanes::Lanes,
};
use crate::{
    domain::{directory::Directory, id::EndpointId, time::Timestamp},
    store::{
        Cluster, Ledger,
        ledger::{Refilled, Want},
    },
    world::{Clock, Shutdown},
};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Queues in one refill, and permits taken for each: large enough for a batch, small enough to be fair.
const LANES_PER_STEP: usize = 64;
const HANDS_PER_LANE: usize = 64;
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// Pause where a delivery is due and none came: another node is just leasing it, which takes a commit, as does asking again.
const PAUSE_AFTER_OTHERS: Duration = Duration::from_millis(50);
/// Among several nodes notifications may be lost: the store is searched this often, or less often if a search takes long:
/// the pause is then so many times as long as the search, up to `REST_MAX`.
const RECHECK_AMONG_OTHERS: Duration = Duration::from_secs(2);
const REST_PER_RECHECK: u32 = 20;
/// Longest pause for a slow search. It may have waited for the store instead of working: what is due must be found soon all
/// the same.
const REST_MAX: Duration = Duration::from_secs(15);

pub(super) struct Scheduler {
    pub(super) lanes: Arc<Lanes>,
    pub(super) directory: Arc<Directory>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recheck_every: Duration,
    pub(super) recheck_at: Timestamp,
}

impl Scheduler {
    pub(super) async fn run(mut self, stop: Shutdown) {
        loop {
            // Registered before the step, so that no notification is missed.
            let bell = self.lanes.scheduler.clone();
            let rung = bell.notified();
            let come_back = self.step().await;
            tokio::select! {
                biased;
                () = stop.soft() => return,
                () = rung => {}
                () = self.clock.rest_until(come_back) => {}
            }
        }
    }

    /// Leases what is due now. Returns when to come back.
    pub(super) async fn step(&mut self) -> Timestamp {
        let now = self.clock.now();
        let is_time = self.recheck_at.has_come(self.recheck_every.max(REST_MAX), now);
        if self.lanes.wants_recheck.swap(false, Relaxed) || is_time {
            self.recheck(now).await;
        }
        self.lanes.unblock();
        let wants = self.wants(now);
        let lanes: Vec<_> = wants.iter().map(|want| want.endpoint).collect();
        if wants.is_empty() {
            // Queues that are due and got no permits are set aside; going through many of them must not keep other tasks
            // waiting.
            tokio::task::yield_now().await;
            return self.lanes.first_due().unwrap_or(self.recheck_at).min(self.recheck_at);
        }
        match self.ledger.refill(wants, now).await {
            Ok(refilled) => {
                for Refilled { endpoint, has_none, has_more_fresh, has_more_by_hand, next_due } in refilled {
                    self.settle(
                        endpoint,
                        Brought { has_none, has_more_fresh, has_more_by_hand, next_due },
                        now,
                    );
                }
                self.lanes.first_due().unwrap_or(self.recheck_at).min(self.recheck_at)
            }
            Err(error) => {
                tracing::warn!(%error, "could not fetch what is due");
                let again = now.plus(PAUSE_AFTER_ERROR);
                // The result is unknown: everything that was requested may still be there.
                let brought = Brought {
                    has_none: true,
                    has_more_fresh: true,
                    has_more_by_hand: true,
                    next_due: Some(again),
                };
                for endpoint in lanes {
                    self.settle(endpoint, brought, now);
                }
                again
            }
        }
    }

    fn wants(&self, now: Timestamp) -> Vec<Want> {
        let mut seen = HashSet::new();
        let mut wants = Vec::new();
        for lane in self.lanes.take_due(now, LANES_PER_STEP) {
            if !seen.insert(lane.endpoint) {
                continue;
            }
            match lane.take_for_refill(HANDS_PER_LANE, now) {
                Refillable::Blocked => self.lanes.block(lane),
                Refillable::Closed(until) => {
                    if let Some(until) = until {
                        self.lanes.put_due(&lane, until);
                    }
                }
                Refillable::Ask(Asking { hands, is_probe, fresh, by_hand, backlog_until }) => {
                    let (endpoint, bytes_max) = (lane.endpoint, self.lanes.bytes_free() / LANES_PER_STEP);
                    let contract = self.directory.endpoint(endpoint).map(|found| found.contract.clone());
                    wants.push(Want {
                        endpoint,
                        hands,
                        is_probe,
                        backlog_until,
                        fresh,
                        by_hand,
                        bytes_max,
                        contract,
                    });
                }
            }
        }
        wants
    }

    fn settle(&self, endpoint: EndpointId, brought: Brought, now: Timestamp) {
        let lane = self.lanes.lane(endpoint);
        let is_met = !self.lanes.tenure().is_alone() && meets_others(brought, now);
        if let Some(due) = lane.settle_due(brought, now) {
            self.lanes.put_due(&lane, if is_met { due.max(now.plus(PAUSE_AFTER_OTHERS)) } else { due });
        }
    }

    /// Searches the store for due queues: notifications may be lost, the store is the truth.
    async fn recheck(&mut self, now: Timestamp) {
        let begun = self.clock.steady();
        match self.cluster.find_lanes().await {
            Ok(found) => {
                for (endpoint, due) in found {
                    self.lanes.recheck(endpoint, due);
                }
            }
            Err(error) => tracing::warn!(%error, "could not search the store for due queues"),
        }
        let every = if self.lanes.tenure().is_alone() {
            self.recheck_every
        } else {
            let took = self.clock.steady().since(begun);
            self.recheck_every.min(RECHECK_AMONG_OTHERS).max((took * REST_PER_RECHECK).min(REST_MAX))
        };
        self.recheck_at = now.plus(every);
    }
}

/// Whether a delivery is due, and none came.
fn meets_others(brought: Brought, now: Timestamp) -> bool {
    let Brought { has_none, has_more_fresh, has_more_by_hand, next_due } = brought;
    has_none && !has_more_fresh && !has_more_by_hand && next_due.is_some_and(|due| due <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_is_assumed_only_where_something_is_due_and_nothing_came() {
        let now = Timestamp::from_millis(1000);
        let none =
            Brought { has_none: true, has_more_fresh: false, has_more_by_hand: false, next_due: Some(now) };
        assert!(meets_others(none, now));
        let later = now.plus(Duration::from_millis(1));
        for other in [
            Brought { has_none: false, ..none },
            Brought { has_more_fresh: true, ..none },
            Brought { has_more_by_hand: true, ..none },
            Brought { next_due: Some(later), ..none },
            Brought { next_due: None, ..none },
        ] {
            assert!(!meets_others(other, now));
        }
    }
}

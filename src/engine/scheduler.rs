//! Finds endpoint queues that are due, and leases from the store as many deliveries as there are free permits for.

use super::{
    endpoint_queue::{RefillDecision, RefillOutcome, RefillPermits},
    endpoint_queues::EndpointQueues,
};
use crate::{
    domain::{id::EndpointId, time::Timestamp},
    runtime::{Clock, ConfigCache, Shutdown},
    store::{
        ClusterStore, DeliveryStore,
        deliveries::{LeaseRequest, LeaseResult},
    },
};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Queues in one refill, and permits taken for each: large enough for a batch, small enough to be fair.
const QUEUES_PER_STEP: usize = 64;
const PERMITS_PER_QUEUE: usize = 64;
const REFILL_ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Pause where a delivery is due and none came: another node is just leasing it, which takes a commit, as does asking again.
const REFILL_CONTENTION_PAUSE: Duration = Duration::from_millis(50);
/// Among several nodes notifications may be lost: the store is searched this often, or less often if a search takes long:
/// the pause is then so many times as long as the search, up to `RECHECK_PAUSE_MAX`.
const RECHECK_EVERY_IN_CLUSTER: Duration = Duration::from_secs(2);
const RECHECK_PAUSE_FACTOR: u32 = 20;
/// Longest pause for a slow search. It may have waited for the store instead of working: what is due must be found soon all
/// the same.
const RECHECK_PAUSE_MAX: Duration = Duration::from_secs(15);

pub(super) struct Scheduler {
    pub(super) queues: Arc<EndpointQueues>,
    pub(super) config_cache: Arc<ConfigCache>,
    pub(super) delivery_store: Arc<dyn DeliveryStore>,
    pub(super) cluster_store: Arc<dyn ClusterStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recheck_every: Duration,
    pub(super) recheck_at: Timestamp,
}

impl Scheduler {
    pub(super) async fn run(mut self, stop: Shutdown) {
        loop {
            // Registered before the step, so that no notification is missed.
            let notify = self.queues.refills.clone();
            let notified = notify.notified();
            let come_back = self.step().await;
            tokio::select! {
                biased;
                () = stop.graceful() => return,
                () = notified => {}
                () = self.clock.idle_until(come_back) => {}
            }
        }
    }

    /// Leases what is due now. Returns when to come back.
    pub(super) async fn step(&mut self) -> Timestamp {
        let now = self.clock.now();
        let is_time = self.recheck_at.is_due(self.recheck_every.max(RECHECK_PAUSE_MAX), now);
        if self.queues.wants_recheck.swap(false, Relaxed) || is_time {
            self.recheck(now).await;
        }
        self.queues.unblock();
        let requests = self.refill_requests(now);
        let queues: Vec<_> = requests.iter().map(|request| request.endpoint).collect();
        if requests.is_empty() {
            // Queues that are due and got no permits are set aside; going through many of them must not keep other tasks
            // waiting.
            tokio::task::yield_now().await;
            return self.queues.first_due().unwrap_or(self.recheck_at).min(self.recheck_at);
        }
        match self.delivery_store.lease_due(requests, now).await {
            Ok(refilled) => {
                for LeaseResult {
                    endpoint,
                    has_no_oldest: has_none,
                    has_more_fresh,
                    has_more_manual,
                    next_due,
                } in refilled
                {
                    self.finish_refill(
                        endpoint,
                        RefillOutcome { has_none, has_more_fresh, has_more_manual, next_due },
                        now,
                    );
                }
                self.queues.first_due().unwrap_or(self.recheck_at).min(self.recheck_at)
            }
            Err(error) => {
                tracing::warn!(%error, "could not fetch what is due");
                let again = now.plus(REFILL_ERROR_PAUSE);
                // The result is unknown: everything that was requested may still be there.
                let outcome = RefillOutcome {
                    has_none: true,
                    has_more_fresh: true,
                    has_more_manual: true,
                    next_due: Some(again),
                };
                for endpoint in queues {
                    self.finish_refill(endpoint, outcome, now);
                }
                again
            }
        }
    }

    fn refill_requests(&self, now: Timestamp) -> Vec<LeaseRequest> {
        let mut seen = HashSet::new();
        let mut requests = Vec::new();
        for queue in self.queues.take_due(now, QUEUES_PER_STEP) {
            if !seen.insert(queue.endpoint) {
                continue;
            }
            match queue.begin_refill(PERMITS_PER_QUEUE, now) {
                RefillDecision::Blocked => self.queues.block(queue),
                RefillDecision::NotBefore(until) => {
                    if let Some(until) = until {
                        self.queues.put_due(&queue, until);
                    }
                }
                RefillDecision::Refill(RefillPermits {
                    overdue: permits,
                    is_probe,
                    fresh,
                    manual,
                    backlog_until,
                }) => {
                    let (endpoint, bytes_max) = (queue.endpoint, self.queues.bytes_free() / QUEUES_PER_STEP);
                    let contract = self.config_cache.endpoint(endpoint).map(|found| found.contract.clone());
                    requests.push(LeaseRequest {
                        endpoint,
                        permits,
                        is_probe,
                        backlog_until,
                        fresh_permits: fresh,
                        manual_permits: manual,
                        bytes_max,
                        contract,
                    });
                }
            }
        }
        requests
    }

    fn finish_refill(&self, endpoint: EndpointId, outcome: RefillOutcome, now: Timestamp) {
        let queue = self.queues.queue(endpoint);
        let is_met = !self.queues.node_state().is_single_node() && is_leased_elsewhere(outcome, now);
        if let Some(due) = queue.finish_refill(outcome, now) {
            self.queues
                .put_due(&queue, if is_met { due.max(now.plus(REFILL_CONTENTION_PAUSE)) } else { due });
        }
    }

    /// Searches the store for due queues: notifications may be lost, the store is the truth.
    async fn recheck(&mut self, now: Timestamp) {
        let begun = self.clock.monotonic();
        match self.cluster_store.find_queues().await {
            Ok(found) => {
                for (endpoint, due) in found {
                    self.queues.recheck(endpoint, due);
                }
            }
            Err(error) => tracing::warn!(%error, "could not search the store for due queues"),
        }
        let every = if self.queues.node_state().is_single_node() {
            self.recheck_every
        } else {
            let took = self.clock.monotonic().since(begun);
            self.recheck_every
                .min(RECHECK_EVERY_IN_CLUSTER)
                .max((took * RECHECK_PAUSE_FACTOR).min(RECHECK_PAUSE_MAX))
        };
        self.recheck_at = now.plus(every);
    }
}

/// Whether a delivery is due, and none came.
fn is_leased_elsewhere(outcome: RefillOutcome, now: Timestamp) -> bool {
    let RefillOutcome { has_none, has_more_fresh, has_more_manual, next_due } = outcome;
    has_none && !has_more_fresh && !has_more_manual && next_due.is_some_and(|due| due <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_is_assumed_only_where_something_is_due_and_nothing_came() {
        let now = Timestamp::from_millis(1000);
        let none = RefillOutcome {
            has_none: true,
            has_more_fresh: false,
            has_more_manual: false,
            next_due: Some(now),
        };
        assert!(is_leased_elsewhere(none, now));
        let later = now.plus(Duration::from_millis(1));
        for other in [
            RefillOutcome { has_none: false, ..none },
            RefillOutcome { has_more_fresh: true, ..none },
            RefillOutcome { has_more_manual: true, ..none },
            RefillOutcome { next_due: Some(later), ..none },
            RefillOutcome { next_due: None, ..none },
        ] {
            assert!(!is_leased_elsewhere(other, now));
        }
    }
}

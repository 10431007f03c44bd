//! Sending across all queues: picks what is next, processes the return of a delivery worker, and wakes queues that may send.

use super::{
    admission::{AdmissionTicket, Admitted, SendResult},
    concurrency_limiter::WokenQueues,
    endpoint_queue::EndpointQueue,
    endpoint_queues::EndpointQueues,
    timers::TimerKey,
};
use crate::domain::{
    circuit_breaker::{CircuitTransition, PausedUntil},
    id::EndpointId,
    time::Timestamp,
};
use std::sync::Arc;

impl EndpointQueues {
    /// Returns the queue's next delivery, if one may be sent; wakes other queues that may send.
    pub(super) fn next(&self, queue: &EndpointQueue, now: Timestamp) -> Option<Admitted> {
        let (next, served) = queue.try_admit_next(now);
        self.wake_queues(served, now);
        next
    }

    /// Processes the return of a delivery worker; `report` is `None` if nothing is known of what it sent.
    pub(super) fn finish_request(
        &self,
        queue: &Arc<EndpointQueue>,
        ticket: &AdmissionTicket,
        report: Option<SendResult>,
        now: Timestamp,
    ) {
        let (change, next_check_at) = queue.finish_request(ticket, report, now);
        self.wake_queues(queue.release_slot(ticket, now), now);
        if change == CircuitTransition::Recovered {
            let recovered = (queue.endpoint, report.map_or(now, |report| report.ended_at));
            let _ = self.recovered_endpoints.send(recovered);
        }
        // A throttled queue releases what it has in memory; a wider one needs more workers.
        if change != CircuitTransition::Unchanged {
            let _ = self.ready.send(queue.clone());
        }
        if let Some(due) = next_check_at {
            self.put_due(queue, due);
            self.refills.notify_one();
        }
    }

    /// Passes slots to others that the queue was granted and has no use for.
    pub(super) fn give_up_granted(&self, queue: &EndpointQueue, now: Timestamp) {
        self.wake_queues(queue.give_up_granted(now), now);
    }

    pub(super) fn grant_free_slots(&self, now: Timestamp) {
        let served = self.limiter().grant_free(None, now);
        self.wake_queues(served, now);
    }

    fn wake_queues(&self, served: WokenQueues, now: Timestamp) {
        for queue in served.queues {
            let _ = self.ready.send(self.queue(queue));
        }
        if let Some(at) = served.next_check_at {
            self.context.timers.set(at, TimerKey::Limiter, now);
        }
    }

    /// Opens the circuit breaker of an endpoint that failed before this process began: it is probed before anything else is
    /// sent to it.
    pub fn start_half_open(&self, endpoint: EndpointId, now: Timestamp) {
        let queue = self.queue(endpoint);
        if let Some(due) = queue.start_half_open(now) {
            self.put_due(&queue, due);
            self.refills.notify_one();
        }
    }

    /// Resumes a pause that the endpoint asked for before this process began; what waits for it is found when that is over.
    pub(super) fn resume_pause(&self, endpoint: EndpointId, paused: PausedUntil, now: Timestamp) {
        self.queue(endpoint).resume_pause(paused, now);
    }

    /// Returns how many endpoints are paused, and how many circuit breakers are open.
    pub(super) fn throttled_counts(&self, now: Timestamp) -> (usize, usize) {
        let throttled = self.all().into_iter().map(|queue| queue.throttle_state(now));
        throttled.fold((0, 0), |(paused, open), one| (paused + usize::from(one.0), open + usize::from(one.1)))
    }
}

//! Starts delivery workers for queues with something to send, within the limits of each queue, its app and the node.

use super::{
    LAST_WRITE_TIMEOUT,
    admission::{AdmissionTicket, OutgoingDelivery, SendResult},
    delivery_worker::DeliveryWorker,
    endpoint_queue::EndpointQueue,
    endpoint_queues::EndpointQueues,
    timers::{TIMER_AHEAD_MAX, TimerKey},
};
use crate::{
    domain::{ports::LeasedDelivery, time::Timestamp},
    runtime::{Clock, Shutdown},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};

pub(super) struct Dispatcher {
    pub(super) queues: Arc<EndpointQueues>,
    pub(super) ready: mpsc::UnboundedReceiver<Arc<EndpointQueue>>,
    pub(super) delivery_worker: Arc<DeliveryWorker>,
    pub(super) grace_period: Duration,
}

impl Dispatcher {
    /// Runs until stopped. Then it releases, unattempted, what no worker has taken, and gives requests in flight the grace
    /// period; the rest end as "outcome unknown".
    pub(super) async fn run(&mut self, stop: Shutdown) {
        let mut workers = JoinSet::new();
        let context = self.queues.context.clone();
        let mut come_back = None;
        loop {
            tokio::select! {
                biased;
                () = stop.graceful() => break,
                queue = self.ready.recv() => match queue {
                    // An endless stream of ready queues must not delay timers that are due.
                    Some(queue) => {
                        let now = self.start_workers(&queue, &mut workers);
                        if context.timers.is_due(now) {
                            self.run_due_timers(now, &mut workers);
                        }
                    }
                    None => break,
                },
                () = context.timers.first_changed.notified() => come_back = context.timers.first(),
                () = sleep_until_timer(&*self.delivery_worker.clock, come_back) => {
                    self.run_due_timers(self.delivery_worker.clock.now(), &mut workers);
                    come_back = context.timers.first();
                }
                Some(_) = workers.join_next(), if !workers.is_empty() => {}
            }
        }
        self.queues.close_permits();
        self.release_queued().await;
        let wait_for_all = async { while workers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace_period, wait_for_all).await.is_err() {
            tracing::warn!(unfinished = workers.len(), "the grace period is over");
            workers.shutdown().await;
        }
    }

    /// Serves all timers that are due.
    fn run_due_timers(&self, now: Timestamp, workers: &mut JoinSet<()>) {
        for sleeper in self.queues.context.timers.take_due(now) {
            match sleeper {
                TimerKey::Limiter => self.queues.grant_free_slots(now),
                TimerKey::Queue(endpoint) => {
                    let queue = self.queues.queue(endpoint);
                    queue.clear_timer();
                    self.start_workers(&queue, workers);
                }
            }
        }
    }

    /// Starts workers for all that the queue may send now. Returns the time at which it did.
    fn start_workers(&self, queue: &Arc<EndpointQueue>, workers: &mut JoinSet<()>) -> Timestamp {
        let now = self.delivery_worker.clock.now();
        let misplaced = queue.take_unsendable(now);
        if !misplaced.is_empty() {
            // The result is not awaited: the command is queued as soon as it is called.
            drop(self.delivery_worker.store.release(misplaced, now));
        }
        while let Some((sending, ticket)) = self.queues.next(queue, now) {
            let (queues, queue, worker) = (self.queues.clone(), queue.clone(), self.delivery_worker.clone());
            let mut out = RunningWorker { queues, queue, delivery_worker: worker, ticket: Some(ticket) };
            workers.spawn(async move {
                let mut next = Some(sending);
                while let Some(sending) = next {
                    next = out.process_one(sending).await;
                }
            });
        }
        self.queues.give_up_granted(queue, now);
        now
    }

    /// Releases, unattempted, what no delivery worker has taken.
    pub(super) async fn release_queued(&self) {
        let queued: Vec<LeasedDelivery> =
            self.queues.all().iter().flat_map(|queue| queue.take_queued()).collect();
        if queued.is_empty() {
            return;
        }
        let now = self.delivery_worker.clock.now();
        let count = queued.len();
        let handed_back = self.delivery_worker.store.release(queued, now);
        match tokio::time::timeout(LAST_WRITE_TIMEOUT, handed_back).await {
            Ok(Ok(())) => tracing::info!(count, "released deliveries that were not yet sent"),
            Ok(Err(error)) => {
                tracing::error!(%error, count, "could not release unsent deliveries; the next start takes over");
            }
            Err(_) => tracing::error!(
                count,
                "the store did not release unsent deliveries in time; the next start takes over"
            ),
        }
    }
}

/// Sleeps until `at`, or forever without it. At most `TIMER_AHEAD_MAX`, so that a clock that was set back is noticed.
async fn sleep_until_timer(clock: &dyn Clock, at: Option<Timestamp>) {
    match at {
        Some(at) => drop(tokio::time::timeout(TIMER_AHEAD_MAX, clock.sleep_until(at)).await),
        None => std::future::pending().await,
    }
}

/// A running delivery worker: counted in its queue and in the concurrency limiter, and counted out even if it panics.
struct RunningWorker {
    queues: Arc<EndpointQueues>,
    queue: Arc<EndpointQueue>,
    delivery_worker: Arc<DeliveryWorker>,
    ticket: Option<AdmissionTicket>,
}

impl RunningWorker {
    /// Makes one delivery, and returns the next if one may be sent.
    async fn process_one(&mut self, sending: OutgoingDelivery) -> Option<OutgoingDelivery> {
        let ticket = self.ticket.as_ref()?;
        let report = self.delivery_worker.process(sending, &self.queue, ticket).await;
        let now = self.finish(report);
        let (next, ticket) = self.queues.next(&self.queue, now)?;
        self.ticket = Some(ticket);
        Some(next)
    }

    fn finish(&mut self, report: Option<SendResult>) -> Timestamp {
        let now = self.delivery_worker.clock.now();
        if let Some(ticket) = self.ticket.take() {
            self.queues.finish_request(&self.queue, &ticket, report, now);
        }
        now
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.finish(None);
    }
}

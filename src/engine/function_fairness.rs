//! Fairness between apps for slow payload functions: which functions of an app took long lately, for which events, and the
//! app's turns for such runs. An app without slow functions has no entry and needs none.

use crate::domain::id::{AppId, EventId};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// How long a function that took long once is in doubt.
pub(super) const DOUBT_AFTER_SLOW_RUN: Duration = Duration::from_secs(10);
/// Deliveries of one app that may wait for one turn; the others go back to the store at once and make room in their queues.
const TURN_WAITERS_MAX: usize = 4;
const SLOW_EVENTS_MAX: usize = 256;

/// An event type and the name of one of its versions.
pub(super) type FunctionName = (String, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct AppFairness(Mutex<HashMap<AppId, Arc<AppSlowRuns>>>);

#[derive(Debug, Default)]
pub(super) struct AppSlowRuns {
    /// For trying a function that is in doubt.
    pub(super) doubtful: SlowRunQueue,
    /// For runs that take long.
    pub(super) slow: SlowRunQueue,
    slow_runs: Mutex<SlowRuns>,
}

#[derive(Debug, Default)]
struct SlowRuns {
    /// Functions in doubt, each with the end of the doubt.
    functions: HashMap<FunctionName, Instant>,
    events: VecDeque<EventId>,
}

/// Expected duration of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedDuration {
    Quick,
    /// Its function took long lately, for another event.
    Doubtful,
    /// Its function took long for this event.
    Slow,
}

impl AppFairness {
    pub(super) fn of(&self, app: AppId) -> Option<Arc<AppSlowRuns>> {
        self.lock().get(&app).cloned()
    }

    pub(super) fn note_slow(&self, app: AppId, function: FunctionName, event: EventId) -> Arc<AppSlowRuns> {
        let now = Instant::now();
        let mut fairness = self.lock();
        if fairness.len() == fairness.capacity() {
            fairness.retain(|_, slow_runs| Arc::strong_count(slow_runs) > 1 || slow_runs.is_in_doubt(now));
        }
        let slow_runs = fairness.entry(app).or_default().clone();
        drop(fairness);
        slow_runs.note(function, event, now + DOUBT_AFTER_SLOW_RUN);
        slow_runs
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AppId, Arc<AppSlowRuns>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AppSlowRuns {
    pub(super) fn note(&self, function: FunctionName, event: EventId, until: Instant) {
        let now = Instant::now();
        let mut known = self.slow_runs();
        known.functions.retain(|_, until| now < *until);
        let doubt = known.functions.entry(function).or_insert(until);
        *doubt = until.max(*doubt);
        if !known.events.contains(&event) {
            known.events.push_back(event);
        }
        let surplus = known.events.len().saturating_sub(SLOW_EVENTS_MAX);
        known.events.drain(..surplus);
    }

    pub(super) fn expected(&self, function: &FunctionName, event: EventId) -> ExpectedDuration {
        let (known, now) = (self.slow_runs(), Instant::now());
        if known.events.contains(&event) {
            ExpectedDuration::Slow
        } else if known.functions.get(function).is_some_and(|until| now < *until) {
            ExpectedDuration::Doubtful
        } else {
            ExpectedDuration::Quick
        }
    }

    fn is_in_doubt(&self, now: Instant) -> bool {
        self.slow_runs().functions.values().any(|until| now < *until)
    }

    fn slow_runs(&self) -> MutexGuard<'_, SlowRuns> {
        self.slow_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that one run has and a few wait for, first come, first served.
#[derive(Debug)]
pub(super) struct SlowRunQueue {
    slow_runs: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for SlowRunQueue {
    fn default() -> Self {
        Self { slow_runs: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) }
    }
}

impl SlowRunQueue {
    /// Waits for the turn; `None` if it does not come until then, or too many wait for it.
    pub(super) async fn take(&self, until: Instant) -> Option<OwnedSemaphorePermit> {
        if let Some(slow_runs) = self.take_free() {
            return Some(slow_runs);
        }
        let _waiting = TurnWaiter::enter(&self.waiting)?;
        timeout_at(until, self.slow_runs.clone().acquire_owned()).await.ok()?.ok()
    }

    pub(super) fn take_free(&self) -> Option<OwnedSemaphorePermit> {
        self.slow_runs.clone().try_acquire_owned().ok()
    }
}

/// Counts a run while it waits, also if it stops waiting early.
struct TurnWaiter<'a>(&'a AtomicUsize);

impl<'a> TurnWaiter<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Option<Self> {
        let counted = Self(waiting);
        (waiting.fetch_add(1, Relaxed) < TURN_WAITERS_MAX).then_some(counted)
    }
}

impl Drop for TurnWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    fn function(version: &str) -> FunctionName {
        ("payment.created".into(), version.into())
    }

    #[tokio::test(start_paused = true)]
    async fn one_has_the_turn_and_the_next_gets_it_or_gives_up_in_time() {
        let slow_runs = Arc::new(AppSlowRuns::default());
        let first = slow_runs.slow.take(soon()).await.unwrap();
        let begun = Instant::now();
        assert!(slow_runs.slow.take(soon()).await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        let waiting = tokio::spawn({
            let slow_runs = slow_runs.clone();
            async move { slow_runs.slow.take(soon()).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(slow_runs.slow.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_few_wait_and_an_aborted_wait_is_not_counted() {
        let slow_runs = Arc::new(AppSlowRuns::default());
        let _running = slow_runs.doubtful.take(soon()).await.unwrap();
        let wait = || {
            let slow_runs = slow_runs.clone();
            tokio::spawn(async move { slow_runs.doubtful.take(soon()).await.is_some() })
        };
        let many: Vec<_> = (0..20).map(|_| wait()).collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(slow_runs.doubtful.waiting.load(Relaxed), TURN_WAITERS_MAX);
        many.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(slow_runs.doubtful.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_function_is_in_doubt_for_a_while_in_its_own_app_only() {
        let (fairness, app) = (AppFairness::default(), AppId::from_i64(1));
        let slow_runs = fairness.note_slow(app, function("1"), EventId::from_i64(7));
        let expected =
            |version: &str, event| slow_runs.expected(&function(version), EventId::from_i64(event));
        assert_eq!(expected("1", 7), ExpectedDuration::Slow);
        assert_eq!(expected("1", 8), ExpectedDuration::Doubtful);
        assert_eq!(expected("2", 8), ExpectedDuration::Quick);
        assert!(fairness.of(AppId::from_i64(2)).is_none());
        tokio::time::sleep(DOUBT_AFTER_SLOW_RUN).await;
        assert_eq!(expected("1", 8), ExpectedDuration::Quick);
        assert_eq!(expected("1", 7), ExpectedDuration::Slow, "an event does not change");
        let later = EventId::from_i64(1000);
        (100..355).for_each(|event| slow_runs.note(function("1"), EventId::from_i64(event), soon()));
        assert_eq!(expected("1", 7), ExpectedDuration::Slow);
        slow_runs.note(function("1"), later, soon());
        assert_eq!(expected("1", 7), ExpectedDuration::Doubtful, "only so many are remembered");
    }
}

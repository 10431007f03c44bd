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
pub(super) const IN_DOUBT: Duration = Duration::from_secs(10);
/// Deliveries of one app that may wait for one turn; the others go back to the store at once and make room in their queues.
const WAITING_MAX: usize = 4;
const LONG_EVENTS_KEPT: usize = 256;

/// An event type and the name of one of its versions.
pub(super) type FunctionName = (String, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<AppId, Arc<Turn>>>);

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// For trying a function that is in doubt.
    pub(super) trying: Queue,
    /// For runs that take long.
    pub(super) aside: Queue,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Functions in doubt, each with the end of the doubt.
    functions: HashMap<FunctionName, Instant>,
    events: VecDeque<EventId>,
}

/// Expected duration of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Quick,
    /// Its function took long lately, for another event.
    Doubtful,
    /// Its function took long for this event.
    Long,
}

impl Turns {
    pub(super) fn of(&self, app: AppId) -> Option<Arc<Turn>> {
        self.lock().get(&app).cloned()
    }

    pub(super) fn note_long(&self, app: AppId, function: FunctionName, event: EventId) -> Arc<Turn> {
        let now = Instant::now();
        let mut turns = self.lock();
        if turns.len() == turns.capacity() {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1 || turn.is_in_doubt(now));
        }
        let turn = turns.entry(app).or_default().clone();
        drop(turns);
        turn.note(function, event, now + IN_DOUBT);
        turn
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AppId, Arc<Turn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    pub(super) fn note(&self, function: FunctionName, event: EventId, until: Instant) {
        let now = Instant::now();
        let mut known = self.known();
        known.functions.retain(|_, until| now < *until);
        let doubt = known.functions.entry(function).or_insert(until);
        *doubt = until.max(*doubt);
        if !known.events.contains(&event) {
            known.events.push_back(event);
        }
        let surplus = known.events.len().saturating_sub(LONG_EVENTS_KEPT);
        known.events.drain(..surplus);
    }

    pub(super) fn expected(&self, function: &FunctionName, event: EventId) -> Expected {
        let (known, now) = (self.known(), Instant::now());
        if known.events.contains(&event) {
            Expected::Long
        } else if known.functions.get(function).is_some_and(|until| now < *until) {
            Expected::Doubtful
        } else {
            Expected::Quick
        }
    }

    fn is_in_doubt(&self, now: Instant) -> bool {
        self.known().functions.values().any(|until| now < *until)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that one run has and a few wait for, first come, first served.
#[derive(Debug)]
pub(super) struct Queue {
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Queue {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) }
    }
}

impl Queue {
    /// Waits for the turn; `None` if it does not come until then, or too many wait for it.
    pub(super) async fn take(&self, until: Instant) -> Option<OwnedSemaphorePermit> {
        if let Some(turn) = self.take_free() {
            return Some(turn);
        }
        let _waiting = Waiting::in_line(&self.waiting)?;
        timeout_at(until, self.turn.clone().acquire_owned()).await.ok()?.ok()
    }

    pub(super) fn take_free(&self) -> Option<OwnedSemaphorePermit> {
        self.turn.clone().try_acquire_owned().ok()
    }
}

/// Counts a run while it waits, also if it stops waiting early.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn in_line(waiting: &'a AtomicUsize) -> Option<Self> {
        let counted = Self(waiting);
        (waiting.fetch_add(1, Relaxed) < WAITING_MAX).then_some(counted)
    }
}

impl Drop for Waiting<'_> {
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
        let turn = Arc::new(Turn::default());
        let first = turn.aside.take(soon()).await.unwrap();
        let begun = Instant::now();
        assert!(turn.aside.take(soon()).await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        let waiting = tokio::spawn({
            let turn = turn.clone();
            async move { turn.aside.take(soon()).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(turn.aside.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_few_wait_and_an_aborted_wait_is_not_counted() {
        let turn = Arc::new(Turn::default());
        let _running = turn.trying.take(soon()).await.unwrap();
        let wait = || {
            let turn = turn.clone();
            tokio::spawn(async move { turn.trying.take(soon()).await.is_some() })
        };
        let many: Vec<_> = (0..20).map(|_| wait()).collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(turn.trying.waiting.load(Relaxed), WAITING_MAX);
        many.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(turn.trying.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_function_is_in_doubt_for_a_while_in_its_own_app_only() {
        let (turns, app) = (Turns::default(), AppId::from_i64(1));
        let turn = turns.note_long(app, function("1"), EventId::from_i64(7));
        let expected = |version: &str, event| turn.expected(&function(version), EventId::from_i64(event));
        assert_eq!(expected("1", 7), Expected::Long);
        assert_eq!(expected("1", 8), Expected::Doubtful);
        assert_eq!(expected("2", 8), Expected::Quick);
        assert!(turns.of(AppId::from_i64(2)).is_none());
        tokio::time::sleep(IN_DOUBT).await;
        assert_eq!(expected("1", 8), Expected::Quick);
        assert_eq!(expected("1", 7), Expected::Long, "an event does not change");
        let later = EventId::from_i64(1000);
        (100..355).for_each(|event| turn.note(function("1"), EventId::from_i64(event), soon()));
        assert_eq!(expected("1", 7), Expected::Long);
        turn.note(function("1"), later, soon());
        assert_eq!(expected("1", 7), Expected::Doubtful, "only so many are remembered");
    }
}

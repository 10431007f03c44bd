//! The turn of one payload function: who runs it now, who waits, and which events it takes long for.

use crate::domain::id::EventId;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Deliveries that may wait behind a run that takes long; the others go back at once and make room in their lanes.
const WAITING_BEHIND_LONG_MAX: usize = 8;
const LONG_EVENTS_KEPT: usize = 256;

#[derive(Debug)]
pub(super) struct Turn {
    place: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Its last run took long.
    is_long: AtomicBool,
    long_events: Mutex<VecDeque<EventId>>,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            place: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            is_long: AtomicBool::new(false),
            long_events: Mutex::default(),
        }
    }
}

impl Turn {
    /// `None` if it does not come until then, or too many wait for a function that takes long.
    pub(super) async fn take(&self, until: Instant) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.place.clone().try_acquire_owned() {
            return Some(place);
        }
        let _waiting = Waiting::behind(self)?;
        timeout_at(until, self.place.clone().acquire_owned()).await.ok()?.ok()
    }

    /// Remembers how a run went: an event that took long once has had its turn, and goes aside from then on.
    pub(super) fn note(&self, event: EventId, was_quick: bool) {
        self.is_long.store(!was_quick, Relaxed);
        if !was_quick {
            let mut events = self.long_events();
            events.push_back(event);
            let surplus = events.len().saturating_sub(LONG_EVENTS_KEPT);
            events.drain(..surplus);
        }
    }

    pub(super) fn is_long(&self) -> bool {
        self.is_long.load(Relaxed)
    }

    pub(super) fn is_known_as_long(&self, event: EventId) -> bool {
        self.long_events().contains(&event)
    }

    fn long_events(&self) -> MutexGuard<'_, VecDeque<EventId>> {
        self.long_events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counted for as long as it waits, also if it goes away meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn behind(turn: &'a Turn) -> Option<Self> {
        let waiting = Self(&turn.waiting);
        let before = turn.waiting.fetch_add(1, Relaxed);
        (!turn.is_long() || before < WAITING_BEHIND_LONG_MAX).then_some(waiting)
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
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn one_has_the_turn_and_the_next_gets_it_or_gives_up_in_time() {
        let turn = Arc::new(Turn::default());
        let first = turn.take(soon()).await.unwrap();
        let begun = Instant::now();
        assert!(turn.take(soon()).await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        let waiting = tokio::spawn({
            let turn = turn.clone();
            async move { turn.take(soon()).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(turn.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn few_wait_behind_a_function_that_takes_long_and_many_behind_a_quick_one() {
        let turn = Arc::new(Turn::default());
        let _running = turn.take(soon()).await.unwrap();
        let wait = || {
            let turn = turn.clone();
            tokio::spawn(async move { turn.take(soon()).await.is_some() })
        };
        let behind_quick: Vec<_> = (0..20).map(|_| wait()).collect();
        tokio::task::yield_now().await;
        assert_eq!(turn.waiting.load(Relaxed), 20);
        behind_quick.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(turn.waiting.load(Relaxed), 0, "who goes away waits no more");
        turn.note(EventId::from_i64(1), false);
        let _behind_long: Vec<_> = (0..20).map(|_| wait()).collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(turn.waiting.load(Relaxed), WAITING_BEHIND_LONG_MAX);
    }

    #[test]
    fn events_that_took_long_are_remembered_up_to_a_number() {
        let turn = Turn::default();
        (0..300).for_each(|event| turn.note(EventId::from_i64(event), false));
        turn.note(EventId::from_i64(1000), true);
        let known = |event| turn.is_known_as_long(EventId::from_i64(event));
        assert!(known(299) && known(44) && !known(43) && !known(1000) && !turn.is_long());
    }
}

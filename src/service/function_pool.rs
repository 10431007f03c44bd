//! Thread pool that compiles event types, tries payload functions and checks large data against schemas. Separate from the
//! engine's threads. The operator has slots that apps cannot take, and each app runs one piece of work at a time.

use super::Error;
use crate::{domain::id::AppId, runtime::run_on_own_thread};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

const OPERATOR_SLOTS: usize = 2;
const APP_SLOTS: usize = 2;
const SLOT_WAIT_MAX: Duration = Duration::from_secs(1);
/// Time limit of one function on a sample; it should need a fraction of a millisecond.
const FUNCTION_TIME_MAX: Duration = Duration::from_secs(1);
const WORK_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct FunctionPool {
    operator: Arc<Semaphore>,
    apps: Arc<Semaphore>,
    /// The slot of each app whose work waits or runs.
    slots_by_app: Mutex<HashMap<AppId, Arc<Semaphore>>>,
}

impl Default for FunctionPool {
    fn default() -> Self {
        Self {
            operator: Arc::new(Semaphore::new(OPERATOR_SLOTS)),
            apps: Arc::new(Semaphore::new(APP_SLOTS)),
            slots_by_app: Mutex::default(),
        }
    }
}

impl FunctionPool {
    /// Runs `work` on a thread of its own, for an app or else for the operator. `Overloaded` if no slot is free in time; work
    /// that takes too long is reported as an error of `field`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        app: Option<AppId>,
        field: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let slots = self.acquire_slots(app).await.ok_or(Error::Overloaded)?;
        let working =
            run_on_own_thread(slots, work).map_err(|error| Error::Unavailable(error.to_string()))?;
        match timeout(WORK_TIME_MAX, working).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(Error::Internal("the work of a payload version panicked".into())),
            Err(_) => Err(Error::field(field, "took longer than 10s to try")),
        }
    }

    async fn acquire_slots(&self, app: Option<AppId>) -> Option<Vec<OwnedSemaphorePermit>> {
        let until = Instant::now() + SLOT_WAIT_MAX;
        let take =
            async |slots: &Arc<Semaphore>| timeout_at(until, slots.clone().acquire_owned()).await.ok()?.ok();
        let Some(app) = app else { return Some(vec![take(&self.operator).await?]) };
        let permit = take(&self.app_slot(app)).await?;
        Some(vec![permit, take(&self.apps).await?])
    }

    fn app_slot(&self, app: AppId) -> Arc<Semaphore> {
        let mut slots = self.slots_by_app.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, permit| Arc::strong_count(permit) > 1);
        slots.entry(app).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// Returns a check that is true until one function's time is over.
pub(super) fn function_clock() -> impl FnMut() -> bool + 'static {
    let until = Instant::now() + FUNCTION_TIME_MAX;
    move || Instant::now() < until
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[expect(clippy::unnecessary_wraps, reason = "has the type of the parameter")]
    fn of(app: i64) -> Option<AppId> {
        Some(AppId::from_i64(app))
    }

    #[tokio::test]
    async fn an_app_has_one_slot_and_the_operator_has_separate_ones() {
        let bench = Arc::new(FunctionPool::default());
        let (finish, never) = mpsc::channel::<()>();
        let stuck = tokio::spawn({
            let bench = bench.clone();
            async move { bench.run(of(1), "function", move || never.recv().is_ok()).await }
        });
        while bench.apps.available_permits() == APP_SLOTS {
            tokio::task::yield_now().await;
        }
        assert!(matches!(bench.run(of(1), "function", || 1).await, Err(Error::Overloaded)));
        assert_eq!(bench.run(of(2), "function", || 2).await.unwrap(), 2);
        // The caller is gone; the thread goes on and keeps its slot until it ends.
        stuck.abort();
        assert!(stuck.await.is_err());
        assert!(matches!(bench.run(of(1), "function", || 1).await, Err(Error::Overloaded)));
        assert_eq!(bench.run(None, "function", || 3).await.unwrap(), 3);
        drop(finish);
        assert_eq!(bench.run(of(1), "function", || 4).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_panic_frees_the_slot_and_is_an_internal_error() {
        let bench = FunctionPool::default();
        for _ in 0..=APP_SLOTS {
            let panicked = bench.run(of(1), "function", || panic!("on purpose")).await;
            assert!(matches!(panicked, Err::<(), _>(Error::Internal(_))));
        }
    }
}

//! Where types are compiled, payload functions tried for people and large data is held against schemas: on threads of their
//! own, apart from those of the engine. The operator has places that no app can take, and of each app one is at it.

use super::Error;
use crate::{domain::id::AppId, world::apart};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

const OPERATOR_AT_ONCE: usize = 2;
const APPS_AT_ONCE: usize = 2;
const WAIT_MAX: Duration = Duration::from_secs(1);
/// What one function may take on a sample: it is to take a fraction of a millisecond.
const FUNCTION_WITHIN: Duration = Duration::from_secs(1);
const ALL_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Workbench {
    operator: Arc<Semaphore>,
    apps: Arc<Semaphore>,
    /// Of those apps that somebody is at it for.
    turns: Mutex<HashMap<AppId, Arc<Semaphore>>>,
}

impl Default for Workbench {
    fn default() -> Self {
        Self {
            operator: Arc::new(Semaphore::new(OPERATOR_AT_ONCE)),
            apps: Arc::new(Semaphore::new(APPS_AT_ONCE)),
            turns: Mutex::default(),
        }
    }
}

impl Workbench {
    /// Does the work where it keeps nobody waiting, for an app, or else for the operator. `Overloaded` if others are at it;
    /// what takes too long is refused by this field.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        app: Option<AppId>,
        field: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let places = self.places(app).await.ok_or(Error::Overloaded)?;
        let working = apart(places, work).map_err(|error| Error::Unavailable(error.to_string()))?;
        match timeout(ALL_WITHIN, working).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(Error::Internal("the work of a payload version panicked".into())),
            Err(_) => Err(Error::field(field, "took longer than 10s to try")),
        }
    }

    async fn places(&self, app: Option<AppId>) -> Option<Vec<OwnedSemaphorePermit>> {
        let until = Instant::now() + WAIT_MAX;
        let take = async |places: &Arc<Semaphore>| {
            timeout_at(until, places.clone().acquire_owned()).await.ok()?.ok()
        };
        let Some(app) = app else { return Some(vec![take(&self.operator).await?]) };
        let turn = take(&self.turn(app)).await?;
        Some(vec![turn, take(&self.apps).await?])
    }

    fn turn(&self, app: AppId) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(app).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// A clock for one function, that says when its time is over.
pub(super) fn function_clock() -> impl FnMut() -> bool + 'static {
    let until = Instant::now() + FUNCTION_WITHIN;
    move || Instant::now() < until
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[expect(clippy::unnecessary_wraps, reason = "as it is given")]
    fn of(app: i64) -> Option<AppId> {
        Some(AppId::from_i64(app))
    }

    #[tokio::test]
    async fn an_app_has_one_place_however_much_it_asks_and_the_operator_has_others() {
        let bench = Arc::new(Workbench::default());
        let (finish, never) = mpsc::channel::<()>();
        let stuck = tokio::spawn({
            let bench = bench.clone();
            async move { bench.run(of(1), "function", move || never.recv().is_ok()).await }
        });
        while bench.apps.available_permits() == APPS_AT_ONCE {
            tokio::task::yield_now().await;
        }
        assert!(matches!(bench.run(of(1), "function", || 1).await, Err(Error::Overloaded)));
        assert_eq!(bench.run(of(2), "function", || 2).await.unwrap(), 2);
        // Whoever asked has gone; the thread goes on, and has its place until it ends.
        stuck.abort();
        assert!(stuck.await.is_err());
        assert!(matches!(bench.run(of(1), "function", || 1).await, Err(Error::Overloaded)));
        assert_eq!(bench.run(None, "function", || 3).await.unwrap(), 3);
        drop(finish);
        assert_eq!(bench.run(of(1), "function", || 4).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_panic_gives_the_place_back_and_is_ours() {
        let bench = Workbench::default();
        for _ in 0..=APPS_AT_ONCE {
            let panicked = bench.run(of(1), "function", || panic!("on purpose")).await;
            assert!(matches!(panicked, Err::<(), _>(Error::Internal(_))));
        }
    }
}

//! Where payload functions are tried for people: on threads of their own, two at a time, apart from those of the engine.

use super::Error;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

const AT_ONCE: usize = 2;
const WAIT_MAX: Duration = Duration::from_secs(1);
/// What one function may take on a sample: it is to take a fraction of a millisecond.
const FUNCTION_WITHIN: Duration = Duration::from_secs(1);
const ALL_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Workbench(Arc<Semaphore>);

impl Default for Workbench {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Workbench {
    /// Does the work where it keeps nobody waiting. `Overloaded` if others are at it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = timeout(WAIT_MAX, self.0.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Error::Overloaded)?;
        // The thread has the place, even if nobody waits for it any more.
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        match timeout(ALL_WITHIN, working).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(panicked)) => Err(Error::Internal(panicked.to_string())),
            Err(_) => Err(Error::field("versions", "took longer than 10s to try")),
        }
    }
}

/// A clock for one function, that says when its time is over.
pub(super) fn function_clock() -> impl FnMut() -> bool + 'static {
    let until = Instant::now() + FUNCTION_WITHIN;
    move || Instant::now() < until
}

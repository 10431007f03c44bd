//! One conversion on a thread of its own: tried as often as the contract says, each time within its time limit.

use crate::domain::{
    contract::RenderingRule, event::Converted, event_type::PayloadVersion, time::format_duration,
};
use bytes::Bytes;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    task::{JoinError, JoinHandle},
    time::{Instant, timeout},
};

/// Beyond its time limits a run is waited for this long. The engine asks whether to go on every few thousand steps, but
/// a few of JavaScript's own functions can take for ever between two of them.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// A run that is under way. It is told to stop when this is dropped.
pub(super) struct Trial {
    thread: Option<JoinHandle<Converted>>,
    is_given_up: Arc<AtomicBool>,
    within: Duration,
}

impl Trial {
    pub(super) fn begin(version: Arc<PayloadVersion>, data: Bytes, rule: RenderingRule) -> Self {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let stop = is_given_up.clone();
        let thread = tokio::task::spawn_blocking(move || try_often(&version, &data, rule, &stop));
        let within = rule.timeout.saturating_mul(rule.tries) + STUCK_AFTER;
        Self { thread: Some(thread), is_given_up, within }
    }

    /// What came of it. Cancelled by dropping; asked again, it goes on waiting.
    pub(super) async fn end(&mut self) -> Converted {
        let Some(thread) = &mut self.thread else { return Err("was asked for twice".into()) };
        let ended = thread.await;
        self.thread = None;
        come_out(ended)
    }

    /// The same for a run that has the place for slow ones: a thread that does not even stop when it is told to keeps
    /// that place, so that there is never more than one.
    pub(super) async fn end_aside(mut self, place: OwnedSemaphorePermit) -> Converted {
        if let Ok(converted) = timeout(self.within, self.end()).await {
            return converted;
        }
        tracing::error!("a payload function does not stop; its thread is lost until it does");
        if let Some(thread) = self.thread.take() {
            tokio::spawn(async move {
                let _ = thread.await;
                drop(place);
            });
        }
        Err("did not stop when its time was over".into())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.is_given_up.store(true, Relaxed);
    }
}

fn come_out(ended: Result<Converted, JoinError>) -> Converted {
    ended.unwrap_or_else(|error| Err(format!("could not be made: {error}").into()))
}

/// Only time can make another try end otherwise: a function sees neither a clock nor dice.
fn try_often(
    version: &PayloadVersion,
    data: &[u8],
    rule: RenderingRule,
    is_given_up: &Arc<AtomicBool>,
) -> Converted {
    for _ in 0..rule.tries {
        let (until, stop) = (Instant::now() + rule.timeout, is_given_up.clone());
        match version.convert(data, move || Instant::now() < until && !stop.load(Relaxed)) {
            Ok(made) => return Ok(made.into()),
            Err(failed) if !failed.is_out_of_time() => return Err(failed.to_string().into()),
            Err(_) if is_given_up.load(Relaxed) => break,
            Err(_) => {}
        }
    }
    let times = if rule.tries == 1 { "once" } else { &format!("{} times", rule.tries) };
    Err(format!("did not finish within {}, tried {times}", format_duration(rule.timeout)).into())
}

//! The black-box harness: starts the real binary, talks to it over HTTP, receives what it sends, keeps the logs.
//!
//! No test sleeps for a fixed time: it waits for a condition with `wait_for` or `wait_until`, with a limit.

mod api;
pub(crate) mod certificates;
mod connect_proxy;
pub(crate) mod connection_holders;
pub(crate) mod database;
pub(crate) mod database_proxy;
mod http;
mod namespace;
mod node;
pub(crate) mod pooler;
mod receiver;
mod receiver_connection;
pub(crate) mod server_shell;

pub(crate) use api::attempt_classes;
pub(crate) use connect_proxy::ConnectProxy;
pub(crate) use http::{TestAnswer, TestClient};
pub(crate) use namespace::Namespace;
pub(crate) use node::{ADMIN_KEY, ENCRYPTION_KEY, NodeFolder, TestNode};
pub(crate) use receiver::{Behaviour, ReceivedWebhook, TestReceiver};

use std::{fmt::Display, io::Write, time::Duration};
use tokio::time::Instant;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the first `Some` of `look`. When the limit is over it fails the test, naming what it waited for.
pub(crate) async fn wait_for<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < until, "waited {limit:?} in vain: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

pub(crate) async fn wait_until(what: &str, limit: Duration, mut is_so: impl AsyncFnMut() -> bool) {
    wait_for(what, limit, async || is_so().await.then_some(())).await;
}

/// Prints measurements to standard error, because the runner hides what passing tests print. `./check` repeats them at its end.
pub(crate) fn report(figures: impl Display) {
    // In one piece: other tests write to the same place.
    let line = format!("figures: {figures}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Returns the largest of the smallest `part` (0.99 for the 99th percentile).
pub(crate) fn quantile(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort_unstable();
    let rank = ((times.len() as f64 * part).ceil() as usize).clamp(1, times.len().max(1));
    times.get(rank - 1).copied().unwrap_or_default()
}

/// Returns a future time in the API's format.
#[expect(clippy::disallowed_methods, reason = "the server under test has the real clock, so must its test")]
pub(crate) fn from_now(after: Duration) -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::try_from(after).unwrap();
    format!("{at:.3}")
}

/// Waits until the clock shows a later millisecond than this time of an answer, so that the next change has a later time.
#[expect(clippy::disallowed_methods, reason = "the server under test has the real clock, so must its test")]
pub(crate) async fn wait_until_after(time: &str) {
    let time: jiff::Timestamp = time.parse().unwrap();
    let is_later = async || jiff::Timestamp::now().as_millisecond() > time.as_millisecond();
    wait_until("the clock goes on", Duration::from_secs(5), is_later).await;
}

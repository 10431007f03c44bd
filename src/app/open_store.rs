//! Opens the store that the settings name. Keys that an embedded store keeps in a file beside it must be set for a
//! database.

use super::host::CommitStopwatch;
use crate::{
    config::{Settings, StoreLocation},
    domain::{ports::CommitListener, storage::StorageUsage},
    runtime::{Clock, Metrics},
    store::{
        Store, StoreError,
        cluster::Joined,
        postgres::PostgresStore,
        sqlite::{QueueLimits, SqliteStore},
    },
};
use anyhow::{Context, anyhow, bail};
use std::{fmt, path::Path, sync::Arc, time::Duration};
use tokio::sync::oneshot;

const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn open(
    settings: &Settings,
    commit_listener: Arc<dyn CommitListener>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Arc<dyn Store>> {
    let limits = QueueLimits { events_max: settings.accept_queue_max, bytes_max: settings.queued_bytes_max };
    let watch = Arc::new(CommitStopwatch(metrics.clone()));
    let window = settings.commit_window;
    match &settings.store {
        StoreLocation::Sqlite(path) => {
            Ok(Arc::new(SqliteStore::open(path, commit_listener, watch, limits, window)?))
        }
        StoreLocation::Postgres(address) => {
            must_have_keys(settings)?;
            let address = address.clone();
            let open = move || PostgresStore::open(&address, commit_listener, watch, limits, window);
            Ok(Arc::new(run_on_own_thread(open).await??))
        }
    }
}

/// Joins the store as a node.
pub(super) async fn join(
    settings: &Settings,
    store: &dyn Store,
    clock: &dyn Clock,
) -> anyhow::Result<Joined> {
    let joined =
        retry_while_unavailable(settings, is_unavailable, async || store.join(clock.now()).await).await;
    let joined = joined.context("cannot take over the store")?;
    if joined.taken_over > 0 {
        tracing::warn!(
            deliveries = joined.taken_over,
            "took over the deliveries that an earlier process had in flight"
        );
    }
    Ok(joined)
}

pub(super) async fn usage(settings: &Settings, store: &dyn Store) -> anyhow::Result<StorageUsage> {
    let usage = retry_while_unavailable(settings, is_unavailable, async || store.usage().await).await;
    usage.context("cannot measure the store")
}

fn is_unavailable(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_))
}

/// Repeats a call until the store answers: a database that becomes unreachable right after it was opened is waited for like
/// one that is not there yet. Errors of an embedded store are returned at once.
pub(super) async fn retry_while_unavailable<T, E: fmt::Display>(
    settings: &Settings,
    is_away: impl Fn(&E) -> bool,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut was_logged = false;
    loop {
        match ask().await {
            Err(error) if matches!(settings.store, StoreLocation::Postgres(_)) && is_away(&error) => {
                if !std::mem::replace(&mut was_logged, true) {
                    tracing::warn!(%error, "the database is unreachable; retrying until it answers");
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            answered => return answered,
        }
    }
}

/// Runs `work` on a detached thread: it may take until a server is there, and a stop meanwhile must not wait for it.
async fn run_on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (done, is_done) = oneshot::channel();
    let run = move || drop(done.send(work()));
    std::thread::Builder::new().name("opener".to_owned()).spawn(run)?;
    is_done.await.context("the store could not be opened")
}

/// Fails if a key is not set. Every process on a database must have the same keys, and there is no file beside it to
/// keep one in.
fn must_have_keys(settings: &Settings) -> anyhow::Result<()> {
    for (name, key) in [("admin_key", &settings.admin_key), ("encryption_key", &settings.encryption_key)] {
        if key.is_none() {
            return Err(no_key(name));
        }
    }
    Ok(())
}

pub(super) fn no_key(name: &str) -> anyhow::Error {
    anyhow!(
        "{name}: must be set where the store is a PostgreSQL database, which has no file beside it to keep one in"
    )
}

/// Returns the file of an embedded store, for commands that only a file supports.
pub(super) fn sqlite_path<'a>(settings: &'a Settings, what: &str, instead: &str) -> anyhow::Result<&'a Path> {
    match &settings.store {
        StoreLocation::Sqlite(path) => Ok(path),
        StoreLocation::Postgres(address) => {
            bail!(
                "store: {what} is for a store in a file (sqlite:PATH), and this one is the database {address}: {instead}"
            )
        }
    }
}

/// Returns the store's name in `GET /v1/system`.
pub(super) fn name(settings: &Settings) -> &'static str {
    match settings.store {
        StoreLocation::Sqlite(_) => "sqlite",
        StoreLocation::Postgres(_) => "postgres",
    }
}

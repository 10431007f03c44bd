//! Opens the store that the settings name. What is kept in a file beside an embedded one has to be given for a database.

use super::machine::CommitStopwatch;
use crate::{
    config::{Settings, StoreLocation},
    domain::{port::Handover, tally::Tally},
    service,
    store::{
        Store, StoreError,
        postgres::PostgresStore,
        sqlite::{QueueLimits, SqliteStore},
    },
};
use anyhow::{Context, anyhow, bail};
use std::{fmt::Display, path::Path, sync::Arc, time::Duration};
use tokio::sync::oneshot;

const PAUSE_WHILE_AWAY: Duration = Duration::from_secs(1);

pub(super) async fn open(
    settings: &Settings,
    handover: Arc<dyn Handover>,
    tally: &Arc<Tally>,
) -> anyhow::Result<Arc<dyn Store>> {
    let limits = QueueLimits { events_max: settings.accept_queue_max, bytes_max: settings.queued_bytes_max };
    let watch = Arc::new(CommitStopwatch(tally.clone()));
    let window = settings.commit_window;
    match &settings.store {
        StoreLocation::Sqlite(path) => {
            Ok(Arc::new(SqliteStore::open(path, handover, watch, limits, window)?))
        }
        StoreLocation::Postgres(address) => {
            must_have_keys(settings)?;
            let address = address.clone();
            let open = move || PostgresStore::open(&address, handover, watch, limits, window);
            Ok(Arc::new(apart(open).await??))
        }
    }
}

/// Asks until there is an answer: a database that was opened may have gone since, or have no connection left, and whoever gave up
/// would be started again in vain. A file is there or it is not.
pub(super) async fn patiently<T, E: MayPass>(
    settings: &Settings,
    ask: impl AsyncFn() -> Result<T, E>,
) -> Result<T, E> {
    let is_file = matches!(settings.store, StoreLocation::Sqlite(_));
    let mut was_told = false;
    loop {
        match ask().await {
            Err(error) if error.may_pass() && !is_file => {
                if !was_told {
                    tracing::warn!(%error, "the database cannot be asked; it is tried until it can");
                    was_told = true;
                }
                tokio::time::sleep(PAUSE_WHILE_AWAY).await;
            }
            answer => return answer,
        }
    }
}

/// Why there was no answer.
pub(super) trait MayPass: Display {
    fn may_pass(&self) -> bool;
}

impl MayPass for StoreError {
    fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl MayPass for service::Error {
    fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// On a thread that nobody waits for: it may take until a server is there, and whoever stops meanwhile must not be kept.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    let (done, is_done) = oneshot::channel();
    let run = move || drop(done.send(work()));
    std::thread::Builder::new().name("opener".to_owned()).spawn(run)?;
    is_done.await.context("the store could not be opened")
}

/// Every process on a database must have the same, and none of them can keep one beside it.
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

/// The file of an embedded store, for what only a file can do.
pub(super) fn file<'a>(settings: &'a Settings, what: &str, instead: &str) -> anyhow::Result<&'a Path> {
    match &settings.store {
        StoreLocation::Sqlite(path) => Ok(path),
        StoreLocation::Postgres(address) => {
            bail!(
                "store: {what} is for a store in a file (sqlite:PATH), and this one is the database {address}: {instead}"
            )
        }
    }
}

/// How the store is called in `GET /v1/system`.
pub(super) fn name(settings: &Settings) -> &'static str {
    match settings.store {
        StoreLocation::Sqlite(_) => "sqlite",
        StoreLocation::Postgres(_) => "postgres",
    }
}

//! A few connections for browsing, opened when first needed and kept.

use super::open;
use crate::store::{
    Reply, StoreError,
    sql::{Result, Sql, store_error},
};
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Semaphore;

/// How many lists may be read at the same time; more wait their turn.
const READERS: usize = 4;

pub(super) struct Readers(Option<FileReaders>);

#[derive(Clone)]
pub(super) struct FileReaders {
    path: Arc<PathBuf>,
    idle: Arc<Mutex<Vec<Connection>>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn on_file(path: &Path) -> Self {
        let turns = Arc::new(Semaphore::new(READERS));
        Self(Some(FileReaders { path: Arc::new(path.to_owned()), idle: Arc::default(), turns }))
    }

    /// A store in memory has only its writer's connection.
    pub(super) fn through_the_writer() -> Self {
        Self(None)
    }

    pub(super) fn file(&self) -> Option<FileReaders> {
        self.0.clone()
    }
}

impl FileReaders {
    pub(super) fn read<T: Send + 'static>(
        self,
        mut run: impl FnMut(&dyn Sql) -> Result<T> + Send + 'static,
    ) -> Reply<'static, T> {
        Box::pin(async move {
            let turn = self.turns.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
            let read = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let idle = self.lock().pop();
                let connection = idle.map_or_else(|| open::open_reader(&self.path), Ok)?;
                // One instant for all of it: a delivery and its attempts must not be of different commits.
                let snapshot = connection.unchecked_transaction()?;
                let result = run(&*snapshot);
                snapshot.finish()?;
                self.lock().push(connection);
                result
            });
            let result = read.await.map_err(|_| StoreError::Closed)?;
            result.map_err(|error| store_error(&error))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

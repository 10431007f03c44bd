//! A few connections for queries, opened when first needed and kept.

use super::{Result, store_error};
use crate::store::{Reply, StoreError, backend::ReadJob};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// How many queries may run at the same time; more wait for a free connection.
const READERS_MAX: usize = 4;

/// A connection that only reads.
pub(in crate::store) trait ReadConnection: Send + 'static {
    /// Runs a read in one snapshot: a delivery and its attempts must not be of different commits.
    fn read(&self, job: &mut ReadJob) -> Result<()>;

    /// Whether the connection is broken and can read nothing more.
    fn is_broken(&self) -> bool {
        false
    }
}

pub(in crate::store) struct ReaderPool<R>(Arc<ReaderPoolInner<R>>);

struct ReaderPoolInner<R> {
    open: Box<dyn Fn() -> Result<R> + Send + Sync>,
    idle: Mutex<Vec<R>>,
    permits: Arc<Semaphore>,
}

impl<R: ReadConnection> ReaderPool<R> {
    pub(in crate::store) fn new(open: impl Fn() -> Result<R> + Send + Sync + 'static) -> Self {
        let (idle, permits) = (Mutex::default(), Arc::new(Semaphore::new(READERS_MAX)));
        Self(Arc::new(ReaderPoolInner { open: Box::new(open), idle, permits }))
    }

    pub(in crate::store) fn read(&self, mut job: ReadJob) -> Reply<()> {
        let shared = self.0.clone();
        Box::pin(async move {
            let permit = shared.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
            let read = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                shared.read(&mut job)
            });
            let result = read.await.map_err(|_| StoreError::Closed)?;
            result.map_err(|error| store_error(&error))
        })
    }
}

impl<R: ReadConnection> ReaderPoolInner<R> {
    /// Reads on an idle connection. A kept one may have broken since: the next is tried, and then a new one.
    fn read(&self, job: &mut ReadJob) -> Result<()> {
        loop {
            let idle = self.lock().pop();
            let is_new = idle.is_none();
            let reader = idle.map_or_else(&self.open, Ok)?;
            let result = reader.read(job);
            let is_broken = reader.is_broken();
            if !is_broken {
                self.lock().push(reader);
            }
            if is_new || !is_broken || result.is_ok() {
                return result;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<R>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Writer thread: takes batches from its queue, and sleeps until the queue wakes it.

use super::{CommandQueue, QueueLimits};
use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::{Builder, JoinHandle, Thread},
};

/// `None` once it ended, or where the caller drives the writer.
pub(in crate::store) struct WriterThread(Mutex<Option<JoinHandle<()>>>);

impl WriterThread {
    pub(in crate::store) fn start(
        limits: QueueLimits,
        write: impl FnOnce(Arc<CommandQueue>) + Send + 'static,
    ) -> io::Result<(Arc<CommandQueue>, Self)> {
        let thread: Arc<OnceLock<Thread>> = Arc::default();
        let wake = {
            let thread = thread.clone();
            Box::new(move || {
                if let Some(thread) = thread.get() {
                    thread.unpark();
                }
            })
        };
        let queue = Arc::new(CommandQueue::new(limits, wake));
        let to_write = queue.clone();
        let started = Builder::new().name("ledger".to_owned()).spawn(move || write(to_write))?;
        let _ = thread.set(started.thread().clone());
        // A command pushed before the thread was known could not wake it.
        started.thread().unpark();
        Ok((queue, Self(Mutex::new(Some(started)))))
    }

    pub(in crate::store) fn none() -> Self {
        Self(Mutex::new(None))
    }

    /// Waits until the thread ends, which it does when its queue is closed and empty.
    pub(in crate::store) fn join(&self) {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the writer ended with a panic");
        }
    }
}

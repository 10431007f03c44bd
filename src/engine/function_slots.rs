//! Slots to run payload functions in. A run has its slot until its thread has really ended; if it does not end when it is
//! asked to, the slot is lost, and there are fewer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Slots, given out in the order in which they are asked for.
#[derive(Debug)]
pub(super) struct FunctionSlots {
    free: Arc<Semaphore>,
    count: usize,
    lost: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(super) struct FunctionSlot {
    _permit: OwnedSemaphorePermit,
    lost: Arc<AtomicUsize>,
    is_lost: bool,
}

impl FunctionSlots {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), count, lost: Arc::default() }
    }

    pub(super) async fn take(&self, until: Instant) -> Option<FunctionSlot> {
        let permit = timeout_at(until, self.free.clone().acquire_owned()).await;
        Some(self.slot(permit.ok()?.ok()?))
    }

    /// Takes a slot that is free and that no run waits for.
    pub(super) fn take_free(&self) -> Option<FunctionSlot> {
        self.free.clone().try_acquire_owned().ok().map(|permit| self.slot(permit))
    }

    pub(super) fn are_all_lost(&self) -> bool {
        self.lost.load(Relaxed) >= self.count
    }

    fn slot(&self, permit: OwnedSemaphorePermit) -> FunctionSlot {
        FunctionSlot { _permit: permit, lost: self.lost.clone(), is_lost: false }
    }
}

impl FunctionSlot {
    pub(super) fn lose(&mut self) {
        if !self.is_lost {
            self.is_lost = true;
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for FunctionSlot {
    fn drop(&mut self) {
        if self.is_lost {
            self.lost.fetch_sub(1, Relaxed);
        }
    }
}

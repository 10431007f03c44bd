//! Change locks: serialize changes of one app or endpoint, so that the configuration cache sees them in the store's order.

use tokio::sync::{Mutex, MutexGuard};

/// Number of locks, so at most so many changes run at the same time.
const LOCK_COUNT: usize = 64;

/// Striped mutexes. Apps and endpoints have separate ones, so a change of an app can lock its endpoints without deadlock.
#[derive(Debug)]
pub(super) struct ChangeLocks([Mutex<()>; LOCK_COUNT]);

impl Default for ChangeLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl ChangeLocks {
    /// Locks the stripe of this id; waits while another change holds it.
    pub(super) async fn lock(&self, number: i64) -> MutexGuard<'_, ()> {
        // Numbers of one millisecond differ in their lowest bits, the others in the bits above the slot.
        let index = (number ^ (number >> 22)) as usize % LOCK_COUNT;
        self.0[index].lock().await
    }
}

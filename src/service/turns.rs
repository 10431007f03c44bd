//! Turns: changes of one app or endpoint happen one after the other, so that the directory sees them in the store's order.

use tokio::sync::{Mutex, MutexGuard};

/// How many changes of different things can be under way at the same time.
const PLACES: usize = 64;

/// One for apps and one for endpoints: who changes an app may then change its endpoints without waiting for itself.
#[derive(Debug)]
pub(super) struct Turns([Mutex<()>; PLACES]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    /// Waits until nobody else changes the thing of this number.
    pub(super) async fn take(&self, number: i64) -> MutexGuard<'_, ()> {
        // Numbers of one millisecond differ in their lowest bits, the others in the bits above the slot.
        let place = (number ^ (number >> 22)) as usize % PLACES;
        self.0[place].lock().await
    }
}

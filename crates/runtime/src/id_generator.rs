//! The id source shared by a whole process.

use model::{id::IdSource, time::Timestamp};
use std::sync::{Arc, Mutex, PoisonError};

/// The id source shared by a whole process.
#[derive(Clone, Debug)]
pub struct IdGenerator(Arc<Mutex<IdSource>>);

impl IdGenerator {
    pub fn new(slot: u8, after: i64) -> Self {
        Self(Arc::new(Mutex::new(IdSource::new(slot, after))))
    }

    /// Returns the first of `count` consecutive unused numbers.
    pub fn next_range(&self, now: Timestamp, count: u32) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_range(now, count)
    }

    /// Continues in another slot, after every number made so far.
    pub fn move_to(&self, slot: u8, after: i64) {
        let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *source = IdSource::new(slot, after.max(source.last()));
    }
}

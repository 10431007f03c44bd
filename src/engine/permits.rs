//! Permit pool of the engine: bounds how many deliveries, and how many bytes of them, are in memory at once.
//!
//! While more than half are free, any queue may take one. When they get scarce, each busy queue is kept to a fair share and
//! each app to a multiple of what is free: any number of hanging endpoints leaves permits for other queues, and an app with
//! any number of them leaves permits for other apps.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// How many times the free permits one app may hold when they are scarce. Alone it may have seven of eight.
const APP_PERMITS_PER_FREE: usize = 7;

/// Why no permits are given out: the engine stops; the send gate is closed.
const CLOSED_BY_STOP: u8 = 1;
const CLOSED_BY_SEND_GATE: u8 = 2;

/// Permits that one app holds.
#[derive(Debug, Default)]
pub(super) struct AppPermits(AtomicUsize);

#[derive(Debug)]
pub(super) struct PermitPool {
    total: usize,
    taken: AtomicUsize,
    bytes_max: usize,
    bytes: AtomicUsize,
    busy_queues: AtomicUsize,
    /// Whether a queue wanted permits for a refill and got none.
    is_wanted: AtomicBool,
    /// Reasons that keep all permits from being given out, as bits; 0 if there are none.
    closed_by: AtomicU8,
}

impl PermitPool {
    pub(super) fn new(total: usize, bytes_max: usize) -> Self {
        Self {
            total: total.max(1),
            taken: AtomicUsize::new(0),
            bytes_max,
            bytes: AtomicUsize::new(0),
            busy_queues: AtomicUsize::new(0),
            is_wanted: AtomicBool::new(false),
            closed_by: AtomicU8::new(0),
        }
    }

    /// Takes a permit for this many bytes if a queue that holds `held` may have another. Returns whether it did.
    pub(super) fn take(&self, app: &AppPermits, held: usize, bytes: usize) -> bool {
        if self.closed_by.load(Relaxed) != 0 || !self.is_fair(app, held) {
            return false;
        }
        let fits =
            |used: usize, more: usize, max: usize| (used + more <= max || used == 0).then_some(used + more);
        if self.taken.fetch_update(Relaxed, Relaxed, |used| fits(used, 1, self.total)).is_err() {
            return false;
        }
        if self.bytes.fetch_update(Relaxed, Relaxed, |used| fits(used, bytes, self.bytes_max)).is_err() {
            self.taken.fetch_sub(1, Relaxed);
            return false;
        }
        app.0.fetch_add(1, Relaxed);
        self.note_first(held);
        true
    }

    fn is_fair(&self, app: &AppPermits, held: usize) -> bool {
        let taken = self.taken.load(Relaxed);
        let free = self.total.saturating_sub(taken);
        taken * 2 < self.total
            || (held < self.fair_share() && app.0.load(Relaxed) < free.saturating_mul(APP_PERMITS_PER_FREE))
    }

    /// Gives out no more permits, so that those that are out can be waited for.
    pub(super) fn close(&self) {
        self.closed_by.fetch_or(CLOSED_BY_STOP, Relaxed);
    }

    /// Gives out no permits until the gate is open again. Returns whether it was open.
    pub(super) fn close_send_gate(&self) -> bool {
        self.closed_by.fetch_or(CLOSED_BY_SEND_GATE, Relaxed) & CLOSED_BY_SEND_GATE == 0
    }

    /// Opens the gate. Returns whether it was closed.
    pub(super) fn open_send_gate(&self) -> bool {
        self.closed_by.fetch_and(!CLOSED_BY_SEND_GATE, Relaxed) & CLOSED_BY_SEND_GATE != 0
    }

    /// Whether the gate is closed, so that nothing may be sent.
    pub(super) fn is_send_gate_closed(&self) -> bool {
        self.closed_by.load(Relaxed) & CLOSED_BY_SEND_GATE != 0
    }

    pub(super) fn free(&self) -> usize {
        if self.closed_by.load(Relaxed) == 0 { self.total.saturating_sub(self.taken()) } else { 0 }
    }

    /// Whether more than half are free: enough to help other nodes.
    pub(super) fn has_plenty(&self) -> bool {
        self.free() * 2 > self.total
    }

    /// Whether `take` would give another permit to a queue that holds `held`.
    pub(super) fn has_permit_for(&self, app: &AppPermits, held: usize) -> bool {
        let (taken, bytes) = (self.taken.load(Relaxed), self.bytes.load(Relaxed));
        self.closed_by.load(Relaxed) == 0
            && self.is_fair(app, held)
            && taken < self.total
            && (bytes <= self.bytes_max || taken == 0)
    }

    /// Adds the bytes of a permit that was taken before its body's size was known.
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Releases a permit. `held` is what the queue holds after that.
    pub(super) fn release(&self, app: &AppPermits, held: usize, bytes: usize) {
        app.0.fetch_sub(1, Relaxed);
        self.taken.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
        if held == 0 {
            self.busy_queues.fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Bytes that a refill may still bring into memory.
    pub(super) fn bytes_free(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes.load(Relaxed))
    }

    pub(super) fn request_permits(&self) {
        self.is_wanted.store(true, Relaxed);
    }

    /// Whether enough are free again for the scheduler to retry queues that found none. True at most once until `request_permits` is
    /// called again.
    pub(super) fn take_wakeup(&self) -> bool {
        self.is_wanted.load(Relaxed)
            && self.taken.load(Relaxed) * 16 <= self.total * 15
            && self.is_wanted.swap(false, Relaxed)
    }

    fn fair_share(&self) -> usize {
        (self.total / 2 / self.busy_queues.load(Relaxed).max(1)).max(1)
    }

    fn note_first(&self, held: usize) {
        if held == 0 {
            self.busy_queues.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scarce_permits_are_shared_and_some_remain_for_new_queues() {
        let (pool, app) = (PermitPool::new(100, usize::MAX), AppPermits::default());
        let mut held = [0usize; 20];
        // Twenty queues that never release a permit take whatever they can get.
        for round in 0..1000 {
            let queue = round % held.len();
            if pool.take(&app, held[queue], 1) {
                held[queue] += 1;
            }
        }
        assert!(held.iter().all(|held| *held >= 1));
        assert!(pool.taken() < 100, "a new queue finds a permit");
        let newcomer = AppPermits::default();
        assert!(pool.take(&newcomer, 0, 1));
        pool.close();
        assert!(!pool.take(&newcomer, 0, 1), "a closed pool gives no permit");
    }

    #[test]
    fn an_app_with_any_number_of_hanging_queues_leaves_permits_for_two_more_apps() {
        let pool = PermitPool::new(2048, usize::MAX);
        let hang = |queues: usize| {
            let app = AppPermits::default();
            (0..queues).filter(|_| pool.take(&app, 0, 1)).count()
        };
        let many = hang(10_000);
        assert!((1000..=1792).contains(&many), "{many}");
        let (second, third) = (hang(10_000), hang(10_000));
        assert!(second >= 200 && third >= 20, "{second} and {third}");
    }

    #[test]
    fn bytes_are_bounded_but_one_large_body_always_passes() {
        let (pool, app) = (PermitPool::new(100, 1000), AppPermits::default());
        assert!(pool.take(&app, 0, 5000), "alone, whatever its size");
        assert!(!pool.take(&app, 1, 1));
        pool.release(&app, 0, 5000);
        assert!(pool.take(&app, 0, 600));
        assert!(!pool.take(&app, 1, 600));
        assert_eq!(pool.taken(), 1, "a refused permit is not leaked");
        assert_eq!(pool.bytes_free(), 400);
    }
}

//! Time since the machine started, which all processes of a measurement share, and CPU time of this process.

use rustix::time::{ClockId, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// CPU time of this process so far, finer than the hundredths of a second that `/proc` has.
pub fn own_cpu_seconds() -> f64 {
    nanos(ClockId::ProcessCPUTime) as f64 / NANOS_PER_SECOND as f64
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

/// Seconds between two instants; 0 if they are in the other order.
pub fn seconds_between(earlier_ns: u64, later_ns: u64) -> f64 {
    later_ns.saturating_sub(earlier_ns) as f64 / NANOS_PER_SECOND as f64
}

pub fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

//! Clocks. Due times are on the wall clock, which may be stepped; deadlines of running requests are on tokio's monotonic
//! clock, which may not. `sleep_until` joins the two: it sleeps on the monotonic one and trusts the wall clock. Leases of
//! nodes are on a third, which goes on while the machine sleeps.

use model::time::{Monotonic, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use std::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime},
};
use tokio::{sync::watch, time::Instant};

/// Future that the clock's sleeps return.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

pub trait Clock: Send + Sync {
    /// The wall clock. It can jump, in both directions.
    fn now(&self) -> Timestamp;

    /// Returns once `now()` has reached `at`, also when the wall clock was stepped meanwhile; cancelled by dropping it.
    fn sleep_until(&self, at: Timestamp) -> Sleep<'_>;

    /// Monotonic clock, which goes on while the machine sleeps.
    fn monotonic(&self) -> Monotonic;

    /// Sleeps for so long, whatever happens to the wall clock; longer if the machine sleeps meanwhile.
    fn sleep_for(&self, time: Duration) -> Sleep<'_> {
        Box::pin(tokio::time::sleep(time))
    }

    /// Returns once `now()` has reached `at`, and at the latest after the time that it was away: for periodic work, which a
    /// wall clock that is set back by an hour must not delay by an hour.
    fn idle_until(&self, at: Timestamp) -> Sleep<'_> {
        let longest = at.since(self.now());
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.sleep_until(at) => {}
                () = self.sleep_for(longest) => {}
            }
        })
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Longest time for which a step of the machine's clock goes unnoticed by a sleeper.
const CLOCK_CHECK_EVERY: Duration = Duration::from_secs(2);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is given")]
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Timestamp::from_millis(millis)
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        Box::pin(sleep_in_steps_until(at, || self.now()))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_millis(self.monotonic_us() / 1000)
    }
}

impl SystemClock {
    /// Returns `monotonic` in microseconds.
    pub fn monotonic_us(self) -> i64 {
        let since_boot = clock_gettime(ClockId::Boottime);
        since_boot.tv_sec * 1_000_000 + since_boot.tv_nsec / 1000
    }
}

/// Sleeps in short pieces, so that a wall clock that runs away from the timers is noticed soon.
async fn sleep_in_steps_until(at: Timestamp, now: impl Fn() -> Timestamp + Send) {
    loop {
        let left = at.since(now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(CLOCK_CHECK_EVERY)).await;
    }
}

/// A wall clock made of a start and tokio's time, so that it stands still and leaps ahead with a paused runtime.
#[derive(Debug)]
pub struct VirtualClock {
    start: Timestamp,
    started: Instant,
    stepped_ms: AtomicI64,
    steps: watch::Sender<()>,
}

impl VirtualClock {
    pub fn starting_at(start: Timestamp) -> Self {
        let steps = watch::Sender::new(());
        Self { start, started: Instant::now(), stepped_ms: AtomicI64::new(0), steps }
    }

    /// Steps the wall clock, as an operator or a time daemon would. Timers and deadlines do not move; sleepers check again.
    pub fn step(&self, millis: i64) {
        self.stepped_ms.fetch_add(millis, Ordering::SeqCst);
        self.steps.send_replace(());
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed_at = self.start.plus(self.started.elapsed());
        Timestamp::from_millis(elapsed_at.as_millis() + self.stepped_ms.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        Box::pin(async move {
            let mut steps = self.steps.subscribe();
            loop {
                let left = at.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    _ = steps.changed() => {}
                }
            }
        })
    }

    /// Unaffected by steps of the wall clock.
    fn monotonic(&self) -> Monotonic {
        Monotonic::default().plus(self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const HOUR_MS: i64 = 3_600_000;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_moves_with_the_runtime_and_not_by_itself() {
        let clock = VirtualClock::starting_at(Timestamp::from_millis(1_000));
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        clock.sleep_until(Timestamp::from_millis(1_000 + HOUR_MS)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(1_000 + HOUR_MS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_due_time_in_the_past_is_not_waited_for() {
        let clock = VirtualClock::starting_at(Timestamp::from_millis(HOUR_MS));
        let before = Instant::now();
        clock.sleep_until(Timestamp::from_millis(5)).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_ahead_wakes_a_virtual_sleeper_and_a_step_back_keeps_it_asleep() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(0)));
        let begun = Instant::now();
        let asleep = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move {
                clock.sleep_until(Timestamp::from_millis(HOUR_MS)).await;
                begun.elapsed()
            }
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        clock.step(-HOUR_MS);
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(!asleep.is_finished(), "an hour was taken back, so an hour is still to go");
        clock.step(2 * HOUR_MS);
        assert_eq!(asleep.await.unwrap(), Duration::from_mins(61));
    }

    #[tokio::test(start_paused = true)]
    async fn periodic_work_is_not_delayed_by_a_clock_that_is_set_back() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(0)));
        for (step_ms, slept_for) in [(-HOUR_MS, 60), (0, 60), (HOUR_MS, 1)] {
            let (begun, at) = (Instant::now(), clock.now().plus(Duration::from_mins(1)));
            let asleep = tokio::spawn({
                let clock = clock.clone();
                async move { clock.idle_until(at).await }
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.step(step_ms);
            asleep.await.unwrap();
            assert_eq!(begun.elapsed(), Duration::from_secs(slept_for), "{step_ms}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_machines_clock_is_noticed_within_seconds() {
        let wall_ms = AtomicI64::new(0);
        let begun = Instant::now();
        let sleeper = sleep_in_steps_until(Timestamp::from_millis(HOUR_MS), || {
            Timestamp::from_millis(wall_ms.load(Ordering::SeqCst))
        });
        let stepper = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            wall_ms.store(HOUR_MS, Ordering::SeqCst);
        };
        tokio::join!(sleeper, stepper);
        let took = begun.elapsed();
        assert!(took >= Duration::from_mins(1) && took <= Duration::from_secs(65), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_wall_clock_leaves_the_steady_one_and_its_sleepers_alone() {
        let clock = VirtualClock::starting_at(Timestamp::from_millis(0));
        let begun = clock.monotonic();
        clock.step(-HOUR_MS);
        clock.sleep_for(Duration::from_secs(2)).await;
        clock.step(3 * HOUR_MS);
        assert_eq!(clock.monotonic().since(begun), Duration::from_secs(2));
    }

    #[tokio::test]
    async fn the_machines_steady_clock_goes_forward_at_the_pace_of_its_sleepers() {
        let begun = SystemClock.monotonic();
        SystemClock.sleep_for(Duration::from_millis(30)).await;
        let passed = SystemClock.monotonic().since(begun);
        assert!(passed >= Duration::from_millis(29) && passed < Duration::from_secs(20), "{passed:?}");
    }

    #[tokio::test]
    async fn the_machines_clock_reads_this_century_and_wakes_at_its_time() {
        let begun_at = SystemClock.now();
        assert!(begun_at > Timestamp::parse("2026-01-01T00:00:00Z").unwrap());
        let due = begun_at.plus(Duration::from_millis(20));
        SystemClock.sleep_until(due).await;
        assert!(SystemClock.now() >= due);
    }
}

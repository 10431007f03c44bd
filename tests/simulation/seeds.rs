//! The honest runs: many seeds, each a story in which no promise may be broken.

use crate::{checker::Figures, director, event_log::Violation, sabotage::Sabotage};
use std::{
    panic::RefUnwindSafe,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Some minutes of a processor.
const SEEDS: u64 = 3_000;
const SEEDS_OF_A_SOAK: u64 = 40_000;
const THREADS: usize = 2;
const SEEDS_SHOWN: usize = 10;
const VIOLATIONS_SHOWN: usize = 5;

/// Replays one seed if `POSTHASTE_SEED` names it, else runs them all.
#[expect(clippy::disallowed_methods, reason = "the one setting of this test: which seed to replay")]
pub(crate) fn asked_for() -> Option<u64> {
    std::env::var("POSTHASTE_SEED").ok().map(|text| text.parse().expect("POSTHASTE_SEED is a number"))
}

/// Many seeds, run by two threads; fails with what went wrong and how to see it again.
pub(crate) struct SeedRuns {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Prefix of the test by which one of them is replayed.
    pub(crate) name: &'static str,
}

impl SeedRuns {
    pub(crate) fn tell<F: Send>(
        &self,
        run: impl Fn(u64) -> (F, Vec<Violation>) + Sync + RefUnwindSafe,
        add: impl FnMut(F) + Send,
    ) {
        let (next, add) = (AtomicU64::new(self.first), Mutex::new(add));
        let broken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.first + self.count || broken.lock().unwrap().len() >= SEEDS_SHOWN {
                            return;
                        }
                        match self.run_one(seed, &run) {
                            Ok(figures) => (add.lock().unwrap())(figures),
                            Err(report) => broken.lock().unwrap().push(report),
                        }
                    }
                });
            }
        });
        let broken = broken.into_inner().unwrap();
        assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
    }

    /// Runs one seed. Returns its figures, or what went wrong and how to see it again.
    fn run_one<F>(
        &self,
        seed: u64,
        run: &(impl Fn(u64) -> (F, Vec<Violation>) + RefUnwindSafe),
    ) -> Result<F, String> {
        let replay =
            format!("POSTHASTE_SEED={seed} cargo test --test simulation {} -- --nocapture", self.name);
        let outcome = std::panic::catch_unwind(|| run(seed));
        let (figures, violations) =
            outcome.map_err(|_| format!("seed {seed} panicked; replay it with\n  {replay}"))?;
        if violations.is_empty() {
            return Ok(figures);
        }
        let shown = violations.iter().take(VIOLATIONS_SHOWN);
        let lines: Vec<_> =
            shown.map(|found| format!("  {:?}: {:.2000}", found.promise, found.what)).collect();
        let count = violations.len();
        Err(format!(
            "seed {seed} breaks promises in {count} places; replay it with\n  {replay}\n{}",
            lines.join("\n")
        ))
    }
}

fn run_all(count: u64) {
    let (first, count) = asked_for().map_or((0, count), |seed| (seed, 1));
    let mut total = Figures::default();
    let stories = SeedRuns { first, count, name: "no_seed_breaks" };
    stories.tell(
        |seed| {
            let outcome = director::run(seed, Sabotage::None);
            (outcome.figures, outcome.violations)
        },
        |figures| total.add(&figures),
    );
    println!("{count} seeds: {total:?}");
}

#[test]
fn no_seed_breaks_a_promise() {
    run_all(SEEDS);
}

#[test]
#[ignore = "soak: half an hour of a processor"]
fn no_seed_of_a_soak_breaks_a_promise() {
    run_all(SEEDS_OF_A_SOAK);
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    for seed in 0..40 {
        let [first, second] = [(); 2].map(|()| director::run(seed, Sabotage::None).trace);
        assert_eq!(first, second, "seed {seed}");
    }
}

//! The honest runs: many seeds, each a story in which no promise may be broken.

use crate::{checker::Figures, director, sabotage::Sabotage};
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

const SEEDS: u64 = 10_000;
const THREADS: usize = 2;
const SEEDS_SHOWN: usize = 10;
const VIOLATIONS_SHOWN: usize = 5;

/// Replays one seed if `POSTHASTE_SEED` names it, else runs them all.
#[expect(clippy::disallowed_methods, reason = "the one setting of this test: which seed to replay")]
fn asked_for() -> Option<u64> {
    std::env::var("POSTHASTE_SEED").ok().map(|text| text.parse().expect("POSTHASTE_SEED is a number"))
}

#[test]
fn no_seed_breaks_a_promise() {
    let (first, count) = asked_for().map_or((0, SEEDS), |seed| (seed, 1));
    let next = AtomicU64::new(first);
    let total = Mutex::new(Figures::default());
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || broken.lock().unwrap().len() >= SEEDS_SHOWN {
                        return;
                    }
                    match tell(seed) {
                        Ok(figures) => total.lock().unwrap().add(&figures),
                        Err(report) => broken.lock().unwrap().push(report),
                    }
                }
            });
        }
    });
    println!("{count} seeds: {:?}", total.lock().unwrap());
    let broken = broken.into_inner().unwrap();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// One seed; what it was worth, or what went wrong and how to see it again.
fn tell(seed: u64) -> Result<Figures, String> {
    let replay = format!("POSTHASTE_SEED={seed} cargo test --test simulation no_seed -- --nocapture");
    let told = std::panic::catch_unwind(|| director::run(seed, Sabotage::None));
    let outcome = told.map_err(|_| format!("seed {seed} panicked; replay it with\n  {replay}"))?;
    if outcome.violations.is_empty() {
        return Ok(outcome.figures);
    }
    let shown = outcome.violations.iter().take(VIOLATIONS_SHOWN);
    let lines: Vec<_> = shown.map(|found| format!("  {:?}: {:.2000}", found.promise, found.what)).collect();
    let count = outcome.violations.len();
    Err(format!(
        "seed {seed} breaks promises in {count} places; replay it with\n  {replay}\n{}",
        lines.join("\n")
    ))
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    for seed in 0..40 {
        let [first, second] = [(); 2].map(|()| director::run(seed, Sabotage::None).trace);
        assert_eq!(first, second, "seed {seed}");
    }
}

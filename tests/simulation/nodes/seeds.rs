//! The honest runs: many seeds, each a story of several nodes in which no promise may be broken.

use super::{director, sabotage::NodeSabotage, verdict::NodesFigures};
use crate::seeds::{SeedRuns, asked_for};

/// About a minute of a processor.
const SEEDS: u64 = 500;
const SEEDS_OF_A_SOAK: u64 = 5000;

fn tell_all(count: u64) {
    let (first, count) = asked_for().map_or((0, count), |seed| (seed, 1));
    let mut total = NodesFigures::default();
    let stories = SeedRuns { first, count, name: "no_seed_of_several" };
    stories.tell(
        |seed| {
            let outcome = director::run(seed, NodeSabotage::None);
            (outcome.figures, outcome.violations)
        },
        |figures| total.add(&figures),
    );
    println!("{count} seeds: {total:?}");
}

#[test]
fn no_seed_of_several_nodes_breaks_a_promise() {
    tell_all(SEEDS);
}

#[test]
#[ignore = "soak: a quarter of an hour of a processor"]
fn no_seed_of_a_soak_breaks_a_promise_of_several_nodes() {
    tell_all(SEEDS_OF_A_SOAK);
}

#[test]
fn a_seed_of_several_nodes_tells_the_same_story_twice() {
    for seed in 0..3 {
        let [first, second] = [(); 2].map(|()| director::run(seed, NodeSabotage::None).trace);
        assert_eq!(first, second, "seed {seed}");
    }
}

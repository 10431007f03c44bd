//! Negative controls: each breaks one promise on purpose, and the checker must notice. Without them "nothing lost" proves nothing.

use crate::{
    director,
    event_log::Promise,
    sabotage::{Sabotage, Snapshots},
};

const SEEDS: u64 = 30;

/// Whether the checker finds that this promise is broken, in at least this many of the seeds.
fn must_notice(promise: Promise, at_least: usize, sabotage: impl Fn() -> Sabotage) {
    let mut found = 0;
    for seed in 0..SEEDS {
        found += usize::from(
            director::run(seed, sabotage()).violations.iter().any(|found| found.promise == promise),
        );
        if found == at_least {
            return;
        }
    }
    panic!("noticed in {found} of {SEEDS} seeds");
}

#[test]
fn commits_that_a_kill_takes_back_are_noticed_as_lost() {
    must_notice(Promise::Lost, 3, || Sabotage::LoseCommits(Snapshots::new()));
}

#[test]
fn a_start_without_takeover_is_noticed_as_stuck() {
    must_notice(Promise::Stuck, 5, || Sabotage::SkipTakeover);
}

#[test]
fn a_request_that_is_sent_twice_is_noticed() {
    must_notice(Promise::Hidden, 20, || Sabotage::PostTwice);
}

#[test]
fn waits_that_are_two_seconds_off_are_noticed() {
    for shift_ms in [-2000, 2000] {
        must_notice(Promise::Schedule, 10, || Sabotage::ShiftWaits(shift_ms));
    }
}

#[test]
fn an_engine_without_notifications_is_noticed_as_late() {
    must_notice(Promise::Schedule, 10, || Sabotage::LoseHints);
}

#[test]
fn a_replay_that_takes_sources_twice_is_noticed() {
    must_notice(Promise::Replay, 3, || Sabotage::TakeTwice);
}

#[test]
fn a_success_recorded_as_a_retry_is_noticed() {
    must_notice(Promise::AfterEnd, 10, || Sabotage::ForgetSuccess);
}

#[test]
fn an_endpoint_disabled_without_a_rule_is_noticed() {
    must_notice(Promise::Availability, 10, || Sabotage::ApplyHastily);
}

#[test]
fn uncounted_failures_are_noticed() {
    must_notice(Promise::Availability, 5, || Sabotage::ForgetFailures);
}

#[test]
fn records_removed_two_days_early_are_noticed() {
    must_notice(Promise::Kept, 3, || Sabotage::ExpireEarly);
}

#[test]
fn a_delivery_that_jumps_its_queue_is_noticed() {
    must_notice(Promise::Order, 3, || Sabotage::StepUpEarly);
}

#[test]
fn an_ordering_group_without_a_head_is_noticed() {
    must_notice(Promise::Order, 3, || Sabotage::StayBehind);
}

#[test]
fn a_waiting_delivery_that_is_removed_is_noticed() {
    must_notice(Promise::Kept, 10, || Sabotage::DropWaiting);
}

#[test]
fn limits_that_are_not_kept_are_noticed() {
    must_notice(Promise::Pace, 3, || Sabotage::LiftLimits);
}

#[test]
fn an_early_retry_without_a_note_is_noticed() {
    must_notice(Promise::Schedule, 5, || Sabotage::Impatient);
}

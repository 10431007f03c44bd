//! Negative controls: each breaks a promise between nodes on purpose, and the checks must notice.

use super::{director, sabotage::NodeSabotage};
use crate::event_log::Promise;

const SEEDS: u64 = 300;

/// Asserts that a bounded number of seeds shows one of these promises broken.
fn must_notice(promises: &[Promise], sabotage: NodeSabotage) {
    let is_found = |seed| {
        let violations = director::run(seed, sabotage).violations;
        violations.iter().any(|found| promises.contains(&found.promise))
    };
    let found = (0..SEEDS).find(|seed| is_found(*seed));
    println!("{sabotage:?} is noticed at seed {found:?}");
    assert!(found.is_some(), "{sabotage:?} is not noticed in {SEEDS} seeds");
}

#[test]
fn a_fence_that_does_not_hold_is_noticed() {
    must_notice(&[Promise::Fence], NodeSabotage::FenceOff);
}

#[test]
fn a_takeover_in_one_statement_is_noticed() {
    must_notice(&[Promise::Fence, Promise::OnePlace], NodeSabotage::SweepFirst);
}

#[test]
fn shards_that_are_free_before_the_sweep_are_noticed() {
    must_notice(&[Promise::Sweep], NodeSabotage::FreeShardsFirst);
}

#[test]
fn a_queue_taken_over_without_waiting_for_others_is_noticed() {
    must_notice(&[Promise::Sole], NodeSabotage::WaitForNobody);
}

#[test]
fn a_dead_node_without_a_takeover_is_noticed_as_stuck() {
    must_notice(&[Promise::Stuck], NodeSabotage::NobodyTakesOver);
}

#[test]
fn a_waiting_delivery_that_no_search_finds_is_noticed_as_stuck() {
    must_notice(&[Promise::Stuck], NodeSabotage::Hide);
}

#[test]
fn requests_without_a_margin_are_noticed() {
    must_notice(&[Promise::Send], NodeSabotage::NoMargin);
}

#[test]
fn requests_without_a_send_gate_are_noticed() {
    must_notice(&[Promise::Send], NodeSabotage::NoGate);
}

#[test]
fn a_delivery_that_jumps_the_queue_of_several_nodes_is_noticed() {
    must_notice(&[Promise::Order], NodeSabotage::JumpQueue);
}

#[test]
fn an_ordering_group_in_the_order_of_ids_is_noticed() {
    must_notice(&[Promise::Order], NodeSabotage::OrderById);
}

#[test]
fn a_batch_that_is_stored_twice_is_noticed() {
    must_notice(&[Promise::Once], NodeSabotage::StoreTwice);
}

#[test]
fn a_rate_that_nodes_exceed_is_noticed() {
    must_notice(&[Promise::Pace], NodeSabotage::Haste);
}

#[test]
fn tokens_that_a_new_owner_has_at_once_are_noticed() {
    must_notice(&[Promise::Pace], NodeSabotage::FullBucket);
}

#[test]
fn a_dead_node_that_is_forgotten_before_the_sweep_is_noticed() {
    must_notice(&[Promise::OnePlace], NodeSabotage::ForgetFirst);
}

#[test]
fn a_lease_that_moves_to_another_node_is_noticed() {
    must_notice(&[Promise::OnePlace], NodeSabotage::GiveAway);
}

#[test]
fn too_many_requests_at_a_time_are_noticed() {
    must_notice(&[Promise::Pace], NodeSabotage::Crowd);
}

#[test]
fn an_accepted_event_that_is_gone_is_noticed() {
    must_notice(&[Promise::Lost], NodeSabotage::DropEvent);
}

#[test]
fn a_delivered_delivery_that_was_never_received_is_noticed() {
    must_notice(&[Promise::Lost], NodeSabotage::SayDelivered);
}

#[test]
fn a_delivery_that_is_sent_again_without_need_is_noticed() {
    must_notice(&[Promise::Duplicate], NodeSabotage::SendAgain);
}

#[test]
fn one_id_that_names_two_events_on_two_nodes_is_noticed() {
    must_notice(&[Promise::Accept], NodeSabotage::ForgetKeys);
}

#[test]
fn a_node_that_does_not_follow_what_others_change_is_noticed() {
    must_notice(&[Promise::Consistency], NodeSabotage::KeepChanges);
}

#[test]
fn a_shard_that_is_left_behind_is_noticed() {
    must_notice(&[Promise::Consistency], NodeSabotage::KeepShard);
}

#[test]
fn a_node_that_does_not_notice_what_its_store_lost_is_noticed() {
    must_notice(&[Promise::Consistency], NodeSabotage::KeepCount);
}

#[test]
fn a_batch_in_doubt_that_is_wrongly_taken_for_stored_is_noticed() {
    must_notice(&[Promise::Lost, Promise::Stuck], NodeSabotage::CountLost);
}

//! One suite for every store: what the four seams promise and what they refuse. A store joins by one line at the end.
//!
//! A case is a function of a `Stage`: an empty store with an app and an endpoint, and an engine that only writes down what
//! it is told. What is true of one kind of file alone stands with its backend.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

mod accept;
mod ask;
mod at_once;
mod audit;
mod browse;
mod bulk;
#[expect(dead_code, reason = "what receives uses other parts of it")]
#[path = "../harness/certificates.rs"]
mod certificates;
mod cluster;
#[expect(dead_code, reason = "the faults use other parts of it")]
#[path = "../harness/database.rs"]
mod database;
mod explained;
mod hand_back;
mod health;
mod heart;
mod hints;
mod inspections;
#[path = "../harness/keeper.rs"]
mod keeper;
mod lists;
mod meeting;
mod nodes;
mod notices;
mod order;
mod pacing;
mod pair;
mod partitions;
mod plans;
#[expect(dead_code, reason = "the faults use other parts of it")]
#[path = "../harness/pooler.rs"]
mod pooler;
mod postgres;
mod postgres_login;
mod postgres_tls;
mod queue;
mod record;
mod recorder;
mod refill;
mod registry;
mod replays;
mod retention;
mod settle;
mod side_by_side;
mod slots;
mod sqlite;
mod stage;
mod statistics;
mod turns;
mod upgrade;
#[expect(dead_code, reason = "the faults use other parts of it")]
#[path = "../harness/wire.rs"]
mod wire;

/// Makes every case a test of its own, under the name of the backend.
macro_rules! cases {
    ($open:path; $($module:ident: [$($case:ident),+ $(,)?])+) => {$(
        mod $module {
            $(
                #[test]
                fn $case() {
                    crate::stage::perform($open, crate::$module::$case);
                }
            )+
        }
    )+};
}

macro_rules! conformance {
    ($backend:ident, $open:path) => {
        mod $backend {
            cases! { $open;
                accept: [
                    an_event_is_stored_as_it_was_given_byte_for_byte,
                    an_event_that_nobody_wants_is_kept_as_skipped,
                    what_waits_is_told_and_what_is_born_in_a_hand_is_handed_over,
                    nothing_is_handed_over_before_it_is_stored,
                    what_was_born_in_a_hand_is_handed_over_although_the_publisher_went_away,
                    what_is_born_held_for_an_endpoint_that_is_on_again_waits,
                    what_is_born_held_or_cancelled_is_told_to_nobody,
                    the_same_id_gives_the_same_event_again,
                    another_body_under_the_same_id_or_key_is_a_conflict,
                    ids_and_idempotency_keys_do_not_meet,
                    either_of_two_keys_finds_the_event,
                    what_was_published_before_is_found_without_publishing_it_again,
                    a_duplicate_inside_one_call_resolves_to_the_first,
                    duplicates_inside_one_batch_resolve_to_the_first,
                    answers_come_in_the_order_of_the_events,
                    an_event_that_cannot_be_stored_takes_its_whole_call_with_it_and_no_other,
                    an_event_and_its_many_deliveries_are_one,
                ]
                record: [
                    a_success_ends_the_delivery_and_stays,
                    a_failure_waits_for_its_next_attempt,
                    a_final_wait_is_kept_and_ends_in_the_dead_letters,
                    our_own_fault_uses_no_slot_and_no_number,
                    each_way_to_die_keeps_its_reason,
                    attempts_are_numbered_from_one_and_a_stale_connection_takes_no_number,
                    an_attempt_reads_back_whole_whatever_bytes_the_receiver_sent,
                    every_class_of_outcome_reads_back,
                    what_used_no_slot_of_the_schedule_has_no_number,
                    a_success_keeps_the_answer_but_not_its_headers,
                    a_hand_is_free_only_after_the_verdict_is_stored,
                    a_delivery_that_is_no_longer_in_flight_is_left_alone,
                    what_is_carried_under_another_epoch_is_left_alone,
                    a_410_switches_the_endpoint_off_with_its_verdict,
                    a_410_of_a_delivery_no_longer_in_flight_switches_nothing_off,
                    a_410_leaves_an_endpoint_alone_that_is_off_already,
                    a_failure_heeds_an_endpoint_that_went_off_meanwhile,
                    a_success_is_a_success_although_the_endpoint_was_deleted_meanwhile,
                    a_retry_by_hand_that_fails_puts_it_back_where_it_was,
                    a_retry_by_hand_that_works_delivers_it,
                ]
                refill: [
                    the_oldest_come_first_and_no_more_than_there_are_hands,
                    what_is_carried_is_in_flight_with_its_event_and_not_given_twice,
                    nothing_comes_before_it_is_due,
                    lanes_do_not_mix_and_several_fill_in_one_call,
                    bodies_beyond_the_limit_stay_but_the_first_always_comes,
                    bodies_of_any_size_come_with_their_own_events,
                    an_empty_lane_gives_every_hand_back,
                    a_final_wait_that_is_over_ends_without_an_attempt,
                    what_is_older_than_its_age_expires_when_it_is_due,
                    many_that_are_too_old_end_at_one_look_with_a_single_hand,
                    a_retry_comes_back_with_its_place_and_its_count,
                ]
                pacing: [
                    fresh_ones_come_beside_a_backlog_as_many_as_have_hands,
                    what_people_asked_for_comes_before_any_backlog,
                    a_replay_of_many_waits_its_turn_behind_a_backlog,
                    retries_to_come_are_brought_forward_once_in_pages,
                    only_retries_that_were_tried_before_are_brought_forward,
                    a_probe_takes_what_is_due_or_else_the_first_retry_ahead_of_its_time,
                    a_probe_ahead_of_its_time_that_is_cut_off_leaves_the_plan_as_it_was,
                ]
                hand_back: [
                    what_is_handed_back_is_due_as_it_was_and_unattempted,
                    a_later_attempt_keeps_its_place_when_handed_back,
                    a_retry_by_hand_is_still_owed_when_handed_back,
                    what_is_handed_back_heeds_an_endpoint_that_is_off,
                    what_is_no_longer_in_flight_cannot_be_handed_back,
                ]
                ask: [
                    a_retry_is_refused_where_the_design_says_so,
                    a_cancel_is_refused_in_flight_and_at_the_end,
                    only_the_dead_can_be_closed,
                    only_what_ended_can_be_deleted,
                    only_what_ended_can_be_replayed,
                    a_retry_is_due_at_once_and_told,
                    a_replay_starts_a_fresh_schedule_under_the_same_id,
                    a_replay_of_a_delivered_one_is_a_new_delivery,
                    cancelling_ends_it_by_hand,
                    closing_keeps_when_it_died,
                    deleting_removes_a_delivery_and_its_history_and_nothing_else,
                    another_app_cannot_tell_that_a_delivery_exists,
                    nothing_is_sent_again_to_a_deleted_endpoint,
                    what_is_asked_for_an_endpoint_that_is_off_is_held,
                ]
                settle: [
                    switching_off_holds_what_waits_and_nothing_else,
                    switching_off_cancels_what_waits_where_the_contract_says_so,
                    deleting_cancels_what_waits_and_what_is_held,
                    switching_on_releases_what_was_held_and_tells,
                    a_retry_by_hand_that_was_held_still_returns_to_where_it_was,
                    who_is_late_with_a_switch_settles_nothing,
                    with_nothing_to_settle_nothing_is_done,
                    erasing_a_payload_keeps_the_record,
                    only_the_own_app_can_erase_a_payload,
                ]
                order: [
                    the_next_does_not_start_before_the_one_before_it_has_ended,
                    only_its_own_line_waits,
                    what_was_published_for_later_is_due_then_when_its_turn_comes,
                    however_the_first_goes_the_next_steps_up,
                    a_dead_one_is_in_the_way_whatever_fails_again,
                    one_that_leaves_from_behind_disturbs_nobody,
                    replays_are_outside_the_order,
                    places_are_kept_while_the_endpoint_is_off,
                    an_endpoint_that_cancels_or_goes_leaves_no_line,
                    a_takeover_keeps_every_place,
                    a_line_of_the_old_ends_in_one_step,
                    the_queue_shows_those_behind_last,
                ]
                turns: [
                    those_behind_go_as_they_were_stored_whatever_their_ids,
                    a_turn_is_kept_whatever_happens_meanwhile,
                ]
                queue: [
                    too_many_events_at_once_are_refused_before_they_are_kept,
                    too_many_bytes_at_once_are_refused_but_one_large_event_passes,
                    a_verdict_is_taken_however_much_waits,
                    a_closed_store_takes_nothing_more_but_writes_what_it_took,
                ]
                registry: [
                    everything_reads_back_as_it_was_stored,
                    an_uid_of_an_app_is_taken_once,
                    an_app_changes_its_settings_and_keeps_its_uid,
                    removing_an_app_removes_its_endpoints_and_keys_at_once,
                    an_uid_of_an_endpoint_is_taken_once_in_its_app_also_by_a_deleted_one,
                    a_change_replaces_settings_secrets_headers_and_switch,
                    a_change_on_another_revision_changes_nothing,
                    of_two_changes_at_once_one_is_told_to_read_again,
                    a_deleted_endpoint_keeps_its_uid_and_loses_its_secrets,
                    a_revoked_key_is_gone_for_good,
                    a_contract_is_kept_under_its_hash,
                    an_event_type_reads_back_as_it_was_stored_and_goes,
                    of_two_changes_of_an_event_type_one_is_told_to_read_again,
                    several_event_types_are_stored_together_or_not_at_all,
                ]
                browse: [
                    an_event_is_found_by_the_producer_s_id_or_by_ours,
                    an_idempotency_key_is_no_name_of_an_event,
                    another_app_finds_nothing,
                    a_delivery_is_shown_with_its_event_and_its_history_oldest_first,
                    the_last_error_is_that_of_the_last_attempt,
                    the_deliveries_of_an_event_are_its_own,
                    the_latest_attempts_are_found_wherever_their_deliveries_are,
                    whose_something_is_is_known_by_its_id,
                    what_waits_is_counted,
                ]
                lists: [
                    pages_are_newest_first_and_neither_repeat_nor_miss_a_row,
                    a_page_goes_on_where_it_ended_although_rows_arrive,
                    other_apps_are_in_no_list,
                    filters_combine,
                    a_time_filter_takes_its_start_and_leaves_its_end,
                    a_rare_row_is_found_behind_ten_thousand_others_in_bounded_steps,
                    dead_letters_come_by_the_time_they_died_newest_first,
                    dead_letters_of_one_endpoint_are_its_own,
                    ten_thousand_closed_dead_letters_do_not_make_a_page_long,
                    the_queue_of_several_lanes_is_in_the_order_they_are_due,
                    an_app_without_anything_has_empty_lists,
                ]
                replays: [
                    sources_are_found_by_state_endpoint_type_and_app,
                    a_test_is_never_a_source,
                    pages_neither_repeat_nor_miss_a_source,
                    a_page_is_done_once_however_often_it_is_asked_for,
                    what_ended_starts_afresh_and_what_was_delivered_becomes_a_new_delivery,
                    a_source_that_changed_meanwhile_is_left_alone_and_counted,
                    an_event_that_went_meanwhile_is_not_brought_and_counted,
                    replays_to_an_endpoint_that_is_off_are_held_and_to_a_deleted_one_refused,
                    a_backfill_brings_each_past_event_once,
                    a_backfill_takes_only_what_the_endpoint_subscribes_to,
                    what_was_published_for_later_is_not_backfilled_earlier,
                    what_was_erased_is_no_source_and_is_refused_if_erased_meanwhile,
                    a_delivered_replay_is_no_source_of_its_own,
                    a_replay_ran_only_while_it_was_not_paused,
                    a_paused_or_cancelled_replay_does_not_proceed,
                    a_resumed_replay_is_found_again_after_a_restart,
                    other_apps_neither_see_nor_stop_a_replay_and_it_goes_with_its_app,
                ]
                retention: [
                    an_event_goes_with_all_that_belongs_to_it_and_nothing_else_does,
                    what_still_waits_ends_on_record_first,
                    payloads_and_histories_go_before_their_records,
                    a_dead_letter_goes_when_the_contract_it_died_under_says_so,
                    what_changed_since_it_was_found_is_decided_afresh,
                    steps_are_bounded_and_a_search_goes_on_where_it_ended,
                    an_idempotency_key_is_known_for_a_day_and_what_it_named_with_it,
                    what_an_app_that_is_gone_left_is_left_to_the_purge,
                    ids_that_went_are_not_given_out_again,
                ]
                audit: [
                    an_entry_reads_back_as_it_was_written,
                    replays_begin_with_the_change_or_not_at_all,
                    a_change_of_the_registry_leaves_one_entry_and_a_refused_one_none,
                    a_change_of_the_ledger_leaves_one_entry_and_a_refused_one_none,
                    filters_combine_and_apps_do_not_mix,
                    a_rare_entry_is_found_behind_ten_thousand_others_in_bounded_steps,
                    the_log_of_an_app_goes_with_it_and_its_end_stays,
                    a_revoked_key_is_still_known_and_the_last_use_only_grows,
                    a_portal_link_is_no_key_and_goes_a_day_after_it_expired,
                    what_people_did_is_forgotten_once_it_is_old_and_over,
                ]
                notices: [
                    a_delivery_that_dies_leaves_one_notice_with_its_facts,
                    a_delivery_that_dies_after_its_final_wait_leaves_one_too,
                    nothing_is_told_of_what_goes_on_or_goes_back_or_is_our_own,
                    a_contract_says_whether_anything_is_told,
                    a_digest_counts_until_it_closes_and_keeps_its_size,
                    a_replay_that_ends_leaves_a_notice_with_its_counts,
                    a_mail_stays_the_same_until_it_has_ended,
                    apps_take_turns_and_those_that_rest_are_passed_over,
                    a_digest_is_mailed_and_published_when_it_closes_and_not_before,
                    what_comes_after_a_digest_was_read_to_be_published_is_in_another,
                    what_is_published_is_not_found_again,
                    a_notice_that_is_published_twice_is_one_event,
                    lists_filter_and_apps_do_not_mix,
                    notices_are_forgotten_but_not_while_they_wait,
                    notices_go_with_their_app,
                ]
                inspections: [
                    an_inspection_reads_back_through_its_whole_life,
                    an_endpoint_has_one_open_inspection_and_the_engine_is_told_of_it,
                    inspections_are_taken_once_oldest_first_and_apps_keep_to_their_share,
                    an_inspection_ends_once_and_only_from_running,
                    what_ran_in_a_dead_node_is_interrupted_and_what_waited_is_told,
                    the_last_ten_that_ended_are_kept_and_listed_newest_first,
                    deleting_an_endpoint_cancels_its_inspection_and_keeps_the_history,
                    inspections_are_their_app_s_own_and_go_with_it,
                    ids_that_probes_may_carry_are_not_given_out_again,
                ]
                health: [
                    what_counts_is_in_the_windows_after_a_roll_up_and_nothing_else_is,
                    what_a_crash_leaves_in_the_log_is_rolled_up_once,
                    a_rule_switches_off_with_its_attempt_and_others_of_its_batch_heed_it,
                    a_rule_cancels_what_comes_back_where_the_contract_says_so,
                    a_success_starts_afresh_and_an_extra_attempt_by_hand_ends_no_event,
                    a_verdict_that_comes_too_late_says_nothing_about_the_endpoint,
                    health_is_known_after_a_restart_and_time_never_runs_back,
                    switching_on_starts_health_afresh_and_leaves_the_statistics,
                    a_deleted_endpoint_leaves_neither_health_nor_statistics,
                    a_deleted_app_leaves_neither_health_nor_statistics,
                    windows_call_an_endpoint_degraded_and_well_again,
                    what_was_before_a_window_or_before_it_was_well_again_calls_nobody_degraded,
                    an_event_that_ends_in_its_lane_counts_and_may_switch_off,
                    an_end_after_an_attempt_that_was_our_fault_counts_against_nobody,
                    rows_are_kept_as_long_as_they_are_wide,
                    a_pause_that_was_asked_for_is_known_until_it_is_over_or_the_endpoint_moves,
                ]
                statistics: [
                    what_happened_is_told_by_app_endpoint_and_event_type,
                    every_end_is_counted_once_whoever_is_to_blame,
                    a_long_window_is_the_sum_of_its_days_and_of_the_hours_at_its_ends,
                    event_types_beyond_what_there_is_room_for_are_counted_together,
                    what_is_gone_is_not_told_and_still_counts_for_all,
                    what_is_held_and_what_waits_is_counted_as_it_is_now,
                ]
                hints: [
                    deliveries_that_end_in_their_lane_are_hinted,
                    what_is_settled_is_hinted_also_of_an_endpoint_that_is_gone,
                    what_is_brought_forward_or_handed_back_is_hinted,
                    health_that_is_called_another_is_hinted_once,
                ]
                cluster: [
                    what_was_in_flight_is_due_again_with_an_attempt_of_unknown_outcome,
                    a_later_attempt_is_taken_over_in_its_place,
                    a_retry_by_hand_that_died_with_its_node_is_back_where_it_was,
                    a_takeover_heeds_an_endpoint_that_is_off_or_gone,
                    a_restart_changes_nothing_that_was_in_nobody_s_hands,
                    the_newest_id_is_known_after_a_restart,
                    an_id_is_never_given_out_again_after_its_row_was_deleted,
                    lanes_are_found_with_the_time_of_their_first,
                    what_is_not_settled_yet_is_found,
                    purging_removes_all_of_a_deleted_app_and_nothing_of_another,
                    a_step_of_a_purge_is_bounded_by_deliveries_too,
                    with_nothing_to_purge_a_purge_is_over_at_once,
                ]
            }
        }
    };
}

conformance!(sqlite_file, crate::sqlite::SqliteFile::new_place);
conformance!(postgres_database, crate::postgres::Database::new_place);
conformance!(postgres_pooled, crate::postgres::Pooled::new_place);

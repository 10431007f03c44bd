//! The conformance suite of all stores: the promises and refusals of the four store traits. A store joins with a line at the end.
//!
//! A case is a function of a `Fixture`: an empty store with an app and an endpoint, and an engine double that only records its
//! calls. Tests of one backend alone are in that backend's file.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

mod accept;
mod apply_state;
mod audit;
mod bulk;
#[expect(dead_code, reason = "the tests of receivers use other parts of it")]
#[path = "../harness/certificates.rs"]
mod certificates;
mod cluster;
mod command_queue;
mod config;
#[expect(dead_code, reason = "the fault tests use other parts of it")]
#[path = "../harness/database.rs"]
mod database;
#[expect(dead_code, reason = "the fault tests use other parts of it")]
#[path = "../harness/database_proxy.rs"]
mod database_proxy;
mod explain_log;
mod fixture;
mod health;
mod heartbeat;
mod inspections;
mod lease_due;
mod lists;
mod live_updates;
mod manual_actions;
mod nodes;
mod notices;
mod ordering;
mod pacing;
mod partitions;
mod plans;
#[expect(dead_code, reason = "the fault tests use other parts of it")]
#[path = "../harness/pooler.rs"]
mod pooler;
mod postgres;
mod postgres_login;
mod postgres_tls;
mod queries;
mod record;
mod recorder;
mod release;
mod replays;
mod retention;
#[path = "../harness/server_shell.rs"]
mod server_shell;
mod shared_state;
mod side_by_side;
mod single_statement_commit;
mod slots;
mod sqlite;
mod statistics;
mod storage_order;
mod two_nodes;
mod upgrade;

/// Makes every case a separate test, under the name of the backend.
macro_rules! cases {
    ($open:path; $($module:ident: [$($case:ident),+ $(,)?])+) => {$(
        mod $module {
            $(
                #[test]
                fn $case() {
                    crate::fixture::perform($open, crate::$module::$case);
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
                    an_event_without_subscribers_is_stored_as_skipped,
                    new_deliveries_are_announced_or_with_a_permit_handed_to_the_engine,
                    a_delivery_is_handed_to_the_engine_only_after_its_commit,
                    a_delivery_with_a_permit_is_handed_over_although_the_publisher_is_gone,
                    a_delivery_held_at_creation_waits_if_its_endpoint_is_enabled_again,
                    a_delivery_held_or_cancelled_at_creation_is_not_announced,
                    the_same_id_gives_the_same_event_again,
                    another_body_under_the_same_id_or_key_is_a_conflict,
                    event_ids_and_idempotency_keys_are_separate,
                    either_of_two_keys_finds_the_event,
                    a_published_event_is_found_without_publishing_it_again,
                    a_duplicate_inside_one_call_resolves_to_the_first,
                    duplicates_inside_one_batch_resolve_to_the_first,
                    answers_come_in_the_order_of_the_events,
                    an_event_that_cannot_be_stored_fails_only_its_own_call,
                    an_event_and_its_many_deliveries_are_stored_together,
                ]
                record: [
                    a_success_ends_the_delivery_and_stays,
                    a_failure_waits_for_its_next_attempt,
                    a_final_wait_is_kept_and_ends_in_the_dead_letters,
                    a_local_failure_uses_no_retry_slot_and_no_number,
                    each_way_to_become_dead_keeps_its_reason,
                    attempts_are_numbered_from_one_and_a_stale_connection_takes_no_number,
                    an_attempt_with_any_bytes_of_a_receiver_reads_back_whole,
                    every_class_of_outcome_reads_back,
                    an_attempt_that_used_no_retry_slot_has_no_number,
                    a_success_keeps_the_answer_but_not_its_headers,
                    a_permit_is_free_only_after_the_verdict_is_stored,
                    a_delivery_that_is_no_longer_in_flight_is_left_alone,
                    a_delivery_leased_under_another_epoch_is_left_alone,
                    a_410_disables_the_endpoint_with_its_verdict,
                    a_410_of_a_delivery_no_longer_in_flight_disables_nothing,
                    a_410_does_not_change_a_disabled_endpoint,
                    a_failed_delivery_is_held_or_cancelled_if_its_endpoint_was_disabled_meanwhile,
                    a_success_is_a_success_although_the_endpoint_was_deleted_meanwhile,
                    a_failed_manual_retry_restores_the_previous_state,
                    a_successful_manual_retry_delivers,
                ]
                lease_due: [
                    the_oldest_are_leased_first_and_no_more_than_permits,
                    a_leased_delivery_is_in_flight_with_its_event_and_leased_once,
                    no_delivery_is_leased_before_it_is_due,
                    queues_do_not_mix_and_several_refill_in_one_call,
                    bodies_beyond_the_limit_stay_but_the_first_is_always_leased,
                    bodies_of_any_size_come_with_their_own_events,
                    an_empty_queue_releases_every_permit,
                    a_final_wait_that_is_over_ends_without_an_attempt,
                    a_delivery_past_its_deadline_expires_when_it_is_due,
                    many_expired_deliveries_end_in_one_refill_with_a_single_permit,
                    a_retry_keeps_its_retry_index_and_its_count,
                ]
                pacing: [
                    fresh_deliveries_are_leased_beside_a_backlog_up_to_their_permits,
                    manual_deliveries_are_leased_before_any_backlog,
                    a_replay_of_many_waits_behind_a_backlog,
                    future_retries_are_advanced_once_in_pages,
                    only_retries_attempted_before_the_recovery_are_advanced,
                    a_probe_leases_a_due_delivery_or_else_the_earliest_retry,
                    an_interrupted_early_probe_leaves_the_schedule_unchanged,
                ]
                release: [
                    a_released_delivery_is_due_as_before_and_unattempted,
                    a_released_retry_keeps_its_retry_index,
                    a_released_manual_retry_stays_manual,
                    a_released_delivery_is_held_or_cancelled_if_its_endpoint_is_disabled,
                    a_delivery_no_longer_in_flight_cannot_be_released,
                ]
                manual_actions: [
                    a_retry_is_refused_in_the_specified_states,
                    a_cancel_is_refused_in_flight_and_at_the_end,
                    only_dead_deliveries_can_be_closed,
                    only_ended_deliveries_can_be_deleted,
                    only_ended_deliveries_can_be_replayed,
                    a_manual_retry_is_due_at_once_and_announced,
                    a_replay_starts_a_fresh_schedule_under_the_same_id,
                    a_replay_of_a_delivered_one_is_a_new_delivery,
                    cancelling_ends_a_delivery_manually,
                    closing_keeps_when_it_died,
                    deleting_removes_a_delivery_and_its_history_and_nothing_else,
                    another_app_cannot_tell_that_a_delivery_exists,
                    a_delivery_to_a_deleted_endpoint_cannot_be_retried_or_replayed,
                    a_manual_request_to_a_disabled_endpoint_is_held,
                ]
                apply_state: [
                    disabling_holds_only_waiting_deliveries,
                    disabling_cancels_waiting_deliveries_if_the_contract_says_so,
                    deleting_cancels_waiting_and_held_deliveries,
                    enabling_releases_held_deliveries_and_announces_them,
                    a_held_manual_retry_that_fails_restores_the_previous_state,
                    a_late_change_of_state_is_not_applied,
                    applying_a_state_without_waiting_deliveries_does_nothing,
                    erasing_a_payload_keeps_the_record,
                    only_the_own_app_can_erase_a_payload,
                ]
                ordering: [
                    the_next_delivery_starts_only_after_the_previous_one_has_ended,
                    only_deliveries_of_the_same_group_wait,
                    a_delivery_published_for_later_is_due_then_when_it_is_promoted,
                    the_next_delivery_is_promoted_however_the_head_ends,
                    a_dead_delivery_blocks_its_group_also_after_failed_retries,
                    ending_a_queued_delivery_changes_no_other,
                    replays_are_outside_the_order,
                    the_order_is_kept_while_the_endpoint_is_disabled,
                    an_endpoint_that_cancels_or_is_deleted_leaves_no_group,
                    a_takeover_keeps_the_order,
                    a_group_of_expired_deliveries_ends_in_one_step,
                    the_queue_lists_blocked_deliveries_last,
                ]
                storage_order: [
                    queued_deliveries_are_sent_in_order_of_storage_with_any_ids,
                    the_order_of_storage_is_kept_through_holding_and_takeover,
                ]
                command_queue: [
                    too_many_events_at_once_are_refused_before_they_are_kept,
                    too_many_bytes_at_once_are_refused_but_one_large_event_passes,
                    a_result_is_accepted_by_a_full_queue,
                    a_closed_store_accepts_no_commands_and_writes_accepted_ones,
                ]
                config: [
                    everything_reads_back_as_it_was_stored,
                    an_app_uid_is_unique,
                    an_app_changes_its_settings_and_keeps_its_uid,
                    removing_an_app_removes_its_endpoints_and_keys_at_once,
                    an_endpoint_uid_is_unique_in_its_app_including_deleted_ones,
                    a_change_replaces_settings_secrets_headers_and_state,
                    a_change_of_another_revision_is_refused,
                    of_two_concurrent_endpoint_changes_one_conflicts,
                    a_deleted_endpoint_keeps_its_uid_and_loses_its_secrets,
                    a_revoked_key_stays_revoked,
                    a_contract_is_kept_under_its_hash,
                    an_event_type_reads_back_and_can_be_removed,
                    of_two_concurrent_event_type_changes_one_conflicts,
                    several_event_types_are_stored_together_or_not_at_all,
                ]
                queries: [
                    an_event_is_found_by_the_producer_s_id_or_by_ours,
                    an_idempotency_key_does_not_find_an_event,
                    another_app_finds_nothing,
                    a_delivery_is_shown_with_its_event_and_its_history_oldest_first,
                    the_last_error_is_that_of_the_last_attempt,
                    the_deliveries_of_an_event_are_its_own,
                    the_latest_attempts_are_found_wherever_their_deliveries_are,
                    the_app_of_an_object_is_found_by_its_id,
                    waiting_deliveries_are_counted,
                ]
                lists: [
                    pages_are_newest_first_and_neither_repeat_nor_miss_a_row,
                    a_page_continues_where_the_last_ended_although_rows_arrive,
                    other_apps_are_in_no_list,
                    filters_combine,
                    a_time_filter_includes_its_start_and_excludes_its_end,
                    a_rare_row_is_found_behind_ten_thousand_others_in_bounded_steps,
                    dead_letters_are_listed_by_time_of_death_newest_first,
                    dead_letters_of_one_endpoint_are_its_own,
                    ten_thousand_closed_dead_letters_do_not_make_a_page_long,
                    the_queue_of_several_endpoints_is_in_order_of_due_time,
                    an_app_without_anything_has_empty_lists,
                ]
                replays: [
                    sources_are_found_by_state_endpoint_type_and_app,
                    a_test_is_never_a_source,
                    pages_neither_repeat_nor_miss_a_source,
                    a_page_is_done_once_although_requested_often,
                    ended_deliveries_restart_and_delivered_ones_become_new_deliveries,
                    a_source_that_changed_meanwhile_is_left_alone_and_counted,
                    an_event_deleted_meanwhile_is_counted_and_not_backfilled,
                    replays_to_a_disabled_endpoint_are_held_and_to_a_deleted_one_refused,
                    a_backfill_brings_each_past_event_once,
                    a_backfill_takes_only_what_the_endpoint_subscribes_to,
                    events_published_for_later_are_not_backfilled_earlier,
                    an_erased_event_is_no_source_and_refused_if_erased_meanwhile,
                    a_delivered_replay_is_no_source_of_its_own,
                    a_replay_ran_only_while_it_was_not_paused,
                    a_paused_or_cancelled_replay_does_not_proceed,
                    a_resumed_replay_is_found_again_after_a_restart,
                    other_apps_cannot_see_or_stop_a_replay_and_it_is_deleted_with_its_app,
                ]
                retention: [
                    an_event_is_deleted_with_all_its_data_and_no_other,
                    waiting_deliveries_end_on_record_before_deletion,
                    payloads_and_histories_are_deleted_before_their_records,
                    a_dead_letter_is_deleted_by_the_contract_it_died_under,
                    an_unreadable_contract_stops_retention_and_is_named,
                    rows_changed_since_the_search_are_decided_again,
                    steps_are_bounded_and_a_search_continues_where_it_ended,
                    an_idempotency_key_is_kept_for_a_day_with_its_event,
                    data_of_a_deleted_app_is_left_to_the_purge,
                    deleted_ids_are_not_used_again,
                ]
                audit: [
                    an_entry_reads_back_as_it_was_written,
                    replays_begin_with_the_change_or_not_at_all,
                    a_change_of_the_registry_leaves_one_entry_and_a_refused_one_none,
                    a_change_of_the_ledger_leaves_one_entry_and_a_refused_one_none,
                    filters_combine_and_apps_do_not_mix,
                    a_rare_entry_is_found_behind_ten_thousand_others_in_bounded_steps,
                    the_audit_log_of_an_app_is_deleted_with_it_except_the_deletion,
                    a_revoked_key_is_still_known_and_the_last_use_only_grows,
                    a_portal_link_is_no_key_and_is_purged_a_day_after_expiry,
                    old_keys_and_audit_entries_are_purged,
                ]
                notices: [
                    a_dead_delivery_has_one_notice_with_its_details,
                    a_delivery_dead_after_its_final_wait_has_a_notice_too,
                    deliveries_that_continue_or_are_internal_have_no_notice,
                    the_contract_decides_whether_there_is_a_notice,
                    a_digest_counts_until_it_closes_and_keeps_its_size,
                    a_replay_that_ends_leaves_a_notice_with_its_counts,
                    a_mail_stays_the_same_until_it_has_ended,
                    mails_alternate_between_apps_and_skip_resting_ones,
                    a_digest_is_mailed_and_published_when_it_closes_and_not_before,
                    an_occurrence_after_a_digest_was_read_goes_into_another,
                    a_published_notice_is_not_found_again,
                    a_notice_that_is_published_twice_is_one_event,
                    lists_filter_and_apps_do_not_mix,
                    notices_are_purged_but_not_while_they_wait,
                    notices_are_deleted_with_their_app,
                ]
                inspections: [
                    an_inspection_reads_back_through_its_whole_life,
                    an_endpoint_has_one_open_inspection_and_the_engine_is_notified,
                    inspections_are_taken_once_oldest_first_and_apps_keep_to_their_share,
                    an_inspection_ends_once_and_only_from_running,
                    inspections_of_a_dead_node_are_interrupted_and_waiting_ones_announced,
                    the_last_ten_ended_inspections_are_kept_newest_first,
                    deleting_an_endpoint_cancels_its_inspection_and_keeps_the_history,
                    inspections_are_visible_to_their_app_and_deleted_with_it,
                    ids_that_probes_may_carry_are_not_given_out_again,
                ]
                health: [
                    only_counted_attempts_are_in_the_windows_after_a_roll_up,
                    statistics_left_by_a_crash_are_rolled_up_once,
                    a_rule_disables_with_its_attempt_and_applies_to_its_batch,
                    a_rule_that_disables_cancels_retries_if_the_contract_says_so,
                    a_success_resets_health_and_a_failed_manual_attempt_ends_no_event,
                    a_late_result_does_not_change_health,
                    health_is_known_after_a_restart_and_time_never_runs_back,
                    enabling_resets_health_and_keeps_the_statistics,
                    a_deleted_endpoint_leaves_neither_health_nor_statistics,
                    a_deleted_app_leaves_neither_health_nor_statistics,
                    windows_make_an_endpoint_degraded_and_healthy_again,
                    failures_before_the_window_or_the_recovery_do_not_degrade,
                    an_event_that_ends_while_waiting_counts_and_may_disable,
                    an_end_after_a_local_failure_does_not_count,
                    statistics_rows_are_kept_according_to_their_width,
                    a_requested_pause_is_stored_until_it_ends_or_the_url_changes,
                ]
                statistics: [
                    what_happened_is_told_by_app_endpoint_and_event_type,
                    every_end_is_counted_once_whoever_is_to_blame,
                    a_long_window_is_the_sum_of_its_days_and_of_the_hours_at_its_ends,
                    event_types_beyond_what_there_is_room_for_are_counted_together,
                    what_is_gone_is_not_told_and_still_counts_for_all,
                    what_is_held_and_what_waits_is_counted_as_it_is_now,
                ]
                live_updates: [
                    a_new_event_and_its_deliveries_give_live_updates,
                    a_recorded_result_gives_a_live_update_of_the_stored_state,
                    an_action_gives_a_live_update_of_the_delivery,
                    each_step_of_a_replay_gives_a_live_update,
                    an_endpoint_that_a_result_disables_gives_one_live_update,
                    deliveries_that_end_while_waiting_give_a_live_update,
                    applying_a_state_gives_a_live_update_also_for_a_deleted_endpoint,
                    advanced_and_released_deliveries_give_a_live_update,
                    a_change_of_health_gives_one_live_update,
                ]
                cluster: [
                    a_taken_over_delivery_is_due_with_an_attempt_of_unknown_outcome,
                    a_taken_over_retry_keeps_its_retry_index,
                    a_manual_retry_that_died_with_its_node_restores_the_previous_state,
                    a_takeover_respects_disabled_and_deleted_endpoints,
                    a_restart_changes_no_delivery_that_was_not_in_flight,
                    the_newest_id_is_known_after_a_restart,
                    an_id_is_never_given_out_again_after_its_row_was_deleted,
                    queues_are_found_with_their_earliest_due_time,
                    endpoints_with_an_unapplied_state_are_found,
                    a_purge_removes_all_data_of_a_deleted_app_and_no_other,
                    a_step_of_a_purge_is_bounded_by_deliveries_too,
                    a_purge_without_data_ends_at_once,
                ]
            }
        }
    };
}

conformance!(sqlite_file, crate::sqlite::SqliteFile::new_backend);
conformance!(postgres_database, crate::postgres::Database::new_place);
conformance!(postgres_pooled, crate::postgres::Pooled::new_place);

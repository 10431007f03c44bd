//! Deliveries of a batch that end together, delivered, with the attempt that each of them took: one statement.

use super::columns::{ColumnRows, ColumnTypes};
use crate::{
    domain::{
        delivery::{Delivery, DeliveryState},
        id::DeliveryId,
    },
    store::sql::{ATTEMPT, BulkOp, Command, RecordResult, Result, params},
};
use std::{collections::HashMap, sync::LazyLock};

/// An attempt, and the fields of its delivery that changed.
const COMPLETED: ColumnTypes = ColumnTypes("nnnnnnnnntnntbnbbttnnnn");

pub(super) static RECORD: LazyLock<String> =
    LazyLock::new(|| format!("WITH {} SELECT delivery FROM gone", recording("", "?1", 2)));

pub(super) const COMPLETE_PARAMS: usize = COMPLETED.0.len();

/// SQL that moves deliveries in flight to `done`, from the parameters from `first` on, if `given` has a row; `gone` has those
/// whose `queue` is the given one. Fields that are not given stay as they were. The lease is checked in a way that no index is
/// used for: all deliveries in flight have the same `queue`, and the server would go through it for each of these rows.
pub(super) fn recording(given: &str, queue: &str, first: usize) -> String {
    let (rows, delivered) = (COMPLETED.unnest(first), DeliveryState::Delivered as i64);
    format!(
        "ended AS MATERIALIZED (
             SELECT r.* FROM {given}{rows} AS r ({ATTEMPT}, retry_index, attempt_count, history_len, finished_at)),
         gone AS (
             DELETE FROM deliveries_open l USING ended r WHERE l.id = r.delivery
                 AND CASE WHEN l.state = 2 THEN l.queue = {queue} ELSE false END
             RETURNING l.app, l.event, l.endpoint, l.give_up_at, l.root, l.replay_of, l.restarted_at, r.*),
         over AS (
             INSERT INTO deliveries_ended (id, app, event, endpoint, state, retry_index, attempt_count, history_len, due_action, give_up_at,
                 finished_at, root, replay_of, restarted_at)
             SELECT delivery, app, event, endpoint, {delivered}, retry_index, attempt_count, history_len, 0, give_up_at,
                 finished_at, root, replay_of, restarted_at FROM gone),
         history AS (INSERT INTO attempts ({ATTEMPT}) SELECT {ATTEMPT} FROM gone)"
    )
}

#[derive(Default)]
pub(super) struct BulkComplete {
    gathered: HashMap<DeliveryId, (usize, Delivery)>,
    rows: Option<ColumnRows>,
}

impl BulkComplete {
    pub(super) fn has(&self, delivery: DeliveryId) -> bool {
        self.gathered.contains_key(&delivery)
    }

    /// Adds a delivery as it ended by this command of the batch.
    pub(super) fn push(&mut self, index: usize, recording: &RecordResult, delivery: Delivery) -> Result<()> {
        let rows = self.rows.get_or_insert_with(|| ColumnRows::new(COMPLETED));
        recording.attempt_rows(&mut |attempt| {
            let Delivery { retry_index, attempt_count, history_len, finished_at, .. } = &delivery;
            let ended = params![retry_index, attempt_count, history_len, finished_at];
            rows.push(&[attempt, ended].concat())
        })?;
        self.gathered.insert(delivery.id, (index, delivery));
        Ok(())
    }

    /// Returns the rows to be written; `None` if there are none.
    pub(super) fn rows(&mut self) -> Option<ColumnRows> {
        self.rows.take()
    }

    /// Sets the results of the commands, of which `is_recorded` ones were written.
    pub(super) fn set_results(
        &mut self,
        is_recorded: impl Fn(DeliveryId) -> bool,
        batch: &mut [Box<dyn Command>],
    ) {
        for (id, (index, delivery)) in self.gathered.drain() {
            if let BulkOp::Record(recording) = batch[index].bulk_op() {
                recording.set_result(is_recorded(id).then_some(delivery));
            }
        }
    }
}

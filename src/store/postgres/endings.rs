//! Deliveries of a batch that end together, delivered, with the attempt that each of them took: one statement.

use super::{
    asked::Answer,
    columns::{Rows, Shape},
};
use crate::{
    domain::{delivery::Delivery, id::DeliveryId},
    store::sql::{ATTEMPT, Hot, Recording, Result, Work, params},
};
use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

/// An attempt, and what its delivery has become.
const ENDINGS: Shape = Shape("nnnnnnnnntnntbnbbttnnnn");

/// Given the lane of what is carried here, and the state that it ends in. What is not said here of a delivery is as it was. Whether it
/// is still carried is asked so that no index is taken for that: all that is in flight has the same lane, and the server would go
/// through it for each of these rows.
pub(super) static RECORD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH ended AS MATERIALIZED (
             SELECT * FROM {rows} AS r ({ATTEMPT}, place, attempt_count, history_len, finished_at)),
         gone AS (
             DELETE FROM live l USING ended r WHERE l.id = r.delivery
                 AND CASE WHEN l.state = 2 THEN l.lane = ?1 ELSE false END
             RETURNING l.app, l.event, l.endpoint, l.give_up_at, l.root, l.replay_of, l.restarted_at, r.*),
         over AS (
             INSERT INTO done (id, app, event, endpoint, state, place, attempt_count, history_len, at_due, give_up_at,
                 finished_at, root, replay_of, restarted_at)
             SELECT delivery, app, event, endpoint, ?2, place, attempt_count, history_len, 0, give_up_at,
                 finished_at, root, replay_of, restarted_at FROM gone),
         history AS (INSERT INTO attempts ({ATTEMPT}) SELECT {ATTEMPT} FROM gone)
         SELECT delivery FROM gone",
        rows = ENDINGS.unnest(3)
    )
});

#[derive(Default)]
pub(super) struct Endings {
    gathered: HashMap<DeliveryId, (usize, Delivery)>,
    rows: Option<Rows>,
}

impl Endings {
    pub(super) fn has(&self, delivery: DeliveryId) -> bool {
        self.gathered.contains_key(&delivery)
    }

    /// The delivery as it has ended by this command of the batch.
    pub(super) fn push(&mut self, place: usize, recording: &Recording, delivery: Delivery) -> Result<()> {
        let rows = self.rows.get_or_insert_with(|| Rows::new(ENDINGS));
        recording.history(&mut |attempt| {
            let Delivery { place, attempt_count, history_len, finished_at, .. } = &delivery;
            let ended = params![place, attempt_count, history_len, finished_at];
            rows.push(&[attempt, ended].concat())
        })?;
        self.gathered.insert(delivery.id, (place, delivery));
        Ok(())
    }

    /// What is to be written of them; `None` if nothing was gathered.
    pub(super) fn rows(&mut self) -> Option<Rows> {
        self.rows.take()
    }

    /// What came of it.
    pub(super) fn recorded(&mut self, answer: &Answer, batch: &mut [Box<dyn Work>]) -> Result<()> {
        let recorded: HashSet<DeliveryId> = answer.read(|row| row.get(0))?;
        for (id, (place, delivery)) in self.gathered.drain() {
            if let Hot::Record(recording) = batch[place].hot() {
                recording.became(recorded.contains(&id).then_some(delivery));
            }
        }
        Ok(())
    }
}

//! Writer identity: the epoch of a process and the ids it may assign. Both are one value, so that nothing is stored under an
//! epoch with an id of a node slot that went to another node with the epoch before.

use super::{Error, Result};
use crate::domain::id;

#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct WriterId {
    pub(in crate::store) epoch: i64,
    slot: u8,
    /// Ids that it assigns from now on are larger than this.
    after: i64,
    /// A bit for each slot that it had before: other nodes assign ids in those now.
    left_slots: u64,
}

impl WriterId {
    /// Identity of a process that has assigned no id yet.
    pub(in crate::store) fn first(epoch: i64, slot: u8) -> Self {
        Self { epoch, slot, after: 0, left_slots: 0 }
    }

    /// Identity after the node was taken over. It owns no id before it is known which ids others assigned in the slot.
    #[must_use]
    pub(in crate::store) fn rejoined(self, epoch: i64, slot: u8) -> Self {
        Self { epoch, slot, after: i64::MAX, left_slots: self.left_slots | 1 << self.slot }
    }

    /// Sets the newest stored id, now that no other node assigns ids in its slot.
    #[must_use]
    pub(in crate::store) fn after_id(self, newest: i64) -> Self {
        Self { after: self.after.min(newest), ..self }
    }

    pub(in crate::store) fn slot(&self) -> u8 {
        self.slot
    }

    /// Refuses an id that this process took under an epoch before: another node may assign the same.
    pub(in crate::store) fn check_id(&self, number: i64) -> Result<()> {
        let slot = id::node_slot_of(number);
        let is_own = if slot == self.slot { number > self.after } else { self.left_slots >> slot & 1 == 0 };
        let stale = "this was begun before its node joined again, and has to be begun anew";
        is_own.then_some(()).ok_or(Error::Stale(stale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{id::IdSource, time::Timestamp};

    fn number(slot: u8, ms: i64) -> i64 {
        IdSource::new(slot, 0).next_range(Timestamp::from_millis(1_800_000_000_000 + ms), 1)
    }

    #[test]
    fn ids_of_a_left_slot_are_refused_and_ids_of_the_new_slot_start_behind_the_newest_stored() {
        let first = WriterId::first(7, 3);
        assert!(first.check_id(number(3, 0)).is_ok());
        let moved = first.rejoined(8, 5);
        for slot in [3, 5] {
            assert!(
                moved.check_id(number(slot, 9)).is_err(),
                "no id is owned before the newest stored one is known"
            );
        }
        let writer_id = moved.after_id(number(1, 5));
        assert_eq!((writer_id.epoch, writer_id.slot()), (8, 5));
        assert!(writer_id.check_id(number(3, 9)).is_err() && writer_id.check_id(number(5, 9)).is_ok());
        // Back in the first slot, in which another node assigned ids meanwhile.
        let back = writer_id.rejoined(9, 3).after_id(number(3, 20));
        assert!(back.check_id(number(3, 20)).is_err() && back.check_id(number(3, 21)).is_ok());
        assert!(back.check_id(number(5, 30)).is_err());
    }
}

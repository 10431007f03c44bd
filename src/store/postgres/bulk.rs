//! A batch in a few statements instead of some for each command. What is plain (`sql/hot.rs`) is gathered and written together;
//! everything else is applied by itself, after what was gathered before it wherever it could see that.

use super::{births::Births, endings::Endings, sql::Transaction};
use crate::store::sql::{Hot, Result, Sql, Work, conclude};

/// Applies every command of a batch as if one came after the other; answers which notice is the newest now.
pub(super) fn apply_all(tx: &Transaction<'_>, batch: &mut [Box<dyn Work>]) -> Result<i64> {
    let mut gathered = Gathered::default();
    for place in 0..batch.len() {
        gathered.take(tx, batch, place)?;
    }
    gathered.write(tx, batch)?;
    conclude(tx, batch)
}

#[derive(Default)]
struct Gathered {
    births: Births,
    endings: Endings,
}

impl Gathered {
    fn take(&mut self, tx: &Transaction<'_>, batch: &mut [Box<dyn Work>], place: usize) -> Result<()> {
        match batch[place].hot() {
            Hot::Accept(accept) => {
                let count = accept.begin(tx.epoch()).len();
                for event in 0..count {
                    self.take_event(tx, batch, (place, event))?;
                }
                Ok(())
            }
            Hot::Record(recording) => {
                let id = recording.delivery();
                if self.endings.has(id) {
                    self.endings.write(tx, batch)?;
                }
                let Hot::Record(recording) = batch[place].hot() else { return Ok(()) };
                match recording.plainly(tx.epoch(), |endpoint| !tx.has_health(endpoint)) {
                    Some(delivery) => self.endings.push(place, recording, delivery),
                    // Neither sees what the other writes: endpoints whose health it may change have no plain ones here.
                    None => batch[place].apply(tx),
                }
            }
            Hot::No => {
                self.write(tx, batch)?;
                batch[place].apply(tx)
            }
        }
    }

    fn take_event(
        &mut self,
        tx: &Transaction<'_>,
        batch: &mut [Box<dyn Work>],
        at: (usize, usize),
    ) -> Result<()> {
        let Hot::Accept(accept) = batch[at.0].hot() else { return Ok(()) };
        let new = accept.event(at.1);
        if new.is_plain() && !self.births.has_any_key(new) {
            self.births.push(at, new);
            return Ok(());
        }
        self.births.write(tx, batch)?;
        let Hot::Accept(accept) = batch[at.0].hot() else { return Ok(()) };
        accept.apply_one(tx, at.1)
    }

    fn write(&mut self, tx: &Transaction<'_>, batch: &mut [Box<dyn Work>]) -> Result<()> {
        self.endings.write(tx, batch)?;
        self.births.write(tx, batch)
    }
}

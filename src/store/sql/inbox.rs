//! Accepts events from the inbox: the event is stored and its row removed in one transaction, so that a crash neither loses
//! it nor stores it twice.

use super::{Command, CommitEffects, Error, Locks, Result, Sql, commands::Accept, params};
use crate::{
    domain::statistics::StatBatch,
    store::{Reply, StoreError, deliveries::Accepted, inbox::InboxBatch},
};

pub(in crate::store) struct AcceptInbox {
    accept: Accept,
    /// Inbox numbers of its events, in the same order.
    numbers: Vec<i64>,
    refused: Vec<(i64, String)>,
    removed: Vec<i64>,
}

impl AcceptInbox {
    pub(in crate::store) fn prepare(batch: InboxBatch) -> (Self, Reply<Vec<Accepted>>) {
        let InboxBatch { events, refused, removed } = batch;
        let (numbers, events): (Vec<_>, Vec<_>) = events.into_iter().unzip();
        let (accept, answer) = Accept::prepare(events);
        (Self { accept, numbers, refused, removed }, answer)
    }

    pub(in crate::store) fn weight(&self) -> (usize, usize) {
        self.accept.weight()
    }
}

impl Command for AcceptInbox {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.accept.apply(tx)?;
        for (number, result) in self.numbers.iter().zip(&self.accept.results) {
            match result {
                Accepted::Conflict { event } => {
                    refuse(tx, *number, &format!("id: something else was published under it, as {event}"))?;
                }
                // A removed row means that it is not to be published: the inbox is read again.
                Accepted::New if !remove(tx, *number)? => {
                    return Err(Error::Wrong(format!("inbox {number} is gone while it was taken in")));
                }
                Accepted::New => {}
                Accepted::Repeated { .. } => {
                    remove(tx, *number)?;
                }
            }
        }
        for number in &self.removed {
            remove(tx, *number)?;
        }
        self.refused.iter().try_for_each(|(number, error)| refuse(tx, *number, error))
    }

    /// A node that accepts the same row waits at the event's dedup key, and then finds it published before.
    fn takes_row_locks(&self) -> bool {
        true
    }

    fn locks(&self, locks: &mut Locks) {
        self.accept.locks(locks);
    }

    fn add_statistics(&self, counters: &mut StatBatch) {
        self.accept.add_statistics(counters);
    }

    fn in_doubt(&mut self, error: &StoreError) {
        self.accept.in_doubt(error);
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        Box::new(self.accept).committed(after);
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        Box::new(self.accept).failed(error)
    }
}

fn remove(tx: &dyn Sql, number: i64) -> Result<bool> {
    Ok(tx.execute("DELETE FROM inbox WHERE id = ?1", params![number])? == 1)
}

fn refuse(tx: &dyn Sql, number: i64, error: &str) -> Result<()> {
    tx.execute("UPDATE inbox SET error = ?2 WHERE id = ?1", params![number, error])?;
    Ok(())
}

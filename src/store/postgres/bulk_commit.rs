//! Writes a batch in a few statements instead of some for each command. Simple commands (`sql/bulk_ops.rs`) are collected and
//! written together; every other command is applied by itself, after the collected ones wherever it could see them.

use super::{
    bulk_accept::{self, ACCEPT, BulkAccept, CLAIM, NewEventRows},
    bulk_complete::{BulkComplete, RECORD},
    sql::{Transaction, Uncommitted},
    statement::Statement,
};
use crate::{
    domain::id::DeliveryId,
    store::sql::{
        BulkOp, Command, LOG_STATISTICS, NEWEST_NOTICE, Result, Row, Sql, ToValue, WriterId, added_by, params,
    },
};
use std::collections::HashSet;

/// Applies every command of a batch as if they ran one after the other.
pub(super) fn apply_all(
    tx: &Transaction<'_>,
    writer_id: WriterId,
    batch: &mut [Box<dyn Command>],
) -> Result<CommitTail> {
    let mut gathered =
        BulkWriter { writer_id, accepted: BulkAccept::default(), ends: BulkComplete::default() };
    for index in 0..batch.len() {
        gathered.add(tx, batch, index)?;
    }
    let accepted = gathered.write_collected(tx, batch)?;
    Ok(CommitTail { accepted, added: added_by(batch)? })
}

/// The end of a batch, on which no other command depends: it is sent together with the COMMIT.
pub(super) struct CommitTail {
    accepted: Option<NewEventRows>,
    added: Vec<String>,
}

impl CommitTail {
    /// Commits; returns the newest notice.
    pub(super) fn commit(self, tx: Transaction<'_>) -> Result<i64, Uncommitted> {
        let accepted = self.accepted.as_ref().map(NewEventRows::rows);
        let added: Vec<[&dyn ToValue; 1]> = self.added.iter().map(|added| [added as _]).collect();
        let accept = accepted.as_ref().map(|rows| Statement::Change(&ACCEPT, &[], rows));
        let log = added.iter().map(|added| Statement::Change(LOG_STATISTICS, added, &[]));
        let newest = Statement::Query(NEWEST_NOTICE, &[], &[]);
        let answers = tx.commit_with(&accept.into_iter().chain(log).chain([newest]).collect::<Vec<_>>())?;
        let newest = answers.iter().rev().find_map(|answer| answer.rows.first());
        // An unreadable row is no reason to doubt the commit: the notice worker checks again after the next batch.
        Ok(newest.and_then(|row| Row::new(row).get(0).ok().flatten()).unwrap_or_default())
    }
}

struct BulkWriter {
    writer_id: WriterId,
    accepted: BulkAccept,
    ends: BulkComplete,
}

impl BulkWriter {
    fn add(&mut self, tx: &Transaction<'_>, batch: &mut [Box<dyn Command>], index: usize) -> Result<()> {
        match batch[index].bulk_op() {
            BulkOp::Accept(accept) => {
                let count = accept.start(tx.epoch()).len();
                for event in 0..count {
                    self.add_event(tx, batch, (index, event))?;
                }
                Ok(())
            }
            BulkOp::Record(recording) => {
                if self.ends.has(recording.delivery()) {
                    self.write(tx, batch)?;
                }
                let BulkOp::Record(recording) = batch[index].bulk_op() else { return Ok(()) };
                match recording.as_simple_delivery(tx.epoch(), |endpoint| !tx.has_health(endpoint)) {
                    Some(delivery) => self.ends.push(index, recording, delivery),
                    // Order does not matter here: an endpoint whose health such a command may change has no simple commands
                    // in the batch.
                    None => batch[index].apply(tx),
                }
            }
            BulkOp::Nothing => Ok(()),
            BulkOp::NotBulk => {
                self.write(tx, batch)?;
                batch[index].apply(tx)
            }
        }
    }

    fn add_event(
        &mut self,
        tx: &Transaction<'_>,
        batch: &mut [Box<dyn Command>],
        at: (usize, usize),
    ) -> Result<()> {
        let BulkOp::Accept(accept) = batch[at.0].bulk_op() else { return Ok(()) };
        let new = accept.event(at.1);
        if new.needs_no_decision() && !self.accepted.has_any_key(new) {
            self.accepted.push(at, new);
            return Ok(());
        }
        self.write(tx, batch)?;
        let BulkOp::Accept(accept) = batch[at.0].bulk_op() else { return Ok(()) };
        accept.apply_one(tx, at.1)
    }

    fn write(&mut self, tx: &Transaction<'_>, batch: &mut [Box<dyn Command>]) -> Result<()> {
        if let Some(accepted) = self.write_collected(tx, batch)? {
            tx.pipeline(&[Statement::Change(&ACCEPT, &[], &accepted.rows())])?;
        }
        Ok(())
    }

    /// Writes what was collected, except for the new events that it returns, whose rows no other command has to see.
    fn write_collected(
        &mut self,
        tx: &Transaction<'_>,
        batch: &mut [Box<dyn Command>],
    ) -> Result<Option<NewEventRows>> {
        let (ended, claims) = (self.ends.rows(), self.accepted.claims(batch)?);
        let (of_ended, of_claims) = (Vec::from_iter(&ended), Vec::from_iter(&claims));
        let queue = params![-tx.epoch()];
        let record = ended.is_some().then_some(Statement::Query(&RECORD, queue, &of_ended));
        let claim = claims.is_some().then_some(Statement::Change(&CLAIM, &[], &of_claims));
        let answers = tx.pipeline(&[record, claim].into_iter().flatten().collect::<Vec<_>>())?;
        let mut answers = answers.into_iter();
        if record.is_some()
            && let Some(answer) = answers.next()
        {
            let recorded: HashSet<DeliveryId> = answer.read(|row| row.get(0))?;
            self.ends.set_results(|delivery| recorded.contains(&delivery), batch);
        }
        let lost = match (&claims, answers.next()) {
            (Some(claims), Some(answer)) => bulk_accept::events_without_keys(tx, claims, answer.count)?,
            _ => HashSet::new(),
        };
        let accepted = self.accepted.new_rows(self.writer_id, batch, &lost)?;
        self.accepted.accept_lost(tx, batch, &lost)?;
        Ok(accepted)
    }
}

//! Commands that lease due deliveries and release leased ones, as commands of a batch.

use super::{
    Command, CommitEffects, Error, Result, Sql,
    command::answered,
    delivery_statements,
    lease_due::{self, DueDelivery, EndedUnsent, LeasedParts},
};
use crate::{
    domain::{
        event::TEST_EVENT_TYPE,
        id::{AppId, EndpointId},
        live_update::LiveUpdate,
        ports::{LeasedDelivery, Permit},
        statistics::StatBatch,
        time::Timestamp,
    },
    store::{
        Reply, StoreError,
        deliveries::{LeaseRequest, LeaseResult},
    },
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::oneshot;

pub(in crate::store) struct LeaseDue {
    requests: Vec<LeaseRequest>,
    now: Timestamp,
    found: Vec<LeasedParts>,
    epoch: i64,
    reply: oneshot::Sender<Result<Vec<LeaseResult>, StoreError>>,
}

impl LeaseDue {
    pub(in crate::store) fn prepare(
        requests: Vec<LeaseRequest>,
        now: Timestamp,
    ) -> (Self, Reply<Vec<LeaseResult>>) {
        let (reply, answer) = oneshot::channel();
        (Self { requests, now, found: Vec::new(), epoch: 0, reply }, answered(answer))
    }
}

impl Command for LeaseDue {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.epoch = tx.epoch();
        if self.requests.iter().any(|request| !request.is_all_of_epoch(self.epoch)) {
            // Requested before this node joined again: it knows no waiting deliveries now, and these permits are void.
            self.found = self.requests.iter().map(|_| LeasedParts::default()).collect();
            return Ok(());
        }
        let mut may_end = lease_due::ENDED_MAX;
        let together = in_savepoint(tx, &self.requests, &mut may_end, self.now)?;
        self.found = if let Ok(found) = together {
            found
        } else {
            // A row that cannot be read fails its own endpoint queue only, not those of the same command.
            may_end = lease_due::ENDED_MAX;
            let mut queue = |request| {
                let found = in_savepoint(tx, std::slice::from_ref(request), &mut may_end, self.now)?;
                Ok(found.unwrap_or_else(|error| {
                    tracing::error!(%error, "an endpoint queue cannot be read");
                    vec![LeasedParts::default()]
                }))
            };
            self.requests.iter().map(&mut queue).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        };
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn add_statistics(&self, counters: &mut StatBatch) {
        for EndedUnsent { delivery, event_type, is_blamed } in
            self.found.iter().flat_map(|found| &found.ended)
        {
            if event_type != TEST_EVENT_TYPE {
                counters
                    .entry(delivery.app, Some(delivery.endpoint), event_type, self.now)
                    .add_end(delivery.state, *is_blamed);
            }
        }
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        let (mut refilled, epoch) = (Vec::with_capacity(self.requests.len()), self.epoch);
        for (request, found) in self.requests.into_iter().zip(self.found) {
            refilled.push(LeaseResult {
                endpoint: request.endpoint,
                has_no_oldest: found.oldest.is_empty() && !request.permits.is_empty(),
                has_more_fresh: found.has_more_fresh,
                has_more_manual: found.has_more_manual,
                next_due: found.next_due,
            });
            let lease = |((delivery, event, due), mut permit): (DueDelivery, Permit)| {
                permit.add_bytes(event.data.len());
                LeasedDelivery { delivery, event: Arc::new(event), due, permit, epoch }
            };
            after.publish(
                found
                    .ended
                    .first()
                    .map(|ended| LiveUpdate::deliveries(ended.delivery.app, ended.delivery.endpoint)),
            );
            let manual = found.manual.into_iter().zip(request.manual_permits);
            let oldest = found.oldest.into_iter().zip(request.permits);
            let fresh = found.fresh.into_iter().zip(request.fresh_permits);
            after.leased.extend(manual.chain(oldest).chain(fresh).map(lease));
        }
        let _ = self.reply.send(Ok(refilled));
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        let _ = self.reply.send(Err(error.clone()));
        None
    }
}

/// Leases from these endpoint queues in a savepoint. The inner error names a row that cannot be read: then nothing was
/// leased, so that no delivery is left in flight unsent.
fn in_savepoint(
    tx: &dyn Sql,
    requests: &[LeaseRequest],
    may_end: &mut usize,
    now: Timestamp,
) -> Result<Result<Vec<LeasedParts>>> {
    tx.execute("SAVEPOINT queues", &[])?;
    let found = match lease_due::lease_due(tx, requests, may_end, now) {
        Err(error @ Error::Wrong(_)) => {
            tx.execute("ROLLBACK TO queues", &[])?;
            Err(error)
        }
        found => Ok(found?),
    };
    tx.execute("RELEASE queues", &[])?;
    Ok(found)
}

pub(in crate::store) struct Release {
    leased: Vec<LeasedDelivery>,
    now: Timestamp,
    waiting: Vec<(EndpointId, Timestamp)>,
    changed: BTreeSet<(AppId, EndpointId)>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

impl Release {
    pub(in crate::store) fn prepare(leased: Vec<LeasedDelivery>, now: Timestamp) -> (Self, Reply<()>) {
        let (reply, answer) = oneshot::channel();
        (Self { leased, now, waiting: Vec::new(), changed: BTreeSet::new(), reply }, answered(answer))
    }
}

impl Command for Release {
    fn apply(&mut self, tx: &dyn Sql) -> Result<()> {
        self.waiting.clear();
        for leased in &self.leased {
            let became = delivery_statements::release(tx, leased, self.now, &mut self.waiting)?;
            self.changed.extend(became.as_ref().map(|delivery| (delivery.app, delivery.endpoint)));
            self.waiting.extend(became.and_then(|delivery| {
                delivery.due.filter(|_| delivery.state.is_waiting()).map(|due| (delivery.endpoint, due))
            }));
        }
        Ok(())
    }

    fn takes_row_locks(&self) -> bool {
        true
    }

    fn committed(self: Box<Self>, after: &mut CommitEffects) {
        after.waiting.extend(self.waiting);
        after.publish(self.changed.into_iter().map(|(app, endpoint)| LiveUpdate::deliveries(app, endpoint)));
        let _ = self.reply.send(Ok(()));
    }

    fn failed(self: Box<Self>, error: &StoreError) -> Option<Box<dyn Command>> {
        match error {
            StoreError::Unavailable(_) | StoreError::Overloaded => Some(self),
            StoreError::Closed | StoreError::Corrupt(_) => {
                let _ = self.reply.send(Err(error.clone()));
                None
            }
        }
    }
}

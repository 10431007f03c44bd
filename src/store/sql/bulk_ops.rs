//! Commands that can be written in bulk. Their result is known before the write, because they read no rows but their own. All
//! other commands run one at a time.

use super::{
    attempts,
    commands::{Accept, RecordResult},
    delivery_statements::{self, RecordedResult},
};
use crate::{
    domain::{
        delivery::{Availability, Delivery, DeliveryState},
        id::{DeliveryId, EndpointId},
        outcome::OutcomeClass,
        verdict::Verdict,
    },
    store::{
        deliveries::{Accepted, DeliveryResult, NewEvent},
        sql::{Result, Sql, ToValue},
    },
};

/// A command's form for a backend that writes many at once.
pub enum BulkOp<'a> {
    Accept(&'a mut Accept),
    Record(&'a mut RecordResult),
    /// There is nothing to be written.
    Nothing,
    /// Not on the hot path, or not written in bulk.
    NotBulk,
}

impl Accept {
    /// Returns the events, to be examined one by one. Each counts as new unless `apply_one` finds otherwise.
    pub(in crate::store) fn start(&mut self, epoch: i64) -> &[NewEvent] {
        self.set_epoch(epoch);
        self.results = vec![Accepted::New; self.events.len()];
        &self.events
    }

    pub(in crate::store) fn event(&self, index: usize) -> &NewEvent {
        &self.events[index]
    }

    /// Writes a single event by itself.
    pub(in crate::store) fn apply_one(&mut self, tx: &dyn Sql, index: usize) -> Result<()> {
        self.results[index] = delivery_statements::accept(tx, &mut self.events[index])?;
        Ok(())
    }
}

impl NewEvent {
    /// Whether none of its deliveries joins an ordering group or depends on whether its endpoint is enabled.
    pub(in crate::store) fn needs_no_decision(&self) -> bool {
        self.deliveries.iter().all(|new_delivery| {
            let Delivery { id, app, event, endpoint, state, due, give_up_at, .. } = new_delivery.delivery;
            let fresh = Delivery::new(id, app, event, endpoint, self.event.accepted_at, give_up_at);
            let is_taken = match state {
                DeliveryState::Pending => due.is_some(),
                DeliveryState::InFlight => due.is_none(),
                _ => false,
            };
            is_taken && new_delivery.delivery == Delivery { state, due, ..fresh }
        })
    }
}

impl RecordResult {
    pub(in crate::store) fn delivery(&self) -> DeliveryId {
        self.record.leased.delivery.id
    }

    /// Returns the delivery as it ends, if its write needs no decision: it was delivered, leased under this epoch, is in no
    /// ordering group, and does not change the endpoint's health. `is_well` says whether an endpoint is known to be healthy.
    pub(in crate::store) fn as_simple_delivery(
        &self,
        epoch: i64,
        is_well: impl FnOnce(EndpointId) -> bool,
    ) -> Option<Delivery> {
        let DeliveryResult { leased, attempts, verdict, disable, health_sample, ended_at, contract } =
            &self.record;
        let mut delivery = leased.delivery.clone();
        let [attempt] = &attempts[..] else { return None };
        let is_ok = attempt.outcome.class == OutcomeClass::Ok;
        let says_nothing = health_sample.is_none() || contract.is_none();
        let is_plain = *verdict == Verdict::Delivered
            && leased.epoch == epoch
            && disable.is_none()
            && delivery.ordering_key.is_none()
            && delivery.skipped_at.is_none()
            && (says_nothing || is_ok && is_well(delivery.endpoint));
        let slots = delivery_statements::slots(&self.record);
        let is_concluded =
            is_plain && delivery.apply_verdict(verdict, slots, Availability::Enabled, *ended_at).is_ok();
        is_concluded.then_some(delivery)
    }

    /// Passes on the rows of its attempts, in the order of `attempts::COLUMNS_WRITTEN`.
    pub(in crate::store) fn attempt_rows(
        &self,
        each: &mut dyn FnMut(&[&dyn ToValue]) -> Result<()>,
    ) -> Result<()> {
        let DeliveryResult { leased, attempts, .. } = &self.record;
        let (position, number) = delivery_statements::next_positions(&self.record);
        attempts::rows(leased.delivery.id, position, number, attempts, each)
    }

    /// Sets its result: `None` where the delivery was not leased any more.
    pub(in crate::store) fn set_result(&mut self, delivery: Option<Delivery>) {
        let as_simple =
            |delivery| RecordedResult { delivery, disabled: None, woken: Vec::new(), health_changed: false };
        self.recorded = delivery.map(as_simple);
    }
}

//! Fan-out: makes a new event's deliveries, one for each matching endpoint, with a permit where one is free. Producers'
//! events and the server's own operational webhooks both use it.

use super::{
    contract::PublishedWhileDisabled,
    delivery::{Availability, Delivery},
    endpoint::Endpoint,
    event::Event,
    id::DeliveryId,
    ports::{Permit, Permits},
    time::Timestamp,
};
use std::sync::Arc;

/// A new delivery; with a permit it is in flight from the start and goes to the engine after the commit, unless it is queued
/// behind others of its ordering group.
#[derive(Debug)]
pub struct NewDelivery {
    pub delivery: Delivery,
    pub permit: Option<Permit>,
}

/// Whether the endpoint gets a delivery of an event published now. A disabled endpoint gets none if its contract says so.
pub fn receives_deliveries(endpoint: &Endpoint) -> bool {
    endpoint.record.disabled.is_none() || endpoint.contract.off.published != PublishedWhileDisabled::None
}

/// Makes one delivery for each of these endpoints. Their ids follow the event's own.
pub fn fan_out(
    event: &Event,
    subscribers: &[&Arc<Endpoint>],
    permits: &dyn Permits,
    now: Timestamp,
) -> Vec<NewDelivery> {
    let is_due = event.deliver_at.is_none_or(|at| at <= now);
    let new = |(endpoint, number): (&&Arc<Endpoint>, i64)| {
        let permit = match endpoint.record.disabled {
            None if is_due => permits.take(endpoint.id(), event.data.len()),
            _ => None,
        };
        let mut new = new_delivery(event, number, endpoint, now, permit);
        new.delivery.ordering_key = endpoint.record.settings.ordered.ordering_key(event.key.as_deref());
        if endpoint.record.disabled.is_some() {
            new.delivery.apply_availability(availability_for_new(endpoint), now);
        }
        new
    };
    subscribers.iter().zip(event.id.as_i64() + 1..).map(new).collect()
}

pub fn new_delivery(
    event: &Event,
    number: i64,
    endpoint: &Endpoint,
    now: Timestamp,
    permit: Option<Permit>,
) -> NewDelivery {
    let due = event.deliver_at.map_or(now, |at| at.max(now));
    let give_up_at = endpoint.contract.retry.give_up_after.map(|age| due.plus(age));
    let id = DeliveryId::from_i64(number);
    let mut delivery = Delivery::new(id, event.app, event.id, endpoint.id(), due, give_up_at);
    if permit.is_some() {
        delivery.start_in_flight();
    }
    NewDelivery { delivery, permit }
}

fn availability_for_new(endpoint: &Endpoint) -> Availability {
    match endpoint.contract.off.published {
        PublishedWhileDisabled::Held => Availability::DisabledHold,
        PublishedWhileDisabled::Cancelled | PublishedWhileDisabled::None => Availability::DisabledCancel,
    }
}

//! From what a producer gives to what the ledger stores: finds the endpoints that want the event, takes ids and free hands.
//! Everything it asks is in memory.

use super::{EndpointName, Publish, form::keys_of};
use crate::{
    domain::{
        app::App,
        contract::PublishedWhileOff,
        delivery::{Delivery, Switch},
        endpoint::Endpoint,
        event::{Event, RenderedBodies},
        id::{DeliveryId, EventId},
        port::Hand,
        roster::Roster,
        time::Timestamp,
    },
    service::Service,
    store::ledger::{Birth, NewEvent},
};
use std::sync::Arc;

/// A checked event on its way to the ledger, and what to answer once it is there.
pub(super) struct Composed {
    pub(super) new: NewEvent,
    pub(super) deliveries: Vec<(DeliveryId, EndpointName)>,
}

impl Service {
    pub(super) fn compose(&self, app: &App, endpoints: &Roster, publish: Publish<'_>) -> Composed {
        let now = self.clock.now();
        let mut wanting = endpoints.wanting(publish.event_type);
        wanting.retain(|endpoint| makes_a_delivery(endpoint));
        let id = self.take_ids(now, 1 + wanting.len() as u32);
        let (dedup, fingerprint) = keys_of(app, &publish);
        let event = Arc::new(Event {
            id: EventId::from_i64(id),
            app: app.id,
            given_id: publish.id.map(str::to_owned),
            event_type: publish.event_type.to_owned(),
            created_at: publish.created_at.unwrap_or(now),
            accepted_at: now,
            data: publish.data,
            key: publish.key.map(str::to_owned),
            deliver_at: publish.deliver_at,
            is_skipped: wanting.is_empty(),
            bodies: RenderedBodies::default(),
        });
        let mut births = Vec::with_capacity(wanting.len());
        let mut deliveries = Vec::with_capacity(wanting.len());
        for (endpoint, number) in wanting.into_iter().zip(id + 1..) {
            let is_due = event.deliver_at.is_none_or(|at| at <= now);
            let hand = match endpoint.record.off {
                None if is_due => self.hands.take(endpoint.id(), event.data.len()),
                _ => None,
            };
            let mut birth = born(&event, number, endpoint, now, hand);
            birth.delivery.okey = endpoint.record.settings.ordered.line_of(event.key.as_deref());
            if endpoint.record.off.is_some() {
                birth.delivery.heed(published_while_off(endpoint), now);
            }
            births.push(birth);
            deliveries.push((DeliveryId::from_i64(number), EndpointName::Of(endpoint.clone())));
        }
        Composed { new: NewEvent { event, births, dedup, fingerprint }, deliveries }
    }
}

pub(super) fn born(
    event: &Event,
    number: i64,
    endpoint: &Endpoint,
    now: Timestamp,
    hand: Option<Hand>,
) -> Birth {
    let due = event.deliver_at.map_or(now, |at| at.max(now));
    let give_up_at = endpoint.contract.retry.give_up_after.map(|age| due.plus(age));
    let id = DeliveryId::from_i64(number);
    let mut delivery = Delivery::born(id, event.app, event.id, endpoint.id(), due, give_up_at);
    if hand.is_some() {
        delivery.carry_from_birth();
    }
    Birth { delivery, hand }
}

fn makes_a_delivery(endpoint: &Endpoint) -> bool {
    endpoint.record.off.is_none() || endpoint.contract.off.published != PublishedWhileOff::None
}

fn published_while_off(endpoint: &Endpoint) -> Switch {
    match endpoint.contract.off.published {
        PublishedWhileOff::Held => Switch::OffHolding,
        PublishedWhileOff::Cancelled | PublishedWhileOff::None => Switch::OffCancelling,
    }
}

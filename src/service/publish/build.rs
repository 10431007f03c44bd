//! Builds the stored form of an event: finds the subscribed endpoints and takes ids. Reads only memory.

use super::{EndpointUid, PublishRequest, validate::dedup_keys};
use crate::{
    domain::{
        app::App,
        event::Event,
        fan_out::{fan_out, receives_deliveries},
        id::{DeliveryId, EventId},
    },
    runtime::SubscriberIndex,
    service::Service,
    store::deliveries::NewEvent,
};
use std::sync::Arc;

/// A checked event to store, with the deliveries to answer with.
pub(super) struct PreparedEvent {
    pub(super) new_event: NewEvent,
    pub(super) deliveries: Vec<(DeliveryId, EndpointUid)>,
}

impl Service {
    pub(super) fn build_event(
        &self,
        app: &App,
        endpoints: &SubscriberIndex,
        publish: PublishRequest<'_>,
    ) -> PreparedEvent {
        let now = self.clock.now();
        let mut subscribers = endpoints.matching(publish.event_type);
        subscribers.retain(|endpoint| receives_deliveries(endpoint));
        let id = self.take_ids(now, 1 + subscribers.len() as u32);
        let (dedup, fingerprint) = dedup_keys(app, &publish);
        let event = Arc::new(Event {
            id: EventId::from_i64(id),
            app: app.id,
            external_id: publish.id.map(str::to_owned),
            event_type: publish.event_type.to_owned(),
            created_at: publish.created_at.unwrap_or(now),
            accepted_at: now,
            data: publish.data,
            key: publish.key.map(str::to_owned),
            deliver_at: publish.deliver_at,
            has_no_subscribers: subscribers.is_empty(),
        });
        let new_deliveries = fan_out(&event, &subscribers, &*self.permits, now);
        let names = subscribers.into_iter().map(|endpoint| EndpointUid::Loaded(endpoint.clone()));
        let deliveries =
            new_deliveries.iter().map(|new_delivery| new_delivery.delivery.id).zip(names).collect();
        PreparedEvent {
            new_event: NewEvent { event, deliveries: new_deliveries, dedup, fingerprint },
            deliveries,
        }
    }
}

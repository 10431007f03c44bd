//! From what a producer gives to what the ledger stores: checks the fields, finds the endpoints that want the event, takes
//! ids and free hands. Everything it asks is in memory.

use super::{
    Error, Service,
    publish::{EndpointName, Publish},
};
use crate::{
    domain::{
        app::App,
        contract::PublishedWhileOff,
        delivery::{Delivery, Switch},
        endpoint::Endpoint,
        event::{DedupKey, DedupSpace, Event, Fingerprint, RenderedBodies},
        id::{DeliveryId, EventId, GIVEN_ID_FORM, is_given_id},
        port::Hand,
        roster::Roster,
        subscription::check_event_type,
        time::Timestamp,
    },
    store::ledger::{Birth, NewEvent},
};
use std::{sync::Arc, time::Duration};

const DELIVER_AHEAD_MAX: Duration = Duration::from_hours(30 * 24);
const KEY_BYTES_MAX: usize = 256;

/// A checked event on its way to the ledger, and what to answer once it is there.
pub(super) struct Composed {
    pub(super) new: NewEvent,
    pub(super) deliveries: Vec<(DeliveryId, EndpointName)>,
}

impl Service {
    pub(super) fn compose(
        &self,
        app: &App,
        endpoints: &Roster,
        publish: Publish<'_>,
        now: Timestamp,
    ) -> Result<Composed, Error> {
        check(&publish, now)?;
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
            if endpoint.record.off.is_some() {
                birth.delivery.heed(published_while_off(endpoint), now);
            }
            births.push(birth);
            deliveries.push((DeliveryId::from_i64(number), EndpointName::Of(endpoint.clone())));
        }
        Ok(Composed { new: NewEvent { event, births, dedup, fingerprint }, deliveries })
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

fn keys_of(app: &App, publish: &Publish<'_>) -> (Vec<DedupKey>, Fingerprint) {
    let id = publish.id.map(|id| DedupKey::new(app.id, DedupSpace::EventId, id));
    let key = publish.idempotency_key.map(|key| DedupKey::new(app.id, DedupSpace::IdempotencyKey, key));
    if id.is_none() && key.is_none() {
        return (Vec::new(), Fingerprint([0; 16]));
    }
    let fingerprint = Fingerprint::new(
        publish.event_type,
        &publish.data,
        publish.created_at,
        publish.key,
        publish.deliver_at,
    );
    (id.into_iter().chain(key).collect(), fingerprint)
}

fn check(publish: &Publish<'_>, now: Timestamp) -> Result<(), Error> {
    check_event_type(publish.event_type).map_err(|message| Error::field("type", message))?;
    if publish.id.is_some_and(|id| !is_given_id(id)) {
        return Err(Error::field("id", format!("must be {GIVEN_ID_FORM}")));
    }
    if publish
        .key
        .is_some_and(|key| !(1..=KEY_BYTES_MAX).contains(&key.len()) || key.contains(char::is_control))
    {
        return Err(Error::field(
            "key",
            format!("must be 1 to {KEY_BYTES_MAX} bytes without control characters"),
        ));
    }
    let visible =
        |key: &str| (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if publish.idempotency_key.is_some_and(|key| !visible(key)) {
        let message = format!("must be 1 to {KEY_BYTES_MAX} visible ASCII characters");
        return Err(Error::field("Idempotency-Key", message));
    }
    if publish.deliver_at.is_some_and(|at| at.since(now) > DELIVER_AHEAD_MAX) {
        return Err(Error::field("deliver_at", "must be at most 30 days ahead"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn event() -> Publish<'static> {
        Publish {
            id: None,
            event_type: "payment.created",
            data: Bytes::from_static(b"{}"),
            created_at: None,
            key: None,
            deliver_at: None,
            idempotency_key: None,
        }
    }

    fn refused_field(publish: &Publish<'_>) -> Option<String> {
        match check(publish, Timestamp::from_millis(0)) {
            Ok(()) => None,
            Err(Error::Field(error)) => Some(error.field),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_field_outside_its_form_is_named() {
        let ahead = |days: i64| Some(Timestamp::from_millis(days * 86_400_000));
        let long = "k".repeat(257);
        let cases = [
            (Publish { id: Some("a b"), ..event() }, Some("id")),
            (Publish { id: Some("order:17.a~b-c_D"), ..event() }, None),
            (Publish { event_type: "webhook.test", ..event() }, Some("type")),
            (Publish { key: Some(""), ..event() }, Some("key")),
            (Publish { key: Some("kunde 7, süd"), ..event() }, None),
            (Publish { idempotency_key: Some("a b"), ..event() }, Some("Idempotency-Key")),
            (Publish { idempotency_key: Some(&long), ..event() }, Some("Idempotency-Key")),
            (Publish { deliver_at: ahead(30), ..event() }, None),
            (Publish { deliver_at: ahead(31), ..event() }, Some("deliver_at")),
            (Publish { deliver_at: ahead(-31), ..event() }, None),
        ];
        for (publish, field) in cases {
            assert_eq!(refused_field(&publish).as_deref(), field, "{publish:?}");
        }
    }

    #[test]
    fn an_event_without_id_or_key_is_not_deduplicated() {
        let app = App {
            id: crate::domain::id::AppId::from_i64(1),
            uid: "a".into(),
            settings: crate::domain::app::AppSettings::default(),
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        };
        assert_eq!(keys_of(&app, &event()), (Vec::new(), Fingerprint([0; 16])));
        let both = Publish { id: Some("x"), idempotency_key: Some("x"), ..event() };
        let (keys, fingerprint) = keys_of(&app, &both);
        assert_eq!(keys.len(), 2);
        assert_ne!(keys[0], keys[1], "the two namespaces are separate");
        assert_ne!(fingerprint, Fingerprint([0; 16]));
    }
}

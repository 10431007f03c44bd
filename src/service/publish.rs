//! Publishing: an event becomes one delivery for each endpoint that wants it, in one call to the ledger.
//!
//! This is the hot path. It asks only what is in memory, takes what hands are free, and waits for nothing but the commit.

use super::{Error, Service};
use crate::{
    domain::{
        app::App,
        contract::PublishedWhileOff,
        delivery::{Delivery, Switch},
        directory::AppEntry,
        endpoint::Endpoint,
        event::{DedupKey, DedupSpace, Event, Fingerprint, RenderedBodies, TEST_EVENT_TYPE},
        id::{DeliveryId, EndpointId, EventId, GIVEN_ID_FORM, is_given_id},
        port::Hand,
        roster::Roster,
        subscription::check_event_type,
        time::Timestamp,
    },
    store::{
        StoreError,
        ledger::{Accepted, Birth, NewEvent},
    },
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

pub const BATCH_MAX: usize = 1000;

const DELIVER_AHEAD_MAX: Duration = Duration::from_hours(30 * 24);
const KEY_BYTES_MAX: usize = 256;

/// One event as a producer gives it.
#[derive(Debug)]
pub struct Publish<'a> {
    pub id: Option<&'a str>,
    pub event_type: &'a str,
    /// A JSON value, already known to be one.
    pub data: Bytes,
    pub created_at: Option<Timestamp>,
    pub key: Option<&'a str>,
    pub deliver_at: Option<Timestamp>,
    pub idempotency_key: Option<&'a str>,
}

/// An event that is durable, with its first deliveries.
#[derive(Debug)]
pub struct Published {
    pub event: Arc<Event>,
    pub deliveries: Vec<(DeliveryId, EndpointName)>,
    /// `false` if the same was published before.
    pub is_new: bool,
}

/// How callers know an endpoint; spares the hot path a copy.
#[derive(Debug)]
pub enum EndpointName {
    Of(Arc<Endpoint>),
    Text(String),
}

impl EndpointName {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Of(endpoint) => &endpoint.record.uid,
            Self::Text(uid) => uid,
        }
    }
}

/// A checked event on its way to the ledger, and what to answer once it is there.
struct Composed {
    new: NewEvent,
    deliveries: Vec<(DeliveryId, EndpointName)>,
}

impl Service {
    /// Promise: `Ok` only once event, deliveries and keys are durable.
    pub async fn publish(&self, entry: &AppEntry, publish: Publish<'_>) -> Result<Published, Error> {
        self.must_accept()?;
        let begun = Instant::now();
        let app = entry.app();
        let now = self.clock.now();
        within_quota(entry, &app, &publish, now)?;
        let composed = self.compose(&app, &entry.endpoints(), publish, now)?;
        self.accept(&app, composed, begun).await
    }

    /// Several events in one transaction; each is answered for itself, in the same order.
    pub async fn publish_all(
        &self,
        entry: &AppEntry,
        events: Vec<Publish<'_>>,
    ) -> Result<Vec<Result<Published, Error>>, Error> {
        self.must_accept()?;
        let begun = Instant::now();
        let (app, endpoints, now) = (entry.app(), entry.endpoints(), self.clock.now());
        let mut answers = Vec::with_capacity(events.len());
        let mut accepting = Vec::with_capacity(events.len());
        for publish in events {
            let composed = within_quota(entry, &app, &publish, now)
                .and_then(|()| self.compose(&app, &endpoints, publish, now));
            answers.push(composed.map(|composed| {
                let event = composed.new.event.clone();
                accepting.push(composed.new);
                (event, composed.deliveries)
            }));
        }
        let accepted = if accepting.is_empty() {
            Vec::new()
        } else {
            self.note_accept(begun, self.ledger.accept(accepting).await)?
        };
        let mut accepted = accepted.into_iter();
        let mut published = Vec::with_capacity(answers.len());
        for answer in answers {
            published.push(match answer {
                Ok((event, deliveries)) => {
                    let accepted = accepted.next().ok_or_else(unanswered)?;
                    self.answer(&app, event, deliveries, accepted).await
                }
                Err(error) => Err(error),
            });
        }
        Ok(published)
    }

    /// Sends a test event to one endpoint, whatever it subscribes to and even if it is off.
    pub async fn test(&self, entry: &AppEntry, uid: &str) -> Result<DeliveryId, Error> {
        self.must_accept()?;
        let begun = Instant::now();
        let endpoint = Self::endpoint_of(entry, uid)?;
        let (app, now) = (entry.app(), self.clock.now());
        let data = serde_json::json!({ "test": true, "endpoint_id": endpoint.record.uid }).to_string();
        let hand = self.hands.take_for_test(endpoint.id(), data.len()).ok_or(StoreError::Overloaded)?;
        let id = self.take_ids(now, 2);
        let event = Arc::new(Event {
            id: EventId::from_i64(id),
            app: app.id,
            given_id: None,
            event_type: TEST_EVENT_TYPE.to_owned(),
            created_at: now,
            accepted_at: now,
            data: Bytes::from(data),
            key: None,
            deliver_at: None,
            is_skipped: false,
            bodies: RenderedBodies::default(),
        });
        let birth = born(&event, id + 1, &endpoint, now, Some(hand));
        let test = birth.delivery.id;
        let deliveries = vec![(test, EndpointName::Of(endpoint))];
        let new =
            NewEvent { event, births: vec![birth], dedup: Vec::new(), fingerprint: Fingerprint([0; 16]) };
        self.accept(&app, Composed { new, deliveries }, begun).await.map(|_| test)
    }

    pub(super) fn must_accept(&self) -> Result<(), Error> {
        self.readiness.refusal().map_or(Ok(()), |reason| Err(Error::Unavailable(reason.detail)))
    }

    async fn accept(&self, app: &App, composed: Composed, begun: Instant) -> Result<Published, Error> {
        let event = composed.new.event.clone();
        let accepted = self.note_accept(begun, self.ledger.accept(vec![composed.new]).await)?;
        let accepted = accepted.into_iter().next().ok_or_else(unanswered)?;
        self.answer(app, event, composed.deliveries, accepted).await
    }

    async fn answer(
        &self,
        app: &App,
        event: Arc<Event>,
        deliveries: Vec<(DeliveryId, EndpointName)>,
        accepted: Accepted,
    ) -> Result<Published, Error> {
        match accepted {
            Accepted::New => {
                self.tally.accepted(1);
                Ok(Published { event, deliveries, is_new: true })
            }
            Accepted::Repeated { event, deliveries } => {
                let deliveries = self.name_endpoints(deliveries).await?;
                Ok(Published { event, deliveries, is_new: false })
            }
            Accepted::Conflict { event } => {
                Err(Error::PublishedBefore { event: event.with_prefix(app.id_prefix()) })
            }
        }
    }

    async fn name_endpoints(
        &self,
        deliveries: Vec<(DeliveryId, EndpointId)>,
    ) -> Result<Vec<(DeliveryId, EndpointName)>, Error> {
        let names = self.endpoint_names(deliveries.iter().map(|(_, endpoint)| *endpoint)).await?;
        let name = |endpoint: EndpointId| {
            names.get(&endpoint).map_or_else(|| endpoint.to_string(), |name| name.uid.clone())
        };
        Ok(deliveries.into_iter().map(|(id, endpoint)| (id, EndpointName::Text(name(endpoint)))).collect())
    }

    fn compose(
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

/// Whatever is published counts, also what was published before and what is refused for its form later on: it costs as much.
fn within_quota(entry: &AppEntry, app: &App, publish: &Publish<'_>, now: Timestamp) -> Result<(), Error> {
    let Some(quota) = &app.settings.quota else { return Ok(()) };
    entry.spend(quota, publish.data.len(), now).map_err(Error::QuotaExceeded)
}

fn born(event: &Event, number: i64, endpoint: &Endpoint, now: Timestamp, hand: Option<Hand>) -> Birth {
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

fn unanswered() -> Error {
    Error::Internal("the ledger answered for fewer events than it was given".into())
}

#[cfg(test)]
mod tests {
    use super::*;

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

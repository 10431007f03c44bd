//! Publishing: an event becomes one delivery for each endpoint that wants it, in one call to the ledger.
//!
//! This is the hot path. It asks only what is in memory, takes what hands are free, and waits for nothing but the commit;
//! only data whose schema is enforced is looked at.

mod form;
mod rules;

use super::{Error, Service};
use crate::{
    domain::{
        app::App,
        contract::PublishedWhileOff,
        delivery::{Delivery, Switch},
        directory::AppEntry,
        endpoint::Endpoint,
        event::{Event, Fingerprint, RenderedBodies, TEST_EVENT_TYPE},
        id::{DeliveryId, EndpointId, EventId},
        port::Hand,
        roster::Roster,
        time::Timestamp,
    },
    store::{
        StoreError,
        ledger::{Accepted, Birth, NewEvent},
    },
};
use bytes::Bytes;
use form::{check, keys_of};
use std::sync::Arc;
use tokio::time::Instant;

pub const BATCH_MAX: usize = 1000;

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

/// An event of a batch: answered already, or waiting for the ledger.
enum InBatch {
    Answered(Result<Published, Error>),
    Accepting(Arc<Event>, Vec<(DeliveryId, EndpointName)>),
}

impl Service {
    /// Promise: `Ok` only once event, deliveries and keys are durable.
    pub async fn publish(&self, entry: &AppEntry, publish: Publish<'_>) -> Result<Published, Error> {
        self.must_accept()?;
        let begun = Instant::now();
        let app = entry.app();
        self.examine(entry, &app, &publish)?;
        if let Err(broken) = self.must_keep_the_rules(app.id, &publish).await {
            return self.unless_published_before(&app, &publish, broken).await;
        }
        let composed = self.compose(&app, &entry.endpoints(), publish);
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
        let app = entry.app();
        let examined: Vec<_> =
            events.into_iter().map(|publish| self.examine(entry, &app, &publish).map(|()| publish)).collect();
        let broken = self.broken_rules(app.id, &examined).await;
        let endpoints = entry.endpoints();
        let mut answers = Vec::with_capacity(examined.len());
        let mut accepting = Vec::with_capacity(examined.len());
        for (publish, broken) in examined.into_iter().zip(broken) {
            answers.push(match (publish, broken) {
                (Err(error), _) => InBatch::Answered(Err(error)),
                (Ok(publish), Some(broken)) => {
                    InBatch::Answered(self.unless_published_before(&app, &publish, broken).await)
                }
                (Ok(publish), None) => {
                    let Composed { new, deliveries } = self.compose(&app, &endpoints, publish);
                    let event = new.event.clone();
                    accepting.push(new);
                    InBatch::Accepting(event, deliveries)
                }
            });
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
                InBatch::Accepting(event, deliveries) => {
                    let accepted = accepted.next().ok_or_else(unanswered)?;
                    self.answer(&app, event, deliveries, accepted).await
                }
                InBatch::Answered(answer) => answer,
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

    /// Whatever does not take the store or its type to say.
    fn examine(&self, entry: &AppEntry, app: &App, publish: &Publish<'_>) -> Result<(), Error> {
        let now = self.clock.now();
        within_quota(entry, app, publish, now)?;
        check(publish, now)
    }

    /// A rule that came later does not take back what was answered: the same event gets the same answer.
    async fn unless_published_before(
        &self,
        app: &App,
        publish: &Publish<'_>,
        broken: Error,
    ) -> Result<Published, Error> {
        let (keys, fingerprint) = keys_of(app, publish);
        if keys.is_empty() {
            return Err(broken);
        }
        match self.browse.published_before(keys, fingerprint).await? {
            Accepted::New => Err(broken),
            before => self.answer_before(app, before).await,
        }
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
            before => self.answer_before(app, before).await,
        }
    }

    async fn answer_before(&self, app: &App, before: Accepted) -> Result<Published, Error> {
        match before {
            Accepted::New => Err(unanswered()),
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

    fn compose(&self, app: &App, endpoints: &Roster, publish: Publish<'_>) -> Composed {
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
            if endpoint.record.off.is_some() {
                birth.delivery.heed(published_while_off(endpoint), now);
            }
            births.push(birth);
            deliveries.push((DeliveryId::from_i64(number), EndpointName::Of(endpoint.clone())));
        }
        Composed { new: NewEvent { event, births, dedup, fingerprint }, deliveries }
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

fn unanswered() -> Error {
    Error::Internal("the ledger answered for fewer events than it was given".into())
}

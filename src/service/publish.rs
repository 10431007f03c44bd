//! Publishing: stores an event with a delivery for each matching endpoint, in one call to the delivery store.
//!
//! This is the hot path. It reads only memory, takes permits that are free, and waits for nothing but the commit. Payloads are
//! read only if their type's schema is enforced.

mod build;
mod from_inbox;
mod rules;
mod validate;

use super::{Error, Service};
use crate::{
    domain::{
        app::App,
        endpoint::Endpoint,
        event::{Event, Fingerprint, TEST_EVENT_TYPE},
        fan_out::new_delivery,
        id::{DeliveryId, EndpointId, EventId},
        time::Timestamp,
    },
    runtime::CachedApp,
    store::{
        StoreError,
        deliveries::{Accepted, NewEvent},
    },
};
use build::PreparedEvent;
use bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;
use validate::{check_form, dedup_keys};

pub const BATCH_MAX: usize = 1000;

/// An event as a producer publishes it.
#[derive(Debug)]
pub struct PublishRequest<'a> {
    pub id: Option<&'a str>,
    pub event_type: &'a str,
    /// Valid JSON.
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
    pub deliveries: Vec<(DeliveryId, EndpointUid)>,
    /// `false` if an equal event was published before under this id or key.
    pub is_new: bool,
}

/// Public id of an endpoint; a reference to the endpoint saves a copy on the hot path.
#[derive(Debug)]
pub enum EndpointUid {
    Loaded(Arc<Endpoint>),
    Text(String),
}

impl EndpointUid {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Loaded(endpoint) => &endpoint.record.uid,
            Self::Text(uid) => uid,
        }
    }
}

/// An event of a batch: already answered, or sent to the store.
enum BatchEntry {
    Answered(Result<Published, Error>),
    Accepting(Arc<Event>, Vec<(DeliveryId, EndpointUid)>),
}

impl Service {
    /// Publishes an event. Promise: `Ok` only once event, deliveries and keys are durable.
    pub async fn publish(&self, entry: &CachedApp, publish: PublishRequest<'_>) -> Result<Published, Error> {
        self.require_accepting()?;
        let begun = Instant::now();
        let app = entry.app();
        self.check_quota_and_form(entry, &app, &publish)?;
        let may_be_new = match self.require_storage_space() {
            Ok(()) => self.check_rules(app.id, &publish).await,
            full => full,
        };
        if let Err(refused) = may_be_new {
            return self.repeat_or_refuse(&app, &publish, refused).await;
        }
        let composed = self.build_event(&app, &entry.endpoints(), publish);
        self.store_event(&app, composed, begun).await
    }

    /// Publishes several events in one transaction. Each has its own result, in the same order.
    pub async fn publish_all(
        &self,
        entry: &CachedApp,
        events: Vec<PublishRequest<'_>>,
    ) -> Result<Vec<Result<Published, Error>>, Error> {
        self.require_accepting()?;
        let begun = Instant::now();
        let app = entry.app();
        let examined: Vec<_> = events
            .into_iter()
            .map(|publish| self.check_quota_and_form(entry, &app, &publish).map(|()| publish))
            .collect();
        if let Err(full) = self.require_storage_space() {
            return self.answer_when_full(&app, examined, full).await;
        }
        let broken = self.broken_rules(app.id, &examined).await;
        let endpoints = entry.endpoints();
        let mut answers = Vec::with_capacity(examined.len());
        let mut accepting = Vec::with_capacity(examined.len());
        for (publish, broken) in examined.into_iter().zip(broken) {
            answers.push(match (publish, broken) {
                (Err(error), _) => BatchEntry::Answered(Err(error)),
                (Ok(publish), Some(broken)) => {
                    BatchEntry::Answered(self.repeat_or_refuse(&app, &publish, broken).await)
                }
                (Ok(publish), None) => {
                    let PreparedEvent { new_event: new, deliveries } =
                        self.build_event(&app, &endpoints, publish);
                    let event = new.event.clone();
                    accepting.push(new);
                    BatchEntry::Accepting(event, deliveries)
                }
            });
        }
        let accepted = if accepting.is_empty() {
            Vec::new()
        } else {
            self.record_accept(begun, self.with_accept_timeout(self.delivery_store.accept(accepting)).await)?
        };
        let mut accepted = accepted.into_iter();
        let mut published = Vec::with_capacity(answers.len());
        for answer in answers {
            published.push(match answer {
                BatchEntry::Accepting(event, deliveries) => {
                    let accepted = accepted.next().ok_or_else(missing_result)?;
                    self.publish_result(&app, event, deliveries, accepted).await
                }
                BatchEntry::Answered(answer) => answer,
            });
        }
        Ok(published)
    }

    /// Sends a test event to one endpoint, even if it is disabled or not subscribed.
    pub async fn send_test(&self, entry: &CachedApp, uid: &str) -> Result<DeliveryId, Error> {
        self.require_accepting()?;
        self.require_storage_space()?;
        let begun = Instant::now();
        let endpoint = Self::endpoint_of(entry, uid)?;
        let (app, now) = (entry.app(), self.clock.now());
        let data = serde_json::json!({ "test": true, "endpoint_id": endpoint.record.uid }).to_string();
        let permit = self.permits.take_for_test(endpoint.id(), data.len());
        if permit.is_none() && !self.permits.is_owned_elsewhere(endpoint.id()) {
            return Err(StoreError::Overloaded.into());
        }
        let id = self.take_ids(now, 2);
        let event = Arc::new(Event {
            id: EventId::from_i64(id),
            app: app.id,
            external_id: None,
            event_type: TEST_EVENT_TYPE.to_owned(),
            created_at: now,
            accepted_at: now,
            data: Bytes::from(data),
            key: None,
            deliver_at: None,
            has_no_subscribers: false,
        });
        let new_delivery = new_delivery(&event, id + 1, &endpoint, now, permit);
        let test = new_delivery.delivery.id;
        let deliveries = vec![(test, EndpointUid::Loaded(endpoint))];
        let new = NewEvent {
            event,
            deliveries: vec![new_delivery],
            dedup: Vec::new(),
            fingerprint: Fingerprint([0; 16]),
        };
        self.store_event(&app, PreparedEvent { new_event: new, deliveries }, begun).await.map(|_| test)
    }

    /// Checks that need neither the store nor the event type: quota and form.
    fn check_quota_and_form(
        &self,
        entry: &CachedApp,
        app: &App,
        publish: &PublishRequest<'_>,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        charge_quota(entry, app, publish, now)?;
        check_form(publish, now)
    }

    /// Answers a batch while storage is full. Events published before are answered; if there are none, the whole batch is
    /// refused.
    async fn answer_when_full(
        &self,
        app: &App,
        examined: Vec<Result<PublishRequest<'_>, Error>>,
        full: Error,
    ) -> Result<Vec<Result<Published, Error>>, Error> {
        let mut answers = Vec::with_capacity(examined.len());
        for publish in examined {
            answers.push(match publish {
                Ok(publish) => self.repeat_or_refuse(app, &publish, full.clone()).await,
                Err(error) => Err(error),
            });
        }
        if answers.iter().any(Result::is_ok) { Ok(answers) } else { Err(full) }
    }

    /// Answers an event that was published before as it was answered then, even if a newer rule or full storage would refuse it
    /// now.
    async fn repeat_or_refuse(
        &self,
        app: &App,
        publish: &PublishRequest<'_>,
        broken: Error,
    ) -> Result<Published, Error> {
        let (keys, fingerprint) = dedup_keys(app, publish);
        if keys.is_empty() {
            return Err(broken);
        }
        match self.query_store.find_duplicate(keys, fingerprint).await? {
            Accepted::New => Err(broken),
            before => self.earlier_result(app, before).await,
        }
    }

    pub(super) fn require_accepting(&self) -> Result<(), Error> {
        let refusal = self.readiness.not_accepting().or_else(|| self.store_not_ready());
        refusal.map_or(Ok(()), |reason| Err(Error::Unavailable(reason.detail)))
    }

    async fn store_event(
        &self,
        app: &App,
        composed: PreparedEvent,
        begun: Instant,
    ) -> Result<Published, Error> {
        let event = composed.new_event.event.clone();
        let accepted = self.record_accept(
            begun,
            self.with_accept_timeout(self.delivery_store.accept(vec![composed.new_event])).await,
        )?;
        let accepted = accepted.into_iter().next().ok_or_else(missing_result)?;
        self.publish_result(app, event, composed.deliveries, accepted).await
    }

    async fn publish_result(
        &self,
        app: &App,
        event: Arc<Event>,
        deliveries: Vec<(DeliveryId, EndpointUid)>,
        accepted: Accepted,
    ) -> Result<Published, Error> {
        match accepted {
            Accepted::New => {
                self.metrics.count_accepted(1);
                self.storage.add_stored(event.data.len(), deliveries.len());
                Ok(Published { event, deliveries, is_new: true })
            }
            before => self.earlier_result(app, before).await,
        }
    }

    async fn earlier_result(&self, app: &App, before: Accepted) -> Result<Published, Error> {
        match before {
            Accepted::New => Err(missing_result()),
            Accepted::Repeated { event, deliveries } => {
                let deliveries = self.with_endpoint_uids(deliveries).await?;
                Ok(Published { event, deliveries, is_new: false })
            }
            Accepted::Conflict { event } => {
                Err(Error::PublishedBefore { event: event.with_prefix(app.id_prefix()) })
            }
        }
    }

    async fn with_endpoint_uids(
        &self,
        deliveries: Vec<(DeliveryId, EndpointId)>,
    ) -> Result<Vec<(DeliveryId, EndpointUid)>, Error> {
        let names = self.endpoint_names(deliveries.iter().map(|(_, endpoint)| *endpoint)).await?;
        let name = |endpoint: EndpointId| {
            names.get(&endpoint).map_or_else(|| endpoint.to_string(), |name| name.uid.clone())
        };
        Ok(deliveries.into_iter().map(|(id, endpoint)| (id, EndpointUid::Text(name(endpoint)))).collect())
    }
}

/// Charges the quota. Repeated events and events refused later count too: they cost as much.
fn charge_quota(
    entry: &CachedApp,
    app: &App,
    publish: &PublishRequest<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(quota) = &app.settings.quota else { return Ok(()) };
    entry.take_quota(quota, publish.data.len(), now).map_err(Error::QuotaExceeded)
}

fn missing_result() -> Error {
    Error::Internal("the store answered for fewer events than it was given".into())
}

//! The fixture of every case: an empty store with an app and an endpoint, and shorthands for common steps.

use crate::recorder::{PermitCounter, RecordingListener};
use bytes::Bytes;
use posthaste::{
    domain::{
        app::{App, AppSettings},
        contract::{Contract, ContractHash, WaitingWhenDisabled},
        delivery::{Delivery, DeliveryState, EndReason},
        endpoint::{Disabled, DisabledReason, EncryptedSecret, EndpointRecord, EndpointSettings},
        event::{DedupKey, DedupSpace, Event, Fingerprint},
        fan_out::NewDelivery,
        id::{AppId, DeliveryId, EndpointId, EventId, IdSource},
        outcome::{Attempt, Outcome, OutcomeClass},
        ports::{CommitListener, LeasedDelivery},
        time::Timestamp,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::{
        Store,
        deliveries::{
            Accepted, ActionResult, DeliveryAction, DeliveryResult, LeaseRequest, LeaseResult, NewEvent,
        },
        queries::{AttemptRow, DeliveryRow},
    },
};
use std::{future::Future, sync::Arc, time::Duration};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) fn after(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

/// A kind of store, with its own location for the data.
pub(crate) trait Backend {
    /// Opens or creates the store at that location. `events_max` and `bytes_max` limit the events that wait to be accepted.
    fn open(
        &self,
        commit_listener: Arc<dyn CommitListener>,
        events_max: usize,
        bytes_max: usize,
    ) -> Arc<dyn Store>;
}

pub(crate) struct Fixture {
    store: Option<Arc<dyn Store>>,
    backend: Box<dyn Backend>,
    pub(crate) recorder: Arc<RecordingListener>,
    pub(crate) permits: Arc<PermitCounter>,
    ids: IdSource,
    pub(crate) app: AppId,
    pub(crate) endpoint: EndpointId,
}

/// Runs one case on a new store.
pub(crate) fn perform<F: Future<Output = ()>>(make: fn() -> Box<dyn Backend>, case: fn(Fixture) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new(make()).await;
        tokio::time::timeout(Duration::from_mins(1), case(fixture))
            .await
            .expect("a store that never answers");
    });
}

impl Fixture {
    pub(crate) async fn new(backend: Box<dyn Backend>) -> Self {
        let recorder = Arc::new(RecordingListener::default());
        let store = backend.open(recorder.clone(), 10_000, 64 << 20);
        let ids = IdSource::new(0, 0);
        let (app, endpoint) = (AppId::from_i64(0), EndpointId::from_i64(0));
        let permits = Arc::default();
        let mut fixture = Self { store: Some(store), backend, recorder, permits, ids, app, endpoint };
        fixture.store().join(NOW).await.unwrap();
        fixture.app = fixture.new_app().await;
        fixture.endpoint = fixture.new_endpoint(fixture.app).await;
        fixture
    }

    /// Opens a second process on the same location, where that is possible.
    pub(crate) fn open_beside(&self, recorder: Arc<RecordingListener>) -> Arc<dyn Store> {
        self.backend.open(recorder, 10_000, 64 << 20)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().expect("open between cases")
    }

    /// Returns the store for use beyond a borrow of the fixture.
    pub(crate) fn shared_store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("open between cases")
    }

    /// Ends the store, as a stopped process would, and opens it again with these limits. Does not join.
    pub(crate) fn reopen_with(&mut self, events_max: usize, bytes_max: usize) {
        drop(self.recorder.take_leased());
        self.store = None;
        self.store = Some(self.backend.open(self.recorder.clone(), events_max, bytes_max));
    }

    pub(crate) fn reopen(&mut self) {
        self.reopen_with(10_000, 64 << 20);
    }

    /// Waits until all commands so far are done and the listener was called. It is called after the answers of a commit, so only
    /// the answer to a later commit proves it.
    pub(crate) async fn wait_until_idle(&self) {
        self.store().flush().await.unwrap();
        self.store().flush().await.unwrap();
    }

    pub(crate) fn next_id(&mut self) -> i64 {
        self.ids.next_range(NOW, 1)
    }

    pub(crate) async fn new_app(&mut self) -> AppId {
        let id = AppId::from_i64(self.next_id());
        let settings = AppSettings { name: "Shop".into(), ..AppSettings::default() };
        let app = App { id, uid: id.to_string(), settings, created_at: NOW, updated_at: NOW };
        self.store().add_app(app, None).await.unwrap();
        id
    }

    pub(crate) async fn new_endpoint(&mut self, app: AppId) -> EndpointId {
        let endpoint = self.endpoint_record(app);
        let id = endpoint.id;
        self.store().add_endpoint(endpoint, None).await.unwrap();
        id
    }

    pub(crate) fn endpoint_record(&mut self, app: AppId) -> EndpointRecord {
        let id = EndpointId::from_i64(self.next_id());
        let settings =
            EndpointSettings { url: "https://example.com/hook".into(), ..EndpointSettings::default() };
        EndpointRecord {
            id,
            app,
            uid: id.to_string(),
            settings,
            disabled: None,
            encrypted_headers: None,
            encrypted_tls: None,
            secrets: vec![EncryptedSecret { encrypted: vec![0, 255], valid_from: NOW, valid_until: None }],
            revision: 1,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    /// Enables or disables the endpoint as an app would, without applying it to waiting deliveries.
    pub(crate) async fn set_availability(&self, endpoint: EndpointId, waiting: Option<WaitingWhenDisabled>) {
        let mut record = self.store().endpoint(endpoint).await.unwrap().expect("an endpoint");
        record.disabled =
            waiting.map(|waiting| Disabled { reason: DisabledReason::Manual, at: NOW, waiting, by: None });
        record.revision += 1;
        assert!(self.store().change_endpoint(record, None).await.unwrap());
    }

    /// Publishes while the endpoint is disabled, then enables it without releasing the held delivery.
    pub(crate) async fn held_at_creation(&mut self, endpoint: EndpointId) -> DeliveryId {
        self.set_availability(endpoint, Some(WaitingWhenDisabled::Held)).await;
        let mut new = self.draft(&[endpoint]);
        new.deliveries[0]
            .delivery
            .apply_availability(posthaste::domain::delivery::Availability::DisabledHold, NOW);
        let id = self.publish(new).await;
        self.set_availability(endpoint, None).await;
        id
    }

    /// Makes an event of the fixture's app with one delivery to each of these endpoints, due now.
    pub(crate) fn draft(&mut self, endpoints: &[EndpointId]) -> NewEvent {
        let first = self.ids.next_range(NOW, endpoints.len() as u32 + 1);
        draft(self.app, endpoints, first)
    }

    /// Makes a draft to the fixture's endpoint.
    pub(crate) fn one_event(&mut self) -> NewEvent {
        self.draft(&[self.endpoint])
    }

    /// Makes a draft to the fixture's endpoint whose delivery has a permit and starts in flight.
    pub(crate) fn one_with_permit(&mut self) -> NewEvent {
        let mut new = self.one_event();
        for new_delivery in &mut new.deliveries {
            new_delivery.delivery.start_in_flight();
            new_delivery.permit = Some(self.permits.take());
        }
        new
    }

    pub(crate) fn dedup(&self, space: DedupSpace, text: &str) -> DedupKey {
        DedupKey::new(self.app, space, text)
    }

    pub(crate) async fn accept(&self, new: NewEvent) -> Accepted {
        let mut accepted = self.store().accept(vec![new]).await.unwrap();
        assert_eq!(accepted.len(), 1);
        self.wait_until_idle().await;
        accepted.remove(0)
    }

    /// Publishes an event and returns its first delivery.
    pub(crate) async fn publish(&self, new: NewEvent) -> DeliveryId {
        let delivery = new.deliveries[0].delivery.id;
        assert_eq!(self.accept(new).await, Accepted::New);
        delivery
    }

    /// Makes a waiting delivery of the fixture's endpoint.
    pub(crate) async fn waiting(&mut self) -> DeliveryId {
        let new = self.one_event();
        self.publish(new).await
    }

    /// Makes a delivery of the fixture's endpoint that was just leased to the engine.
    pub(crate) async fn leased(&mut self) -> LeasedDelivery {
        let new = self.one_with_permit();
        self.publish(new).await;
        self.only_leased()
    }

    pub(crate) fn only_leased(&self) -> LeasedDelivery {
        let mut leased = self.recorder.take_leased();
        assert_eq!(leased.len(), 1, "handed over");
        leased.remove(0)
    }

    /// Refills the queue with due deliveries, with this many permits.
    pub(crate) async fn refill(&self, endpoint: EndpointId, permits: usize, now: Timestamp) -> LeaseResult {
        let request = self.refill_request(endpoint, permits);
        let mut refilled = self.store().lease_due(vec![request], now).await.unwrap();
        self.wait_until_idle().await;
        assert_eq!(refilled.len(), 1);
        refilled.remove(0)
    }

    pub(crate) fn refill_request(&self, endpoint: EndpointId, permits: usize) -> LeaseRequest {
        let permits = (0..permits).map(|_| self.permits.take()).collect();
        let (backlog_until, fresh, manual, bytes_max, contract) = (None, vec![], vec![], usize::MAX, None);
        LeaseRequest {
            endpoint,
            permits,
            is_probe: false,
            backlog_until,
            fresh_permits: fresh,
            manual_permits: manual,
            bytes_max,
            contract,
        }
    }

    /// Leases this delivery, which waits in the fixture's queue.
    pub(crate) async fn lease(&self, delivery: DeliveryId, now: Timestamp) -> LeasedDelivery {
        self.refill(self.endpoint, 100, now).await;
        let mut all = self.recorder.take_leased();
        let index = all.iter().position(|leased| leased.delivery.id == delivery);
        all.swap_remove(index.expect("carried"))
    }

    pub(crate) async fn record(&self, leased: LeasedDelivery, verdict: Verdict, attempts: Vec<Attempt>) {
        self.record_under(leased, verdict, attempts, None).await;
    }

    /// Records a result under a contract that sets the notices.
    pub(crate) async fn record_under(
        &self,
        leased: LeasedDelivery,
        verdict: Verdict,
        attempts: Vec<Attempt>,
        contract: Option<Arc<Contract>>,
    ) {
        let (disable, health_sample, ended_at) = (None, None, after(1));
        self.store().record_result(DeliveryResult {
            leased,
            attempts,
            verdict,
            disable,
            health_sample,
            ended_at,
            contract,
        });
        self.wait_until_idle().await;
    }

    pub(crate) async fn request(&self, delivery: DeliveryId, ask: DeliveryAction) -> ActionResult {
        let result = self.store().act(self.app, delivery, ask, NOW, None).await.unwrap();
        self.wait_until_idle().await;
        result
    }

    /// Makes a delivery of the fixture's endpoint in this state, and clears the recorded calls about it.
    pub(crate) async fn one_in(&mut self, state: DeliveryState) -> DeliveryId {
        let retry = Verdict::Retry { due: after(60), then: DueAction::Attempt };
        let id = match state {
            DeliveryState::Pending => self.waiting().await,
            DeliveryState::InFlight => self.leased().await.delivery.id,
            DeliveryState::Retrying => self.concluded(retry, attempt(OutcomeClass::Http, 500)).await,
            DeliveryState::Delivered => {
                self.concluded(Verdict::Delivered, attempt(OutcomeClass::Ok, 200)).await
            }
            DeliveryState::Dead => {
                self.concluded(dead(DeadReason::Exhausted), attempt(OutcomeClass::Http, 500)).await
            }
            DeliveryState::Held => self.held_at_creation(self.endpoint).await,
            DeliveryState::Cancelled => {
                let id = self.waiting().await;
                self.request(id, DeliveryAction::Cancel).await;
                id
            }
            DeliveryState::Expired => {
                let mut new = self.one_event();
                // Long before any other delivery of the queue is due.
                let past = Timestamp::from_millis(0);
                new.deliveries[0].delivery.give_up_at = Some(past);
                new.deliveries[0].delivery.due = Some(past);
                let id = self.publish(new).await;
                self.refill(self.endpoint, 1, past).await;
                id
            }
        };
        assert_eq!(self.delivery(id).await.state, state);
        self.recorder.take_waiting();
        self.recorder.take_leased();
        id
    }

    pub(crate) async fn concluded(&mut self, verdict: Verdict, attempt: Attempt) -> DeliveryId {
        let leased = self.leased().await;
        let id = leased.delivery.id;
        self.record(leased, verdict, vec![attempt]).await;
        id
    }

    pub(crate) async fn listed(&self, id: DeliveryId) -> Option<(DeliveryRow, Vec<AttemptRow>)> {
        self.store().delivery(self.app, id).await.unwrap()
    }

    pub(crate) async fn delivery(&self, id: DeliveryId) -> Delivery {
        self.listed(id).await.expect("a delivery").0.delivery
    }

    pub(crate) async fn history(&self, id: DeliveryId) -> Vec<AttemptRow> {
        self.listed(id).await.expect("a delivery").1
    }

    pub(crate) async fn ended(&self, id: DeliveryId) -> (DeliveryState, Option<EndReason>) {
        let delivery = self.delivery(id).await;
        (delivery.state, delivery.reason)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // A failed case must not leave the store's thread waiting.
        self.recorder.gate.open();
        self.permits.gate.open();
    }
}

pub(crate) fn attempt(class: OutcomeClass, status: u16) -> Attempt {
    let outcome = Outcome { status: Some(status), error: None, ..Outcome::failed(class, "") };
    Attempt {
        started_at: NOW,
        outcome,
        contract: ContractHash([7; 16]),
        endpoint_revision: 1,
        url: None,
        note: None,
    }
}

pub(crate) fn dead(reason: DeadReason) -> Verdict {
    Verdict::Dead { reason, disable_endpoint: false }
}

pub(crate) fn retry_at(due: Timestamp) -> Verdict {
    Verdict::Retry { due, then: DueAction::Attempt }
}

/// Makes an event with this id and one delivery, due now, to each of these endpoints.
pub(crate) fn draft(app: AppId, endpoints: &[EndpointId], first: i64) -> NewEvent {
    let event = EventId::from_i64(first);
    let new_delivery = |(id, endpoint): (i64, &EndpointId)| NewDelivery {
        delivery: Delivery::new(DeliveryId::from_i64(id), app, event, *endpoint, NOW, None),
        permit: None,
    };
    let new_deliveries = (first + 1..).zip(endpoints).map(new_delivery).collect();
    let event = Event {
        id: event,
        app,
        external_id: None,
        event_type: "payment.paid".into(),
        created_at: NOW,
        accepted_at: NOW,
        data: Bytes::from_static(br#"{"a":1}"#),
        key: None,
        deliver_at: None,
        has_no_subscribers: endpoints.is_empty(),
    };
    NewEvent {
        event: Arc::new(event),
        deliveries: new_deliveries,
        dedup: vec![],
        fingerprint: Fingerprint([0; 16]),
    }
}

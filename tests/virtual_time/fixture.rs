//! Fixture: a process in virtual time with a receiver that answers as the test says. Weeks pass as soon as no task has
//! anything to do.

use crate::node_builder::{ENGINE_LIMITS, NoWatch, NodeBuilder, QUEUE};
use bytes::Bytes;
use posthaste::{
    domain::{
        delivery::Delivery,
        id::EndpointId,
        outcome::{Outcome, OutcomeClass, Timings},
        time::Timestamp,
    },
    engine::{EndpointQueues, Engine, MailSettings},
    outbound::{GateClosed, HttpSender, OutboundRequest, SendFuture},
    runtime::{
        CachedApp, Clock, ConfigCache, IdGenerator, NodeLease, Shutdown, ShutdownHandle, VirtualClock,
    },
    service::{
        Caller, Service, apps::NewApp, deliveries::DeliveryQuery, endpoints::NewEndpoint,
        publish::PublishRequest,
    },
    store::{
        ClusterStore,
        sqlite::{CommitResult, SqliteCommitLoop, SqliteStore},
    },
};
use rusqlite::Connection;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

pub(crate) const ADMIN: Caller = Caller::OPERATOR;

/// How long every request takes: waits count from its end, not from its start.
pub(crate) const TAKES: Duration = Duration::from_millis(250);

/// Behaviour of the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    Answer(u16),
    /// An answer with `Retry-After`, in seconds.
    AnswerLater(u16, u32),
    Fail(OutcomeClass),
    /// This node may not send.
    NotSent,
}

pub(crate) struct Fixture {
    pub(crate) service: Arc<Service>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) entry: Arc<CachedApp>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) queues: Arc<EndpointQueues>,
    receiver: Arc<Receiver>,
    engine: AbortHandle,
    stop: ShutdownHandle,
    writer: SharedWriter,
}

/// The store's writer, shared by the commit loop and by `restart`, which takes the file away.
type SharedWriter = Arc<Mutex<Option<SqliteCommitLoop>>>;

/// A request, as the receiver saw it.
#[derive(Clone)]
pub(crate) struct SeenRequest {
    pub(crate) at: Timestamp,
    pub(crate) endpoint: EndpointId,
    /// Headers of the contract, then the endpoint's own.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// Stops the engine: without its fixture it would run through every week that passes in the next one.
impl Drop for Fixture {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

struct Receiver {
    does: Mutex<Behaviour>,
    seen: Mutex<Vec<SeenRequest>>,
    clock: Arc<VirtualClock>,
}

impl HttpSender for Receiver {
    fn post(&self, request: OutboundRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let headers = request.headers.into_iter().map(|(name, value)| (name.into_owned(), value));
            let headers = headers.chain(request.extra_headers.iter().cloned()).collect();
            let seen = SeenRequest {
                at: self.clock.now(),
                endpoint: request.endpoint_id,
                headers,
                body: request.body,
            };
            self.seen.lock().unwrap().push(seen);
            if matches!(*self.does.lock().unwrap(), Behaviour::NotSent) {
                return Err(GateClosed);
            }
            tokio::time::sleep(TAKES).await;
            Ok(outcome(*self.does.lock().unwrap()))
        })
    }

    fn get(&self, _: OutboundRequest) -> SendFuture<'_> {
        unreachable!("nothing here has a health address")
    }
}

fn outcome(does: Behaviour) -> Outcome {
    let (class, status, retry_after) = match does {
        Behaviour::Answer(status) => (OutcomeClass::Http, Some(status), None),
        Behaviour::AnswerLater(status, seconds) => {
            (OutcomeClass::Http, Some(status), Some(seconds.to_string()))
        }
        Behaviour::Fail(class) => (class, None, None),
        Behaviour::NotSent => unreachable!("nothing came of what was not sent"),
    };
    Outcome {
        class,
        status,
        error: status.is_none().then(|| "made up".to_owned()),
        timings: Timings { total_us: TAKES.as_micros() as u32, ..Timings::default() },
        address: None,
        retry_after,
        response_headers: Vec::new(),
        response_body: Bytes::new(),
    }
}

impl Fixture {
    /// Starts with one app whose one endpoint, `ep`, has this contract. Must be called inside a paused runtime.
    pub(crate) async fn new(contract: &str, does: Behaviour) -> Self {
        Self::with_post(contract, does, None).await
    }

    /// Starts like `new`, with these mail settings.
    pub(crate) async fn with_post(contract: &str, does: Behaviour, post: Option<MailSettings>) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let receiver =
            Arc::new(Receiver { does: Mutex::new(does), seen: Mutex::default(), clock: clock.clone() });
        let process = start(None, clock.clone(), receiver.clone(), post).await;
        let entry = add_app_and_endpoint(&process.service, contract).await;
        let StartedProcess { service, store, queues, engine, stop, writer } = process;
        Self { service, clock, entry, store, queues, receiver, engine, stop, writer }
    }

    /// Starts on an existing file at this time; `uid` names an app in it.
    pub(crate) async fn on_file(disk: Connection, uid: &str, at: Timestamp, does: Behaviour) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(at));
        let receiver =
            Arc::new(Receiver { does: Mutex::new(does), seen: Mutex::default(), clock: clock.clone() });
        let process = start(Some(disk), clock.clone(), receiver.clone(), None).await;
        let entry = process.service.app(ADMIN, uid).unwrap();
        let StartedProcess { service, store, queues, engine, stop, writer } = process;
        Self { service, clock, entry, store, queues, receiver, engine, stop, writer }
    }

    /// Kills the process, and after a while starts another one on what it left; that one sends no mails.
    pub(crate) async fn restart(&mut self, after: Duration) {
        self.engine.abort();
        let disk = self.writer.lock().unwrap().take().unwrap().into_connection();
        self.pass(after).await;
        let process = start(Some(disk), self.clock.clone(), self.receiver.clone(), None).await;
        self.entry = process.service.app(ADMIN, "a").unwrap();
        (self.service, self.store, self.queues) = (process.service, process.store, process.queues);
        (self.engine, self.stop, self.writer) = (process.engine, process.stop, process.writer);
    }

    /// Reads from the store's file.
    pub(crate) fn on_disk<T>(&self, look: impl FnOnce(&Connection) -> T) -> T {
        look(self.writer.lock().unwrap().as_ref().unwrap().connection())
    }

    pub(crate) async fn add_endpoint(&self, uid: &str, overrides: Option<serde_json::Value>) {
        add_endpoint(&self.service, &self.entry, uid, overrides).await;
    }

    pub(crate) async fn publish(&self) {
        self.service.publish(&self.entry, payment()).await.unwrap();
    }

    pub(crate) fn set_behaviour(&self, does: Behaviour) {
        *self.receiver.does.lock().unwrap() = does;
    }

    /// When each request began.
    pub(crate) fn seen(&self) -> Vec<Timestamp> {
        self.requests().into_iter().map(|seen| seen.at).collect()
    }

    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        self.receiver.seen.lock().unwrap().clone()
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now().plus(time)).await;
    }

    /// All deliveries, the newest first.
    pub(crate) async fn deliveries(&self) -> Vec<Delivery> {
        let page = self.service.deliveries(&self.entry, DeliveryQuery::default(), None, 100).await.unwrap();
        page.rows.into_iter().map(|shown| shown.delivery).collect()
    }

    /// Returns the note of each attempt of a delivery.
    pub(crate) async fn notes(&self, delivery: &Delivery) -> Vec<Option<String>> {
        let (_, attempts) = self.service.delivery_by_id(&self.entry, delivery.id).await.unwrap();
        attempts.into_iter().map(|past| past.attempt.note).collect()
    }

    pub(crate) async fn delivery(&self) -> Delivery {
        self.deliveries().await.swap_remove(0)
    }
}

async fn add_app_and_endpoint(service: &Service, contract: &str) -> Arc<CachedApp> {
    let app = NewApp {
        uid: Some("a".into()),
        name: "A".into(),
        contract: Some(contract.into()),
        ..Default::default()
    };
    service.add_app(ADMIN, app).await.unwrap();
    let entry = service.app(ADMIN, "a").unwrap();
    add_endpoint(service, &entry, "ep", None).await;
    entry
}

/// Adds an endpoint on a host of its own.
async fn add_endpoint(service: &Service, entry: &CachedApp, uid: &str, overrides: Option<serde_json::Value>) {
    let endpoint = NewEndpoint {
        uid: Some(uid.into()),
        url: format!("https://{uid}.receiver.example/hook"),
        overrides,
        ..NewEndpoint::default()
    };
    service.add_endpoint(ADMIN, entry, endpoint).await.unwrap();
}

struct StartedProcess {
    service: Arc<Service>,
    store: Arc<SqliteStore>,
    queues: Arc<EndpointQueues>,
    engine: AbortHandle,
    stop: ShutdownHandle,
    writer: SharedWriter,
}

async fn start(
    disk: Option<Connection>,
    clock: Arc<VirtualClock>,
    receiver: Arc<Receiver>,
    post: Option<MailSettings>,
) -> StartedProcess {
    let config_cache = Arc::new(ConfigCache::default());
    let node_state = Arc::new(NodeLease::single_node());
    let (queues, events) = EndpointQueues::new(ENGINE_LIMITS, config_cache.clone(), node_state.clone());
    let (store, writer) = store(disk, queues.clone());
    let joined = store.join(clock.now()).await.unwrap();
    let ids = IdGenerator::new(joined.slot, joined.newest_id);
    let builder =
        NodeBuilder { config_cache, store: store.clone(), cluster: store.clone(), node_state, clock, ids };
    let service = builder.service(queues.clone());
    service.load_config(None).await.unwrap();
    service.readiness().start_accepting();
    let engine = Engine { mail_settings: post, ..builder.engine(queues.clone(), events, receiver) };
    let (stop, shutdown) = Shutdown::new();
    let engine = tokio::spawn(engine.run(shutdown)).abort_handle();
    StartedProcess { service, store, queues, engine, stop, writer }
}

/// Opens a store in memory that commits at once when it is notified.
fn store(disk: Option<Connection>, queues: Arc<EndpointQueues>) -> (Arc<SqliteStore>, SharedWriter) {
    let notified = Arc::new(Notify::new());
    let wake = {
        let notified = notified.clone();
        Box::new(move || notified.notify_one())
    };
    let (store, writer) = SqliteStore::in_memory(disk, queues, Arc::new(NoWatch), QUEUE, wake).unwrap();
    let writer = Arc::new(Mutex::new(Some(writer)));
    tokio::spawn(commit_all(writer.clone(), notified));
    (Arc::new(store), writer)
}

async fn commit_all(writer: SharedWriter, notified: Arc<Notify>) {
    let commit = || writer.lock().unwrap().as_mut().map(SqliteCommitLoop::commit_next);
    loop {
        notified.notified().await;
        loop {
            match commit() {
                None => return,
                Some(CommitResult::Committed(_)) => tokio::task::yield_now().await,
                Some(_) => break,
            }
        }
    }
}

/// An event for tests in which its content does not matter.
pub(crate) fn payment() -> PublishRequest<'static> {
    PublishRequest {
        id: None,
        event_type: "payment.created",
        data: Bytes::from_static(b"{}"),
        created_at: None,
        key: None,
        deliver_at: None,
        idempotency_key: None,
    }
}

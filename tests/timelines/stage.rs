//! One process in virtual time with a receiver that answers as the test says. Weeks pass as soon as nobody has anything to do.

use bytes::Bytes;
use posthaste::{
    domain::{
        address::AddressPolicy,
        contract::{Contract, Keep},
        delivery::Delivery,
        directory::{AppEntry, Directory},
        id::Ids,
        outcome::{Class, Outcome, Timings},
        seal::Keyring,
        tally::Tally,
        time::Timestamp,
    },
    engine::{Courier, Engine, EngineLimits, Lanes, Renderer, Rounds},
    outbound::{Carrier, Posting, Request},
    service::{
        Caller, Limits, Parts, Service, Surroundings, apps::NewApp, deliveries::DeliveryQuery,
        endpoints::NewEndpoint, publish::Publish,
    },
    store::{
        Cluster, CommitWatch,
        sqlite::{QueueLimits, SqliteStore, Turn, Writer},
    },
    world::{Clock, SeededEntropy, Shutdown, ShutdownHandle, VirtualClock},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

pub(crate) const ADMIN: Caller = Caller::OPERATOR;
const ENCRYPTION_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// How long every request takes: waits count from its end, not from its start.
pub(crate) const TAKES: Duration = Duration::from_millis(250);

/// What the receiver does with a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Answer(u16),
    /// An answer with `Retry-After`, in seconds.
    AnswerLater(u16, u32),
    Fail(Class),
}

pub(crate) struct Stage {
    pub(crate) service: Arc<Service>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) entry: Arc<AppEntry>,
    receiver: Arc<Receiver>,
    engine: AbortHandle,
    _stop: ShutdownHandle,
}

/// One request, as the receiver saw it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) at: Timestamp,
    pub(crate) body: Bytes,
}

/// An engine without a stage would live through every week that passes on the next one.
impl Drop for Stage {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

struct Receiver {
    does: Mutex<Does>,
    seen: Mutex<Vec<Seen>>,
    clock: Arc<VirtualClock>,
}

impl Carrier for Receiver {
    fn post(&self, request: Request) -> Posting<'_> {
        Box::pin(async move {
            self.seen.lock().unwrap().push(Seen { at: self.clock.now(), body: request.body });
            tokio::time::sleep(TAKES).await;
            outcome(*self.does.lock().unwrap())
        })
    }

    fn get(&self, _: Request) -> Posting<'_> {
        unreachable!("nothing here has a health address")
    }
}

fn outcome(does: Does) -> Outcome {
    let (class, status, retry_after) = match does {
        Does::Answer(status) => (Class::Http, Some(status), None),
        Does::AnswerLater(status, seconds) => (Class::Http, Some(status), Some(seconds.to_string())),
        Does::Fail(class) => (class, None, None),
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

struct NoWatch;

impl CommitWatch for NoWatch {
    fn started(&self) -> u64 {
        0
    }

    fn committed(&self, _: u64, _: usize) {}
}

impl Stage {
    /// With one app whose one endpoint, `ep`, has this contract. Must be called inside a paused runtime.
    pub(crate) async fn new(contract: &str, does: Does) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let entropy = Arc::new(SeededEntropy::new(1));
        let directory = Arc::new(Directory::default());
        let limits = EngineLimits { hands: 1000, bytes_max: 1 << 20, in_flight_per_endpoint: 1000 };
        let (lanes, events) = Lanes::new(limits, directory.clone());
        let store = store(lanes.clone());
        let joined = store.join(clock.now()).await.unwrap();
        let ids = Ids::new(joined.slot, joined.newest_id);
        let service = Arc::new(Service::new(Parts {
            directory: directory.clone(),
            ledger: store.clone(),
            registry: store.clone(),
            browse: store.clone(),
            hands: lanes.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            ids: ids.clone(),
            contracts: Contract::builtin().unwrap(),
            keyring: Keyring::parse(ENCRYPTION_KEY).unwrap(),
            addresses: AddressPolicy::default(),
            limits: Limits::default(),
            surroundings: Surroundings::default(),
            tally: Arc::new(Tally::default()),
            storage: Arc::default(),
            streams: Arc::default(),
        }));
        service.load(None).await.unwrap();
        service.readiness().accept();
        let receiver =
            Arc::new(Receiver { does: Mutex::new(does), seen: Mutex::default(), clock: clock.clone() });
        let long = Duration::from_hours(24);
        let engine = Engine {
            lanes,
            events,
            courier: Courier {
                directory,
                ledger: store.clone(),
                carrier: receiver.clone(),
                clock: clock.clone(),
                entropy,
                tally: Arc::new(Tally::default()),
                renderer: Renderer::default(),
            },
            cluster: store.clone(),
            browse: store,
            ids,
            grace: Duration::from_secs(25),
            storage: Arc::default(),
            audit_retention: Keep::Forever,
            rounds: Rounds {
                gauges: long,
                count: long,
                purge: long,
                recheck: long,
                key_uses: long,
                expire: Duration::from_hours(6),
                forget: long,
            },
        };
        let (handle, stop) = Shutdown::by_hand();
        let engine = tokio::spawn(engine.run(stop)).abort_handle();
        let entry = furnish(&service, contract).await;
        Self { service, clock, entry, receiver, engine, _stop: handle }
    }

    pub(crate) async fn publish(&self) {
        let publish = Publish {
            id: None,
            event_type: "payment.created",
            data: Bytes::from_static(b"{}"),
            created_at: None,
            key: None,
            deliver_at: None,
            idempotency_key: None,
        };
        self.service.publish(&self.entry, publish).await.unwrap();
    }

    pub(crate) fn now_does(&self, does: Does) {
        *self.receiver.does.lock().unwrap() = does;
    }

    /// When each request began.
    pub(crate) fn seen(&self) -> Vec<Timestamp> {
        self.requests().into_iter().map(|seen| seen.at).collect()
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
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

    pub(crate) async fn delivery(&self) -> Delivery {
        self.deliveries().await.swap_remove(0)
    }
}

async fn furnish(service: &Service, contract: &str) -> Arc<AppEntry> {
    let app = NewApp {
        uid: Some("a".into()),
        name: "A".into(),
        contract: Some(contract.into()),
        ..Default::default()
    };
    service.add_app(ADMIN, app).await.unwrap();
    let entry = service.app(ADMIN, "a").unwrap();
    let endpoint = NewEndpoint {
        uid: Some("ep".into()),
        url: "https://receiver.example/hook".into(),
        ..NewEndpoint::default()
    };
    service.add_endpoint(ADMIN, &entry, endpoint).await.unwrap();
    entry
}

/// A store in memory that commits at once whatever it is rung for.
fn store(lanes: Arc<Lanes>) -> Arc<SqliteStore> {
    let rung = Arc::new(Notify::new());
    let wake = {
        let rung = rung.clone();
        Box::new(move || rung.notify_one())
    };
    let queue = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };
    let (store, writer) = SqliteStore::in_memory(None, lanes, Arc::new(NoWatch), queue, wake).unwrap();
    tokio::spawn(commit_all(writer, rung));
    Arc::new(store)
}

async fn commit_all(mut writer: Writer, rung: Arc<Notify>) {
    loop {
        rung.notified().await;
        while let Turn::Committed(_) = writer.commit_next() {
            tokio::task::yield_now().await;
        }
    }
}

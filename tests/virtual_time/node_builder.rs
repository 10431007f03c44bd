//! Builds the service and the engine of a process, on any store, alone or among several nodes.

use posthaste::{
    domain::{
        address_policy::AddressPolicy,
        config_cache::ConfigCache,
        contract::{Contract, RetentionPeriod},
        encryption::Keyring,
        id::IdGenerator,
        live_update::{LiveUpdate, UpdateSink},
        metrics::Metrics,
        node_lease::NodeLease,
        ports::{CommitListener, Permits},
    },
    engine::{
        DeliveryWorker, EndpointQueues, Engine, EngineLimits, Intervals, QueueEvents, Renderer, SharedLimits,
    },
    outbound::HttpSender,
    runtime::{SeededEntropy, VirtualClock},
    service::{NodeInfo, Service, ServiceDeps, ServiceLimits},
    store::{CommitObservers, CommitWatch, Store, sqlite::QueueLimits},
};
use std::{sync::Arc, time::Duration};

/// The second is that of stores of commit 80468f2 (`upgrade`).
const ENCRYPTION_KEYS: &str =
    "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=, k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

pub(crate) const ENGINE_LIMITS: EngineLimits = EngineLimits {
    deliveries_in_flight_max: 1000,
    bytes_max: 1 << 20,
    in_flight_per_endpoint: 1000,
    limits: SharedLimits { in_flight_per_app: None, in_flight: None, rate: None },
};
pub(crate) const QUEUE: QueueLimits = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };

/// The observers of a store that only its engine observes.
pub(crate) fn observers(engine: Arc<dyn CommitListener>) -> CommitObservers {
    CommitObservers { engine, live_updates: Arc::new(Unwatched), watch: Arc::new(Unwatched) }
}
struct Unwatched;

impl UpdateSink for Unwatched {
    fn has_subscribers(&self) -> bool {
        false
    }

    fn publish(&self, _: LiveUpdate) {}
}

impl CommitWatch for Unwatched {
    fn started(&self) -> u64 {
        0
    }

    fn committed(&self, _: u64, _: usize) {}
}

pub(crate) struct NodeBuilder {
    pub(crate) config_cache: Arc<ConfigCache>,
    pub(crate) store: Store,
    pub(crate) node_state: Arc<NodeLease>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) ids: IdGenerator,
}

impl NodeBuilder {
    pub(crate) fn service(&self, permits: Arc<dyn Permits>) -> Arc<Service> {
        Arc::new(Service::new(ServiceDeps {
            config_cache: self.config_cache.clone(),
            store: self.store.clone(),
            node_state: self.node_state.clone(),
            permits,
            clock: self.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(1)),
            ids: self.ids.clone(),
            contracts: Contract::builtin().unwrap(),
            keyring: Keyring::parse(ENCRYPTION_KEYS).unwrap(),
            addresses: AddressPolicy::default(),
            limits: ServiceLimits::default(),
            node_info: NodeInfo::default(),
            metrics: Arc::new(Metrics::default()),
            storage: Arc::default(),
            streams: Arc::default(),
        }))
    }

    /// Builds an engine with long intervals, as weeks may pass. It sends no mails.
    pub(crate) fn engine(
        self,
        queues: Arc<EndpointQueues>,
        events: QueueEvents,
        http_sender: Arc<dyn HttpSender>,
    ) -> Engine {
        let long = Duration::from_hours(24);
        Engine {
            queues,
            queue_events: events,
            delivery_worker: DeliveryWorker {
                config_cache: self.config_cache,
                store: self.store,
                http_sender,
                clock: self.clock,
                entropy: Arc::new(SeededEntropy::new(1)),
                metrics: Arc::new(Metrics::default()),
                outage_detector: Arc::default(),
                renderer: Renderer::default(),
            },
            ids: self.ids,
            grace_period: Duration::from_secs(25),
            storage: Arc::default(),
            audit_retention: RetentionPeriod::Forever,
            mail_settings: None,
            operator_app: None,
            intervals: Intervals {
                gauges: long,
                count: long,
                purge: long,
                recheck: long,
                key_uses: long,
                retention: Duration::from_hours(6),
                audit_retention: long,
                health: Duration::from_mins(30),
                notices: long,
            },
        }
    }
}

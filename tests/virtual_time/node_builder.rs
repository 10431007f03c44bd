//! Builds the service and the engine of a process, on any store, alone or among several nodes.

use posthaste::{
    domain::{
        address_policy::AddressPolicy,
        contract::{Contract, RetentionPeriod},
        encryption::Keyring,
        ports::Permits,
    },
    engine::{
        DeliveryWorker, EndpointQueues, Engine, EngineLimits, Intervals, QueueEvents, Renderer, SharedLimits,
    },
    outbound::HttpSender,
    runtime::{ConfigCache, IdGenerator, Metrics, NodeLease, SeededEntropy, VirtualClock},
    service::{NodeInfo, Service, ServiceDeps, ServiceLimits},
    store::{ClusterStore, CommitWatch, Store, sqlite::QueueLimits},
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

pub(crate) struct NoWatch;

impl CommitWatch for NoWatch {
    fn started(&self) -> u64 {
        0
    }

    fn committed(&self, _: u64, _: usize) {}
}

pub(crate) struct NodeBuilder {
    pub(crate) config_cache: Arc<ConfigCache>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cluster: Arc<dyn ClusterStore>,
    pub(crate) node_state: Arc<NodeLease>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) ids: IdGenerator,
}

impl NodeBuilder {
    pub(crate) fn service(&self, permits: Arc<dyn Permits>) -> Arc<Service> {
        Arc::new(Service::new(ServiceDeps {
            config_cache: self.config_cache.clone(),
            delivery_store: self.store.clone(),
            config_store: self.store.clone(),
            query_store: self.store.clone(),
            cluster_store: self.cluster.clone(),
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
                delivery_store: self.store.clone(),
                http_sender,
                clock: self.clock,
                entropy: Arc::new(SeededEntropy::new(1)),
                metrics: Arc::new(Metrics::default()),
                outage_detector: Arc::default(),
                renderer: Renderer::default(),
            },
            cluster_store: self.cluster,
            query_store: self.store,
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

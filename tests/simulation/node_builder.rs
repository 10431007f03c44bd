//! Builds the service and the engine of a simulated process, on any store, alone or among several nodes.

use crate::contracts;
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
        ports::CommitListener,
    },
    engine::{DeliveryWorker, EndpointQueues, Engine, Intervals, QueueEvents, Renderer},
    outbound::HttpSender,
    runtime::{Clock, SeededEntropy},
    service::{NodeInfo, Service, ServiceDeps, ServiceLimits},
    store::{CommitObservers, CommitWatch, Store},
};
use std::{sync::Arc, time::Duration};

const ENCRYPTION_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

pub(crate) struct NodeBuilder {
    pub(crate) store: Store,
    pub(crate) config_cache: Arc<ConfigCache>,
    pub(crate) node_state: Arc<NodeLease>,
    pub(crate) queues: Arc<EndpointQueues>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<SeededEntropy>,
    pub(crate) ids: IdGenerator,
}

/// Further parts that an engine needs.
pub(crate) struct EngineParts {
    pub(crate) store: Store,
    pub(crate) http_sender: Arc<dyn HttpSender>,
    pub(crate) grace: Duration,
    pub(crate) rounds: Intervals,
}

impl NodeBuilder {
    pub(crate) fn service(&self) -> Service {
        Service::new(ServiceDeps {
            config_cache: self.config_cache.clone(),
            store: self.store.clone(),
            node_state: self.node_state.clone(),
            permits: self.queues.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            ids: self.ids.clone(),
            contracts: contracts::all().iter().map(Contract::clone).collect(),
            keyring: Keyring::parse(ENCRYPTION_KEY).unwrap(),
            addresses: AddressPolicy::default(),
            limits: ServiceLimits::default(),
            node_info: NodeInfo::default(),
            metrics: Arc::new(Metrics::default()),
            storage: Arc::default(),
            streams: Arc::default(),
        })
    }

    pub(crate) fn engine(&self, events: QueueEvents, tools: EngineParts) -> Engine {
        Engine {
            queues: self.queues.clone(),
            queue_events: events,
            delivery_worker: DeliveryWorker {
                config_cache: self.config_cache.clone(),
                store: tools.store,
                http_sender: tools.http_sender,
                clock: self.clock.clone(),
                entropy: self.entropy.clone(),
                metrics: Arc::new(Metrics::default()),
                outage_detector: Arc::default(),
                renderer: Renderer::default(),
            },
            ids: self.ids.clone(),
            grace_period: tools.grace,
            storage: Arc::default(),
            audit_retention: RetentionPeriod::Forever,
            mail_settings: None,
            operator_app: None,
            intervals: tools.rounds,
        }
    }
}

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

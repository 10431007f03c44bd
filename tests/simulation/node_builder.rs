//! Builds the service and the engine of a simulated process, on any store, alone or among several nodes.

use crate::contracts;
use posthaste::{
    domain::{
        address_policy::AddressPolicy,
        contract::{Contract, RetentionPeriod},
        encryption::Keyring,
    },
    engine::{DeliveryWorker, EndpointQueues, Engine, Intervals, QueueEvents, Renderer},
    outbound::HttpSender,
    runtime::{Clock, ConfigCache, IdGenerator, Metrics, NodeLease, SeededEntropy},
    service::{NodeInfo, Service, ServiceDeps, ServiceLimits},
    store::{CommitWatch, DeliveryStore, Store},
};
use std::{sync::Arc, time::Duration};

const ENCRYPTION_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

pub(crate) struct NodeBuilder<S> {
    pub(crate) store: Arc<S>,
    pub(crate) config_cache: Arc<ConfigCache>,
    pub(crate) node_state: Arc<NodeLease>,
    pub(crate) queues: Arc<EndpointQueues>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<SeededEntropy>,
    pub(crate) ids: IdGenerator,
}

/// Further parts that an engine needs.
pub(crate) struct EngineParts {
    pub(crate) delivery_store: Arc<dyn DeliveryStore>,
    pub(crate) http_sender: Arc<dyn HttpSender>,
    pub(crate) grace: Duration,
    pub(crate) rounds: Intervals,
}

impl<S: Store + 'static> NodeBuilder<S> {
    pub(crate) fn service(&self) -> Service {
        let store = &self.store;
        Service::new(ServiceDeps {
            config_cache: self.config_cache.clone(),
            delivery_store: store.clone(),
            config_store: store.clone(),
            query_store: store.clone(),
            cluster_store: store.clone(),
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
                delivery_store: tools.delivery_store,
                http_sender: tools.http_sender,
                clock: self.clock.clone(),
                entropy: self.entropy.clone(),
                metrics: Arc::new(Metrics::default()),
                outage_detector: Arc::default(),
                renderer: Renderer::default(),
            },
            cluster_store: self.store.clone(),
            query_store: self.store.clone(),
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

pub(crate) struct NoWatch;

impl CommitWatch for NoWatch {
    fn started(&self) -> u64 {
        0
    }

    fn committed(&self, _: u64, _: usize) {}
}

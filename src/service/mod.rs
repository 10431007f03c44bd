//! Operations of the product: publish, manage, retry, replay, rotate, list, measure.
//!
//! The process has a single `Service`. It checks permissions, calls the store and keeps the configuration cache up to date.
//! Tests, inspections and retries are rows, plus a wake-up, that the engine picks up.

mod accept_timing;
pub mod api_keys;
pub mod apps;
pub mod audit;
mod change_locks;
#[cfg(test)]
pub(crate) mod closed_store;
mod config_sync;
mod contracts;
pub mod deliveries;
mod enable_disable;
mod endpoint_loader;
mod endpoint_rules;
pub mod endpoints;
pub mod error;
pub mod event_status;
pub mod event_type_import;
pub mod event_types;
pub mod events;
mod function_pool;
pub mod health;
mod inbox;
pub mod inspections;
mod key_rotation;
pub mod load;
pub mod named_delivery;
pub mod notices;
pub mod paging;
pub mod patch;
pub mod portal_links;
pub mod publish;
pub mod readiness;
pub mod replays;
pub mod search;
pub mod secrets;
pub mod statistics;
pub mod storage_limits;
pub mod stream;
pub mod system;

pub use error::Error;
pub use patch::Patch;
pub use readiness::Readiness;
pub use system::NodeInfo;

use crate::{
    domain::{
        address_policy::AddressPolicy,
        api_key::{SETTINGS_KEY_ID, Scope},
        contract::Contract,
        encryption::Keyring,
        endpoint::Endpoint,
        id::KeyId,
        ports::Permits,
        time::Timestamp,
    },
    runtime::{CachedApp, Clock, ConfigCache, Entropy, IdGenerator, Metrics, NodeLease, StorageSpace},
    store::{ClusterStore, ConfigStore, DeliveryStore, QueryStore},
};
use change_locks::ChangeLocks;
use contracts::Contracts;
use function_pool::FunctionPool;
use std::sync::Arc;
use stream::Streams;

/// Limits that the operator sets for all apps.
#[derive(Clone, Copy, Debug)]
pub struct ServiceLimits {
    /// The largest request body.
    pub body_bytes_max: usize,
    /// Whether plain HTTP is refused where neither contract nor endpoint decides.
    pub https_only: bool,
    /// Largest `max_in_flight` that an endpoint may set.
    pub in_flight_max: u32,
    /// Whether event types outside the catalogue are refused.
    pub refuses_unknown_types: bool,
}

impl Default for ServiceLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            https_only: true,
            in_flight_max: 1024,
            refuses_unknown_types: false,
        }
    }
}

/// Dependencies and settings of a service.
pub struct ServiceDeps {
    pub config_cache: Arc<ConfigCache>,
    pub delivery_store: Arc<dyn DeliveryStore>,
    pub config_store: Arc<dyn ConfigStore>,
    pub query_store: Arc<dyn QueryStore>,
    pub cluster_store: Arc<dyn ClusterStore>,
    pub node_state: Arc<NodeLease>,
    pub permits: Arc<dyn Permits>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub ids: IdGenerator,
    /// Built-in and the operator's contracts; of two with equal names the last one is used.
    pub contracts: Vec<Contract>,
    pub keyring: Keyring,
    pub addresses: AddressPolicy,
    pub limits: ServiceLimits,
    pub node_info: NodeInfo,
    pub metrics: Arc<Metrics>,
    pub storage: Arc<StorageSpace>,
    pub streams: Arc<Streams>,
}

pub struct Service {
    config_cache: Arc<ConfigCache>,
    delivery_store: Arc<dyn DeliveryStore>,
    config_store: Arc<dyn ConfigStore>,
    query_store: Arc<dyn QueryStore>,
    cluster_store: Arc<dyn ClusterStore>,
    node_state: Arc<NodeLease>,
    permits: Arc<dyn Permits>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    ids: IdGenerator,
    contracts: Contracts,
    keyring: Keyring,
    addresses: AddressPolicy,
    limits: ServiceLimits,
    node_info: NodeInfo,
    started_at: Timestamp,
    metrics: Arc<Metrics>,
    storage: Arc<StorageSpace>,
    streams: Arc<Streams>,
    readiness: Readiness,
    app_locks: ChangeLocks,
    endpoint_locks: ChangeLocks,
    /// By app: the sources of one replay are counted at a time.
    replay_locks: ChangeLocks,
    /// Serializes changes of the catalogue.
    catalogue_lock: tokio::sync::Mutex<()>,
    function_pool: FunctionPool,
    /// Separate pool, so that trial runs never delay publishing.
    rule_pool: FunctionPool,
}

/// Holder of a valid API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub scope: Scope,
    pub key: KeyId,
}

impl Caller {
    /// The operator, by the key of the settings.
    pub const OPERATOR: Self = Self { scope: Scope::Admin, key: SETTINGS_KEY_ID };
}

impl Service {
    pub fn new(parts: ServiceDeps) -> Self {
        let started_at = parts.clock.now();
        Self {
            config_cache: parts.config_cache,
            delivery_store: parts.delivery_store,
            config_store: parts.config_store,
            query_store: parts.query_store,
            cluster_store: parts.cluster_store,
            node_state: parts.node_state,
            permits: parts.permits,
            clock: parts.clock,
            entropy: parts.entropy,
            ids: parts.ids,
            contracts: Contracts::new(parts.contracts),
            keyring: parts.keyring,
            addresses: parts.addresses,
            limits: parts.limits,
            node_info: parts.node_info,
            started_at,
            metrics: parts.metrics,
            storage: parts.storage,
            streams: parts.streams,
            readiness: Readiness::default(),
            app_locks: ChangeLocks::default(),
            endpoint_locks: ChangeLocks::default(),
            replay_locks: ChangeLocks::default(),
            catalogue_lock: tokio::sync::Mutex::default(),
            function_pool: FunctionPool::default(),
            rule_pool: FunctionPool::default(),
        }
    }

    pub fn limits(&self) -> &ServiceLimits {
        &self.limits
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the app with this id if the caller may see it. A hidden app gives the error of an absent one.
    pub fn app(&self, caller: Caller, uid: &str) -> Result<Arc<CachedApp>, Error> {
        let entry = self.config_cache.app(uid).ok_or(Error::NotFound("app"))?;
        match caller.scope.app() {
            Some(own) if entry.app().id != own => Err(Error::NotFound("app")),
            _ => Ok(entry),
        }
    }

    fn require_admin(caller: Caller) -> Result<(), Error> {
        match caller.scope {
            Scope::Admin => Ok(()),
            _ => Err(Error::forbidden("This needs an admin key.")),
        }
    }

    fn endpoint_of(entry: &CachedApp, uid: &str) -> Result<Arc<Endpoint>, Error> {
        entry.endpoint(uid).ok_or(Error::NotFound("endpoint"))
    }

    /// Reserves `count` unused consecutive ids and returns the first.
    fn take_ids(&self, now: Timestamp, count: u32) -> i64 {
        self.ids.next_range(now, count)
    }
}

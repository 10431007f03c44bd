//! A service on a closed store with an engine without permits, for tests that need neither.

use super::{NodeInfo, Service, ServiceDeps, ServiceLimits};
use crate::{
    domain::{
        address_policy::AddressPolicy,
        contract::Contract,
        encryption::Keyring,
        id::{EndpointId, IdGenerator},
        node_lease::NodeLease,
        ports::{Permit, Permits},
    },
    runtime::{SeededEntropy, SystemClock},
    store::Store,
};
use std::sync::Arc;

pub(crate) const ADMIN_KEY: &str = "an admin key for tests";

/// Returns a service with an admin key, on a closed store.
pub(crate) fn service() -> Service {
    let service = Service::new(ServiceDeps {
        config_cache: Arc::default(),
        store: Store::closed(),
        node_state: Arc::new(NodeLease::single_node()),
        permits: Arc::new(NoPermits),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SeededEntropy::new(1)),
        ids: IdGenerator::new(0, 0),
        contracts: Contract::builtin().unwrap(),
        keyring: Keyring::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap(),
        addresses: AddressPolicy::default(),
        limits: ServiceLimits::default(),
        node_info: NodeInfo::default(),
        metrics: Arc::default(),
        storage: Arc::default(),
        streams: Arc::default(),
    });
    service.config_cache.put_key(service.key_of_settings(ADMIN_KEY));
    service
}

struct NoPermits;

impl Permits for NoPermits {
    fn take(&self, _: EndpointId, _: usize) -> Option<Permit> {
        None
    }
    fn take_for_test(&self, _: EndpointId, _: usize) -> Option<Permit> {
        None
    }
    fn endpoint_changed(&self, _: EndpointId) {}
    fn replays_changed(&self) {}
}

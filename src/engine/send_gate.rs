//! Send gate, checked before every request: open as long as it is certain that no other node took this node's work over, and
//! results can be recorded.

use crate::{
    domain::ports::SendGate,
    runtime::{Clock, NodeLease},
    store::DeliveryStore,
};
use std::sync::Arc;

pub struct NodeSendGate {
    pub node_state: Arc<NodeLease>,
    pub clock: Arc<dyn Clock>,
    pub delivery_store: Arc<dyn DeliveryStore>,
}

impl SendGate for NodeSendGate {
    fn is_open(&self) -> bool {
        self.node_state.is_lease_valid(|| self.clock.monotonic()) && self.delivery_store.can_record()
    }
}

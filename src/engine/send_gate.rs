//! Send gate, checked before every request: open as long as it is certain that no other node took this node's work over, and
//! results can be recorded.

use crate::{
    domain::{ports::DialGate, tenure::Tenure},
    runtime::Clock,
    store::Ledger,
};
use std::sync::Arc;

pub struct NodeSendGate {
    pub tenure: Arc<Tenure>,
    pub clock: Arc<dyn Clock>,
    pub ledger: Arc<dyn Ledger>,
}

impl DialGate for NodeSendGate {
    fn is_open(&self) -> bool {
        self.tenure.may_dial(|| self.clock.steady()) && self.ledger.can_record()
    }
}

//! Leadership for work that is done once for all nodes: replays, notices, mails, retention, statistics. The owner of the
//! first shard is the leader.

use crate::{
    domain::time::Timestamp,
    runtime::{Clock, LeaderGuard, NodeLease},
};
use std::{sync::Arc, time::Duration};

/// How often a node checks whether it has become the leader, and the leader for work that was requested on other nodes.
const LEADER_CHECK_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct LeaderRole {
    pub(super) node_state: Arc<NodeLease>,
    pub(super) clock: Arc<dyn Clock>,
}

impl LeaderRole {
    /// Returns a guard for a piece of the leader's work, if this node is the leader now.
    pub(super) fn try_lead(&self) -> Option<LeaderGuard> {
        self.node_state.lead(|| self.clock.monotonic())
    }

    /// Waits until this node is the leader, and returns the guard.
    pub(super) async fn lead(&self) -> LeaderGuard {
        loop {
            if let Some(leadership) = self.try_lead() {
                return leadership;
            }
            self.clock.sleep_for(LEADER_CHECK_EVERY).await;
        }
    }

    /// Returns when work may have been requested on another node; never on a single node.
    pub(super) async fn requested_elsewhere(&self) {
        if self.node_state.is_single_node() {
            std::future::pending::<()>().await;
        }
        self.clock.sleep_for(LEADER_CHECK_EVERY).await;
    }

    /// Returns when to check again: notifications only reach the node where work was requested.
    pub(super) fn next_check_at(&self, at: Timestamp) -> Timestamp {
        if self.node_state.is_single_node() { at } else { at.min(self.clock.now().plus(LEADER_CHECK_EVERY)) }
    }
}

//! What is done once for all nodes: replays, notices, mails, removing, rolling up. Whoever is home of the first shard does it.

use crate::{
    domain::{
        tenure::{Stewarding, Tenure},
        time::Timestamp,
    },
    world::Clock,
};
use std::{sync::Arc, time::Duration};

/// How often a node looks whether it has become the steward, and a steward for what other nodes were told of.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Steward {
    pub(super) tenure: Arc<Tenure>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Steward {
    /// Leave to do a piece of it, if this node is the one now.
    pub(super) fn try_turn(&self) -> Option<Stewarding> {
        self.tenure.steward(|| self.clock.steady())
    }

    /// The same, once this node is the one.
    pub(super) async fn turn(&self) -> Stewarding {
        loop {
            if let Some(turn) = self.try_turn() {
                return turn;
            }
            self.clock.sleep_for(LOOKS_EVERY).await;
        }
    }

    /// Somebody may have asked another node for something; never where there is none.
    pub(super) async fn asked_elsewhere(&self) {
        if self.tenure.is_alone() {
            std::future::pending::<()>().await;
        }
        self.clock.sleep_for(LOOKS_EVERY).await;
    }

    /// When to look again: bells only ring on the node where something was asked for.
    pub(super) fn look_again(&self, at: Timestamp) -> Timestamp {
        if self.tenure.is_alone() { at } else { at.min(self.clock.now().plus(LOOKS_EVERY)) }
    }
}

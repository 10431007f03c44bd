//! What an operator asks a running process about itself.

use super::{Caller, Error, Service, room::StoreUsage};
use crate::{
    domain::{id::DeliveryId, tenure::SHARDS, time::Timestamp},
    store::cluster::{Node, View},
};
use std::time::Duration;

/// What the process was put together with, as far as people may see it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// What this machine is called.
    pub node: String,
    /// Which store it is, for example `sqlite`.
    pub store: &'static str,
    /// Without credentials.
    pub proxy: Option<String>,
    pub proxy_resolves: bool,
    /// Where people reach the dashboard, without a slash at the end.
    pub public_url: String,
    /// Whose pages may show the portal in a frame.
    pub portal_origins: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct System {
    pub started_at: Timestamp,
    pub surroundings: Surroundings,
    pub store: StoreUsage,
    pub encryption: Encryption,
    /// All that work on the store, in the order in which they joined.
    pub nodes: Vec<NodeState>,
    pub oldest_overdue: Option<OldestOverdue>,
}

/// A node as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    pub name: String,
    /// Whether it is the one that was asked.
    pub is_this: bool,
    pub epoch: i64,
    pub slot: Option<u8>,
    /// Of the program.
    pub version: String,
    pub joined_at: Timestamp,
    /// How long it may go on without being heard of; none is left of one that is to be taken over. Absent: for ever.
    pub lease: Option<Duration>,
    /// How many of the shards that endpoints are divided into it looks after.
    pub shards: usize,
    pub free_hands: u32,
    /// How many changes of the configuration it has not seen yet.
    pub lag: i64,
}

/// The first that could have been sent and was not, over all lanes whose endpoints are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestOverdue {
    pub app: String,
    pub endpoint: String,
    /// `None` if it was taken up while this was looked for.
    pub delivery: Option<DeliveryId>,
    pub due: Timestamp,
    pub overdue: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The key that seals.
    pub key: String,
    /// How many secrets each given key has sealed, the first key first.
    pub sealed: Vec<(String, u64)>,
}

impl Encryption {
    /// Whether some are still sealed with another key than the first.
    pub fn is_rotating(&self) -> bool {
        self.sealed.iter().any(|(key, count)| *count > 0 && *key != self.key)
    }
}

impl Service {
    /// For an admin key.
    pub async fn system(&self, caller: Caller) -> Result<System, Error> {
        Self::must_be_admin(caller)?;
        let view = self.cluster.nodes().await?;
        Ok(System {
            started_at: self.started_at,
            surroundings: self.surroundings.clone(),
            store: self.store_usage(),
            encryption: self.encryption(),
            nodes: if self.tenure.is_alone() { vec![self.only_node()] } else { self.all_nodes(view) },
            oldest_overdue: self.oldest_overdue().await?,
        })
    }

    /// Whoever is alone needs no lease and looks after everything.
    fn only_node(&self) -> NodeState {
        NodeState {
            name: self.surroundings.node.clone(),
            is_this: true,
            epoch: self.tenure.epoch(),
            slot: Some(0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            joined_at: self.started_at,
            lease: None,
            shards: SHARDS,
            free_hands: u32::try_from(self.hands.free()).unwrap_or(u32::MAX),
            lag: 0,
        }
    }

    fn all_nodes(&self, view: View) -> Vec<NodeState> {
        let state = |node: Node| NodeState {
            is_this: node.epoch == self.tenure.epoch(),
            shards: view.shards.iter().filter(|owner| **owner == node.epoch).count(),
            lease: Some(Duration::from_millis(u64::try_from(node.lease_ms).unwrap_or(0))),
            lag: (view.version - node.seen).max(0),
            name: node.name,
            epoch: node.epoch,
            slot: node.slot,
            version: node.version,
            joined_at: node.joined_at,
            free_hands: node.free_hands,
        };
        let mut nodes: Vec<NodeState> = view.nodes.into_iter().map(state).collect();
        nodes.sort_by_key(|node| (node.joined_at, node.epoch));
        nodes
    }

    async fn oldest_overdue(&self) -> Result<Option<OldestOverdue>, Error> {
        let (lanes, now) = (self.cluster.find_lanes().await?, self.clock.now());
        let overdue = lanes.into_iter().filter(|(_, due)| *due <= now);
        let known = overdue.filter_map(|(endpoint, due)| {
            let endpoint = self.directory.endpoint(endpoint).filter(|found| found.record.off.is_none())?;
            Some((due, endpoint))
        });
        let Some((due, endpoint)) = known.min_by_key(|(due, _)| *due) else { return Ok(None) };
        let Some(app) = self.uid_of(endpoint.record.app) else { return Ok(None) };
        let first = self.browse.queue(vec![endpoint.id()], None, 1).await?.rows.pop();
        let delivery = first.map(|listed| listed.delivery).filter(|delivery| delivery.due == Some(due));
        let delivery = delivery.map(|delivery| delivery.id);
        let endpoint = endpoint.record.uid.clone();
        Ok(Some(OldestOverdue { app, endpoint, delivery, due, overdue: now.since(due) }))
    }

    fn encryption(&self) -> Encryption {
        let mut sealed: Vec<(String, u64)> = self.keyring.ids().map(|id| (id.to_owned(), 0)).collect();
        self.each_endpoint(|endpoint| {
            for key in endpoint.record.sealed().filter_map(|sealed| self.keyring.key_of(sealed).ok()) {
                if let Some((_, count)) = sealed.iter_mut().find(|(id, _)| id == key) {
                    *count += 1;
                }
            }
        });
        Encryption { key: self.keyring.first().to_owned(), sealed }
    }
}

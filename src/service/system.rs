//! State of the running process, for operators.

use super::{Caller, Error, Service, storage_limits::StoreUsage};
use crate::{
    domain::{cluster::SHARD_COUNT, id::DeliveryId, time::Timestamp},
    store::cluster::{ClusterView, Node},
};
use std::time::Duration;

/// Facts about this node that people may see.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Name of this node.
    pub node: String,
    /// Kind of store, for example `sqlite`.
    pub store: &'static str,
    /// Proxy URL without credentials.
    pub proxy: Option<String>,
    pub proxy_resolves: bool,
    /// URL of the dashboard, without a trailing slash.
    pub public_url: String,
    /// Origins of pages that may embed the portal in a frame.
    pub portal_origins: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct SystemStatus {
    pub started_at: Timestamp,
    pub node_info: NodeInfo,
    pub store: StoreUsage,
    pub encryption: EncryptionStatus,
    /// All nodes of the store, in the order in which they joined.
    pub nodes: Vec<NodeStatus>,
    pub oldest_overdue: Option<OldestOverdue>,
}

/// A node, as shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    pub name: String,
    /// Whether this is the node that answers.
    pub is_this: bool,
    pub epoch: i64,
    pub slot: Option<u8>,
    /// Version of the program.
    pub version: String,
    pub joined_at: Timestamp,
    /// Time left until the lease ends; zero for a node that is to be taken over. Absent: no lease is needed.
    pub lease: Option<Duration>,
    /// Number of shards of endpoints that it owns.
    pub shards: usize,
    pub free_permits: u32,
    /// Number of configuration changes that it has not seen yet.
    pub lag: i64,
}

/// The delivery that has been due longest, over all enabled endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestOverdue {
    pub app: String,
    pub endpoint: String,
    /// `None` if its lease was taken during this query.
    pub delivery: Option<DeliveryId>,
    pub due: Timestamp,
    pub overdue: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// Id of the key that encrypts.
    pub key: String,
    /// Number of secrets encrypted with each given key, the first key first.
    pub secrets_by_key: Vec<(String, u64)>,
}

impl EncryptionStatus {
    /// Whether some secrets are still encrypted with a key other than the first.
    pub fn is_rotating(&self) -> bool {
        self.secrets_by_key.iter().any(|(key, count)| *count > 0 && *key != self.key)
    }
}

impl Service {
    /// Returns the state of the system; needs an admin key.
    pub async fn system(&self, caller: Caller) -> Result<SystemStatus, Error> {
        Self::require_admin(caller)?;
        let view = self.cluster_store.nodes().await?;
        Ok(SystemStatus {
            started_at: self.started_at,
            node_info: self.node_info.clone(),
            store: self.store_usage(),
            encryption: self.encryption(),
            nodes: if self.node_state.is_single_node() {
                vec![self.only_node()]
            } else {
                self.all_nodes(view)
            },
            oldest_overdue: self.oldest_overdue().await?,
        })
    }

    /// In single-node mode the node needs no lease and owns all shards.
    fn only_node(&self) -> NodeStatus {
        NodeStatus {
            name: self.node_info.node.clone(),
            is_this: true,
            epoch: self.node_state.epoch(),
            slot: Some(0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            joined_at: self.started_at,
            lease: None,
            shards: SHARD_COUNT,
            free_permits: u32::try_from(self.permits.available()).unwrap_or(u32::MAX),
            lag: 0,
        }
    }

    fn all_nodes(&self, view: ClusterView) -> Vec<NodeStatus> {
        let state = |node: Node| NodeStatus {
            is_this: node.epoch == self.node_state.epoch(),
            shards: view.shards.iter().filter(|owner| **owner == node.epoch).count(),
            lease: Some(Duration::from_millis(u64::try_from(node.lease_ms).unwrap_or(0))),
            lag: (view.version - node.config_version).max(0),
            name: node.name,
            epoch: node.epoch,
            slot: node.slot,
            version: node.version,
            joined_at: node.joined_at,
            free_permits: node.free_permits,
        };
        let mut nodes: Vec<NodeStatus> = view.nodes.into_iter().map(state).collect();
        nodes.sort_by_key(|node| (node.joined_at, node.epoch));
        nodes
    }

    async fn oldest_overdue(&self) -> Result<Option<OldestOverdue>, Error> {
        let (queues, now) = (self.cluster_store.find_queues().await?, self.clock.now());
        let overdue = queues.into_iter().filter(|(_, due)| *due <= now);
        let known = overdue.filter_map(|(endpoint, due)| {
            let endpoint =
                self.config_cache.endpoint(endpoint).filter(|found| found.record.disabled.is_none())?;
            Some((due, endpoint))
        });
        let Some((due, endpoint)) = known.min_by_key(|(due, _)| *due) else { return Ok(None) };
        let Some(app) = self.uid_of(endpoint.record.app) else { return Ok(None) };
        let first = self.query_store.queue(vec![endpoint.id()], None, 1).await?.rows.pop();
        let delivery = first.map(|listed| listed.delivery).filter(|delivery| delivery.due == Some(due));
        let delivery = delivery.map(|delivery| delivery.id);
        let endpoint = endpoint.record.uid.clone();
        Ok(Some(OldestOverdue { app, endpoint, delivery, due, overdue: now.since(due) }))
    }

    fn encryption(&self) -> EncryptionStatus {
        let mut encrypted: Vec<(String, u64)> = self.keyring.ids().map(|id| (id.to_owned(), 0)).collect();
        self.each_endpoint(|endpoint| {
            for key in endpoint
                .record
                .encrypted_parts()
                .filter_map(|encrypted| self.keyring.key_id_of(encrypted).ok())
            {
                if let Some((_, count)) = encrypted.iter_mut().find(|(id, _)| id == key) {
                    *count += 1;
                }
            }
        });
        EncryptionStatus { key: self.keyring.primary_id().to_owned(), secrets_by_key: encrypted }
    }
}

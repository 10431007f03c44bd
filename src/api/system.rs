//! `/v1/system`

use super::{
    ApiState,
    auth::Authenticated,
    response::{self, ApiResult},
};
use crate::service::{
    storage_limits::StoreUsage,
    system::{NodeStatus, OldestOverdue, SystemStatus},
};
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

/// A running process, as far as its operator needs to know.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = System, example = json!({
    "version": "0.1.0", "started_at": "2026-11-15T09:30:00.000Z", 
    "store": {
        "kind": "sqlite", "used_bytes": 734_003_200, "reusable_bytes": 41_943_040, "log_bytes": 4_194_304, "store_bytes_max": null,
        "disk_free_bytes": 96_636_764_160_u64, "disk_free_min": 268_435_456, "full": null,
    },
    "encryption": {
        "key": "2026-11", "sealed": [{ "key": "2026-11", "count": 40 }, { "key": "2025-11", "count": 2 }], "rotating": true,
    },
    "egress": { "proxy": "socks5://proxy.internal:1080", "proxy_resolves": false },
    "nodes": [{
        "name": "app-1", "this": true, "epoch": "4611686018427387904", "slot": 0, "version": "0.1.0",
        "joined_at": "2026-11-15T09:30:00.000Z", "lease_ms": 9400, "shards": 128, "free_hands": 2048, "lag": 0,
    }],
    "oldest_overdue": {
        "app_id": "acme", "endpoint_id": "ep_1", "delivery_id": "dlv_01jd2s3c8g001", "due_at": "2026-11-15T09:31:00.000Z", "overdue_ms": 1200,
    },
}))]
struct SystemView {
    version: &'static str,
    #[schema(format = DateTime)]
    started_at: String,
    store: StoreView,
    encryption: EncryptionView,
    egress: EgressView,
    /// All nodes that work on this store; an embedded store has one.
    nodes: Vec<NodeView>,
    /// The delivery that could have been sent longest ago and was not; endpoints that are off do not count. Null: none.
    oldest_overdue: Option<OverdueView>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemNode)]
struct NodeView {
    /// What its machine is called.
    name: String,
    /// Whether it is the one that answers.
    this: bool,
    /// Names this start of its process.
    epoch: String,
    /// Part of the ids that it makes; null: it makes none any more, and what it carried is being taken over.
    slot: Option<u8>,
    version: String,
    #[schema(format = DateTime)]
    joined_at: String,
    /// How long it may go on without being heard of before others take over; null: there are no others.
    lease_ms: Option<u64>,
    /// How many of the 256 shards of endpoints it looks after.
    shards: usize,
    /// Deliveries that it could take up now.
    #[serde(rename = "free_hands")]
    free_permits: u32,
    /// Changes of the configuration that it has not seen yet.
    lag: i64,
}

impl NodeView {
    fn of(node: NodeStatus) -> Self {
        Self {
            name: node.name,
            this: node.is_this,
            epoch: node.epoch.to_string(),
            slot: node.slot,
            version: node.version,
            joined_at: node.joined_at.rfc3339_millis(),
            lease_ms: node.lease.map(|lease| lease.as_millis() as u64),
            shards: node.shards,
            free_permits: node.free_permits,
            lag: node.lag,
        }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemOverdue)]
struct OverdueView {
    app_id: String,
    endpoint_id: String,
    /// Null if it was taken up just now.
    delivery_id: Option<String>,
    #[schema(format = DateTime)]
    due_at: String,
    overdue_ms: u64,
}

impl OverdueView {
    fn of(oldest: OldestOverdue) -> Self {
        Self {
            app_id: oldest.app,
            endpoint_id: oldest.endpoint,
            delivery_id: oldest.delivery.map(|id| id.to_string()),
            due_at: oldest.due.rfc3339_millis(),
            overdue_ms: oldest.overdue.as_millis() as u64,
        }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemStore)]
struct StoreView {
    /// `sqlite` or `postgres`.
    kind: &'static str,
    /// Taken up by what is stored.
    used_bytes: u64,
    /// Free inside the store's file: used again before the file grows.
    reusable_bytes: u64,
    /// The log beside the file, which is bounded.
    log_bytes: u64,
    /// The setting `store_bytes_max`; null: no limit.
    store_bytes_max: Option<u64>,
    /// Null if it is not known.
    disk_free_bytes: Option<u64>,
    /// The setting `disk_free_min`.
    disk_free_min: u64,
    /// Why no more events are taken; null: they are.
    full: Option<String>,
}

impl StoreView {
    fn of(kind: &'static str, store: StoreUsage) -> Self {
        let StoreUsage { usage, limits, full } = store;
        Self {
            kind,
            used_bytes: usage.used_bytes,
            reusable_bytes: usage.reusable_bytes,
            log_bytes: usage.log_bytes,
            store_bytes_max: limits.store_bytes_max,
            disk_free_bytes: usage.disk_free_bytes,
            disk_free_min: limits.disk_free_min,
            full: full.map(|full| full.to_string()),
        }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemEncryption)]
struct EncryptionView {
    /// The id of the key that encrypts; one that was given without an id is known by the start of its digest.
    key: String,
    /// How many secrets are encrypted with each given key. One that has none is needed only for older backups.
    #[serde(rename = "sealed")]
    secrets_by_key: Vec<SecretCountView>,
    /// Whether secrets are being encrypted anew with `key`.
    rotating: bool,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemSealed)]
struct SecretCountView {
    key: String,
    count: u64,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemEgress)]
struct EgressView {
    /// Without its credentials; null: none.
    proxy: Option<String>,
    proxy_resolves: bool,
}

impl SystemView {
    fn of(system: SystemStatus) -> Self {
        let rotating = system.encryption.is_rotating();
        let encrypted =
            system.encryption.secrets_by_key.into_iter().map(|(key, count)| SecretCountView { key, count });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_at: system.started_at.rfc3339_millis(),
            store: StoreView::of(system.node_info.store, system.store),
            encryption: EncryptionView {
                key: system.encryption.key,
                secrets_by_key: encrypted.collect(),
                rotating,
            },
            egress: EgressView {
                proxy: system.node_info.proxy,
                proxy_resolves: system.node_info.proxy_resolves,
            },
            nodes: system.nodes.into_iter().map(NodeView::of).collect(),
            oldest_overdue: system.oldest_overdue.map(OverdueView::of),
        }
    }
}

/// Look at the process and its fellow nodes
///
/// Needs an admin key.
#[utoipa::path(
    get, path = "/v1/system", tag = "System",
    responses(
        (status = 200, description = "What it runs with", body = SystemView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn get_system(
    State(api): State<Arc<ApiState>>,
    Authenticated(caller): Authenticated,
) -> ApiResult {
    response::ok(&SystemView::of(api.service.system(caller).await?))
}

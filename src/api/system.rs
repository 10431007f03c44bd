//! `/v1/system`

use super::{
    Api,
    answer::{self, Answer},
    auth::Known,
};
use crate::service::{room::StoreUsage, system::System};
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
}))]
struct SystemView {
    version: &'static str,
    #[schema(format = DateTime)]
    started_at: String,
    store: StoreView,
    encryption: EncryptionView,
    egress: EgressView,
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
    sealed: Vec<SealedView>,
    /// Whether secrets are being encrypted anew with `key`.
    rotating: bool,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SystemSealed)]
struct SealedView {
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
    fn of(system: System) -> Self {
        let rotating = system.encryption.is_rotating();
        let sealed = system.encryption.sealed.into_iter().map(|(key, count)| SealedView { key, count });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_at: system.started_at.rfc3339_millis(),
            store: StoreView::of(system.surroundings.store, system.store),
            encryption: EncryptionView { key: system.encryption.key, sealed: sealed.collect(), rotating },
            egress: EgressView {
                proxy: system.surroundings.proxy,
                proxy_resolves: system.surroundings.proxy_resolves,
            },
        }
    }
}

/// Look at the process
///
/// Needs an admin key.
#[utoipa::path(
    get, path = "/v1/system", tag = "System",
    responses(
        (status = 200, description = "What it runs with", body = SystemView),
        (status = 403, description = "Not with an app key"),
    ),
)]
pub(super) async fn get_system(State(api): State<Arc<Api>>, Known(caller): Known) -> Answer {
    answer::ok(&SystemView::of(api.service.system(caller)?))
}

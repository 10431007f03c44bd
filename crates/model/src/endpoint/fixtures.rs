//! An endpoint for tests, without a store.

use super::{Endpoint, EndpointRecord, EndpointSettings};
use crate::{
    contract::Contract,
    id::{AppId, EndpointId},
    subscription::Patterns,
    target_url::TargetUrl,
    time::Timestamp,
};
use std::sync::Arc;

/// Makes an endpoint of app number 1 under the first built-in contract.
pub fn endpoint(number: i64, settings: EndpointSettings) -> Arc<Endpoint> {
    let contract = Arc::new(Contract::builtin().expect("a valid value").remove(0));
    let now = Timestamp::from_millis(0);
    Arc::new(Endpoint {
        patterns: Patterns::parse(&settings.event_types).expect("a valid value"),
        record: EndpointRecord {
            id: EndpointId::from_i64(number),
            app: AppId::from_i64(1),
            uid: number.to_string(),
            settings,
            disabled: None,
            encrypted_headers: None,
            encrypted_tls: None,
            secrets: Vec::new(),
            revision: 1,
            created_at: now,
            updated_at: now,
        },
        target: TargetUrl::from_stored("https://example.com/").expect("a valid value"),
        health_url: None,
        contract_hash: contract.hash(),
        contract,
        secrets: Vec::new(),
        signing_keys: None,
        headers: Arc::new([]),
        tls: None,
        https_only: true,
    })
}

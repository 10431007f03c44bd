//! The API's view of an endpoint; values that may be credentials are redacted.

use super::replays::ReplayView;
use crate::{
    domain::{certificate::Certificate, endpoint::Endpoint, id::KeyId, rate_limit::RateLimit, tls},
    service::Caller,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Placeholder for header values, which may be credentials.
const REDACTED: &str = "•••";

/// Where an app's events go.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Endpoint, example = json!({
    "id": "ep_01jd2s0a5g000", "url": "https://hooks.bakery.example/in", "event_types": ["payment.*"],
    "health_url": "https://hooks.bakery.example/health",
    "contract": null, "overrides": null, "headers": { "authorization": "•••" }, "tls": null, "key_kind": "shared", "payload_version": null, "max_in_flight": null, "rate_limit": null,
    "ordered": "key", "on_dead": "block",
    "description": null, "metadata": null, "status": "active", "disabled_reason": null, "disabled_at": null,
    "disabled_by": null,
    "created_at": "2026-11-15T09:30:00.000Z", "updated_at": "2026-11-15T09:30:00.000Z",
}))]
pub(super) struct EndpointView {
    id: String,
    #[schema(format = "uri")]
    url: String,
    event_types: Vec<String>,
    contract: Option<String>,
    #[schema(value_type = Option<Object>)]
    overrides: Option<Value>,
    /// Names, without their values.
    headers: BTreeMap<String, &'static str>,
    tls: Option<TlsView>,
    /// What signs the requests: `shared`, a secret that both sides know, or `ed25519`, whose public half verifies.
    key_kind: &'static str,
    payload_version: Option<String>,
    max_in_flight: Option<u32>,
    rate_limit: Option<RateLimitView>,
    /// `none`, `endpoint` or `key`.
    ordered: &'static str,
    /// `block` or `skip`; null without an order.
    on_dead: Option<&'static str>,
    #[schema(format = "uri")]
    health_url: Option<String>,
    description: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// `active`, `degraded` (see `…/health`) or `disabled`.
    status: &'static str,
    /// `by_hand`; `gone`: the receiver answered 410; or the word of the contract's rule, for example `failing`.
    disabled_reason: Option<String>,
    #[schema(format = DateTime)]
    disabled_at: Option<String>,
    /// The id of a key, or `settings` for the key of the settings; `receiver` for a 410, `posthaste` for a rule.
    disabled_by: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// In the answer to its creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    secret: Option<String>,
    /// In the answer to switching it on with `replay` only: what was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    replays: Option<Vec<ReplayView>>,
}

impl EndpointView {
    /// View for the answer to its creation, with the secret.
    pub(super) fn with_secret(endpoint: &Endpoint) -> Self {
        let secret = endpoint.secrets.last().map(|secret| secret.text.clone());
        Self { secret, ..Self::of(endpoint, false) }
    }

    /// View for the answer to enabling it, with the replays that started.
    pub(super) fn with_replays(endpoint: &Endpoint, replays: Vec<ReplayView>) -> Self {
        Self { replays: Some(replays), ..Self::of(endpoint, false) }
    }

    /// Removes fields that a portal link must not see: the app's own metadata.
    pub(super) fn visible_to(self, caller: Caller) -> Self {
        if !caller.scope.is_portal() {
            return self;
        }
        // Also hidden: the key by which the app disabled the endpoint.
        let disabled_by = self.disabled_by.filter(|by| !by.starts_with(KeyId::PREFIX));
        Self { metadata: None, disabled_by, ..self }
    }

    pub(super) fn of(endpoint: &Endpoint, is_in_trouble: bool) -> Self {
        let record = endpoint.record.clone();
        let (settings, off) = (record.settings, record.disabled.as_ref());
        Self {
            id: record.uid,
            url: settings.url,
            event_types: settings.event_types,
            contract: settings.contract,
            overrides: settings.overrides,
            headers: endpoint.headers.iter().map(|(name, _)| (name.clone(), REDACTED)).collect(),
            tls: endpoint.tls.as_deref().map(TlsView::of),
            key_kind: key_kind(endpoint),
            payload_version: settings.payload_version,
            max_in_flight: settings.max_in_flight,
            rate_limit: settings.rate_limit.map(RateLimitView::of),
            ordered: settings.ordered.name(),
            on_dead: (!settings.ordered.is_none()).then(|| settings.on_dead.unwrap_or_default().name()),
            health_url: settings.health_url,
            description: settings.description,
            metadata: settings.metadata,
            status: status(endpoint, is_in_trouble),
            disabled_reason: off.map(|off| off.reason.name().to_owned()),
            disabled_at: off.map(|off| off.at.rfc3339_millis()),
            disabled_by: off.and_then(|off| Some(off.by.as_ref()?.id().to_owned())),
            created_at: record.created_at.rfc3339_millis(),
            updated_at: record.updated_at.rfc3339_millis(),
            secret: None,
            replays: None,
        }
    }
}

fn key_kind(endpoint: &Endpoint) -> &'static str {
    let rule = &endpoint.contract.secret;
    let signs_with = endpoint.secrets.last();
    if signs_with.is_some_and(|secret| rule.is_ed25519_key(&secret.text)) { "ed25519" } else { "shared" }
}

pub(super) fn status(endpoint: &Endpoint, is_in_trouble: bool) -> &'static str {
    match endpoint.record.disabled {
        Some(_) => "disabled",
        None if is_in_trouble => "degraded",
        None => "active",
    }
}

/// Requests in a second: in any span of time at most `burst` and as many as its seconds are worth.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RateLimit, example = json!({ "per_second": 50, "burst": 10 }))]
pub(super) struct RateLimitView {
    #[schema(minimum = 1, maximum = 100_000)]
    per_second: u32,
    /// At once, after a while without any; a second's worth if absent.
    #[schema(minimum = 1, maximum = 100_000, required = false)]
    burst: u32,
}

impl RateLimitView {
    pub(super) fn of(limit: RateLimit) -> Self {
        Self { per_second: limit.per_second, burst: limit.burst }
    }
}

/// Certificates in PEM. A client certificate and its key belong together; `ca` is trusted instead of the public authorities.
#[derive(utoipa::ToSchema)]
#[schema(as = EndpointTls)]
#[expect(dead_code, reason = "describes what the domain reads")]
pub(super) struct EndpointTlsFields {
    /// Ours, then those that lead to its authority.
    client_certificate: Option<String>,
    /// PKCS#8, PKCS#1 or SEC1, without a passphrase.
    client_key: Option<String>,
    /// One or more authorities. The receiver's certificate must lead to one of them; no other is trusted.
    ca: Option<String>,
}

/// An endpoint's certificates, without the key.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ShownTls)]
pub(super) struct TlsView {
    client_certificate: Option<CertificateView>,
    /// Empty: the public authorities.
    ca: Vec<CertificateView>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Certificate, example = json!({
    "subject": "CN=posthaste, O=Example", "expires_at": "2027-11-15T09:30:00.000Z",
    "fingerprint": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}))]
struct CertificateView {
    subject: String,
    #[schema(format = DateTime)]
    expires_at: String,
    /// SHA-256 of the certificate, in hex.
    fingerprint: String,
}

impl TlsView {
    fn of(tls: &tls::EndpointTls) -> Self {
        let view = |certificate: &Certificate| CertificateView {
            subject: certificate.subject.clone(),
            expires_at: certificate.expires_at.rfc3339_millis(),
            fingerprint: certificate.fingerprint.clone(),
        };
        Self {
            client_certificate: tls.client_certificate.as_ref().map(view),
            ca: tls.authorities.iter().map(view).collect(),
        }
    }
}

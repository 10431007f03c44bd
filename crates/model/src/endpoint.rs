//! An endpoint: the destination of an app's events, as stored and as used on the hot path.
//!
//! `EndpointRecord` is the row; `Endpoint` is the row with its contract resolved, its URL parsed and its secrets
//! decrypted. It is made once per change, so that a delivery looks nothing up.

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;

use super::{
    contract::{Contract, ContractHash, WaitingWhenDisabled},
    delivery::Availability,
    id::{AppId, EndpointId},
    ordering::{OnDead, OrderingMode},
    rate_limit::RateLimit,
    secret::Secret,
    signing_keys::SigningKeys,
    subscription::Patterns,
    target_url::TargetUrl,
    time::Timestamp,
    tls::EndpointTls,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub struct EndpointRecord {
    pub id: EndpointId,
    pub app: AppId,
    /// The id that callers use: the one they gave, else a generated one.
    pub uid: String,
    pub settings: EndpointSettings,
    pub disabled: Option<Disabled>,
    /// Static headers, encrypted as one JSON document; they may hold an `Authorization`.
    pub encrypted_headers: Option<Vec<u8>>,
    /// A client certificate with its key, and authorities of its own, encrypted as one JSON document.
    pub encrypted_tls: Option<Vec<u8>>,
    pub secrets: Vec<EncryptedSecret>,
    /// Grows with every change; attempts name it.
    pub revision: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The settings that an app makes, stored as one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    #[serde(rename = "url")]
    pub url: String,
    #[serde(rename = "event_types")]
    pub event_types: Vec<String>,
    #[serde(rename = "contract", default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    #[serde(rename = "overrides", default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<serde_json::Value>,
    /// The version of every event's data that is sent; the data as published if absent.
    #[serde(rename = "payload_version", default, skip_serializing_if = "Option::is_none")]
    pub payload_version: Option<String>,
    #[serde(rename = "max_in_flight", default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    #[serde(rename = "rate_limit", default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    #[serde(rename = "ordered", default, skip_serializing_if = "OrderingMode::is_none")]
    pub ordered: OrderingMode,
    /// Only used with an order; the default applies if absent.
    #[serde(rename = "on_dead", default, skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<OnDead>,
    /// A URL that answers 2xx while the receiver is healthy.
    #[serde(rename = "health_url", default, skip_serializing_if = "Option::is_none")]
    pub health_url: Option<String>,
    #[serde(rename = "description", default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "metadata", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

impl EndpointSettings {
    /// Whether deliveries behind a dead one continue. Also true without an order: those still queued need not wait then.
    pub fn skips_dead(&self) -> bool {
        self.ordered.is_none() || self.on_dead == Some(OnDead::Skip)
    }
}

/// The state of a disabled endpoint: why and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disabled {
    #[serde(rename = "reason")]
    pub reason: DisabledReason,
    #[serde(rename = "at")]
    pub at: Timestamp,
    /// Whether waiting deliveries are held or cancelled, as the contract said when it was disabled.
    #[serde(rename = "waiting")]
    pub waiting: WaitingWhenDisabled,
    /// Absent in documents of older versions.
    #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
    pub by: Option<DisabledBy>,
}

/// The reason why an endpoint is disabled, as one word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DisabledReason {
    Manual,
    /// The receiver answered that it is gone (410).
    Gone,
    /// A rule of the contract, as the contract words it.
    Rule(String),
}

impl DisabledReason {
    pub fn name(&self) -> &str {
        match self {
            Self::Manual => "by_hand",
            Self::Gone => "gone",
            Self::Rule(reason) => reason,
        }
    }
}

impl From<String> for DisabledReason {
    fn from(name: String) -> Self {
        match name.as_str() {
            "by_hand" => Self::Manual,
            "gone" => Self::Gone,
            _ => Self::Rule(name),
        }
    }
}

impl From<DisabledReason> for String {
    fn from(reason: DisabledReason) -> Self {
        reason.name().to_owned()
    }
}

/// The origin of an endpoint's being disabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DisabledBy {
    /// A request with this API key, under its name at that time.
    #[serde(rename = "key")]
    Key {
        #[serde(rename = "id")]
        id: String,
        #[serde(rename = "name", default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A rule of the contract.
    #[serde(rename = "posthaste")]
    Posthaste,
    /// The receiver's own answer.
    #[serde(rename = "receiver")]
    Receiver,
}

impl DisabledBy {
    /// Returns the key's id, or `posthaste` or `receiver`.
    pub fn id(&self) -> &str {
        match self {
            Self::Key { id, .. } => id,
            Self::Posthaste => "posthaste",
            Self::Receiver => "receiver",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedSecret {
    pub encrypted: Vec<u8>,
    pub valid_from: Timestamp,
    pub valid_until: Option<Timestamp>,
}

/// An endpoint ready for use.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub record: EndpointRecord,
    pub target: TargetUrl,
    /// The parsed `health_url`.
    pub health_url: Option<TargetUrl>,
    pub patterns: Patterns,
    pub contract: Arc<Contract>,
    pub contract_hash: ContractHash,
    /// Decrypted secrets, newest last.
    pub secrets: Vec<Secret>,
    /// `None` if the secrets cannot sign under this contract: its deliveries end `dead(signing_failed)`.
    pub signing_keys: Option<Arc<SigningKeys>>,
    pub headers: Arc<[(String, String)]>,
    pub tls: Option<Arc<EndpointTls>>,
    /// Whether plain HTTP is refused when it is dialled.
    pub https_only: bool,
}

impl EndpointRecord {
    /// Returns all its encrypted parts.
    pub fn encrypted_parts(&self) -> impl Iterator<Item = &Vec<u8>> {
        let secrets = self.secrets.iter().map(|secret| &secret.encrypted);
        secrets.chain(&self.encrypted_headers).chain(&self.encrypted_tls)
    }

    pub fn encrypted_parts_mut(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let secrets = self.secrets.iter_mut().map(|secret| &mut secret.encrypted);
        secrets.chain(&mut self.encrypted_headers).chain(&mut self.encrypted_tls)
    }

    /// Returns whether it takes deliveries and, if not, what happens to waiting ones.
    pub fn availability(&self) -> Availability {
        availability(self.disabled.as_ref())
    }
}

/// Returns the effect of an endpoint's state on its deliveries.
pub fn availability(disabled: Option<&Disabled>) -> Availability {
    match disabled.map(|off| off.waiting) {
        None => Availability::Enabled,
        Some(WaitingWhenDisabled::Held) => Availability::DisabledHold,
        Some(WaitingWhenDisabled::Cancelled) => Availability::DisabledCancel,
    }
}

impl Endpoint {
    pub fn id(&self) -> EndpointId {
        self.record.id
    }
}

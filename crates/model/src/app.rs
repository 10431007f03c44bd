//! An app: a tenant (merchant, organisation, customer). Other apps cannot see its events and endpoints.

use super::{
    contract::{Contract, NoticeChannel, Retention},
    id::AppId,
    quota::Quota,
    rate_limit::AppLimits,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq)]
pub struct App {
    pub id: AppId,
    /// The id that callers use: the one they gave, else a generated one.
    pub uid: String,
    pub settings: AppSettings,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The settings that an operator makes, stored as one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppSettings {
    #[serde(rename = "name")]
    pub name: String,
    /// The contract of endpoints that name none; `standard` if absent.
    #[serde(rename = "contract", default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// Laid over the contract of each of its endpoints, under the endpoint's own.
    #[serde(rename = "overrides", default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<serde_json::Value>,
    #[serde(rename = "livemode")]
    pub livemode: bool,
    /// The prefix of its event ids; `evt` if absent. Fixed at creation, so that printed ids stay valid.
    #[serde(rename = "id_prefix", default, skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    #[serde(rename = "contact_email", default, skip_serializing_if = "Option::is_none")]
    pub contact_email: Option<String>,
    /// How much it may publish; unlimited if absent.
    #[serde(rename = "quota", default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How much may be sent for it; the server's settings apply if absent.
    #[serde(rename = "limits", default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<AppLimits>,
    #[serde(rename = "metadata", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

impl App {
    pub fn id_prefix(&self) -> &str {
        self.settings.id_prefix.as_deref().unwrap_or("evt")
    }
}

/// The rules of an app's own contract, for cases that concern no single endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppRules {
    pub retention: Retention,
    /// How people are notified that a replay has finished.
    pub replay_finished: NoticeChannel,
}

impl AppRules {
    /// The rules of an app whose contract is missing: keep everything, and only list notices.
    pub const MISSING_CONTRACT: Self =
        Self { retention: Retention::FOREVER, replay_finished: NoticeChannel::List };

    pub fn of(contract: &Contract) -> Self {
        Self { retention: contract.retention, replay_finished: contract.notices.replay_finished }
    }
}

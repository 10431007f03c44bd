//! An app: a tenant (merchant, organisation, customer) whose events and endpoints nobody else sees.

use super::{
    contract::{Channel, Contract, Retention},
    id::AppId,
    quota::Quota,
    rate::AppLimits,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq)]
pub struct App {
    pub id: AppId,
    /// The id that callers use: theirs where one was given, else ours.
    pub uid: String,
    pub settings: AppSettings,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What an operator sets; stored as one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AppSettings {
    pub name: String,
    /// The contract of endpoints that name none; `standard` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// Laid over the contract of each of its endpoints, under the endpoint's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<serde_json::Value>,
    pub livemode: bool,
    /// What the ids of its events start with; `evt` if absent. Fixed at creation, so that printed ids stay valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact_email: Option<String>,
    /// How much it may publish; as much as it likes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How much is sent for it; as the settings say if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<AppLimits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

impl App {
    pub fn id_prefix(&self) -> &str {
        self.settings.id_prefix.as_deref().unwrap_or("evt")
    }
}

/// What an app's own contract says where no endpoint's is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppRules {
    pub retention: Retention,
    /// How people hear of a replay that came to its end.
    pub replay_finished: Channel,
}

impl AppRules {
    /// Whoever took the contract away did not say how long things are to be kept.
    pub const UNKNOWN: Self = Self { retention: Retention::FOREVER, replay_finished: Channel::List };

    pub fn of(contract: &Contract) -> Self {
        Self { retention: contract.retention, replay_finished: contract.notices.replay_finished }
    }
}

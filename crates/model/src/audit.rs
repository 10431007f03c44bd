//! The audit log: who changed what, and when. An entry is committed together with its change.
//!
//! Entries name objects and fields but never their values, so that no secret can get into the log.

use super::{
    id::{AppId, AuditId, KeyId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An entry of the audit log: one change by one key.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    pub id: AuditId,
    pub at: Timestamp,
    pub key: KeyId,
    /// The key's name at that time.
    pub key_name: Option<String>,
    /// The name of the key's scope.
    pub scope: String,
    /// The app of the changed object. `None` if it belongs to no app, and for the deletion of an app.
    pub app: Option<AppId>,
    pub action: AuditAction,
    /// The public id of the changed object.
    pub object_id: String,
    pub detail: Option<AuditDetail>,
}

/// Further details of a change, for people. Names fields, never their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditDetail {
    /// The fields that changed.
    #[serde(rename = "fields", default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The scope of a new key or portal link.
    #[serde(rename = "scope", default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whether past deliveries are sent again or past events are sent for the first time.
    #[serde(rename = "kind", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How many of them there are.
    #[serde(rename = "total", default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl AuditDetail {
    /// Returns the detail that lists these fields; `None` if there are none.
    pub fn of_fields(names: &[String]) -> Option<Self> {
        (!names.is_empty()).then(|| Self { fields: names.to_vec(), ..Self::default() })
    }

    pub fn of_scope(name: &str) -> Self {
        Self { scope: Some(name.to_owned()), ..Self::default() }
    }

    pub fn of_replay(kind: &str, total: u64) -> Self {
        Self { kind: Some(kind.to_owned()), total: Some(total), ..Self::default() }
    }
}

macro_rules! actions {
    ($($action:ident: $name:literal),+ $(,)?) => {
        /// The kind of change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditAction { $($action),+ }

        impl AuditAction {
            pub const ALL: &[Self] = &[$(Self::$action),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$action => $name),+ }
            }
        }
    };
}

actions! {
    AppCreated: "app.created",
    AppChanged: "app.changed",
    AppDeleted: "app.deleted",
    EndpointCreated: "endpoint.created",
    EndpointChanged: "endpoint.changed",
    EndpointEnabled: "endpoint.enabled",
    EndpointDisabled: "endpoint.disabled",
    EndpointDeleted: "endpoint.deleted",
    SecretRotated: "secret.rotated",
    KeyCreated: "key.created",
    KeyRevoked: "key.revoked",
    PortalLinkCreated: "portal_link.created",
    PortalLinkRevoked: "portal_link.revoked",
    EventTypeCreated: "event_type.created",
    EventTypeChanged: "event_type.changed",
    EventTypeDeleted: "event_type.deleted",
    EventTypeArchived: "event_type.archived",
    EventTypeUnarchived: "event_type.unarchived",
    EventErased: "event.erased",
    DeliveryRetried: "delivery.retried",
    DeliveryReplayed: "delivery.replayed",
    DeliveryCancelled: "delivery.cancelled",
    DeliveryClosed: "delivery.closed",
    DeliveryDeleted: "delivery.deleted",
    ReplayBegun: "replay.begun",
    ReplayPaused: "replay.paused",
    ReplayResumed: "replay.resumed",
    ReplayCancelled: "replay.cancelled",
}

impl AuditAction {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }
}

/// The names of the fields that differ between two versions of a document.
pub fn changed_fields<T: Serialize>(before: &T, after: &T) -> Vec<String> {
    let fields = |document: &T| match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (fields(before), fields(after));
    let mut names: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_action_name_parses_back() {
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::parse(action.name()), Some(*action));
        }
        assert_eq!(AuditAction::parse("app.exploded"), None);
    }

    #[test]
    fn changed_fields_lists_added_removed_and_different_fields() {
        let before = json!({ "kept": 1, "gone": 2, "other": [1] });
        let after = json!({ "kept": 1, "new": null, "other": [2] });
        assert_eq!(changed_fields(&before, &after), ["gone", "new", "other"]);
        assert!(changed_fields(&before, &before).is_empty());
    }
}

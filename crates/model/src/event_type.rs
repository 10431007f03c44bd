//! An event type of the catalogue: a description, a sample of its data, and the payload versions it can be sent in.
//!
//! `functions::EventType` is the record with its schemas compiled. A type that is not in the catalogue can still be published,
//! unless the operator forbids it: it is treated as one without versions.

use super::{id::EventTypeId, time::Timestamp};
use serde::{Deserialize, Serialize};

/// The version that a type without versions is sent in.
pub const ONLY_VERSION: &str = "1";

/// The form of a version's name, for error messages.
pub const VERSION_NAME_FORM: &str = "1 to 64 characters out of A-Z a-z 0-9 _ . -, for example \"2024-01-01\"";

pub fn is_version_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventTypeRecord {
    pub id: EventTypeId,
    pub name: String,
    pub document: EventTypeDocument,
    /// Grows with every change.
    pub revision: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The settings that an operator makes, stored as one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTypeDocument {
    #[serde(rename = "description", default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The data of an example event: JSON, as it was given.
    #[serde(rename = "sample", default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Oldest first; the last is the newest.
    #[serde(rename = "versions")]
    pub versions: Vec<VersionDocument>,
    /// Whether data that does not fit the schema is refused when it is published.
    #[serde(rename = "enforce_schema", default, skip_serializing_if = "std::ops::Not::not")]
    pub enforce_schema: bool,
    /// When it was archived: it cannot be published since then.
    #[serde(rename = "archived_at", default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
}

impl EventTypeDocument {
    /// Whether both mean the same. Ignores the spelling of the sample and the time of archiving.
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let read = |sample: &Option<String>| {
            sample.as_deref().and_then(|sample| serde_json::from_str::<serde_json::Value>(sample).ok())
        };
        let (own, others) = (&self.sample, &other.sample);
        let same_sample = own == others || read(own).is_some_and(|own| Some(own) == read(others));
        same_sample
            && self.archived_at.is_some() == other.archived_at.is_some()
            && (&self.description, &self.versions, self.enforce_schema)
                == (&other.description, &other.versions, other.enforce_schema)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionDocument {
    #[serde(rename = "name")]
    pub name: String,
    #[serde(rename = "description", default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<serde_json::Value>,
    /// JavaScript; see `crates/functions/src/payload_function.rs`.
    #[serde(rename = "function", default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

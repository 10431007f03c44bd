//! The operator's rules for publishing: unknown types, archived types, and schemas that data must fit.

use super::{
    event_type::EventType,
    payload_version::PayloadVersion,
    schema::{SchemaCheckError, SchemaMismatch},
};
use model::{field_error::FieldError, time::Timestamp};
use std::sync::Arc;

/// The reason why an event is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishRuleError {
    #[error("there is no event type \"{name}\" in the catalogue, and unknown ones are refused{}", suggestion(nearest.as_deref()))]
    Unknown { name: String, nearest: Option<String> },
    #[error("{name} is archived since {since}, and can be published no more")]
    Archived { name: String, since: Timestamp },
    #[error("{mismatch} ({name}, version {version})")]
    Mismatch { name: String, version: Arc<str>, mismatch: SchemaMismatch },
    #[error("could not be held against the schema in time ({name}, version {version})")]
    OutOfTime { name: String, version: Arc<str> },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default()
}

impl EventType {
    pub fn archived_at(&self) -> Option<Timestamp> {
        self.record.document.archived_at
    }

    /// Whether published data must be validated.
    pub fn is_enforced(&self) -> bool {
        self.enforced.is_some()
    }

    pub fn check_not_archived(&self) -> Result<(), PublishRuleError> {
        match self.archived_at() {
            None => Ok(()),
            Some(since) => Err(PublishRuleError::Archived { name: self.record.name.clone(), since }),
        }
    }

    /// Validates published data against the enforced schema, if there is one. Stops soon after `keep_going` returns false.
    pub fn validate(
        &self,
        data: &[u8],
        keep_going: impl FnMut() -> bool + 'static,
    ) -> Result<(), PublishRuleError> {
        let Some(enforced) = &self.enforced else { return Ok(()) };
        let (name, version) = (self.record.name.clone(), enforced.name.clone());
        enforced.check(data, keep_going).map_err(|unfit| match unfit {
            SchemaCheckError::Mismatch(cause) => {
                PublishRuleError::Mismatch { name, version, mismatch: cause }
            }
            SchemaCheckError::OutOfTime => PublishRuleError::OutOfTime { name, version },
        })
    }
}

/// Returns the version that published data must fit: the newest without a function, because that one is the data as published.
pub(super) fn find_enforced(versions: &[Arc<PayloadVersion>]) -> Result<Arc<PayloadVersion>, FieldError> {
    let as_published = versions.iter().rev().find(|version| !version.has_function());
    let message = "needs a schema: the newest version without a function must have one";
    let enforced = as_published.filter(|version| version.has_schema()).cloned();
    enforced.ok_or_else(|| FieldError::new("enforce_schema", message))
}

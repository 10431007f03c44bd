//! An event type with its schemas compiled, made once per change of its record.

#[cfg(test)]
mod tests;

use super::{payload_function, payload_version::PayloadVersion, publish_rules};
use model::{event_type::EventTypeRecord, field_error::FieldError, json, subscription::check_event_type};
use std::sync::Arc;

const VERSIONS_MAX: usize = 64;
const DESCRIPTION_BYTES_MAX: usize = 4096;
const SAMPLE_BYTES_MAX: usize = 64 * 1024;

/// An event type ready for use.
#[derive(Debug)]
pub struct EventType {
    pub record: EventTypeRecord,
    versions: Vec<Arc<PayloadVersion>>,
    /// The version that published data must fit.
    pub(super) enforced: Option<Arc<PayloadVersion>>,
}

impl EventType {
    /// Compiles a record and checks everything except that its functions work, which takes running them.
    pub fn compile(record: EventTypeRecord) -> Result<Self, FieldError> {
        check_event_type(&record.name).map_err(|message| FieldError::new("name", message))?;
        let document = &record.document;
        check_description("description", document.description.as_deref())?;
        if let Some(sample) = &document.sample {
            check_sample(sample)?;
        }
        if document.versions.len() > VERSIONS_MAX {
            return Err(FieldError::new("versions", format!("must be at most {VERSIONS_MAX}")));
        }
        let mut versions: Vec<Arc<PayloadVersion>> = Vec::with_capacity(document.versions.len());
        for (index, version) in document.versions.iter().enumerate() {
            let at = |field: &str| format!("versions[{index}].{field}");
            if versions.iter().any(|earlier| *earlier.name == *version.name) {
                return Err(FieldError::new(at("name"), "is the name of an earlier version too"));
            }
            if version.function.is_some() && document.sample.is_none() {
                let message = "is missing: a function is tried on it before it is saved";
                return Err(FieldError::new("sample", message));
            }
            check_description(&at("description"), version.description.as_deref())?;
            let compiled = PayloadVersion::compile(version);
            versions
                .push(Arc::new(compiled.map_err(|error| FieldError::new(at(&error.field), error.message))?));
        }
        let enforced =
            document.enforce_schema.then(|| publish_rules::find_enforced(&versions)).transpose()?;
        Ok(Self { record, versions, enforced })
    }

    /// Returns the versions, oldest first.
    pub fn versions(&self) -> &[Arc<PayloadVersion>] {
        &self.versions
    }

    pub fn version(&self, name: &str) -> Option<&Arc<PayloadVersion>> {
        self.versions.iter().find(|version| *version.name == *name)
    }

    pub fn newest(&self) -> Option<&Arc<PayloadVersion>> {
        self.versions.last()
    }

    /// Runs every function on the sample and validates each result against the version's schema. The sample itself must
    /// fit the enforced schema. Each run gets a clock of its own.
    pub fn try_on_sample<K: FnMut() -> bool + 'static>(
        &self,
        clock: impl Fn() -> K,
    ) -> Result<(), FieldError> {
        let Some(sample) = &self.record.document.sample else { return Ok(()) };
        for (index, version) in self.versions.iter().enumerate().filter(|(_, version)| version.has_function())
        {
            let tried = version.convert(sample.as_bytes(), clock());
            tried.map_err(|failed| FieldError::new(format!("versions[{index}].function"), failed))?;
        }
        self.validate(sample.as_bytes(), clock()).map_err(|broken| FieldError::new("sample", broken))
    }
}

fn check_description(field: &str, description: Option<&str>) -> Result<(), FieldError> {
    if description.is_none_or(|text| (1..=DESCRIPTION_BYTES_MAX).contains(&text.len())) {
        return Ok(());
    }
    Err(FieldError::new(field, format!("must be 1 to {DESCRIPTION_BYTES_MAX} bytes")))
}

fn check_sample(sample: &str) -> Result<(), FieldError> {
    let refused = |message: String| Err(FieldError::new("sample", message));
    if sample.len() > SAMPLE_BYTES_MAX {
        return refused(format!("must be at most {SAMPLE_BYTES_MAX} bytes of JSON"));
    }
    if json::is_too_deep(sample.as_bytes()) {
        return refused("is nested deeper than 128".into());
    }
    Ok(())
}

/// Checks that a function's source is small enough and has no NUL character.
pub(super) fn check_source(source: &str) -> Result<(), FieldError> {
    let most = payload_function::SOURCE_BYTES_MAX;
    if (1..=most).contains(&source.len()) && !source.contains('\0') {
        return Ok(());
    }
    Err(FieldError::new("function", format!("must be 1 to {most} bytes of JavaScript")))
}

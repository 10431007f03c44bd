//! A JSON Schema, compiled once and kept. It must be self-contained: references lead inside it, and nothing is fetched.
//! A check can be interrupted, because alternatives that refer to each other can take for ever on small data.

mod interrupt;
#[cfg(test)]
mod tests;

use jsonschema::{PatternOptions, ReferencingError, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// The limit on interrupt checks while a mismatch is located, as the library walks and collects all alternatives.
const DESCRIBE_CHECKS_MAX: u32 = 100;

#[derive(Debug)]
pub(super) struct Schema(Validator);

/// A mismatch between data and a schema: its JSON pointer and a message. Reveals nothing of the data itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("does not fit the schema at {path}: {message}")]
pub struct SchemaMismatch {
    pub path: String,
    pub message: String,
}

impl SchemaMismatch {
    fn of(error: &ValidationError<'_>) -> Self {
        Self { path: pointer(error), message: error.masked().to_string() }
    }
}

/// The reason why a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaCheckError {
    Mismatch(SchemaMismatch),
    /// The check was stopped.
    OutOfTime,
}

impl Schema {
    /// Compiles a schema. The error describes what is wrong with it.
    pub(super) fn compile(document: &Value) -> Result<Self, String> {
        if document.to_string().len() > SCHEMA_BYTES_MAX {
            return Err(format!("must be at most {SCHEMA_BYTES_MAX} bytes of JSON"));
        }
        // A pattern engine that takes linear time on any text.
        let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
        // Some drafts enforce `format`, others treat it as an annotation; here it is an annotation.
        let options = options.should_validate_formats(false);
        let options =
            options.with_keyword(interrupt::KEYWORD, |_, _, _| Ok(Box::new(interrupt::InterruptKeyword)));
        let built = options.build(&interrupt::insert_keyword(document));
        built.map(Self).map_err(|error| schema_error(&error))
    }

    /// Validates JSON against the schema. Stops soon after `keep_going` returns false.
    pub(super) fn check(
        &self,
        json: &[u8],
        keep_going: impl FnMut() -> bool + 'static,
    ) -> Result<(), SchemaCheckError> {
        let value = read(json).map_err(|error| {
            SchemaCheckError::Mismatch(SchemaMismatch {
                path: "/".into(),
                message: format!("cannot be read: {error}"),
            })
        })?;
        if interrupt::run_interruptible(keep_going, || self.0.is_valid(&value))
            .ok_or(SchemaCheckError::OutOfTime)?
        {
            return Ok(());
        }
        let mut left = DESCRIBE_CHECKS_MAX;
        let described = interrupt::run_interruptible(
            move || {
                left -= 1;
                left > 0
            },
            || self.0.validate(&value).err().map(|error| SchemaMismatch::of(&error)),
        );
        let nowhere =
            || SchemaMismatch { path: "/".into(), message: "fits none of too many alternatives".into() };
        Err(SchemaCheckError::Mismatch(described.flatten().unwrap_or_else(nowhere)))
    }
}

/// Parses JSON of up to 128 levels. The parser goes only 127 levels deep, so the outermost one is parsed separately.
fn read(json: &[u8]) -> serde_json::Result<Value> {
    let whole = serde_json::from_slice(json);
    match json.trim_ascii_start().first() {
        Some(b'[') if whole.is_err() => {
            let inner: Vec<&RawValue> = serde_json::from_slice(json)?;
            inner.into_iter().map(|inner| serde_json::from_str::<Value>(inner.get())).collect()
        }
        Some(b'{') if whole.is_err() => {
            let inner: BTreeMap<String, &RawValue> = serde_json::from_slice(json)?;
            let read = |(name, inner): (_, &RawValue)| Ok((name, serde_json::from_str(inner.get())?));
            inner.into_iter().map(read).collect::<serde_json::Result<_>>().map(Value::Object)
        }
        _ => whole,
    }
}

fn schema_error(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            format!("refers to \"{uri}\", which is outside of it; nothing is fetched, so put it under $defs")
        }
        ValidationErrorKind::Referencing(reference) => {
            format!("has a reference that leads nowhere: {reference}")
        }
        _ => format!("is no JSON Schema: {error} at {}", pointer(error)),
    }
}

fn pointer(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    if path.is_empty() { "/".to_owned() } else { path }
}

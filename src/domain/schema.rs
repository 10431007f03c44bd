//! A JSON Schema, compiled once and kept. It stands for itself: what it refers to must be inside it, nothing is fetched.
//! A check asks whether to go on, as alternatives that refer to each other can take for ever over small data.

mod question;
#[cfg(test)]
mod tests;

use jsonschema::{PatternOptions, ReferencingError, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

const BYTES_MAX: usize = 256 * 1024;
/// To say where data does not fit, all alternatives are gone through and kept: only so many.
const DESCRIBING_QUESTIONS_MAX: u32 = 100;

#[derive(Debug)]
pub struct Schema(Validator);

/// How data differs from a schema: where, as a JSON pointer, and in what. Says nothing of the data itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("does not fit the schema at {path}: {message}")]
pub struct Misfit {
    pub path: String,
    pub message: String,
}

impl Misfit {
    fn of(error: &ValidationError<'_>) -> Self {
        Self { path: pointer(error), message: error.masked().to_string() }
    }
}

/// Why a check did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    Misfit(Misfit),
    /// It was stopped.
    OutOfTime,
}

impl Schema {
    /// A refusal says what is wrong with the schema, in words.
    pub fn compile(document: &Value) -> Result<Self, String> {
        if document.to_string().len() > BYTES_MAX {
            return Err(format!("must be at most {BYTES_MAX} bytes of JSON"));
        }
        // Patterns that take time in proportion to the text, whatever the text is.
        let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
        // In some drafts a format is a rule, in others a remark; here it is a remark.
        let options = options.should_validate_formats(false);
        let options = options.with_keyword(question::KEYWORD, |_, _, _| Ok(Box::new(question::Question)));
        let built = options.build(&question::put_everywhere(document));
        built.map(Self).map_err(|error| refusal(&error))
    }

    /// Ends soon after `keep_going` says no.
    pub fn check(&self, json: &[u8], keep_going: impl FnMut() -> bool + 'static) -> Result<(), Unfit> {
        let value = read(json).map_err(|error| {
            Unfit::Misfit(Misfit { path: "/".into(), message: format!("cannot be read: {error}") })
        })?;
        if question::answered_by(keep_going, || self.0.is_valid(&value)).ok_or(Unfit::OutOfTime)? {
            return Ok(());
        }
        let mut left = DESCRIBING_QUESTIONS_MAX;
        let described = question::answered_by(
            move || {
                left -= 1;
                left > 0
            },
            || self.0.validate(&value).err().map(|error| Misfit::of(&error)),
        );
        let nowhere = || Misfit { path: "/".into(), message: "fits none of too many alternatives".into() };
        Err(Unfit::Misfit(described.flatten().unwrap_or_else(nowhere)))
    }
}

/// The reader goes 127 levels deep and data may have 128, so it gets the outermost one apart.
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

fn refusal(error: &ValidationError<'_>) -> String {
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

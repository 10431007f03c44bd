//! A JSON Schema, compiled once and kept. It stands for itself: what it refers to must be inside it, nothing is fetched.

use jsonschema::{PatternOptions, ReferencingError, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

const BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub struct Schema(Validator);

/// How data differs from a schema: where, as a JSON pointer, and in what. Says nothing of the data itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("does not fit the schema at {path}: {message}")]
pub struct Misfit {
    pub path: String,
    pub message: String,
}

impl Schema {
    /// A refusal says what is wrong with the schema, in words.
    pub fn compile(document: &Value) -> Result<Self, String> {
        if document.to_string().len() > BYTES_MAX {
            return Err(format!("must be at most {BYTES_MAX} bytes of JSON"));
        }
        // Patterns that take time in proportion to the text, whatever the text is.
        let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
        options.build(document).map(Self).map_err(|error| refusal(&error))
    }

    pub fn check(&self, json: &[u8]) -> Result<(), Misfit> {
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| Misfit { path: "/".into(), message: format!("cannot be read: {error}") })?;
        self.0
            .validate(&value)
            .map_err(|error| Misfit { path: pointer(&error), message: error.masked().to_string() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn misfit(schema: &Value, data: &str) -> Option<String> {
        Schema::compile(schema).unwrap().check(data.as_bytes()).err().map(|misfit| misfit.to_string())
    }

    #[test]
    fn a_misfit_says_where_and_in_what_but_not_the_value() {
        let schema = json!({ "required": ["id"], "properties": { "amount": { "type": "number" } } });
        assert_eq!(misfit(&schema, r#"{"id":1,"amount":1.5}"#), None);
        assert_eq!(
            misfit(&schema, r#"{"id":1,"amount":"a secret"}"#).unwrap(),
            "does not fit the schema at /amount: value is not of type \"number\""
        );
        assert_eq!(
            misfit(&schema, "{}").unwrap(),
            "does not fit the schema at /: \"id\" is a required property"
        );
        assert!(misfit(&schema, "{").unwrap().contains("cannot be read"));
    }

    #[test]
    fn a_reference_to_anything_outside_is_refused_by_its_address() {
        for outside in ["https://example.com/x.json", "file:///etc/passwd", "other.json"] {
            let refused =
                Schema::compile(&json!({ "properties": { "a": { "$ref": outside } } })).unwrap_err();
            assert!(refused.starts_with(&format!("refers to \"{outside}\"")), "{refused}");
        }
        let refused = Schema::compile(&json!({ "$ref": "#/$defs/nobody" })).unwrap_err();
        assert!(refused.starts_with("has a reference that leads nowhere"), "{refused}");
        let inside = json!({ "$defs": { "money": { "type": "integer" } }, "$ref": "#/$defs/money" });
        assert_eq!(misfit(&inside, "5"), None);
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        for endless in [
            json!({ "$ref": "#" }),
            json!({ "allOf": [{ "$ref": "#" }] }),
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }),
        ] {
            let _ = Schema::compile(&endless).map(|schema| schema.check(b"1"));
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_by_its_place() {
        let refused = Schema::compile(&json!({ "properties": { "a": { "type": "numbr" } } })).unwrap_err();
        assert!(
            refused.starts_with("is no JSON Schema") && refused.contains("/properties/a/type"),
            "{refused}"
        );
        for bad in [
            json!(5),
            json!("x"),
            json!({ "pattern": "(" }),
            json!({ "$schema": "https://example.com/mine" }),
        ] {
            assert!(Schema::compile(&bad).is_err(), "{bad}");
        }
        assert!(
            Schema::compile(&json!({ "description": "x".repeat(BYTES_MAX) }))
                .unwrap_err()
                .contains("at most")
        );
    }
}

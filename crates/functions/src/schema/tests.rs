//! Tests of JSON Schemas: matching data, mismatches and their messages, and that every check ends.

use super::*;
use serde_json::json;

fn mismatch(schema: &Value, data: &str) -> Option<String> {
    match Schema::compile(schema).unwrap().check(data.as_bytes(), || true) {
        Ok(()) => None,
        Err(SchemaCheckError::Mismatch(mismatch)) => Some(mismatch.to_string()),
        Err(SchemaCheckError::OutOfTime) => panic!("the check was not stopped"),
    }
}

#[test]
fn a_mismatch_names_the_path_and_the_rule_but_not_the_value() {
    let schema = json!({ "required": ["id"], "properties": { "amount": { "type": "number" } } });
    assert_eq!(mismatch(&schema, r#"{"id":1,"amount":1.5}"#), None);
    assert_eq!(
        mismatch(&schema, r#"{"id":1,"amount":"a secret"}"#).unwrap(),
        "does not fit the schema at /amount: value is not of type \"number\""
    );
    assert_eq!(
        mismatch(&schema, "{}").unwrap(),
        "does not fit the schema at /: \"id\" is a required property"
    );
    assert!(mismatch(&schema, "{").unwrap().contains("cannot be read"));
}

#[test]
fn an_external_reference_is_refused_with_its_uri() {
    for outside in ["https://example.com/x.json", "file:///etc/passwd", "other.json"] {
        let refused = Schema::compile(&json!({ "properties": { "a": { "$ref": outside } } })).unwrap_err();
        assert!(refused.starts_with(&format!("refers to \"{outside}\"")), "{refused}");
    }
    let refused = Schema::compile(&json!({ "$ref": "#/$defs/nobody" })).unwrap_err();
    assert!(refused.starts_with("has a reference that leads nowhere"), "{refused}");
    let inside = json!({ "$defs": { "money": { "type": "integer" } }, "$ref": "#/$defs/money" });
    assert_eq!(mismatch(&inside, "5"), None);
}

/// If the check does not end, this test hangs or overflows the stack; it cannot fail otherwise.
#[test]
fn a_schema_that_refers_to_itself_comes_to_an_end() {
    for endless in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }),
    ] {
        let checked = Schema::compile(&endless).map(|schema| schema.check(b"1", || true));
        assert!(matches!(checked, Err(_) | Ok(Ok(()))), "{endless}: {checked:?}");
    }
}

#[test]
fn an_invalid_schema_is_refused_with_its_path() {
    let refused = Schema::compile(&json!({ "properties": { "a": { "type": "numbr" } } })).unwrap_err();
    assert!(refused.starts_with("is no JSON Schema") && refused.contains("/properties/a/type"), "{refused}");
    for bad in
        [json!(5), json!("x"), json!({ "pattern": "(" }), json!({ "$schema": "https://example.com/mine" })]
    {
        assert!(Schema::compile(&bad).is_err(), "{bad}");
    }
    assert!(
        Schema::compile(&json!({ "description": "x".repeat(SCHEMA_BYTES_MAX) }))
            .unwrap_err()
            .contains("at most")
    );
}

/// Returns thirty levels of two alternatives, each of which leads to the next two: a thousand million ways to mismatch.
fn exponential() -> Value {
    let mut defs = json!({ "a0": { "type": "string" } });
    for n in 1..=30 {
        let next = format!("#/$defs/a{}", n - 1);
        defs[format!("a{n}")] = json!({ "anyOf": [{ "$ref": next }, { "$ref": next }] });
    }
    json!({ "$defs": defs, "$ref": "#/$defs/a30" })
}

#[test]
fn an_endless_check_is_stopped_without_affecting_the_next() {
    for draft in ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"] {
        let mut schema = exponential();
        schema["$schema"] = json!(draft);
        if draft.contains("07") {
            // In that draft a reference stands alone.
            schema["allOf"] = json!([{ "$ref": schema["$ref"] }]);
            schema.as_object_mut().unwrap().remove("$ref");
        }
        let schema = Schema::compile(&schema).unwrap();
        let mut left = 20;
        let stopped = schema.check(b"1", move || {
            left -= 1;
            left > 0
        });
        assert_eq!(stopped, Err(SchemaCheckError::OutOfTime), "{draft}");
        assert_eq!(schema.check(br#""x""#, || true), Ok(()), "{draft}");
    }
}

/// The schema checks each level twice: without a limit this test hangs.
#[test]
fn checking_each_level_of_deep_data_twice_ends() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let all =
        json!({ "allOf": [{ "items": { "$ref": "#" } }, { "items": { "$ref": "#" } }, { "type": "array" }] });
    let any = json!({ "anyOf": [{ "items": { "$ref": "#" }, "minItems": 1 }, { "items": { "$ref": "#" }, "minItems": 2 }] });
    for schema in [all, any] {
        let mut left = 1000;
        let checked = Schema::compile(&schema).unwrap().check(deep.as_bytes(), move || {
            left -= 1;
            left > 0
        });
        assert!(
            !matches!(checked, Err(SchemaCheckError::Mismatch(mismatch)) if mismatch.message.contains("read")),
            "{schema}"
        );
    }
}

#[test]
fn the_inserted_keyword_does_not_change_the_schema() {
    let only = json!({ "const": { "a": { "b": 1 } }, "additionalProperties": { "type": "object" } });
    assert_eq!(mismatch(&only, r#"{"a":{"b":1}}"#), None);
    let one_of = json!({ "enum": [{ "a": 1 }, [{ "b": 1 }]] });
    assert_eq!(mismatch(&one_of, r#"[{"b":1}]"#), None);
    let named = json!({ "properties": { "const": { "type": "number" }, "enum": { "type": "string" } }, "additionalProperties": false });
    assert_eq!(mismatch(&named, r#"{"const":1,"enum":"x"}"#), None);
    assert!(mismatch(&named, r#"{"const":"1"}"#).unwrap().contains("/const"));
    assert!(mismatch(&named, r#"{"other":1}"#).unwrap().contains("other"));
    let old = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "dependencies": { "a": ["b"], "c": { "required": ["d"] } } });
    assert_eq!(mismatch(&old, r#"{"a":1,"b":1}"#), None);
    assert!(mismatch(&old, r#"{"c":1}"#).is_some() && mismatch(&old, r#"{"a":1}"#).is_some());
}

#[test]
fn a_format_only_describes_in_every_draft() {
    for draft in ["draft-04", "draft-06", "draft-07"] {
        let schema = format!("http://json-schema.org/{draft}/schema#");
        assert_eq!(
            mismatch(&json!({ "$schema": schema, "format": "email" }), r#""no address""#),
            None,
            "{draft}"
        );
    }
    assert_eq!(mismatch(&json!({ "format": "email" }), r#""no address""#), None);
}

#[test]
fn data_as_deep_as_an_event_may_be_can_be_read() {
    let lists = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for levels in [1, 127, 128] {
        for data in [lists(levels), objects(levels)] {
            assert_eq!(mismatch(&json!({}), &data), None, "{levels}");
            assert!(mismatch(&json!({ "type": "number" }), &data).is_some());
        }
    }
    for data in [lists(129), objects(129)] {
        assert!(mismatch(&json!({}), &data).unwrap().contains("cannot be read"));
    }
}

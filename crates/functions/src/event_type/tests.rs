//! Tests of event types: valid and invalid documents, and the version that an endpoint gets.

use super::*;
use crate::{Catalogue, PinnedVersion, PublishRuleError};
use model::{event_type::EventTypeDocument, id::EventTypeId, time::Timestamp};
use serde_json::json;

fn record(mut document: serde_json::Value) -> EventTypeRecord {
    document.as_object_mut().unwrap().entry("versions").or_insert_with(|| json!([]));
    let now = Timestamp::from_millis(0);
    EventTypeRecord {
        id: EventTypeId::from_i64(1),
        name: "payment.created".into(),
        document: serde_json::from_value(document).unwrap(),
        revision: 1,
        created_at: now,
        updated_at: now,
    }
}

fn compile(document: serde_json::Value) -> Result<EventType, FieldError> {
    EventType::compile(record(document))
}

/// Compiles a document and tries it on its sample; each run ends at its thousandth interrupt check.
fn saved(document: serde_json::Value) -> Result<EventType, FieldError> {
    let event_type = compile(document)?;
    event_type.try_on_sample(|| {
        let mut left = 1000;
        move || {
            left -= 1;
            left > 0
        }
    })?;
    Ok(event_type)
}

#[test]
fn invalid_fields_are_named() {
    let version = |more: serde_json::Value| json!({ "sample": "{}", "versions": [{ "name": "1" }, more] });
    let long = "x".repeat(70_000);
    for (document, field) in [
        (version(json!({ "name": "a b" })), "versions[1].name"),
        (version(json!({ "name": "" })), "versions[1].name"),
        (version(json!({ "name": "1" })), "versions[1].name"),
        (version(json!({ "name": "2", "function": "" })), "versions[1].function"),
        (version(json!({ "name": "2", "function": long })), "versions[1].function"),
        (version(json!({ "name": "2", "function": "a\u{0}" })), "versions[1].function"),
        (version(json!({ "name": "2", "schema": { "type": 5 } })), "versions[1].schema"),
        (version(json!({ "name": "2", "description": long })), "versions[1].description"),
        (json!({ "description": "" }), "description"),
        (json!({ "sample": long }), "sample"),
        (json!({ "sample": format!("{}{}", "[".repeat(129), "]".repeat(129)) }), "sample"),
        (json!({ "versions": [{ "name": "1", "function": "data => data" }] }), "sample"),
        (
            json!({ "versions": (0..65).map(|n| json!({ "name": n.to_string() })).collect::<Vec<_>>() }),
            "versions",
        ),
    ] {
        assert_eq!(compile(document.clone()).unwrap_err().field, field, "{document:.200}");
    }
    let reserved = EventTypeRecord { name: "webhook.test".into(), ..record(json!({})) };
    assert_eq!(EventType::compile(reserved).unwrap_err().field, "name");
    for name in ["2024-01-01", "v2.1_beta", "A", &"x".repeat(64)] {
        assert!(compile(json!({ "versions": [{ "name": name }] })).is_ok(), "{name}");
    }
}

#[test]
fn a_function_that_fails_on_the_sample_is_refused_with_its_index_and_line() {
    let with = |function: &str, schema: serde_json::Value| {
        saved(json!({ "sample": r#"{"amount":5}"#, "versions": [
            { "name": "1" }, { "name": "2", "function": function, "schema": schema },
        ] }))
    };
    let number = json!({ "properties": { "amount": { "type": "number" } } });
    assert!(with("d => ({ amount: d.amount })", number.clone()).is_ok());
    for (function, expected) in [
        ("d => {\n  return d.x.y\n}", "line 2, column 10: TypeError"),
        ("d => {", "SyntaxError"),
        ("d => ({ amount: String(d.amount) })", "the result does not fit the schema at /amount"),
        ("d => { for (;;); }", "did not finish in time"),
    ] {
        let refused = with(function, number.clone()).unwrap_err();
        assert_eq!(refused.field, "versions[1].function");
        assert!(refused.message.contains(expected), "{refused}");
    }
}

fn catalogue(document: serde_json::Value) -> Catalogue {
    Catalogue::default().with(&[Arc::new(compile(document).unwrap())])
}

#[test]
fn an_unknown_pinned_version_is_refused_with_the_known_ones() {
    let types = catalogue(json!({ "sample": "1", "versions": [
        { "name": "2023-01-01", "function": "d => d" }, { "name": "2024-01-01" }, { "name": "2025-01-01", "schema": {} },
    ] }));
    let pinned = |event_type, version| types.pinned(event_type, version);
    let is_converted =
        |version| matches!(pinned("payment.created", version), Ok(PinnedVersion::Converted(_)));
    assert!(is_converted("2023-01-01") && is_converted("2025-01-01") && !is_converted("2024-01-01"));
    assert!(
        matches!(pinned("payment.created", "2024-01-01"), Ok(PinnedVersion::AsPublished(name)) if *name == *"2024-01-01")
    );
    assert_eq!(
        pinned("payment.created", "1").unwrap_err().to_string(),
        "payment.created has no payload version 1; it has 2023-01-01, 2024-01-01, 2025-01-01"
    );
    assert_eq!(types.newest("payment.created").map(|name| &**name), Some("2025-01-01"));
}

#[test]
fn types_without_versions_and_unknown_types_have_version_1() {
    let types = catalogue(json!({}));
    for event_type in ["payment.created", "refund.created"] {
        assert!(matches!(types.pinned(event_type, "1"), Ok(PinnedVersion::AsPublished(_))));
        let refused = types.pinned(event_type, "2024-01-01").unwrap_err().to_string();
        assert_eq!(refused, format!("{event_type} has no payload version 2024-01-01; it has 1"));
        assert_eq!(types.newest(event_type), None);
    }
}

#[test]
fn a_version_without_a_function_validates_the_data_as_published() {
    let types = catalogue(json!({ "versions": [{ "name": "1", "schema": { "type": "object" } }] }));
    let Ok(PinnedVersion::Converted(version)) = types.pinned("payment.created", "1") else { panic!() };
    let as_given = br#"{ "a": 1.0, "big": 12345678901234567890 }"#;
    assert_eq!(version.convert(as_given, || true).unwrap(), as_given, "byte for byte");
    let refused = version.convert(b"[]", || true).unwrap_err();
    assert_eq!(refused.to_string(), "the data does not fit the schema at /: value is not of type \"object\"");
}

#[test]
fn removed_types_leave_the_catalogue_and_order_of_creation_stays() {
    let named = |id, name: &str| {
        let record =
            EventTypeRecord { id: EventTypeId::from_i64(id), name: name.into(), ..record(json!({})) };
        Arc::new(EventType::compile(record).unwrap())
    };
    let types = Catalogue::default().with(&[named(2, "a"), named(1, "b")]).with(&[named(2, "a")]);
    let names =
        |types: &Catalogue| types.all().iter().map(|known| known.record.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&types), ["b", "a"]);
    assert_eq!(names(&types.without("b")), ["a"]);
    assert!(types.without("b").without("a").is_empty() && types.len() == 2);
}

fn without_time_limit() -> impl FnMut() -> bool + 'static {
    || true
}

#[test]
fn the_newest_version_without_a_function_is_enforced() {
    let integer = json!({ "properties": { "n": { "type": "integer" } } });
    let text = json!({ "properties": { "n": { "type": "string" } } });
    let versions = json!([
        { "name": "1", "schema": { "type": "array" } },
        { "name": "2", "schema": integer },
        { "name": "3", "schema": text, "function": "d => ({ n: String(d.n) })" },
    ]);
    let enforced =
        compile(json!({ "sample": "{\"n\":1}", "versions": versions, "enforce_schema": true })).unwrap();
    assert!(enforced.is_enforced());
    assert_eq!(enforced.validate(br#"{"n":5}"#, without_time_limit()), Ok(()));
    let refused = enforced.validate(br#"{"n":"5"}"#, without_time_limit()).unwrap_err().to_string();
    let said = "does not fit the schema at /n: value is not of type \"integer\" (payment.created, version 2)";
    assert_eq!(refused, said);
    let free = compile(json!({ "sample": "{}", "versions": versions })).unwrap();
    assert!(!free.is_enforced());
    assert_eq!(free.validate(b"not even JSON", without_time_limit()), Ok(()), "it is not looked at");
    for unenforceable in [
        json!([]),
        json!([{ "name": "1", "schema": {} }, { "name": "2" }]),
        json!([{ "name": "1", "schema": {}, "function": "d => d" }]),
    ] {
        let document = json!({ "sample": "1", "versions": unenforceable, "enforce_schema": true });
        assert_eq!(compile(document).unwrap_err().field, "enforce_schema", "{unenforceable}");
    }
}

#[test]
fn a_sample_that_could_not_be_published_is_refused_where_the_schema_is_enforced() {
    let with = |enforce: bool| {
        let versions = json!([{ "name": "1", "schema": { "required": ["id"] } }]);
        saved(json!({ "sample": "{}", "versions": versions, "enforce_schema": enforce }))
    };
    assert!(with(false).is_ok());
    let refused = with(true).unwrap_err();
    assert_eq!(refused.field, "sample");
    assert!(refused.message.contains("\"id\" is a required property"), "{refused}");
}

#[test]
fn a_check_that_takes_for_ever_is_stopped_and_refused() {
    // Thirty levels of two alternatives, each of which leads to the next two: a thousand million ways to mismatch.
    let mut defs = json!({ "a0": { "type": "string" } });
    for n in 1..=30 {
        let next = format!("#/$defs/a{}", n - 1);
        defs[format!("a{n}")] = json!({ "anyOf": [{ "$ref": next }, { "$ref": next }] });
    }
    let schema = json!({ "$defs": defs, "$ref": "#/$defs/a30" });
    let known = compile(json!({ "versions": [{ "name": "1", "schema": schema }], "enforce_schema": true }));
    let mut left = 1000;
    let stopped = known.unwrap().validate(b"1", move || {
        left -= 1;
        left > 0
    });
    assert!(matches!(stopped, Err(PublishRuleError::OutOfTime { .. })), "{stopped:?}");
}

#[test]
fn an_archived_type_is_refused_with_its_date_and_never_suggested() {
    let archived = json!({ "archived_at": 86_400_000 });
    let types = catalogue(archived);
    let known = types.get("payment.created").unwrap();
    assert_eq!(
        known.check_not_archived().unwrap_err().to_string(),
        "payment.created is archived since 1970-01-02T00:00:00.000Z, and can be published no more"
    );
    assert_eq!(types.nearest("payment.create"), None);
    let types = catalogue(json!({}));
    assert_eq!(types.nearest("payment.creatd"), Some("payment.created"));
    assert_eq!(types.nearest("invoice.sent"), None);
}

#[test]
fn documents_that_differ_only_in_spelling_are_equivalent() {
    let document = |sample: &str, archived_at: serde_json::Value| -> EventTypeDocument {
        let document = json!({ "sample": sample, "archived_at": archived_at, "versions": [{ "name": "1" }] });
        serde_json::from_value(document).unwrap()
    };
    let one = document(r#"{ "a": 1.0e3, "b": [] }"#, json!(5));
    assert!(one.is_equivalent_to(&document(r#"{"b":[],"a":1000.0}"#, json!(7))));
    for other in
        [document(r#"{"b":[],"a":1001.0}"#, json!(5)), document(r#"{"b":[],"a":1000.0}"#, json!(null))]
    {
        assert!(!one.is_equivalent_to(&other), "{other:?}");
    }
    let enforced = EventTypeDocument { enforce_schema: true, ..one.clone() };
    assert!(!one.is_equivalent_to(&enforced));
}

//! Tests of the sorted form against expected strings, and properties of everything written and searched.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn sorted(json: &str) -> Option<String> {
    let mut out = Vec::new();
    write_sorted(&mut out, json.as_bytes())?;
    Some(String::from_utf8(out).unwrap())
}

#[test]
fn keys_are_sorted_by_code_point_at_every_depth() {
    let given = r#" { "b" : [ { "z" : 1 , "a" : 2 } , [ ] ] , "B" : { } , "" : null , "a" : true } "#;
    assert_eq!(sorted(given).unwrap(), r#"{"":null,"B":{},"a":true,"b":[{"a":2,"z":1},[]]}"#);
    // U+FF5E sorts before U+1F600 by code point; in UTF-16 it would be the other way round.
    assert_eq!(
        sorted(r#"{"😀":1,"～":2,"é":3,"z":4}"#).unwrap(),
        r#"{"z":4,"\u00e9":3,"\uff5e":2,"\ud83d\ude00":1}"#
    );
    assert_eq!(
        sorted(r#"{"\ue000":1,"\ud800":2,"\ud7ff":3}"#).unwrap(),
        r#"{"\ud7ff":3,"\ud800":2,"\ue000":1}"#
    );
}

#[test]
fn escapes_are_those_of_python() {
    let cases = [
        (r#""é ü ß""#, r#""\u00e9 \u00fc \u00df""#),
        (r#""😀""#, r#""\ud83d\ude00""#),
        (r#""\uD83D\uDE00 \u00E9 \/ \u0041""#, r#""\ud83d\ude00 \u00e9 / A""#),
        (r#""\b\f\n\r\t\"\\ \u0000\u001f""#, r#""\b\f\n\r\t\"\\ \u0000\u001f""#),
        ("\"\u{7f}\u{2028}\"", r#""\u007f\u2028""#),
        (r#""\ud800""#, r#""\ud800""#),
        (r#""\ud83d\ud83d\ude00\ude00""#, r#""\ud83d\ud83d\ude00\ude00""#),
    ];
    for (given, expected) in cases {
        assert_eq!(sorted(given).as_deref(), Some(expected), "{given}");
    }
}

#[test]
fn numbers_stay_as_given() {
    let numbers = "[1.0,1e5,1E+05,-0,-0.0,123456789012345678901234567890,0.1000,1e400]";
    assert_eq!(sorted(numbers).as_deref(), Some(numbers));
}

#[test]
fn the_last_of_duplicate_keys_is_kept() {
    assert_eq!(
        sorted(r#"{"a":1,"b":2,"a":3,"\u0061":4,"c":{"x":1,"x":2}}"#).unwrap(),
        r#"{"a":4,"b":2,"c":{"x":2}}"#
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(sorted(&nested(128)), Some(nested(128)));
    assert_eq!(sorted(&nested(129)), None);
    assert_eq!(sorted(&"[".repeat(1_000_000)), None);
}

#[test]
fn input_that_is_not_json_is_refused() {
    for bad in [
        "",
        "{",
        "{}x",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "[1 2]",
    ] {
        assert_eq!(sorted(bad), None, "{bad}");
    }
}

#[test]
fn a_member_is_found_in_any_spelling_but_only_at_the_top() {
    let has = |object: &str| has_member(object_interior(object.as_bytes()).unwrap(), "event");
    for taken in [
        r#"{"event":1}"#,
        r#" { "a" : [1,{}] , "event" : 1 } "#,
        r#"{"\u0065vent":1}"#,
        r#"{"a":"\"","event":1}"#,
    ] {
        assert!(has(taken), "{taken}");
    }
    for free in [
        "{}",
        r#"{"Event":1}"#,
        r#"{"a":"event"}"#,
        r#"{"a":{"event":1}}"#,
        r#"{"a":[{"event":1},"event"],"b":"event"}"#,
        r#"{"a":"\",\"event\":1"}"#,
        r#"{"\\u0065vent":1}"#,
    ] {
        assert!(!has(free), "{free}");
    }
    for other in ["[]", "1", "\"{}\"", "null", ""] {
        assert_eq!(object_interior(other.as_bytes()), None, "{other}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

#[test]
fn too_deep_nesting_is_found_and_brackets_in_strings_do_not_count() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(!is_too_deep(nested(128).as_bytes()) && is_too_deep(nested(129).as_bytes()));
    assert!(is_too_deep(nested(400_000).as_bytes()));
    let flat = format!(r#"[{}"\"[[[[",{{}}]"#, "[],".repeat(300));
    assert!(!is_too_deep(flat.as_bytes()));
}

fn depth_of(value: &Value) -> u32 {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

proptest! {
    #[test]
    fn depth_agrees_with_a_parser(value in any_json(), pad in "[\\[{\\\\\"]{0,8}") {
        let value = serde_json::json!([value, pad]);
        prop_assert_eq!(depth(value.to_string().as_bytes()), depth_of(&value));
    }

    #[test]
    fn a_written_string_reads_back(text: String) {
        for write in [write_string, write_ascii_string] {
            let mut out = Vec::new();
            write(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text.clone());
        }
    }

    #[test]
    fn the_sorted_form_is_the_same_value_in_ascii_and_its_own_sorted_form(value in any_json()) {
        let once = sorted(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
        prop_assert!(once.is_ascii());
        prop_assert_eq!(&serde_json::from_str::<Value>(&once).unwrap(), &value);
        prop_assert_eq!(sorted(&once), Some(once));
    }

    #[test]
    fn no_input_makes_it_panic(junk in prop::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]{}:,\"\\\\u0a1 ]{0,40}") {
        for input in [&junk[..], text.as_bytes()] {
            write_sorted(&mut Vec::new(), input);
            has_member(input, "event");
            is_too_deep(input);
        }
    }
}

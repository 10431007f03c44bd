//! Tests of payload functions: what they may do, what is refused, and the messages.

mod limits;

use super::*;
use proptest::prelude::*;
use serde_json::Value as Json;

/// Runs a function with more interrupt checks than any test can reach.
fn run_it(source: &str, data: &str) -> Result<String, FunctionError> {
    run_within(source, data, 2000)
}

/// Runs a function and stops it after this many interrupt checks, which come every ten thousand steps or so.
fn run_within(source: &str, data: &str, questions: u32) -> Result<String, FunctionError> {
    let mut left = questions;
    let keep_going = move || {
        left = left.saturating_sub(1);
        left > 0
    };
    let made = run(source, data.as_bytes(), &FunctionLimits::default(), keep_going)?;
    Ok(String::from_utf8(made).unwrap())
}

fn error_of(source: &str) -> String {
    run_it(source, "{}").unwrap_err().to_string()
}

#[test]
fn a_function_in_any_spelling_makes_json_of_json() {
    let data = r#"{"id":7,"amount":{"value":1250,"currency":"EUR"}}"#;
    for source in [
        "data => ({ id: data.id, amount: data.amount.value })",
        "function (data) { return { id: data.id, amount: data.amount.value } }",
        "function convert(data) {\n  return { id: data.id, amount: data.amount.value };\n};\n",
        "({ id, amount: { value } }) => ({ id, amount: value }) // the comment at the end",
        "// a comment before\n(() => { const key = 'value'; return d => ({ id: d.id, amount: d.amount[key] }) })();",
    ] {
        assert_eq!(run_it(source, data).unwrap(), r#"{"id":7,"amount":1250}"#, "{source}");
    }
    assert_eq!(run_it("data => null", "1").unwrap(), "null");
    assert_eq!(run_it("data => data", r#""é\ud800<\u2028""#).unwrap(), "\"é\\ud800<\u{2028}\"");
    assert_eq!(
        run_it("d => ({ ...d, t: /^(\\w+)@/.exec(d.m)[1], s: [...new Set([1, 1, 2])] })", r#"{"m":"a@b"}"#)
            .unwrap(),
        r#"{"m":"a@b","t":"a","s":[1,2]}"#
    );
}

#[test]
fn errors_name_the_author_s_line_and_column() {
    for (source, expected) in [
        (
            "data => {\n  const x = 1;\n  return data.a.b;\n}",
            "line 3, column 10: TypeError: cannot read property 'b' of undefined",
        ),
        ("data => x", "line 1, column 9: ReferenceError: x is not defined"),
        ("\n\ndata => x", "line 3, column 9: ReferenceError: x is not defined"),
        (
            "data => {\n  const x = ;\n}",
            "line 2, column 13: SyntaxError: unexpected token in expression: ';'",
        ),
        ("data => {\n  leaked = 1;\n}", "line 2, column 3: ReferenceError: leaked is not defined"),
        ("data => {\n\n  throw new Error('no such currency');\n}", "line 3, column 13: no such currency"),
    ] {
        assert_eq!(error_of(source), expected, "{source}");
    }
    let unfinished = run_it("data => {\n  return {\n", "{}").unwrap_err();
    assert_eq!((unfinished.line, unfinished.column), (Some(2), None), "{unfinished}");
}

#[test]
fn a_source_without_a_function_or_json_result_is_refused_with_a_message() {
    for (source, expected) in [
        ("", "SyntaxError"),
        ("5", "must be one function"),
        ("({ a: 1 })", "must be one function"),
        ("data => undefined", "returned undefined, which is no JSON"),
        ("data => {}", "returned undefined, which is no JSON"),
        ("data => data => 1", "returned a function, which is no JSON"),
        ("data => Symbol()", "returned a symbol, which is no JSON"),
        ("async data => data", "returned a promise"),
        ("data => import('fs')", "returned a promise"),
        ("data => NaN", "the result is NaN, which JSON cannot hold"),
        (
            "data => ({ amount: data.amount * 100 })",
            "the result's member \"amount\" is NaN, which JSON cannot hold",
        ),
        ("data => [[-1 / 0]]", "is -Infinity, which JSON cannot hold"),
        ("data => 10n", "BigInt"),
        ("data => { const a = {}; a.a = a; return a }", "circular reference"),
        ("data => { throw 'just text' }", "just text"),
        ("data => { throw 5 }", "threw 5"),
        ("data => { throw null }", "threw null"),
        ("data => { throw undefined }", "threw undefined"),
        ("data => { throw { toString() { throw 1 } } }", "threw something that is no Error"),
        ("data => { const e = new Error(); e.message = 'x'.repeat(1e6); throw e }", "xxx"),
    ] {
        let said = error_of(source);
        assert!(said.contains(expected) && said.len() < 1000, "{source}: {said:.400}");
    }
}

#[test]
fn runs_do_not_affect_each_other() {
    let spoil = "data => { globalThis.seen = 1; JSON.stringify = () => '0'; Array.prototype.map = null; \
        Object.prototype.toJSON = function () { return 'spoilt' }; Object.prototype.a = 1; return {} }";
    assert_eq!(run_it(spoil, "{}").unwrap(), "\"spoilt\"", "its own result it may spoil");
    let look = "data => ({ seen: typeof seen, list: [1].map(x => x + 1), a: {}.a === undefined, text: JSON.stringify(data) })";
    assert_eq!(run_it(look, "{}").unwrap(), r#"{"seen":"undefined","list":[2],"a":true,"text":"{}"}"#);
}

#[test]
fn getters_and_to_json_are_followed_and_a_proto_key_is_only_a_key() {
    let source = "d => ({ get a() { return 1 }, b: { toJSON: () => 'j' }, c: d })";
    let data = r#"{"__proto__":{"x":1},"constructor":2,"toJSON":3}"#;
    assert_eq!(
        run_it(source, data).unwrap(),
        r#"{"a":1,"b":"j","c":{"__proto__":{"x":1},"constructor":2,"toJSON":3}}"#
    );
    assert_eq!(
        run_it("d => [d.x, Object.keys(d).length]", data).unwrap(),
        "[null,3]",
        "no prototype was set"
    );
}

#[test]
fn numbers_that_javascript_would_change_are_refused_before_it_sees_them() {
    let refused = run_it("data => data", r#"{"id":12345678901234567890}"#).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the data has the number 12345678901234567890, which JavaScript would change; send it as a string"
    );
    assert_eq!(
        run_it("data => data", r#"[1.0,1e5,0.1,-0,"12345678901234567890"]"#).unwrap(),
        r#"[1,100000,0.1,0,"12345678901234567890"]"#
    );
}

/// The globals that a function finds. An addition to this list must not reveal time or randomness, nor reach anything
/// outside the sandbox.
const GLOBALS: &[&str] = &[
    "AggregateError",
    "Array",
    "BigInt",
    "Boolean",
    "DisposableStack",
    "Error",
    "EvalError",
    "Function",
    "Infinity",
    "InternalError",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "WeakMap",
    "WeakSet",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "eval",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "undefined",
    "unescape",
];

#[test]
fn a_function_can_reach_neither_time_nor_randomness() {
    let names = run_it("data => Object.getOwnPropertyNames(globalThis).sort()", "{}").unwrap();
    let names: Vec<String> = serde_json::from_str(&names).unwrap();
    assert_eq!(names, GLOBALS);
    let gone = "data => [typeof Math.random, typeof Date, typeof performance, typeof WeakRef, typeof console, \
        typeof setTimeout, typeof require, typeof Function('return this')().Date]";
    let gone: Vec<String> = serde_json::from_str(&run_it(gone, "{}").unwrap()).unwrap();
    assert!(gone.iter().all(|kind| kind == "undefined"), "{gone:?}");
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-9_007_199_254_740_991i64..9_007_199_254_740_991).prop_map(Json::from),
        proptest::num::f64::NORMAL.prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn passing_data_through_does_not_change_it(value in any_json()) {
        let made = run_it("data => data", &value.to_string()).unwrap();
        let made: Json = serde_json::from_str(&made).unwrap();
        prop_assert!(same(&made, &value), "{} became {}", value, made);
    }

    #[test]
    fn no_source_makes_it_panic(source in "[\\PC\n]{0,40}", odd in "[(){}=>;,/*`'\"a\\\\ \n]{0,30}") {
        for source in [source, odd] {
            let _ = run_within(&source, "{}", 50);
        }
    }

    #[test]
    fn a_number_is_refused_exactly_if_javascript_changes_it(literal in "-?[1-9][0-9]{0,24}(\\.[0-9]{1,20})?(e-?[0-9]{1,2})?") {
        let double: f64 = literal.parse().unwrap();
        let written = run_it("data => data", &Json::from(double).to_string()).unwrap();
        let is_kept = run_it("data => data", &literal).is_ok();
        prop_assert_eq!(is_kept, digits_of(&literal) == digits_of(&written), "{} is written {}", literal, written);
    }
}

/// Halves, quarters and eighths of large numbers lie exactly between two decimals: a rule decides which is written.
#[test]
fn of_two_equally_near_decimals_the_one_javascript_writes_is_kept() {
    for whole in (1u64 << 46..1 << 51).step_by((1 << 46) + 7919) {
        for cents in 0..100 {
            let literal = format!("{whole}.{cents:02}");
            let double: f64 = literal.parse().unwrap();
            let written = run_it("data => data", &Json::from(double).to_string()).unwrap();
            let is_kept = run_it("data => data", &literal).is_ok();
            assert_eq!(is_kept, digits_of(&literal) == digits_of(&written), "{literal} is written {written}");
        }
    }
}

/// Whether both are equal except for the spelling of numbers: JavaScript writes 1.0 as 1.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (a, b) => a == b,
    }
}

/// Returns the significant digits and the position of the first, independent of the code under test.
fn digits_of(number: &str) -> (String, i32) {
    let number = number.trim_start_matches('-').replace("e+", "e");
    let (mantissa, exponent) = number.split_once('e').unwrap_or((&number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let zeros = all.chars().take_while(|digit| *digit == '0').count();
    let first = whole.len() as i32 - zeros as i32 + exponent.parse::<i32>().unwrap();
    (all.trim_matches('0').to_owned(), first)
}

//! Makes schema checks interruptible. A custom keyword in every part of the schema checks whether to continue, and unwinds out
//! of the check if not. The validation library offers no other way to stop.

use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value, json};
use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// The keyword's name. It starts with a control character, so that no real schema is likely to use it.
pub(super) const KEYWORD: &str = "\u{1}posthaste-asks";
/// Only every 256th check calls `keep_going`, as reading the clock costs more than the smallest part of a validation.
const CHECKS_PER_CALL: u32 = 256;

thread_local! {
    static KEEP_GOING: RefCell<Option<Box<dyn FnMut() -> bool>>> = const { RefCell::new(None) };
    static CHECK_COUNT: Cell<u32> = const { Cell::new(0) };
}

/// The panic payload of an interrupted check. Only `run_interruptible` catches it.
struct Interrupted;

pub(super) struct InterruptKeyword;

impl<'i> Keyword<'i> for InterruptKeyword {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        check_interrupt();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        check_interrupt();
        true
    }
}

fn check_interrupt() {
    let checks = CHECK_COUNT.get().wrapping_add(1);
    CHECK_COUNT.set(checks);
    if !checks.is_multiple_of(CHECKS_PER_CALL) {
        return;
    }
    let is_over = KEEP_GOING.with_borrow_mut(|clock| clock.as_mut().is_some_and(|keep_going| !keep_going()));
    if is_over {
        // Unwinds without calling the panic hook, as this is no error.
        resume_unwind(Box::new(Interrupted));
    }
}

/// Runs a check and returns its result, or `None` if `keep_going` stopped it.
pub(super) fn run_interruptible<T>(
    keep_going: impl FnMut() -> bool + 'static,
    check: impl FnOnce() -> T,
) -> Option<T> {
    KEEP_GOING.set(Some(Box::new(keep_going)));
    let checked = catch_unwind(AssertUnwindSafe(check));
    KEEP_GOING.set(None);
    match checked {
        Ok(checked) => Some(checked),
        Err(thrown) if thrown.is::<Interrupted>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Adds the keyword to each part of a schema, and to everything else that a reference in it may lead to.
pub(super) fn insert_keyword(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut asking: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), insert_into_member(key, value))).collect();
            // The keyword goes into an `allOf`, which is evaluated before anything with alternatives. On its own it would be evaluated
            // last, and a part that fails does not get that far. An existing `allOf` is kept: its parts get the keyword themselves.
            asking.entry("allOf").or_insert_with(|| json!([{ KEYWORD: true }]));
            Value::Object(asking)
        }
        Value::Array(elements) => elements.iter().map(insert_keyword).collect(),
        plain => plain.clone(),
    }
}

fn insert_into_member(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        // Plain data, and a keyword that is not about data.
        ("const" | "enum" | "default" | "examples" | "$vocabulary", _) => value.clone(),
        // Maps from user-chosen names to schemas: nothing may be added to the map itself.
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
            | "dependencies",
            Value::Object(named),
        ) => named.iter().map(|(name, schema)| (name.clone(), insert_keyword(schema))).collect(),
        _ => insert_keyword(value),
    }
}

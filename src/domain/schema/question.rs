//! How a check of a schema can be stopped: a keyword of our own in every part of the schema asks whether to go on, and
//! unwinds out of the check if not. The library that checks knows no other way out.

use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value, json};
use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// Nobody else's: no text of a schema is likely to begin like this.
pub(super) const KEYWORD: &str = "\u{1}posthaste-asks";
/// Of so many questions one is passed on, as a look at the clock costs more than the smallest part of a check.
const PASSED_ON: u32 = 256;

thread_local! {
    static KEEP_GOING: RefCell<Option<Box<dyn FnMut() -> bool>>> = const { RefCell::new(None) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// What is thrown, and caught by nobody but `answered_by`.
struct Stopped;

pub(super) struct Question;

impl<'i> Keyword<'i> for Question {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        ask();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        ask();
        true
    }
}

fn ask() {
    let asked = ASKED.get().wrapping_add(1);
    ASKED.set(asked);
    if !asked.is_multiple_of(PASSED_ON) {
        return;
    }
    let is_over = KEEP_GOING.with_borrow_mut(|clock| clock.as_mut().is_some_and(|keep_going| !keep_going()));
    if is_over {
        // Says nothing on the way, as nothing is wrong.
        resume_unwind(Box::new(Stopped));
    }
}

/// What the check comes to; `None` if it was stopped because `keep_going` said no.
pub(super) fn answered_by<T>(
    keep_going: impl FnMut() -> bool + 'static,
    check: impl FnOnce() -> T,
) -> Option<T> {
    KEEP_GOING.set(Some(Box::new(keep_going)));
    let checked = catch_unwind(AssertUnwindSafe(check));
    KEEP_GOING.set(None);
    match checked {
        Ok(checked) => Some(checked),
        Err(thrown) if thrown.is::<Stopped>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// The schema with a question in each of its parts, and in whatever else a reference in it may lead to.
pub(super) fn put_everywhere(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut asking: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), inside(key, value))).collect();
            // In an `allOf`, which comes before all that has alternatives; a keyword of ours alone would come last, and a part
            // that fails does not get that far. The parts of an `allOf` that is there already have questions themselves.
            asking.entry("allOf").or_insert_with(|| json!([{ KEYWORD: true }]));
            Value::Object(asking)
        }
        Value::Array(elements) => elements.iter().map(put_everywhere).collect(),
        plain => plain.clone(),
    }
}

fn inside(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        // Data, and what is not about data.
        ("const" | "enum" | "default" | "examples" | "$vocabulary", _) => value.clone(),
        // Schemas by names that are not ours to add to.
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
            | "dependencies",
            Value::Object(named),
        ) => named.iter().map(|(name, schema)| (name.clone(), put_everywhere(schema))).collect(),
        _ => put_everywhere(value),
    }
}

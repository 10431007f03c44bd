//! A payload function: JavaScript in a new sandbox for every run, with limits on memory, stack, time and result.
//!
//! The sandbox has neither a clock nor randomness, so equal data always gives an equal result. The caller limits the time:
//! `keep_going` is called every few thousand steps, and a run ends when it returns false.

mod error;
#[cfg(test)]
mod tests;

pub use error::FunctionError;

use error::SOURCE_FILE_NAME;
use model::json;
use rquickjs::{
    Context, Ctx, Function, Object, Runtime, Value,
    context::{EvalOptions, intrinsic},
};
use std::{cell::Cell, rc::Rc};

/// Larger sources are refused when they are saved.
pub(super) const SOURCE_BYTES_MAX: usize = 64 * 1024;

/// The limits of one run.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "each is a number of bytes")]
pub(super) struct FunctionLimits {
    pub(super) memory_bytes_max: usize,
    pub(super) stack_bytes_max: usize,
    pub(super) result_bytes_max: usize,
}

impl Default for FunctionLimits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 32 * 1024 * 1024,
            stack_bytes_max: 256 * 1024,
            result_bytes_max: 4 * 1024 * 1024,
        }
    }
}

/// The language without clocks and randomness: no `Date`, no `performance`, no weak references, which would reveal garbage
/// collection. Promises are included because the engine needs them for `async`, which is refused with a message below.
type Intrinsics = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::Promise,
);

/// Parts of the base language that are removed as well, by object and name.
const REMOVED_GLOBALS: [(Option<&str>, &str); 4] =
    [(Some("Math"), "random"), (None, "Promise"), (None, "queueMicrotask"), (None, "AsyncDisposableStack")];

/// Limits for built-in functions that cannot be interrupted.
const GUARDS: &str = include_str!("payload_function/guards.js");

/// Refuses numbers that JSON cannot hold: written as `null` they would be lost silently.
const REFUSE_WHAT_JSON_CANNOT_HOLD: &str = "(function (key, value) {
    if (typeof value === 'number' && value - value !== 0)
        throw (key === '' ? 'the result' : 'the result\\'s member \"' + key + '\"') + ' is ' + value + ', which JSON cannot hold';
    return value;
})";

/// Calls the function in `source` with `data` and returns its result as JSON.
pub(super) fn run(
    source: &str,
    data: &[u8],
    limits: &FunctionLimits,
    mut keep_going: impl FnMut() -> bool + 'static,
) -> Result<Vec<u8>, FunctionError> {
    if let Some(number) = json::first_inexact_number(data) {
        return Err(FunctionError::new(format!(
            "the data has the number {number:.40}, which JavaScript would change; send it as a string"
        )));
    }
    let broken = |_| FunctionError::new("the sandbox could not be made");
    let runtime = Runtime::new().map_err(broken)?;
    runtime.set_memory_limit(limits.memory_bytes_max);
    runtime.set_max_stack_size(limits.stack_bytes_max);
    let is_stopped = Rc::new(Cell::new(false));
    let stopped = is_stopped.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || {
        stopped.set(stopped.get() || !keep_going());
        stopped.get()
    })));
    let context = Context::custom::<Intrinsics>(&runtime).map_err(broken)?;
    let result = context.with(|ctx| {
        let converted = convert(&ctx, source, data);
        converted.map_err(|failed| failed.into_error(&ctx, source))
    });
    // A stopped run always counts as out of time, whatever the script returned.
    let result = if is_stopped.get() { Err(FunctionError::out_of_time()) } else { result };
    let result = result?;
    if result.len() > limits.result_bytes_max {
        let (bytes, most) = (result.len(), limits.result_bytes_max);
        return Err(FunctionError::new(format!("the result has {bytes} bytes; at most {most} are allowed")));
    }
    if json::is_too_deep(&result) {
        return Err(FunctionError::new("the result is nested deeper than 128"));
    }
    Ok(result)
}

/// The reason for a failed run: a thrown value, which is held by the context, or a message of our own.
enum RunFailure {
    Thrown,
    Message(String),
}

impl From<rquickjs::Error> for RunFailure {
    fn from(error: rquickjs::Error) -> Self {
        match error {
            rquickjs::Error::Exception => Self::Thrown,
            rquickjs::Error::Allocation => Self::Message(error::OUT_OF_MEMORY.into()),
            other => Self::Message(other.to_string()),
        }
    }
}

impl RunFailure {
    fn into_error(self, ctx: &Ctx<'_>, source: &str) -> FunctionError {
        match self {
            Self::Thrown => FunctionError::thrown(ctx, source),
            Self::Message(message) => FunctionError::new(message),
        }
    }
}

fn convert(ctx: &Ctx<'_>, source: &str, data: &[u8]) -> Result<Vec<u8>, RunFailure> {
    remove_globals(ctx)?;
    ctx.eval::<(), _>(GUARDS)?;
    // Made before any foreign code runs, which could replace the built-ins that it uses.
    let refuse: Function<'_> = ctx.eval(REFUSE_WHAT_JSON_CANNOT_HOLD)?;
    let data = ctx.json_parse(data).map_err(|_| RunFailure::Message("the data is not JSON".into()))?;
    let function: Value<'_> = ctx.eval_with_options(wrap_source(source), options())?;
    let Some(function) = function.as_function() else {
        let message = format!(
            "must be one function, for example `data => ({{ id: data.id }})`; it is {}",
            describe_type(&function)
        );
        return Err(RunFailure::Message(message));
    };
    let result: Value<'_> = function.call((data,))?;
    if result.is_promise() {
        return Err(RunFailure::Message("returned a promise: a function cannot be async here".into()));
    }
    match ctx.json_stringify_replacer(result.clone(), refuse)? {
        Some(text) => Ok(text.to_string()?.into_bytes()),
        None => Err(RunFailure::Message(format!("returned {}, which is no JSON", describe_type(&result)))),
    }
}

fn remove_globals(ctx: &Ctx<'_>) -> rquickjs::Result<()> {
    for (object, name) in REMOVED_GLOBALS {
        let holder: Object<'_> = match object {
            Some(object) => ctx.globals().get(object)?,
            None => ctx.globals(),
        };
        holder.remove(name)?;
    }
    Ok(())
}

/// Wraps a source in parentheses. Line numbers stay the author's, and a comment at the end stays a comment.
fn wrap_source(source: &str) -> String {
    let source = source.trim_end().trim_end_matches(';');
    format!("({source}\n)")
}

fn options() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = true;
    options.filename = Some(SOURCE_FILE_NAME.to_owned());
    options
}

fn describe_type(value: &Value<'_>) -> String {
    match value.type_name() {
        "undefined" => "undefined".to_owned(),
        "null" => "null".to_owned(),
        "int" | "float" => "a number".to_owned(),
        vowel @ ("array" | "object") => format!("an {vowel}"),
        other => format!("a {other}"),
    }
}

//! The error of a payload function, with its line and a message.

use rquickjs::{Ctx, Value, convert::Coerced};
use std::fmt;

/// The name that the source has in the engine's traces.
pub(super) const SOURCE_FILE_NAME: &str = "payload-function";
pub(super) const OUT_OF_MEMORY: &str = "ran out of memory";
const MESSAGE_CHARS_MAX: usize = 300;

/// The reason why a run gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FunctionError {
    /// The line of the source, from 1; absent if the error is in no line of it.
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub message: String,
    /// Whether it was stopped. All other errors are deterministic and happen again on every try.
    pub is_out_of_time: bool,
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "line {line}, column {column}: {}", self.message),
            (Some(line), None) => write!(f, "line {line}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl FunctionError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { line: None, column: None, message: message.into(), is_out_of_time: false }
    }

    pub(super) fn out_of_time() -> Self {
        Self { is_out_of_time: true, ..Self::new("did not finish in time") }
    }

    /// Makes an error from the value thrown in the context.
    pub(super) fn thrown(ctx: &Ctx<'_>, source: &str) -> Self {
        let value = ctx.catch();
        let Some(exception) = value.as_exception() else {
            return Self::new(shortened(&thrown_value(&value)));
        };
        let name = exception.get::<_, Option<Coerced<String>>>("name").ok().flatten();
        let name = name.map_or_else(|| "Error".to_owned(), |name| name.0);
        let message = match exception.message().as_deref() {
            Some("out of memory") if name == "InternalError" => OUT_OF_MEMORY.to_owned(),
            None | Some("") => name,
            // The author's own words need no kind of error before them.
            Some(message) if name == "Error" => message.to_owned(),
            Some(message) => format!("{name}: {message}"),
        };
        let position = exception.stack().and_then(|stack| position_in(&stack, source));
        Self {
            line: position.map(|(line, _)| line),
            column: position.and_then(|(_, column)| column),
            ..Self::new(shortened(&message))
        }
    }
}

fn thrown_value(value: &Value<'_>) -> String {
    if let Some(text) = value.as_string().and_then(|text| text.to_string().ok()) {
        return text;
    }
    // The engine throws null where there is not even room for an error.
    if value.is_null() {
        return format!("threw null, or {OUT_OF_MEMORY}");
    }
    let text = value.get::<Coerced<String>>().map(|text| text.0);
    text.map_or_else(|_| "threw something that is no Error".to_owned(), |text| format!("threw {text}"))
}

/// Returns the first position of a trace that is in the source: its line and, unless the line was corrected, its column.
fn position_in(stack: &str, source: &str) -> Option<(u32, Option<u32>)> {
    let (_, position) = stack.split_once(&format!("{SOURCE_FILE_NAME}:"))?;
    let mut numbers = position.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (line, column) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let last_line = source.lines().count().max(1) as u32;
    match line {
        // A parenthesis was put before the source.
        1 => Some((1, Some(column.saturating_sub(1).max(1)))),
        // The source ended too early, so the error is on the line that was put after it.
        line if line > last_line => Some((last_line, None)),
        line => Some((line, Some(column))),
    }
}

fn shortened(message: &str) -> String {
    if message.chars().count() <= MESSAGE_CHARS_MAX {
        return message.to_owned();
    }
    message.chars().take(MESSAGE_CHARS_MAX).chain(['…']).collect()
}

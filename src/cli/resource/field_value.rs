//! Parses text typed for a field into JSON.

use crate::{
    cli::exit::CommandError,
    domain::time::{Timestamp, parse_duration},
    runtime::{Clock, SystemClock},
};
use serde_json::{Map, Value};
use std::fs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text,
    /// Text that other users should not see: may come from a file.
    Hidden,
    Time,
    Number,
    Switch,
    /// A list of texts.
    List,
    /// `is_text`: its values are texts.
    Object {
        is_text: bool,
    },
    Json,
}

impl FieldKind {
    /// Returns the kind of a field from its schema in the API's description.
    pub(super) fn of(name: &str, schema: &Value) -> Self {
        let types = &schema["type"];
        let is = |kind: &str| types == kind || types.as_array().is_some_and(|all| all.contains(&kind.into()));
        if is("string") {
            return match schema["format"].as_str() {
                Some("date-time") => Self::Time,
                _ if name == "secret" => Self::Hidden,
                _ => Self::Text,
            };
        }
        let is_text = |part: &str| schema[part]["type"] == "string";
        match () {
            () if is("integer") => Self::Number,
            () if is("boolean") => Self::Switch,
            () if is("array") && is_text("items") => Self::List,
            () if is("object") => Self::Object { is_text: is_text("additionalProperties") },
            () => Self::Json,
        }
    }

    /// Describes the input format, for the help.
    pub(super) fn input_form(self) -> &'static str {
        match self {
            Self::Text | Self::Number | Self::Switch => "",
            Self::Hidden => "As `@FILE` it is read from a file, where other users cannot see it.",
            Self::Time => "A time in RFC 3339, or how long ago (`2h`) or ahead (`+2h`) it is.",
            Self::List => "Several with commas between them.",
            Self::Object { .. } => "NAME=VALUE, once for each; or a JSON object, or `@FILE` with one.",
            Self::Json => "JSON.",
        }
    }

    pub(super) fn value_name(self) -> &'static str {
        match self {
            Self::Text | Self::Hidden => "TEXT",
            Self::Time => "TIME",
            Self::Number => "NUMBER",
            Self::Switch => "true|false",
            Self::List => "LIST",
            Self::Object { .. } => "NAME=VALUE",
            Self::Json => "JSON",
        }
    }

    /// Parses the text typed for `flag`. A hidden value is not repeated in errors.
    pub(super) fn read(self, flag: &str, typed: &[&String]) -> anyhow::Result<Value> {
        let last = typed.last().map(|text| text.as_str()).unwrap_or_default();
        let refused =
            |form: &str| CommandError::usage(format!("--{flag}: {last:?} is not allowed; give {form}"));
        Ok(match self {
            Self::Text => Value::from(last),
            Self::Hidden => Value::from(from_file(last)?.trim_end_matches(['\r', '\n'])),
            Self::Time => Value::from(read_time(flag, last)?),
            Self::Number => Value::from(last.parse::<u64>().map_err(|_| refused("a whole number"))?),
            Self::Switch => Value::from(last == "true"),
            Self::List => {
                let items = typed.iter().flat_map(|text| text.split(','));
                items.map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect()
            }
            Self::Object { is_text } => Value::Object(object(flag, typed, is_text)?),
            Self::Json => serde_json::from_str(last).map_err(|_| refused("JSON"))?,
        })
    }
}

/// Parses a time typed for `flag` into the API's format.
pub(in crate::cli) fn read_time(flag: &str, text: &str) -> anyhow::Result<String> {
    let form = "a time in RFC 3339, or how long ago (`2h`) or ahead (`+2h`) it is";
    let refused = || CommandError::usage(format!("--{flag}: {text:?} is not allowed; give {form}"));
    Ok(time(text, SystemClock.now()).ok_or_else(refused)?.rfc3339_millis())
}

/// Parses a time, or how long before or after now it is.
fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some(ahead) = text.strip_prefix('+') {
        return parse_duration(ahead).map(|ahead| now.plus(ahead));
    }
    let ago = |ago: std::time::Duration| i64::try_from(ago.as_millis()).ok();
    let before = parse_duration(text).and_then(ago).map(|ago| Timestamp::from_millis(now.as_millis() - ago));
    before.or_else(|| Timestamp::parse(text))
}

fn object(flag: &str, typed: &[&String], is_text: bool) -> anyhow::Result<Map<String, Value>> {
    let mut all = Map::new();
    for text in typed {
        let text = from_file(text)?;
        if text.trim_start().starts_with('{') {
            let object: Map<String, Value> = serde_json::from_str(&text)
                .map_err(|error| CommandError::usage(format!("--{flag}: not a JSON object: {error}")))?;
            all.extend(object);
            continue;
        }
        let (name, value) = text.split_once('=').ok_or_else(|| {
            CommandError::usage(format!("--{flag}: give NAME=VALUE, a JSON object, or @FILE with one"))
        })?;
        let plain = || Value::from(value);
        let value = if is_text { plain() } else { serde_json::from_str(value).unwrap_or_else(|_| plain()) };
        all.insert(name.to_owned(), value);
    }
    Ok(all)
}

/// Returns the typed text, or, after an `@`, the content of the file.
fn from_file(typed: &str) -> anyhow::Result<String> {
    match typed.strip_prefix('@') {
        Some(path) => fs::read_to_string(path)
            .map_err(|error| CommandError::usage(format!("cannot read {path}: {error}"))),
        None => Ok(typed.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(kind: FieldKind, typed: &[&str]) -> Result<Value, String> {
        let typed: Vec<String> = typed.iter().map(|text| (*text).to_owned()).collect();
        kind.read("f", &typed.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_become_the_json_that_the_api_wants() {
        assert_eq!(read(FieldKind::List, &["a, b", "c"]).unwrap(), json!(["a", "b", "c"]));
        assert_eq!(read(FieldKind::Number, &["7"]).unwrap(), json!(7));
        let (loose, texts) = (FieldKind::Object { is_text: false }, FieldKind::Object { is_text: true });
        assert_eq!(
            read(loose, &["a=1", "b=x=y", r#"{"c": null}"#]).unwrap(),
            json!({ "a": 1, "b": "x=y", "c": null })
        );
        assert_eq!(read(texts, &["X-Code=007"]).unwrap(), json!({ "X-Code": "007" }));
        assert_eq!(
            read(FieldKind::Time, &["2026-11-15T10:30:00+01:00"]).unwrap(),
            "2026-11-15T09:30:00.000Z"
        );
        assert!(read(FieldKind::Number, &["-1"]).unwrap_err().contains("a whole number"));
        assert!(read(FieldKind::Time, &["soon"]).unwrap_err().contains("RFC 3339"));
        let hidden = read(texts, &["authorization: hunter2"]).unwrap_err();
        assert!(hidden.contains("NAME=VALUE") && !hidden.contains("hunter2"), "{hidden}");
    }

    #[test]
    fn hidden_values_may_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "whsec_x\n").unwrap();
        let named = format!("@{}", path.display());
        assert_eq!(read(FieldKind::Hidden, &[&named]).unwrap(), "whsec_x");
        assert_eq!(
            read(FieldKind::Text, &[&named]).unwrap(),
            json!(named),
            "other texts may start with anything"
        );
        assert!(read(FieldKind::Hidden, &["@/nowhere"]).unwrap_err().contains("cannot read /nowhere"));
    }

    #[test]
    fn times_may_be_relative_to_now() {
        let now = Timestamp::parse("2026-11-15T09:30:00Z").unwrap();
        let instant = |text| time(text, now).map(Timestamp::rfc3339_seconds);
        assert_eq!(instant("2h").as_deref(), Some("2026-11-15T07:30:00Z"));
        assert_eq!(instant("+1d").as_deref(), Some("2026-11-16T09:30:00Z"));
        assert_eq!(instant("2026-01-01T00:00:00Z").as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!([instant("-2h"), instant("x"), instant("+x"), instant("")], [None, None, None, None]);
    }
}

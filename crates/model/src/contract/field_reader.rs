//! Reads a contract document field by field, so that every error names the field and what is allowed.
//!
//! TOML files, stored JSON and overrides all come through here as one `serde_json::Value`.

use crate::{
    field_error::FieldError,
    time::{DURATION_FORM, format_duration, parse_duration},
};
use serde_json::{Map, Value};
use std::time::Duration;

/// Type of a field's value: reads it, writes it, and describes the allowed form in words.
pub(super) trait FieldValue: Sized {
    fn allowed_form() -> String;
    fn read(value: &Value) -> Option<Self>;
    fn write(&self) -> Value;
}

/// An object of the document and its path.
pub(super) struct Section<'a> {
    path: &'a str,
    members: &'a Map<String, Value>,
}

impl<'a> Section<'a> {
    pub(super) fn root(document: &'a Value) -> Result<Self, FieldError> {
        let members = document.as_object().ok_or_else(|| FieldError::new("contract", "must be an object"))?;
        Ok(Self { path: "", members })
    }

    /// The object under `name`, or `empty` when it is absent.
    pub(super) fn section(&self, name: &'a str, empty: &'a Map<String, Value>) -> Result<Self, FieldError> {
        match self.members.get(name) {
            None => Ok(Self { path: name, members: empty }),
            Some(Value::Object(members)) => Ok(Self { path: name, members }),
            Some(_) => Err(FieldError::new(self.at(name), "must be a table of fields")),
        }
    }

    pub(super) fn members(&self) -> &'a Map<String, Value> {
        self.members
    }

    pub(super) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn required<T: FieldValue>(&self, name: &str) -> Result<T, FieldError> {
        let missing =
            || FieldError::new(self.at(name), format!("is missing; it must be {}", T::allowed_form()));
        self.read(name, self.members.get(name).ok_or_else(missing)?)
    }

    pub(super) fn or<T: FieldValue>(&self, name: &str, default: T) -> Result<T, FieldError> {
        self.members.get(name).map_or(Ok(default), |value| self.read(name, value))
    }

    /// Reads an optional field; absent and null both give `None`.
    pub(super) fn optional<T: FieldValue>(&self, name: &str) -> Result<Option<T>, FieldError> {
        self.members
            .get(name)
            .filter(|value| !value.is_null())
            .map(|value| self.read(name, value))
            .transpose()
    }

    pub(super) fn list<T: FieldValue>(
        &self,
        name: &str,
        count_max: usize,
        default: Option<Vec<T>>,
    ) -> Result<Vec<T>, FieldError> {
        let form = || format!("a list of at most {count_max} entries, each {}", T::allowed_form());
        let value = match (self.members.get(name), default) {
            (Some(value), _) => value,
            (None, Some(default)) => return Ok(default),
            (None, None) => {
                return Err(FieldError::new(self.at(name), format!("is missing; it must be {}", form())));
            }
        };
        match value.as_array() {
            Some(entries) if entries.len() <= count_max => entries
                .iter()
                .enumerate()
                .map(|(i, entry)| self.read(&format!("{name}[{i}]"), entry))
                .collect(),
            _ => Err(FieldError::new(self.at(name), format!("must be {}", form()))),
        }
    }

    fn read<T: FieldValue>(&self, name: &str, value: &Value) -> Result<T, FieldError> {
        T::read(value).ok_or_else(|| {
            let shown: String = value.to_string().chars().take(60).collect();
            FieldError::new(self.at(name), format!("must be {}; it is {shown}", T::allowed_form()))
        })
    }
}

impl FieldValue for String {
    fn allowed_form() -> String {
        "1 to 500 printable characters".into()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        let fits = (1..=500).contains(&text.len()) && !text.chars().any(char::is_control);
        fits.then(|| text.to_owned())
    }

    fn write(&self) -> Value {
        Value::String(self.clone())
    }
}

impl FieldValue for bool {
    fn allowed_form() -> String {
        "true or false".into()
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

impl FieldValue for u32 {
    fn allowed_form() -> String {
        "a whole number".into()
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_u64()?.try_into().ok()
    }

    fn write(&self) -> Value {
        Value::from(*self)
    }
}

impl FieldValue for Duration {
    fn allowed_form() -> String {
        DURATION_FORM.into()
    }

    fn read(value: &Value) -> Option<Self> {
        parse_duration(value.as_str()?)
    }

    fn write(&self) -> Value {
        Value::String(format_duration(*self))
    }
}

/// Defines an enum whose variants are written as words in the document.
macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            #[cfg(test)]
            pub(in crate::contract) const NAMES: &[&str] = &[$($word),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::contract::field_reader::FieldValue for $name {
            fn allowed_form() -> String {
                [$(concat!("\"", $word, "\"")),+].join(" or ")
            }

            fn read(value: &serde_json::Value) -> Option<Self> {
                match value.as_str()? { $($word => Some(Self::$variant),)+ _ => None }
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::from(self.name())
            }
        }
    };
}
pub(super) use string_enum;

//! Bodies of management requests, parsed field by field, so that every error names its field.
//!
//! `fields!` generates a struct, its parser and its OpenAPI description from one definition. A field is required, `Option`
//! (null is absent), `NotNull` (may be left out, null is refused) or `Patch` (null is a value).

use super::{
    ApiState,
    problem::{ErrorCode, Problem},
};
use crate::{
    domain::{
        field_error::FieldError,
        ordering::{OnDead, OrderingMode},
        time::{DURATION_FORM, Timestamp, parse_duration},
    },
    service::Patch,
};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use serde_json::{Map, Value, value::RawValue};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// A request body, parsed and checked for its form. An empty body is an object without fields.
pub(super) struct JsonBody<T>(pub T);

pub(super) trait Fields: Sized {
    const NAMES: &'static [&'static str];
    fn read(object: &mut Map<String, Value>) -> Result<Self, FieldError>;
}

impl<T: Fields> FromRequest<Arc<ApiState>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<ApiState>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let held = api.bodies.read(&parts.headers, body).await?;
        read(&held.bytes).map(Self)
    }
}

/// A request body of which some JSON must keep its spelling.
pub(super) struct RawJsonBody<T> {
    pub fields: T,
    body: Bytes,
}

impl<T> RawJsonBody<T> {
    /// Returns a member of the body as it was written; `None` if it is absent or null.
    pub(super) fn raw(&self, name: &str) -> Option<String> {
        let members: HashMap<String, &RawValue> = serde_json::from_slice(&self.body).ok()?;
        members.get(name).map(|raw| raw.get().to_owned()).filter(|raw| raw != "null")
    }
}

impl<T: Fields> FromRequest<Arc<ApiState>> for RawJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<ApiState>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let held = api.bodies.read(&parts.headers, body).await?;
        Ok(Self { fields: read(&held.bytes)?, body: held.bytes.clone() })
    }
}

fn read<T: Fields>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        Problem::new(ErrorCode::Malformed, format!("The body is not valid JSON: {error}."))
    })?;
    let Value::Object(mut object) = value else {
        return Err(Problem::new(ErrorCode::Malformed, "The body must be a JSON object."));
    };
    Ok(read_object(&mut object)?)
}

/// Parses the fields of one object. Unknown field names are refused.
pub(super) fn read_object<T: Fields>(object: &mut Map<String, Value>) -> Result<T, FieldError> {
    if let Some(unknown) = object.keys().find(|name| !T::NAMES.contains(&name.as_str())) {
        return Err(FieldError::unknown(unknown, unknown, T::NAMES.iter().copied()));
    }
    T::read(object)
}

/// Field that may be left out but not null: it cannot be removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotNull<T>(pub Option<T>);

/// Header names and values, in the order they were given.
pub(super) type HeaderList = Vec<(String, String)>;

/// Type of a field's value, with its allowed form in words.
pub(super) trait FieldType: Sized {
    const FORM: &'static str;
    fn read(value: Value) -> Option<Self>;
}

macro_rules! field_type {
    ($kind:ty, $form:expr, $value:ident => $read:expr) => {
        impl FieldType for $kind {
            const FORM: &'static str = $form;
            fn read($value: Value) -> Option<Self> {
                $read
            }
        }
    };
}

field_type!(String, "a string", value => match value { Value::String(text) => Some(text), _ => None });
field_type!(bool, "true or false", value => value.as_bool());
field_type!(u32, "a whole number", value => value.as_u64()?.try_into().ok());
field_type!(Value, "a JSON value", value => Some(value));
field_type!(Map<String, Value>, "an object", value => match value { Value::Object(object) => Some(object), _ => None });
field_type!(Vec<String>, "a list of strings", value => serde_json::from_value(value).ok());
field_type!(Timestamp, "a time in RFC 3339, for example \"2026-11-15T09:30:00Z\"", value => Timestamp::parse(value.as_str()?));
field_type!(Duration, DURATION_FORM, value => parse_duration(value.as_str()?));
field_type!(OrderingMode, "none, endpoint or key", value => OrderingMode::parse(value.as_str()?));
field_type!(OnDead, "block or skip", value => OnDead::parse(value.as_str()?));
field_type!(HeaderList, "an object of header names and values", value => {
    let Value::Object(object) = value else { return None };
    object.into_iter().map(|(name, value)| Some((name, String::read(value)?))).collect()
});

/// Parses a field from its object.
pub(super) trait FromField: Sized {
    fn from_field(name: &str, value: Option<Value>) -> Result<Self, FieldError>;
}

fn read_value<T: FieldType>(name: &str, value: Value) -> Result<T, FieldError> {
    T::read(value).ok_or_else(|| FieldError::new(name, format!("must be {}", T::FORM)))
}

impl FromField for String {
    fn from_field(name: &str, value: Option<Value>) -> Result<Self, FieldError> {
        read_value(name, value.ok_or_else(|| FieldError::new(name, "is missing"))?)
    }
}

impl<T: FieldType> FromField for Option<T> {
    fn from_field(name: &str, value: Option<Value>) -> Result<Self, FieldError> {
        value.filter(|value| !value.is_null()).map(|value| read_value(name, value)).transpose()
    }
}

impl<T: FieldType> FromField for NotNull<T> {
    fn from_field(name: &str, value: Option<Value>) -> Result<Self, FieldError> {
        value.map(|value| read_value(name, value)).transpose().map(Self)
    }
}

impl<T: FieldType> FromField for Patch<T> {
    fn from_field(name: &str, value: Option<Value>) -> Result<Self, FieldError> {
        match value {
            None => Ok(Self::Absent),
            Some(Value::Null) => Ok(Self::Null),
            Some(value) => read_value(name, value).map(Self::Value),
        }
    }
}

macro_rules! fields {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ty),+ $(,)? }) => {
        #[derive(Debug, utoipa::ToSchema)]
        $(#[$meta])*
        pub(super) struct $name { $($(#[$field_meta])* pub $field: $kind),+ }

        impl $crate::api::fields::Fields for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            fn read(
                object: &mut serde_json::Map<String, serde_json::Value>,
            ) -> Result<Self, $crate::domain::field_error::FieldError> {
                Ok(Self { $($field: {
                    let name = stringify!($field);
                    $crate::api::fields::FromField::from_field(name, object.remove(name))?
                }),+ })
            }
        }
    };
}
pub(super) use fields;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct TestFields {
        name: String,
        size: NotNull<u32>,
        note: Patch<String>,
        tags: Option<Vec<String>>,
    }

    impl Fields for TestFields {
        const NAMES: &'static [&'static str] = &["name", "size", "note", "tags"];
        fn read(object: &mut Map<String, Value>) -> Result<Self, FieldError> {
            Ok(Self {
                name: FromField::from_field("name", object.remove("name"))?,
                size: FromField::from_field("size", object.remove("size"))?,
                note: FromField::from_field("note", object.remove("note"))?,
                tags: FromField::from_field("tags", object.remove("tags"))?,
            })
        }
    }

    fn refusal(body: &str) -> (u16, &'static str, Option<String>, String) {
        let view = read::<TestFields>(body.as_bytes()).unwrap_err().view();
        (view.status, view.code, view.field, view.detail)
    }

    #[test]
    fn null_and_absent_differ_for_patch_and_not_null() {
        let sample = |body: &str| read::<TestFields>(body.as_bytes()).unwrap();
        assert_eq!(sample(r#"{"name":"a"}"#).note, Patch::Absent);
        assert_eq!(sample(r#"{"name":"a","note":null}"#).note, Patch::Null);
        assert_eq!(sample(r#"{"name":"a","note":"n"}"#).note, Patch::Value("n".into()));
        assert_eq!(sample(r#"{"name":"a","tags":null}"#).tags, None);
        assert_eq!(refusal(r#"{"name":"a","size":null}"#).2.as_deref(), Some("size"));
    }

    #[test]
    fn every_error_names_its_field() {
        assert_eq!(refusal("{}").3, "name: is missing");
        assert_eq!(refusal(""), refusal("{}"));
        assert_eq!(refusal(r#"{"name":5}"#).3, "name: must be a string");
        assert_eq!(refusal(r#"{"name":"a","tags":["x",1]}"#).3, "tags: must be a list of strings");
        let (status, code, field, detail) = refusal(r#"{"name":"a","nmae":"b"}"#);
        assert_eq!((status, code, field.as_deref()), (422, "unknown_field", Some("nmae")));
        assert_eq!(detail, "nmae: there is no such field; did you mean `name`?");
    }

    #[test]
    fn a_body_that_is_no_json_object_is_malformed() {
        let deep = "[".repeat(200);
        for body in ["[]", "5", "{", "\u{feff}{}", r#"{"name":"a"}x"#, &deep] {
            assert_eq!(refusal(body).0, 400, "{body:.20}");
        }
        assert_eq!(read::<TestFields>(b"{\"name\":\"\xff\"}").unwrap_err().status(), 400);
    }
}

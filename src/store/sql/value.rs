//! Values of statement parameters and row columns. They borrow, so that they need no allocation unless their own type does.

use super::error::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// A parameter of a statement.
pub trait ToValue {
    fn value(&self) -> Value<'_>;
}

/// A column of a row.
pub(in crate::store) trait FromValue<'a>: Sized {
    fn from_value(value: Value<'a>) -> Result<Self, WrongValue>;
}

/// A column holds a value of the wrong type, range or length.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum WrongValue {
    #[error("{found} where {wanted} belongs")]
    Kind { found: &'static str, wanted: &'static str },
    #[error("{0} cannot be")]
    Number(i64),
    #[error("{0} bytes cannot be")]
    Length(usize),
}

impl Value<'_> {
    pub(in crate::store) fn instead_of(self, wanted: &'static str) -> WrongValue {
        let found = match self {
            Self::Null => "nothing",
            Self::Integer(_) => "a number",
            Self::Text(_) => "a text",
            Self::Blob(_) => "bytes",
        };
        WrongValue::Kind { found, wanted }
    }
}

/// A row of a result, in the form of its backend.
pub(in crate::store) trait Columns {
    /// Returns a column. A value that no `Value` can hold (a text in an unknown encoding, a fraction) is an error.
    fn value(&self, column: usize) -> Result<Value<'_>>;
}

pub struct Row<'a>(&'a dyn Columns);

impl<'a> Row<'a> {
    pub(in crate::store) fn new(columns: &'a dyn Columns) -> Self {
        Self(columns)
    }

    pub(in crate::store) fn get<T: FromValue<'a>>(&self, column: usize) -> Result<T> {
        T::from_value(self.0.value(column)?)
            .map_err(|wrong| Error::Wrong(format!("column {column}: {wrong}")))
    }

    /// Returns the column unconverted.
    pub(in crate::store) fn value(&self, column: usize) -> Result<Value<'a>> {
        self.0.value(column)
    }

    /// Whether a column holds this value; an unreadable one does not.
    pub(in crate::store) fn is<T: FromValue<'a> + PartialEq>(&self, column: usize, wanted: &T) -> bool {
        self.get::<T>(column).is_ok_and(|found| found == *wanted)
    }
}

impl ToValue for i64 {
    fn value(&self) -> Value<'_> {
        Value::Integer(*self)
    }
}

impl FromValue<'_> for i64 {
    fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
        match value {
            Value::Integer(number) => Ok(number),
            other => Err(other.instead_of("a number")),
        }
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl ToValue for $type {
            fn value(&self) -> Value<'_> {
                Value::Integer(i64::from(*self))
            }
        }

        impl FromValue<'_> for $type {
            fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
                let number = i64::from_value(value)?;
                Self::try_from(number).map_err(|_| WrongValue::Number(number))
            }
        }
    )*};
}

number!(u8, u16, u32);

impl ToValue for bool {
    fn value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl FromValue<'_> for bool {
    fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
        match i64::from_value(value)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(WrongValue::Number(other)),
        }
    }
}

impl ToValue for str {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<'a> FromValue<'a> for &'a str {
    fn from_value(value: Value<'a>) -> Result<Self, WrongValue> {
        match value {
            Value::Text(text) => Ok(text),
            other => Err(other.instead_of("a text")),
        }
    }
}

impl FromValue<'_> for String {
    fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl ToValue for [u8] {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl ToValue for Vec<u8> {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    fn from_value(value: Value<'a>) -> Result<Self, WrongValue> {
        match value {
            Value::Blob(bytes) => Ok(bytes),
            other => Err(other.instead_of("bytes")),
        }
    }
}

impl FromValue<'_> for Vec<u8> {
    fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

impl<const N: usize> FromValue<'_> for [u8; N] {
    fn from_value(value: Value<'_>) -> Result<Self, WrongValue> {
        let bytes = <&[u8]>::from_value(value)?;
        bytes.try_into().map_err(|_| WrongValue::Length(bytes.len()))
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::value)
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    fn from_value(value: Value<'a>) -> Result<Self, WrongValue> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

/// Parameters of a statement, `?1` first.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::store::sql::ToValue),*] as &[&dyn $crate::store::sql::ToValue]
    };
}
pub(in crate::store) use params;

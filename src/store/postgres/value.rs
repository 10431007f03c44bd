//! Values of parameters and columns. PostgreSQL texts cannot hold a NUL, and receivers' texts may: it is sent as `ESCAPE` and
//! a letter, and converted back when read.

use crate::store::sql::{Columns, Error, Result, Value, WrongValue};
use bytes::{BufMut, BytesMut};
use std::{borrow::Cow, cell::OnceCell, error::Error as Cause};
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

/// A code point that is no character, so that no text contains it.
const ESCAPE: char = '\u{10ffff}';
const NUL: &str = "\u{10ffff}0";
const ITSELF: &str = "\u{10ffff}1";

pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', ESCAPE]) {
        text.replace(ESCAPE, ITSELF).replace('\0', NUL).into()
    } else {
        text.into()
    }
}

fn unescaped(text: &str) -> String {
    text.replace(NUL, "\0").replace(ITSELF, "\u{10ffff}")
}

type Failed = Box<dyn Cause + Sync + Send>;

/// A parameter, written in the type that the statement takes.
#[derive(Debug)]
pub(super) struct BoundValue<'a>(pub(super) Value<'a>);

impl BoundValue<'_> {
    pub(super) fn kind(&self) -> Type {
        match self.0 {
            Value::Null => Type::UNKNOWN,
            Value::Integer(_) => Type::INT8,
            Value::Text(_) => Type::TEXT,
            Value::Blob(_) => Type::BYTEA,
        }
    }
}

impl ToSql for BoundValue<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        match (self.0, wanted) {
            (Value::Null, _) => return Ok(IsNull::Yes),
            (Value::Integer(number), &Type::INT8) => out.put_i64(number),
            (Value::Integer(number), &Type::INT2) => {
                out.put_i16(i16::try_from(number).map_err(|_| WrongValue::Number(number))?);
            }
            (Value::Text(text), &Type::TEXT) => out.put_slice(escaped(text).as_bytes()),
            (Value::Blob(bytes), &Type::BYTEA) => out.put_slice(bytes),
            (value, _) => return Err(value.instead_of("what the statement takes").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A fetched row.
pub(super) struct FetchedRow {
    row: Row,
    /// Its texts without their escapes, once a text with an escape was read.
    unescaped: OnceCell<Vec<String>>,
}

impl FetchedRow {
    pub(super) fn new(row: Row) -> Self {
        Self { row, unescaped: OnceCell::new() }
    }

    fn unescape(&self) -> Vec<String> {
        let text = |column| match self.row.try_get(column) {
            Ok(ColumnValue(Value::Text(text))) => unescaped(text),
            _ => String::new(),
        };
        (0..self.row.len()).map(text).collect()
    }
}

impl Columns for FetchedRow {
    fn value(&self, column: usize) -> Result<Value<'_>> {
        match self.row.try_get(column) {
            Ok(ColumnValue(Value::Text(text))) if text.contains(ESCAPE) => {
                Ok(Value::Text(&self.unescaped.get_or_init(|| self.unescape())[column]))
            }
            Ok(ColumnValue(value)) => Ok(value),
            Err(error) => Err(Error::Wrong(format!("column {column}: {error}"))),
        }
    }
}

struct ColumnValue<'a>(Value<'a>);

impl<'a> FromSql<'a> for ColumnValue<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(Self(match *kind {
            Type::INT8 => Value::Integer(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => Value::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => Value::Integer(i64::from(raw != [0])),
            Type::TEXT => Value::Text(std::str::from_utf8(raw)?),
            Type::BYTEA => Value::Blob(raw),
            _ => return Err(format!("a {kind}").into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failed> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_round_trips_and_is_sent_without_nul() {
        for text in [
            "",
            "plain",
            "\0",
            "a\0\0b",
            "\u{10ffff}",
            "\u{10ffff}0",
            "\u{10ffff}\0\u{10ffff}1",
            "0\u{10ffff}",
        ] {
            let sent = escaped(text);
            assert!(!sent.contains('\0'), "{text:?}");
            assert_eq!(unescaped(&sent), text);
        }
    }
}

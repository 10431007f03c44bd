//! Many rows as parameters of one statement: an array for each column, from which the statement makes rows again.

use super::value::escaped;
use crate::store::sql::{Error, Result, ToValue, Value};
use bytes::{BufMut, BytesMut};
use std::error::Error as Cause;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

/// Column types of a statement, one letter each: `n` numbers, `t` texts, `b` bytes.
#[derive(Clone, Copy)]
pub(super) struct ColumnTypes(pub(super) &'static str);

impl ColumnTypes {
    /// SQL that makes rows of these columns, if they are the parameters from `first` on.
    pub(super) fn unnest(self, first: usize) -> String {
        let array = |(character, number): (char, usize)| {
            format!("CAST(?{number} AS {}[])", type_of(character).name())
        };
        let arrays: Vec<_> = self.0.chars().zip(first..).map(array).collect();
        format!("unnest({})", arrays.join(", "))
    }
}

fn type_of(character: char) -> Type {
    match character {
        'n' => Type::INT8,
        't' => Type::TEXT,
        _ => Type::BYTEA,
    }
}

fn array_of(character: char) -> Type {
    match character {
        'n' => Type::INT8_ARRAY,
        't' => Type::TEXT_ARRAY,
        _ => Type::BYTEA_ARRAY,
    }
}

/// Rows, column by column.
pub(super) struct ColumnRows {
    columns: Vec<ColumnArray>,
    len: usize,
}

impl ColumnRows {
    pub(super) fn new(shape: ColumnTypes) -> Self {
        let column = |character| ColumnArray {
            kind: array_of(character),
            len: 0,
            has_null: false,
            bytes: BytesMut::new(),
        };
        Self { columns: shape.0.chars().map(column).collect(), len: 0 }
    }

    pub(super) fn push(&mut self, row: &[&dyn ToValue]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(Error::Wrong(format!("{} values for {} columns", row.len(), self.columns.len())));
        }
        self.len += 1;
        self.columns.iter_mut().zip(row).try_for_each(|(column, value)| column.push(value.value()))
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &ColumnArray> {
        self.columns.iter()
    }
}

#[derive(Debug)]
pub(super) struct ColumnArray {
    kind: Type,
    len: i32,
    has_null: bool,
    /// Each value in the server's binary form, after its length.
    bytes: BytesMut,
}

impl ColumnArray {
    pub(super) fn kind(&self) -> Type {
        self.kind.clone()
    }

    fn push(&mut self, value: Value<'_>) -> Result<()> {
        self.len += 1;
        match (value, &self.kind) {
            (Value::Null, _) => {
                self.has_null = true;
                self.bytes.put_i32(-1);
            }
            (Value::Integer(number), &Type::INT8_ARRAY) => {
                self.bytes.put_i32(8);
                self.bytes.put_i64(number);
            }
            (Value::Text(text), &Type::TEXT_ARRAY) => self.push_bytes(escaped(text).as_bytes())?,
            (Value::Blob(bytes), &Type::BYTEA_ARRAY) => self.push_bytes(bytes)?,
            (value, _) => return Err(Error::Wrong(value.instead_of("what the column takes").to_string())),
        }
        Ok(())
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let len = i32::try_from(bytes.len())
            .map_err(|_| Error::Wrong("more bytes than a row can have".to_owned()))?;
        self.bytes.put_i32(len);
        self.bytes.put_slice(bytes);
        Ok(())
    }
}

impl ToSql for ColumnArray {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Cause + Sync + Send>> {
        let Kind::Array(member) = wanted.kind() else { return Err("the statement takes no array".into()) };
        // One dimension, which begins at 1; an empty array has no dimension.
        out.put_i32(i32::from(self.len > 0));
        out.put_i32(i32::from(self.has_null));
        out.put_u32(member.oid());
        if self.len > 0 {
            out.put_i32(self.len);
            out.put_i32(1);
        }
        out.put_slice(&self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::params;

    #[test]
    fn a_column_takes_only_values_of_its_type() {
        let mut rows = ColumnRows::new(ColumnTypes("ntb"));
        rows.push(params![1_i64, "a", [0_u8; 2]]).unwrap();
        rows.push(params![None::<i64>, None::<&str>, None::<Vec<u8>>]).unwrap();
        assert_eq!(rows.len(), 2);
        for wrong in [params!["a", "a", [0_u8; 2]], params![1_i64, 1_i64, [0_u8; 2]], params![1_i64]] {
            assert!(rows.push(wrong).is_err());
        }
        assert_eq!(ColumnTypes("nb").unnest(2), "unnest(CAST(?2 AS int8[]), CAST(?3 AS bytea[]))");
    }
}

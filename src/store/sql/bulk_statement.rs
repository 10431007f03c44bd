//! Statements over many rows: PostgreSQL gets all rows at once, SQLite one after the other.

use super::{Result, ToValue};

/// A statement and the rows it runs over. Its effect on one row must not depend on the other rows.
pub struct BulkStatement<'a> {
    /// Has `{given}` where it reads these rows, under the name `given`.
    pub(in crate::store) sql: &'a str,
    /// Names of the columns, and their types, one letter each: `n` numbers, `t` texts, `b` bytes.
    pub(in crate::store) columns: &'static str,
    pub(in crate::store) shape: &'static str,
}

/// Takes the next row.
pub(in crate::store) type RowSink<'a> = dyn FnMut(&[&dyn ToValue]) -> Result<()> + 'a;

impl BulkStatement<'_> {
    /// Returns the SQL for one row, whose values are its parameters.
    pub(super) fn one_row(&self) -> String {
        let value = |(number, name): (usize, &str)| format!("?{} AS {name}", number + 1);
        let values: Vec<_> = self.columns.split(", ").enumerate().map(value).collect();
        self.from(&format!("(SELECT {}) AS given", values.join(", ")))
    }

    /// Returns the SQL for all rows; `rows` is the SQL that makes rows of the parameters.
    pub(in crate::store) fn all_rows(&self, rows: &str) -> String {
        self.from(&format!("{rows} AS given ({})", self.columns))
    }

    fn from(&self, given: &str) -> String {
        self.sql.replace("{given}", given)
    }
}

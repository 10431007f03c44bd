//! Statements over many rows: a server is given all of them at once, and a file one after the other.

use super::{Result, ToValue};

/// A statement and what the rows are that it is run over. What it does for one must not depend on what it does for another.
pub(in crate::store) struct Over<'a> {
    /// Has `{given}` where it reads these rows, which it calls `given`.
    pub(in crate::store) sql: &'a str,
    /// What they are called in it, and what they hold, one letter each: `n` numbers, `t` texts, `b` bytes.
    pub(in crate::store) columns: &'static str,
    pub(in crate::store) shape: &'static str,
}

/// Takes the next of the rows.
pub(in crate::store) type Give<'a> = dyn FnMut(&[&dyn ToValue]) -> Result<()> + 'a;

impl Over<'_> {
    /// The text for one row, whose values are its parameters.
    pub(super) fn one_row(&self) -> String {
        let value = |(number, name): (usize, &str)| format!("?{} AS {name}", number + 1);
        let values: Vec<_> = self.columns.split(", ").enumerate().map(value).collect();
        self.from(&format!("(SELECT {}) AS given", values.join(", ")))
    }

    /// The text for all of them, where `rows` makes rows of the parameters.
    pub(in crate::store) fn all_rows(&self, rows: &str) -> String {
        self.from(&format!("{rows} AS given ({})", self.columns))
    }

    fn from(&self, given: &str) -> String {
        self.sql.replace("{given}", given)
    }
}

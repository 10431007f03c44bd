//! Connections for queries on the file.

use super::open;
use crate::store::sql::{ReadConnection, ReaderPool, Result, Sql};
use rusqlite::Connection;
use std::path::Path;

pub(super) fn on_file(path: &Path) -> ReaderPool<Connection> {
    let path = path.to_owned();
    ReaderPool::new(move || Ok(open::open_reader(&path)?))
}

impl ReadConnection for Connection {
    fn read<T>(&self, run: &mut impl FnMut(&dyn Sql) -> Result<T>) -> Result<T> {
        let snapshot = self.unchecked_transaction()?;
        let result = run(&*snapshot);
        snapshot.finish()?;
        result
    }
}

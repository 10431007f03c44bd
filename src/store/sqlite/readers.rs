//! Connections for queries on the file.

use super::open;
use crate::store::{
    backend::ReadJob,
    sql::{ReadConnection, ReaderPool, Result},
};
use rusqlite::Connection;
use std::path::Path;

pub(super) fn on_file(path: &Path) -> ReaderPool<Connection> {
    let path = path.to_owned();
    ReaderPool::new(move || Ok(open::open_reader(&path)?))
}

impl ReadConnection for Connection {
    fn read(&self, job: &mut ReadJob) -> Result<()> {
        let snapshot = self.unchecked_transaction()?;
        let result = job(&*snapshot);
        snapshot.finish()?;
        result
    }
}

//! Connections for queries on the database.

use super::{
    session::{Server, Session},
    sql::Transaction,
};
use crate::store::sql::{ReadConnection, ReaderPool, Result, Sql};
use std::{sync::Arc, time::Duration};

/// For any one answer: a list may be long.
const READ_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn on(server: &Arc<Server>) -> ReaderPool<Session> {
    let server = server.clone();
    ReaderPool::new(move || Session::connect(&server, READ_ANSWER_TIMEOUT))
}

impl ReadConnection for Session {
    fn read<T>(&self, run: &mut impl FnMut(&dyn Sql) -> Result<T>) -> Result<T> {
        let snapshot = Transaction::snapshot(self)?;
        let found = run(&snapshot)?;
        snapshot.commit()?;
        Ok(found)
    }

    fn is_broken(&self) -> bool {
        self.is_closed()
    }
}

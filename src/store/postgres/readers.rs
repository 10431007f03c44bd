//! Connections for queries on the database.

use super::{
    session::{Server, Session},
    sql::Transaction,
};
use crate::store::{
    backend::ReadJob,
    sql::{ReadConnection, ReaderPool, Result},
};
use std::{sync::Arc, time::Duration};

/// For any one answer: a list may be long.
const READ_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn on(server: &Arc<Server>) -> ReaderPool<Session> {
    let server = server.clone();
    ReaderPool::new(move || Session::connect(&server, READ_ANSWER_TIMEOUT))
}

impl ReadConnection for Session {
    fn read(&self, job: &mut ReadJob) -> Result<()> {
        let snapshot = Transaction::snapshot(self)?;
        job(&snapshot)?;
        snapshot.commit()
    }

    fn is_broken(&self) -> bool {
        self.is_closed()
    }
}

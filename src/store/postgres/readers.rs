//! Connections for browsing the database.

use super::{session::Session, sql::Transaction};
use crate::store::sql::{Reader, Readers, Result, Sql};
use std::sync::Arc;
use tokio_postgres::Config;

pub(super) fn on(config: &Arc<Config>) -> Readers<Session> {
    let config = config.clone();
    Readers::new(move || Session::connect(&config))
}

impl Reader for Session {
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

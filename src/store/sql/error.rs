//! Errors of statements, and the store errors that callers get for them.

use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::error::Error as _;
use tokio_postgres::error::SqlState;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}", message(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// This process writes nothing more; says why.
    #[error("{0}")]
    Fenced(&'static str),
    /// This command cannot be stored any more, other commands can; says why.
    #[error("{0}")]
    Stale(&'static str),
    /// Another node is doing a job that only one node at a time may do: to be retried soon.
    #[error("another node is at it")]
    Busy,
    /// Whether a batch is stored is not known, because the answer to its COMMIT did not come or says nothing.
    #[error("{0}")]
    InDoubt(Box<Error>),
    /// A row holds an impossible value.
    #[error("{0}")]
    Wrong(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Stored documents are JSON.
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// Converts to a store error. With `Corrupt` other commands of the batch may succeed; with any other none can, except after
/// `Stale`.
pub(in crate::store) fn store_error(error: &Error) -> StoreError {
    let is_full = || StoreError::Unavailable("the disk is full".to_owned());
    let unavailable = || StoreError::Unavailable(error.to_string());
    let corrupt = || StoreError::Corrupt(error.to_string());
    match error {
        Error::Sqlite(sqlite) => match sqlite.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => is_full(),
            None
            | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => {
                corrupt()
            }
            Some(_) => unavailable(),
        },
        Error::Postgres(postgres) => match postgres.code() {
            Some(code) if *code == SqlState::DISK_FULL => is_full(),
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => unavailable(),
            Some(code) if is_caused_by_command(code) => corrupt(),
            _ => unavailable(),
        },
        Error::Io(_) | Error::Fenced(_) | Error::Stale(_) | Error::Busy | Error::InDoubt(_) => unavailable(),
        Error::Wrong(_) => corrupt(),
    }
}

/// Returns the server's message, or the cause if there is none. Leaves out its detail, which repeats row contents.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

/// Impossible data, a violated constraint, an invalid statement, a damaged page.
fn is_caused_by_command(code: &SqlState) -> bool {
    ["22", "23", "42", "XX"].iter().any(|class| code.code().starts_with(class))
}

//! What can go wrong with a statement, and what the callers of the store are told of it.

use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::error::Error as _;
use tokio_postgres::error::SqlState;

#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}", in_words(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// This process writes nothing more; it says why.
    #[error("{0}")]
    Fenced(&'static str),
    /// This command cannot be stored any more, and all others can; it says why.
    #[error("{0}")]
    Stale(&'static str),
    /// Another node is at what one does at a time: to be tried again soon.
    #[error("another node is at it")]
    Busy,
    /// Whether a batch is stored is not known, because the answer to its COMMIT did not come or says nothing.
    #[error("{0}")]
    InDoubt(Box<Error>),
    /// A row says something that cannot be.
    #[error("{0}")]
    Wrong(String),
}

pub(in crate::store) type Result<T, E = Error> = std::result::Result<T, E>;

/// Documents are kept as JSON.
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// Whether the whole store is in trouble, so that no other command of the batch could do better.
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
            Some(code) if is_of_the_command(code) => corrupt(),
            _ => unavailable(),
        },
        Error::Io(_) | Error::Fenced(_) | Error::Stale(_) | Error::Busy | Error::InDoubt(_) => unavailable(),
        Error::Wrong(_) => corrupt(),
    }
}

/// What the server said, or why it said nothing. Never its detail, which repeats what is in rows.
fn in_words(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

/// Data that cannot be, a constraint that forbids it, a statement that is not understood, a damaged page.
fn is_of_the_command(code: &SqlState) -> bool {
    ["22", "23", "42", "XX"].iter().any(|class| code.code().starts_with(class))
}

//! What can go wrong with a statement, and what the callers of the store are told of it.

use crate::store::StoreError;
use rusqlite::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
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
    let code = match error {
        Error::Sqlite(error) => error.sqlite_error_code(),
        Error::Wrong(_) => None,
    };
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Unavailable("the disk is full".to_owned()),
        None
        | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => {
            StoreError::Corrupt(error.to_string())
        }
        Some(_) => StoreError::Unavailable(error.to_string()),
    }
}

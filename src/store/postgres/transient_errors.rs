//! Errors of the server after which a transaction may succeed when it is tried again.

use crate::store::sql::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Whether the server said that it rolled back a statement that was a transaction of its own. It does not say so of one whose
/// connection it ended.
pub(super) fn is_rolled_back(error: &Error) -> bool {
    let said = |error: &tokio_postgres::Error| error.as_db_error().and_then(DbError::parsed_severity);
    matches!(error, Error::Postgres(error) if said(error) == Some(Severity::Error))
}

/// Whether the error may be gone at a retry, because another transaction or the server caused it.
pub(super) fn may_succeed_later(error: &Error) -> bool {
    let passes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        // A day was attached while the row was on its way to the rest partition: now it belongs to the day.
        SqlState::CHECK_VIOLATION,
    ];
    matches!(error, Error::Postgres(error) if error.code().is_some_and(|code| passes.contains(code)))
}

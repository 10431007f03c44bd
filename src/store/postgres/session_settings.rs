//! Session settings of a transaction, and the statements that begin one: with all settings where a pooler may lend the
//! connection, because it remembers none, and with none where they were set once.

use super::session::Session;
use crate::store::sql::Result;

/// No lock is waited for longer than an answer: a server that waits for a lock does not notice that its client has gone, and
/// each retry would leave another such connection behind.
macro_rules! settings {
    ($set:literal) => {
        concat!(
            $set,
            " search_path = posthaste, pg_temp; ",
            $set,
            " idle_in_transaction_session_timeout = '5s'; ",
            $set,
            " lock_timeout = '7s'"
        )
    };
}

/// Settings to write. Rows to be written are found by an index, row by row: the other join methods read a whole table, which
/// looks small to a server without statistics, and is full of dead rows. A table that can be read in no other way looks very
/// expensive then, which is no reason to compile the statement first.
macro_rules! settings_to_write {
    ($set:literal) => {
        concat!(
            settings!($set),
            "; ",
            $set,
            " enable_hashjoin = off; ",
            $set,
            " enable_mergejoin = off; ",
            $set,
            " enable_seqscan = off; ",
            $set,
            " jit = off"
        )
    };
}

/// Settings of one transaction, where a pooler may lend the connection.
pub(super) const SETTINGS: &str = settings!("SET LOCAL");
const SETTINGS_TO_WRITE: &str = settings_to_write!("SET LOCAL");

/// Settings made once where the connection stays, for all transactions but heartbeats, which set them each time.
const SESSION_SETTINGS: &str = settings!("SET");
const SESSION_SETTINGS_TO_WRITE: &str = settings_to_write!("SET");

/// Applies the settings that a single-statement transaction relies on. Only on a connection of this process's own.
pub(super) fn keep_write_settings(session: &Session) -> Result<()> {
    session.keep_settings(SESSION_SETTINGS_TO_WRITE)
}

/// SQL that begins a transaction that writes, with `first` in the same round trip.
pub(super) fn begin_sql(session: &Session, first: &str) -> Result<String> {
    let settings = local(session, SETTINGS_TO_WRITE, SESSION_SETTINGS_TO_WRITE)?;
    Ok(format!("BEGIN; {settings}; {first}"))
}

/// SQL that begins a transaction that reads one snapshot.
pub(super) fn begin_read_sql(session: &Session) -> Result<String> {
    let settings = local(session, SETTINGS, SESSION_SETTINGS)?;
    Ok(format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}"))
}

/// Returns the settings to make in each transaction; empty if they are kept.
fn local(session: &Session, each_time: &'static str, kept: &'static str) -> Result<&'static str> {
    if session.is_lent() {
        return Ok(each_time);
    }
    session.keep_settings(kept)?;
    Ok("")
}

//! What holds in every transaction, and how one begins: with all of it where the connection may be a pooler's, which remembers
//! nothing, and with nothing where it was told once.

use super::session::Session;
use crate::store::sql::Result;

/// For a lock nobody waits longer than for an answer: a server that waits for one does not notice that its client has gone, and each
/// further try would leave another such connection behind.
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

/// The same to write. Whatever is written is found by an index, row by row: the other ways to join read a whole table, which
/// looks small to a server that has not counted it yet, and is full of rows that are no more. A table that can be read in no other
/// way looks very dear then, which is no reason to compile the statement first.
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

/// What a transaction begins with where nothing stays with a connection, which a pooler may have lent.
pub(super) const SETTINGS: &str = settings!("SET LOCAL");
const SETTINGS_TO_WRITE: &str = settings_to_write!("SET LOCAL");

/// What a connection is told once where it stays, for all transactions but beats, which say it each time.
const KEPT: &str = settings!("SET");
const KEPT_TO_WRITE: &str = settings_to_write!("SET");

/// What a statement counts on that is a transaction of its own. Only where the connection is this process's.
pub(super) fn keep_to_write(session: &Session) -> Result<()> {
    session.keep(KEPT_TO_WRITE)
}

/// What begins a transaction that writes, with what comes in the same round trip.
pub(super) fn opening(session: &Session, first: &str) -> Result<String> {
    let settings = local(session, SETTINGS_TO_WRITE, KEPT_TO_WRITE)?;
    Ok(format!("BEGIN; {settings}; {first}"))
}

/// What begins one that reads one instant.
pub(super) fn opening_to_read(session: &Session) -> Result<String> {
    let settings = local(session, SETTINGS, KEPT)?;
    Ok(format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}"))
}

/// What has to be set each time; nothing if that is kept.
fn local(session: &Session, each_time: &'static str, kept: &'static str) -> Result<&'static str> {
    if session.is_lent() {
        return Ok(each_time);
    }
    session.keep(kept)?;
    Ok("")
}

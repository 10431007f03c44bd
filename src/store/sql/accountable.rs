//! Accountable time. Each node counts for itself and the furthest is everybody's, so that an endpoint is judged alike by whoever
//! sends to it; and each says when it finds that it is us.

use super::{Result, Sql, params};
use crate::domain::{blame::Account, time::Timestamp};
use std::time::Duration;

/// While somebody fails, it is written at least this often.
const WRITTEN_EVERY: Duration = Duration::from_mins(1);
/// A node that is this far ahead of what is written writes.
const AHEAD_MAX: Duration = Duration::from_secs(30);
/// So long it counts that a node found that it is us; it says so again long before. More than clocks of nodes differ.
const OURS_FOR: Duration = Duration::from_secs(30);

/// What is written, and when it was.
pub(super) fn clock(connection: &dyn Sql) -> Result<Option<(Duration, Timestamp)>> {
    connection.one("SELECT clock, at FROM accountable", &[], |row| Ok((duration(row.get(0)?), row.get(1)?)))
}

pub(super) fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

/// What all nodes together counted.
pub(super) fn of_all(connection: &dyn Sql, now: Timestamp) -> Result<Account> {
    let written = connection.one("SELECT clock, ours_at FROM accountable", &[], |row| {
        Ok((duration(row.get(0)?), row.get::<Option<Timestamp>>(1)?))
    })?;
    let (accountable, ours_at) = written.unwrap_or_default();
    let is_lately = |at: Timestamp| now.since(at).max(at.since(now)) < OURS_FOR;
    Ok(Account { accountable, is_ours: ours_at.is_some_and(is_lately) })
}

/// Whether the others have to be told of it.
pub(super) fn is_news(mine: Account, all: Account) -> bool {
    mine.is_ours || mine.accountable >= all.accountable + AHEAD_MAX
}

/// Written by the one who rolls up when there is something to write anyway, and now and then while somebody fails; otherwise
/// nobody needs it.
pub(super) fn keep(tx: &dyn Sql, clock: Duration, now: Timestamp, writes: bool) -> Result<()> {
    let is_needed = || -> Result<bool> {
        let written = self::clock(tx)?;
        Ok(written.is_none_or(|(written, _)| written + WRITTEN_EVERY <= clock)
            && tx.exists("SELECT EXISTS (SELECT 1 FROM health WHERE first_failed_at IS NOT NULL)", &[])?)
    };
    if writes || is_needed()? {
        write(tx, Account { accountable: clock, is_ours: false }, now)?;
    }
    Ok(())
}

/// What is further already stays.
pub(super) fn write(tx: &dyn Sql, mine: Account, now: Timestamp) -> Result<()> {
    let sql = "INSERT INTO accountable (only_row, clock, at, ours_at) VALUES (1, ?1, ?2, ?3)
         ON CONFLICT (only_row) DO UPDATE SET
             at = CASE WHEN excluded.clock >= accountable.clock THEN excluded.at ELSE accountable.at END,
             clock = CASE WHEN excluded.clock >= accountable.clock THEN excluded.clock ELSE accountable.clock END,
             ours_at = coalesce(excluded.ours_at, accountable.ours_at)";
    let ours_at = mine.is_ours.then_some(now);
    tx.execute(sql, params![mine.accountable.as_millis() as i64, now, ours_at])?;
    Ok(())
}

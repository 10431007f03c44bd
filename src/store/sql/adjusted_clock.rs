//! Outage-adjusted time. Each node counts for itself and the furthest count holds for all, so that every node evaluates an
//! endpoint alike; each also reports when it detects a local outage.

use super::{Result, Sql, params};
use crate::domain::{cluster::OutageReport, time::Timestamp};
use std::time::Duration;

/// While an endpoint fails, the time is written at least this often.
const CLOCK_WRITTEN_EVERY: Duration = Duration::from_mins(1);
/// A node that is this far ahead of the stored time writes.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(30);
/// How long a reported local outage counts; a node repeats the report long before. Longer than node clocks differ.
const LOCAL_OUTAGE_VALID: Duration = Duration::from_secs(30);

/// Returns the stored time, and when it was written.
pub(super) fn clock(connection: &dyn Sql) -> Result<Option<(Duration, Timestamp)>> {
    connection
        .one("SELECT clock, at FROM adjusted_clock", &[], |row| Ok((duration(row.get(0)?), row.get(1)?)))
}

pub(super) fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

/// Returns the time that all nodes together have counted.
pub(super) fn cluster_clock(connection: &dyn Sql, now: Timestamp) -> Result<OutageReport> {
    let written = connection.one("SELECT clock, local_outage_at FROM adjusted_clock", &[], |row| {
        Ok((duration(row.get(0)?), row.get::<Option<Timestamp>>(1)?))
    })?;
    let (adjusted_time, ours_at) = written.unwrap_or_default();
    let is_lately = |at: Timestamp| now.since(at).max(at.since(now)) < LOCAL_OUTAGE_VALID;
    Ok(OutageReport { adjusted_time, is_local_outage: ours_at.is_some_and(is_lately) })
}

/// Whether the other nodes must know of this node's count.
pub(super) fn must_be_written(mine: OutageReport, all: OutageReport) -> bool {
    mine.is_local_outage || mine.adjusted_time >= all.adjusted_time + CLOCK_AHEAD_MAX
}

/// Stores the time when the rollup writes anyway, and now and then while an endpoint fails; otherwise it is not needed.
pub(super) fn write_if_needed(tx: &dyn Sql, clock: Duration, now: Timestamp, writes: bool) -> Result<()> {
    let is_needed = || -> Result<bool> {
        let written = self::clock(tx)?;
        Ok(written.is_none_or(|(written, _)| written + CLOCK_WRITTEN_EVERY <= clock)
            && tx.exists("SELECT EXISTS (SELECT 1 FROM health WHERE first_failed_at IS NOT NULL)", &[])?)
    };
    if writes || is_needed()? {
        write(tx, OutageReport { adjusted_time: clock, is_local_outage: false }, now)?;
    }
    Ok(())
}

/// Stores the time, unless the stored one is further.
pub(super) fn write(tx: &dyn Sql, mine: OutageReport, now: Timestamp) -> Result<()> {
    let sql = "INSERT INTO adjusted_clock (only_row, clock, at, local_outage_at) VALUES (1, ?1, ?2, ?3)
         ON CONFLICT (only_row) DO UPDATE SET
             at = CASE WHEN excluded.clock >= adjusted_clock.clock THEN excluded.at ELSE adjusted_clock.at END,
             clock = CASE WHEN excluded.clock >= adjusted_clock.clock THEN excluded.clock ELSE adjusted_clock.clock END,
             local_outage_at = coalesce(excluded.local_outage_at, adjusted_clock.local_outage_at)";
    let ours_at = mine.is_local_outage.then_some(now);
    tx.execute(sql, params![mine.adjusted_time.as_millis() as i64, now, ours_at])?;
    Ok(())
}

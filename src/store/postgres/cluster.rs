//! Which processes work here. Each start of one has an epoch; whoever is dead writes nothing more, and what it carried is taken
//! over by the next that joins. For now there is one at a time.

use super::{open::OpenError, session::Session, sql::Transaction};
use crate::store::sql::{Result, Row, Sql, params};
use std::{fmt, time::Duration};

/// Between two looks at another process that may be dead.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A start of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(i64);

impl Epoch {
    /// Of a transaction that only reads.
    pub(super) const NONE: Self = Self(0);

    pub(super) fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Another one that is not known to be dead.
struct Other {
    epoch: i64,
    host: String,
    pid: u32,
    is_lease_over: bool,
    lease_until: String,
}

impl Other {
    fn read(row: &Row<'_>) -> Result<Self> {
        let (epoch, host, pid) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Self { epoch, host, pid, is_lease_over: row.get(3)?, lease_until: row.get(4)? })
    }

    fn lives_on(&self, before: &Self) -> bool {
        self.epoch == before.epoch && self.lease_until != before.lease_until
    }
}

/// Gives this process an epoch, once no other one lives. What was carried is taken over by `Cluster::join`.
pub(super) fn enter(session: &Session) -> Result<Epoch, OpenError> {
    let host = host();
    let mut seen: Option<Other> = None;
    while let Some(other) = bury(session, &host)? {
        match seen {
            Some(before) if other.lives_on(&before) => {
                return Err(OpenError::InUse { host: other.host, pid: other.pid });
            }
            Some(_) => {}
            None => tracing::info!(
                pid = other.pid,
                host = other.host,
                "waiting to see whether another process lives"
            ),
        }
        seen = Some(other);
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
    // Apart from it, so that it waits for a batch that such a process is writing, and sees the end of it. Its number stays, for
    // a process that does not know what became of its last.
    let (tx, _) = Transaction::begin(session, Epoch::NONE, "LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE")?;
    let fence = "UPDATE ledger SET writer = -1 - writer
         WHERE writer >= 0 AND epoch IN (SELECT epoch FROM nodes WHERE dead)";
    tx.execute(fence, &[])?;
    // The server's chance: 59 bits of it, and never 0.
    let random = "SELECT CAST(CAST('x' || replace(CAST(gen_random_uuid() AS text), '-', '') AS bit(64)) AS bigint) & 9223372036854775807";
    let epoch = Epoch((&tx as &dyn Sql).number(random, &[])?);
    let node = "INSERT INTO nodes (epoch, host, pid, lease_until) VALUES (?1, ?2, ?3, clock_timestamp() + interval '10 s')";
    tx.execute(node, params![epoch.0, host, std::process::id()])?;
    tx.execute("INSERT INTO ledger (epoch, writer, batch) VALUES (?1, 0, 0)", params![epoch.0])?;
    tx.commit()?;
    Ok(epoch)
}

/// Declares those dead that are, and answers one that may not be. Forgets those that died long ago and left nothing.
fn bury(session: &Session, host: &str) -> Result<Option<Other>, OpenError> {
    let (tx, _) = Transaction::begin(session, Epoch::NONE, "LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE")?;
    let forget = "DELETE FROM nodes n WHERE n.dead AND n.lease_until < clock_timestamp() - interval '1 day'
         AND NOT EXISTS (SELECT 1 FROM live l WHERE l.lane = 0 AND l.owner = n.epoch)";
    tx.execute(forget, &[])?;
    tx.execute("DELETE FROM ledger WHERE writer < 0 AND epoch NOT IN (SELECT epoch FROM nodes)", &[])?;
    let others = "SELECT epoch, host, pid, lease_until < clock_timestamp(), CAST(lease_until AS text)
         FROM nodes WHERE NOT dead";
    let mut alive = None;
    for other in (&tx as &dyn Sql).all(others, &[], Other::read)? {
        let is_gone = !host.is_empty() && other.host == host && !is_running(other.pid);
        if other.is_lease_over || is_gone {
            tx.execute("UPDATE nodes SET dead = true WHERE epoch = ?1", params![other.epoch])?;
        } else {
            alive = Some(other);
        }
    }
    tx.commit()?;
    Ok(alive)
}

/// What is known of the batches of an epoch.
pub(super) enum Stored {
    /// This was the last so far.
    Upto(i64),
    /// This was the last, and there will be no more: another process took over.
    UptoItsEnd(i64),
    Unknown,
}

/// Waits for a batch that is being committed.
pub(super) fn stored(tx: &Transaction<'_>) -> Result<Stored> {
    let sql = "SELECT batch, writer >= 0 FROM ledger WHERE epoch = ?1 AND writer IN (0, -1) FOR UPDATE";
    let found =
        (tx as &dyn Sql).one(sql, params![tx.epoch.as_i64()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match found {
        Some((batch, true)) => Stored::Upto(batch),
        Some((batch, false)) => Stored::UptoItsEnd(batch),
        None => Stored::Unknown,
    })
}

/// This process writes nothing more; what it carries may be taken over at once.
pub(super) fn leave(session: &Session, epoch: Epoch) -> Result<()> {
    let sql = format!(
        "BEGIN; UPDATE posthaste.nodes SET dead = true WHERE epoch = {epoch};
         DELETE FROM posthaste.ledger WHERE epoch = {epoch}; COMMIT"
    );
    session.run(&sql).map(drop)
}

/// Where this process runs: others there can see whether it still does. Containers have processes of their own. Empty where
/// the system does not say.
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let space = std::fs::read_link("/proc/self/ns/pid");
    match (boot, space) {
        (Ok(boot), Ok(space)) => format!("{} {}", boot.trim(), space.display()),
        _ => String::new(),
    }
}

/// Whether there is such a process here. If that cannot be told, its lease has to end first.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

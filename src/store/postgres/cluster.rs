//! Which processes work here. Each start of one has an epoch; whoever is dead writes nothing more, and what it carried is taken
//! over by the next that joins. For now there is one at a time.

use super::{open::OpenError, session::Session, sql::Transaction};
use crate::store::sql::{Result, Row, Sql, params};
use std::fmt;

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
}

impl Other {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { epoch: row.get(0)?, host: row.get(1)?, pid: row.get(2)?, is_lease_over: row.get(3)? })
    }
}

/// Gives this process an epoch, once no other one lives. What was carried is taken over by `Cluster::join`.
pub(super) fn enter(session: &Session) -> Result<Epoch, OpenError> {
    let host = host();
    bury(session, &host)?;
    // Apart from it, so that it waits for a batch that such a process is writing, and sees the end of it.
    let (tx, _) = Transaction::begin(session, Epoch::NONE, "LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE")?;
    tx.execute("DELETE FROM ledger WHERE epoch IN (SELECT epoch FROM nodes WHERE dead)", &[])?;
    // The server's chance: 59 bits of it, and never 0.
    let random = "SELECT CAST(CAST('x' || replace(CAST(gen_random_uuid() AS text), '-', '') AS bit(64)) AS bigint) & 9223372036854775807";
    let epoch = Epoch((&tx as &dyn Sql).number(random, &[])?);
    let node = "INSERT INTO nodes (epoch, host, pid, lease_until) VALUES (?1, ?2, ?3, clock_timestamp() + interval '10 s')";
    tx.execute(node, params![epoch.0, host, std::process::id()])?;
    tx.execute("INSERT INTO ledger (epoch, writer, batch) VALUES (?1, 0, 0)", params![epoch.0])?;
    tx.commit()?;
    Ok(epoch)
}

/// Declares those dead that are, and forgets those of which nothing is left to take over.
fn bury(session: &Session, host: &str) -> Result<(), OpenError> {
    let (tx, _) = Transaction::begin(session, Epoch::NONE, "LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE")?;
    let forget = "DELETE FROM nodes n WHERE n.dead AND NOT EXISTS (SELECT 1 FROM live l WHERE l.lane = 0 AND l.owner = n.epoch)";
    tx.execute(forget, &[])?;
    let others = "SELECT epoch, host, pid, lease_until < clock_timestamp() FROM nodes WHERE NOT dead";
    for other in (&tx as &dyn Sql).all(others, &[], Other::read)? {
        let is_gone = !host.is_empty() && other.host == host && !is_running(other.pid);
        if !other.is_lease_over && !is_gone {
            return Err(OpenError::InUse { host: other.host, pid: other.pid });
        }
        tx.execute("UPDATE nodes SET dead = true WHERE epoch = ?1", params![other.epoch])?;
    }
    tx.commit()?;
    Ok(())
}

/// Says that this process lives, unless it said so within the last second.
pub(super) fn beat(epoch: Epoch) -> String {
    format!(
        "UPDATE posthaste.nodes SET lease_until = clock_timestamp() + interval '10 s'
         WHERE epoch = {epoch} AND lease_until < clock_timestamp() + interval '9 s'"
    )
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

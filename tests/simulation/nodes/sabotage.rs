//! Ways to break what nodes promise one another, so that the checks can show their teeth. `None` in all honest runs.
//!
//! All of it is done from outside: behind everybody's back in the file, or at the gate of a line.

use posthaste::{
    domain::{port::DialGate, tenure::Tenure, time::Steady},
    world::{Clock, VirtualClock},
};
use rusqlite::{Connection, params};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    None,
    /// Whoever was fenced writes on.
    FenceOff,
    /// The fence holds only once everything was swept, as if it had all been one statement.
    SweepFirst,
    /// Shards are free as soon as their node is declared dead.
    FreeShardsFirst,
    /// A lane becomes somebody's own without waiting for others to hear of it.
    WaitForNobody,
    /// Nobody is ever certain enough of itself to take over from another.
    NobodyTakesOver,
    /// Requests begin until the very end of a lease.
    NoMargin,
    /// Nobody looks at the gate.
    NoGate,
    /// Nodes are told three times the rate that there should be.
    Haste,
    /// Whoever becomes an endpoint's home has as many tokens at once as there may be.
    FullBucket,
    /// One that waits behind others is let go before its turn.
    JumpQueue,
    /// Those behind step up by their ids, whoever was stored first.
    OrderById,
    /// A result is stored a second time, as if its batch had been.
    StoreTwice,
    /// A dead node is forgotten before what it carried was swept.
    ForgetFirst,
    /// Something that a node carries is another's all of a sudden.
    GiveAway,
    /// Nodes are told three times as many requests at a time as there should be.
    Crowd,
    /// An event that was accepted is gone, and everything that was to become of it.
    DropEvent,
    /// Something that nobody has sent yet is called delivered.
    SayDelivered,
    /// What was delivered is due again.
    SendAgain,
    /// Nobody knows any more what was published under which id.
    ForgetKeys,
    /// Nobody is told which endpoint was changed.
    KeepChanges,
    /// Shards belong to whoever had them last, although it is no more.
    KeepShard,
    /// A store that loses what it confirmed keeps the count of it, by which nodes would notice.
    KeepCount,
    /// One that waits is due when nobody will look.
    Hide,
    /// A batch that was not stored is counted, by which its node finds out what became of it.
    CountLost,
}

const MARGIN_MS: i64 = 1000;
/// As long as the largest burst takes at the smallest rate.
const FILLS_MS: i64 = 2000;

impl Sabotage {
    /// At the beginning of a transaction of a node.
    pub(crate) fn begin(self, tx: &Connection, epoch: i64) {
        let unfence = "UPDATE ledger SET writer = 0, fenced_at = NULL WHERE epoch = ?1 AND writer = -1";
        let run = |sql: &str| {
            tx.execute(sql, params![epoch]).unwrap();
        };
        match self {
            Self::FenceOff => run(unfence),
            Self::SweepFirst => {
                run(&format!("{unfence} AND EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1)"));
            }
            Self::FreeShardsFirst => {
                let sql = "UPDATE shards SET epoch = 0 WHERE epoch <> ?1 AND epoch IN (SELECT epoch FROM nodes WHERE dead = 1)";
                run(sql);
            }
            Self::WaitForNobody => run("UPDATE nodes SET seen = 1000000 WHERE epoch <> ?1"),
            Self::NobodyTakesOver => {
                run("UPDATE nodes SET steady_since = lease_until WHERE epoch = ?1");
            }
            Self::JumpQueue => {
                let sql = "UPDATE deliveries SET okey = NULL, turn = NULL, due = (SELECT at FROM who WHERE epoch = ?1)
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE due = 253402300799000)";
                run(sql);
            }
            Self::OrderById => run("UPDATE deliveries SET turn = id WHERE due = 253402300799000 AND ?1 > 0"),
            Self::StoreTwice => {
                let sql = "INSERT OR IGNORE INTO attempts (delivery, position, started_at, total_us, class)
                    SELECT delivery, position + 1000, started_at, total_us, class FROM attempts
                    WHERE position < 1000 AND class <> 9 AND ?1 > 0 LIMIT 1";
                run(sql);
            }
            Self::ForgetFirst => run("DELETE FROM nodes WHERE dead = 1 AND epoch <> ?1"),
            Self::GiveAway => {
                let sql = "UPDATE deliveries SET lane = (SELECT -min(epoch) FROM nodes WHERE epoch <> ?1)
                    WHERE id IN (SELECT min(id) FROM deliveries WHERE lane = -?1)
                        AND EXISTS (SELECT 1 FROM nodes WHERE epoch <> ?1)";
                run(sql);
            }
            Self::DropEvent => {
                let event = "SELECT min(e.id) FROM events e WHERE NOT EXISTS
                    (SELECT 1 FROM deliveries d WHERE d.event = e.id AND d.lane < 0) AND ?1 > 0";
                run(&format!("DELETE FROM deliveries WHERE event IN ({event})"));
                run(
                    "DELETE FROM events WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = events.id) AND ?1 > 0",
                );
            }
            Self::SayDelivered => {
                let sql = "UPDATE deliveries SET state = 4, lane = NULL, due = NULL,
                        finished_at = (SELECT at FROM who WHERE epoch = ?1)
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE state = 0 AND lane > 0 AND okey IS NULL)";
                run(sql);
            }
            Self::SendAgain => {
                let sql = "UPDATE deliveries SET state = 1, lane = endpoint, finished_at = NULL,
                        due = (SELECT at FROM who WHERE epoch = ?1)
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE state = 4 AND history_len = 1)";
                run(sql);
            }
            Self::Hide => {
                let sql = "UPDATE deliveries SET due = 253402300798000
                    WHERE id IN (SELECT max(id) FROM deliveries WHERE state = 0 AND lane > 0 AND okey IS NULL AND ?1 > 0)";
                run(sql);
            }
            Self::ForgetKeys => run("DELETE FROM dedup WHERE ?1 > 0"),
            Self::KeepChanges => run("DELETE FROM changes WHERE kind = 1 AND ?1 > 0"),
            Self::KeepShard => run("UPDATE shards SET epoch = -1 WHERE shard = 255 AND ?1 > 0"),
            Self::None
            | Self::NoMargin
            | Self::NoGate
            | Self::Haste
            | Self::FullBucket
            | Self::Crowd
            | Self::KeepCount
            | Self::CountLost => {}
        }
    }

    /// Behind a transaction of a node that was not stored.
    pub(crate) fn after_loss(self, tx: &Connection, epoch: i64) {
        if self == Self::CountLost {
            tx.execute("UPDATE ledger SET batch = batch + 1 WHERE epoch = ?1 AND writer = 0", params![epoch])
                .unwrap();
        }
    }

    pub(crate) fn rate_factor(self) -> u32 {
        if self == Self::Haste { 3 } else { 1 }
    }

    pub(crate) fn width_factor(self) -> u32 {
        if self == Self::Crowd { 3 } else { 1 }
    }
}

/// The gate of a node as its line asks it.
pub(crate) struct Gate {
    pub(crate) honest: Box<dyn DialGate>,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) sabotage: Sabotage,
}

impl Gate {
    /// The first request goes out of an endpoint that another node sent to before. A clock that leaps ahead, of which nobody is
    /// told, fills buckets.
    pub(crate) fn is_handed_over(&self) {
        if self.sabotage == Sabotage::FullBucket {
            self.clock.step(FILLS_MS);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        let earlier = || Steady::from_millis(self.clock.steady().as_millis() - MARGIN_MS);
        match self.sabotage {
            Sabotage::NoGate => true,
            Sabotage::NoMargin => self.tenure.may_dial(earlier),
            _ => self.honest.is_open(),
        }
    }
}

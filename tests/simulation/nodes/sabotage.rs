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
            Self::None | Self::NoMargin | Self::NoGate | Self::Haste | Self::FullBucket => {}
        }
    }

    pub(crate) fn rate_factor(self) -> u32 {
        if self == Self::Haste { 3 } else { 1 }
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

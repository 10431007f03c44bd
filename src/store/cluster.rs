//! Who carries what: joining, taking over from those who died, finding lanes with work.
//!
//! With an embedded store there is one node, and crash recovery is the takeover of everything an earlier one carried.

use super::{
    Reply,
    retention::{Overdue, OverdueSearch},
};
use crate::domain::{
    circuit::PausedUntil,
    contract::Contract,
    id::{AppId, EndpointId, KeyId},
    replay::Replay,
    retention::Keeps,
    storage::StorageUsage,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

/// What a node needs to know when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The slot its ids carry.
    pub slot: u8,
    /// The newest id in the store: new ones must be larger.
    pub newest_id: i64,
    /// Deliveries that an earlier node carried when it died; each has an attempt "outcome unknown" now.
    pub taken_over: usize,
}

/// What was removed of what people did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Keys that are gone from the store.
    pub keys: Vec<KeyId>,
    pub has_more: bool,
}

/// What a node has to know of endpoints' health when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// How much time has passed, ever, for which receivers can be held to account.
    pub accountable: Duration,
    /// Endpoints of which nothing but failures was heard for long: their lanes begin with little trust.
    pub failing: Vec<EndpointId>,
    /// Endpoints that asked for a pause which is not over.
    pub paused: Vec<(EndpointId, PausedUntil)>,
    /// Endpoints that took something in the last days.
    pub well: Vec<EndpointId>,
}

/// What came of rolling statistics up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledUp {
    /// Endpoints whose windows may say something new: something failed, or something happened although they are degraded.
    pub suspects: Vec<EndpointId>,
    /// How many rows that took.
    pub rows: usize,
    /// The log holds more that is to be rolled up at once.
    pub has_more: bool,
}

/// An endpoint that is on, to be judged by its contract.
#[derive(Clone, Debug)]
pub struct Suspect {
    pub app: AppId,
    pub endpoint: EndpointId,
    pub contract: Arc<Contract>,
}

pub trait Cluster: Send + Sync {
    /// Joins, and takes over whatever dead nodes carried. Inspections that they ran are interrupted; the engine is told if
    /// others wait.
    fn join(&self, now: Timestamp) -> Reply<'_, Joined>;

    /// Every lane in which something is due at some time, and when its first is. Costs a look-up per lane, not per delivery.
    fn find_lanes(&self) -> Reply<'_, Vec<(EndpointId, Timestamp)>>;

    /// Removes a bounded number of rows that deleted apps left behind; `true` while there is more to do.
    fn purge(&self) -> Reply<'_, bool>;

    /// Looks at a bounded number of events for such of which something is to go by now.
    fn overdue(&self, search: OverdueSearch, keeps: Arc<dyn Keeps>, now: Timestamp) -> Reply<'_, Overdue>;

    /// Removes a bounded number of records of what people did, if that was over before this time: entries of the audit log,
    /// replays, inspections, notices (a week later if they still wait to be sent), keys that were revoked or expired.
    fn forget(&self, before: Timestamp) -> Reply<'_, Forgotten>;

    /// How much room the store takes, and how much there is.
    fn usage(&self) -> Reply<'_, StorageUsage>;

    /// Writes down when these keys were last used; an earlier use than the known one changes nothing.
    fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> Reply<'_, ()>;

    /// Every replay that is to proceed.
    fn running_replays(&self) -> Reply<'_, Vec<Replay>>;

    /// Every endpoint with deliveries that its switch says should be settled (held, cancelled, released) and are not yet, or
    /// with dead ones that are in the way of others although it skips them.
    fn unsettled(&self) -> Reply<'_, Vec<EndpointId>>;

    fn standing(&self, now: Timestamp) -> Reply<'_, Standing>;

    /// Adds what commits logged to the statistics, a bounded part of it, removes a few rows that are kept no longer, and
    /// writes down accountable time where somebody may need it.
    fn roll_up(&self, accountable: Duration, now: Timestamp) -> Reply<'_, RolledUp>;

    /// Every endpoint that is degraded.
    fn degraded(&self) -> Reply<'_, Vec<EndpointId>>;

    /// Calls these endpoints degraded or well again as their windows say, tells people, and switches those off whose events
    /// ended failed too often without an attempt; the engine is told after the commit.
    fn judge(&self, suspects: Vec<Suspect>, now: Timestamp) -> Reply<'_, ()>;
}

//! Who carries what: joining, taking over from those who died, finding lanes with work.
//!
//! Every start of a node has an epoch, under which it carries; whoever is taken over writes nothing more. With an embedded
//! store there is one node, whose epoch is 0, and crash recovery is the takeover of everything an earlier one carried.

pub use crate::domain::tenure::SHARDS;

use super::{
    Reply,
    retention::{Overdue, OverdueSearch},
};
use crate::domain::{
    blame::Account,
    circuit::PausedUntil,
    contract::Contract,
    id::{AppId, EndpointId, EventTypeId, KeyId},
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
    /// Under which it carries from now on.
    pub epoch: i64,
    /// There can be no other node: nothing has to be shared, and nobody takes over while this one lives.
    pub is_alone: bool,
    /// The newest id in the store: new ones must be larger.
    pub newest_id: i64,
    /// Deliveries that an earlier node carried when it died; each has an attempt "outcome unknown" now.
    pub taken_over: usize,
}

/// What a node says of itself once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Up to which version it follows the configuration; negative before it has read it.
    pub seen: i64,
    pub free_hands: u32,
    /// Lanes in which more waits than it can carry.
    pub help: Vec<EndpointId>,
    /// It ends what it has, and takes nothing new.
    pub is_stopping: bool,
}

/// A node as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub epoch: i64,
    /// The slot its ids carry; `None` of one that writes nothing more, because it left or was fenced.
    pub slot: Option<u8>,
    /// The name of its machine.
    pub name: String,
    /// Of the program.
    pub version: String,
    /// It left, or its lease is over: what it carried is to be taken over.
    pub is_expired: bool,
    pub seen: i64,
    pub free_hands: u32,
    pub help: Vec<EndpointId>,
    /// Nothing is to be given to it any more.
    pub is_stopping: bool,
    pub joined_at: Timestamp,
    /// How long others wait for it to be heard of again; negative: no longer.
    pub lease_ms: i64,
}

impl Node {
    /// It lives, knows the configuration and goes on: work may be given to it.
    pub fn works(&self) -> bool {
        !self.is_expired && !self.is_stopping && self.seen >= 0
    }
}

/// How things stand, as of one beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// All of them, this one too.
    pub nodes: Vec<Node>,
    /// The epoch at which each shard is at home; 0 if it is free.
    pub shards: Vec<i64>,
    /// Of the configuration.
    pub version: i64,
    /// Another number than before if any other node has written something since.
    pub written: i64,
    /// This node's lease has not lapsed lately, so that it may judge others.
    pub is_steady: bool,
}

/// What of the configuration was added, changed or removed behind a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// As of now.
    pub version: i64,
    pub apps: Vec<AppId>,
    pub endpoints: Vec<EndpointId>,
    pub keys: Vec<KeyId>,
    pub event_types: Vec<EventTypeId>,
    /// It is not known any more: everything is to be read anew.
    pub is_all: bool,
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
    /// Joins, and takes over whatever nodes carried that are known to be dead. Inspections that they ran are interrupted; the
    /// engine is told if others wait. Called again by a node that was taken over, it begins under a new epoch, and what was
    /// recorded or handed back under the old one changes nothing any more.
    fn join(&self, now: Timestamp) -> Reply<'_, Joined>;

    /// Says that this node lives, for another ten seconds from when it was said. `None` if it was taken over: it joins again.
    fn beat(&self, beat: Beat) -> Reply<'_, Option<View>>;

    /// Takes over what this node carried, if its lease is over and this one is steady, and frees its shards; how many deliveries
    /// that were. `None` if it lives or this one is not steady. Whatever an interrupted takeover left is done by the next.
    fn take_over(&self, epoch: i64, now: Timestamp) -> Reply<'_, Option<usize>>;

    /// Makes this node the home of up to `most` shards that are free; which.
    fn claim_shards(&self, most: usize) -> Reply<'_, Vec<u8>>;

    /// Frees those of these shards that are at home here.
    fn release_shards(&self, shards: Vec<u8>) -> Reply<'_, ()>;

    /// Those of these endpoints of which another node carries something.
    fn carried_elsewhere(&self, endpoints: Vec<EndpointId>) -> Reply<'_, Vec<EndpointId>>;

    fn changes(&self, after: i64) -> Reply<'_, Changes>;

    /// How things stand, for people to see; no nodes where there can be only one.
    fn nodes(&self) -> Reply<'_, View>;

    /// Every lane in which something is due at some time, and when its first is. Costs a look-up per lane, not per delivery.
    fn find_lanes(&self) -> Reply<'_, Vec<(EndpointId, Timestamp)>>;

    /// Those of these lanes in which something waits that is due.
    fn lanes_behind(&self, lanes: Vec<EndpointId>, now: Timestamp) -> Reply<'_, Vec<EndpointId>>;

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

    /// Tells the others how much accountable time this node has counted, and whether it is us; answers what all of them together
    /// have, and whether one of them said so lately. Nothing is ever taken back of the time.
    fn account(&self, mine: Account, now: Timestamp) -> Reply<'_, Account>;

    /// Every endpoint that is degraded.
    fn degraded(&self) -> Reply<'_, Vec<EndpointId>>;

    /// Calls these endpoints degraded or well again as their windows say, tells people, and switches those off whose events
    /// ended failed too often without an attempt; the engine is told after the commit.
    fn judge(&self, suspects: Vec<Suspect>, now: Timestamp) -> Reply<'_, ()>;
}

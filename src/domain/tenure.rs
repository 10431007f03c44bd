//! What this node may do at this moment: which shards are its own, until when it may call out, how much of the configuration
//! it has seen. Atomics that everybody reads and few write.
//!
//! A node that is alone in its store may do everything for ever, and is told so by one look.

use super::{
    id::{AppId, EndpointId},
    time::Steady,
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

/// What endpoints are spread over; each is looked after by one node at a time.
pub const SHARDS: usize = 256;

/// Whoever has this one also does what is done once for all nodes.
const STEWARDS_SHARD: u8 = 0;

/// Who looks after a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Elsewhere,
    Here,
    /// Still here, until nothing is under way any more that others must not meet.
    Leaving,
}

#[derive(Debug)]
pub struct Tenure {
    is_alone: AtomicBool,
    epoch: AtomicI64,
    homes: [AtomicU8; SHARDS],
    /// In milliseconds of the steady clock.
    dial_until: AtomicI64,
    /// Changed together with the epoch.
    seen: Mutex<i64>,
    stewarding: AtomicUsize,
}

/// Nobody yet: nothing is its own, and it may not call out.
impl Default for Tenure {
    fn default() -> Self {
        Self {
            is_alone: AtomicBool::new(false),
            epoch: AtomicI64::new(0),
            homes: std::array::from_fn(|_| AtomicU8::new(Home::Elsewhere as u8)),
            dial_until: AtomicI64::new(i64::MIN),
            seen: Mutex::new(0),
            stewarding: AtomicUsize::new(0),
        }
    }
}

impl Tenure {
    /// Less than any version of the configuration: whoever has seen it reads everything anew.
    pub const NOTHING: i64 = -1;

    /// Of the only node of its store.
    pub fn alone() -> Self {
        let tenure = Self::default();
        tenure.be_alone();
        tenure
    }

    pub fn be_alone(&self) {
        self.is_alone.store(true, SeqCst);
        self.homes.iter().for_each(|home| home.store(Home::Here as u8, SeqCst));
        self.dial_until.store(i64::MAX, SeqCst);
    }

    /// As a node that just joined under this epoch: nothing is its own, and it may not call out yet.
    pub fn enter(&self, epoch: i64) {
        self.dial_until.store(i64::MIN, SeqCst);
        self.homes.iter().for_each(|home| home.store(Home::Elsewhere as u8, SeqCst));
        self.epoch.store(epoch, SeqCst);
    }

    /// The same for one that was taken over: it has seen nothing of a store that may not be what it was.
    pub fn enter_again(&self, epoch: i64) {
        let mut seen = self.seen_so_far();
        *seen = Self::NOTHING;
        self.enter(epoch);
    }

    pub fn is_alone(&self) -> bool {
        self.is_alone.load(Relaxed)
    }

    /// Which start of a process this is; 0 where there is one at a time.
    pub fn epoch(&self) -> i64 {
        self.epoch.load(SeqCst)
    }

    pub fn home(&self, shard: u8) -> Home {
        match self.homes[usize::from(shard)].load(SeqCst) {
            1 => Home::Here,
            2 => Home::Leaving,
            _ => Home::Elsewhere,
        }
    }

    pub fn set_home(&self, shard: u8, home: Home) {
        self.homes[usize::from(shard)].store(home as u8, SeqCst);
    }

    /// All shards that are here or leaving, as asked for.
    pub fn shards(&self, home: Home) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(move |shard| self.home(*shard) == home)
    }

    pub fn dial_until(&self) -> Steady {
        Steady::from_millis(self.dial_until.load(SeqCst))
    }

    pub fn may_dial_until(&self, until: Steady) {
        self.dial_until.store(until.as_millis(), SeqCst);
    }

    /// Whether a request may begin now; a clock is only asked where there is a limit.
    pub fn may_dial(&self, now: impl FnOnce() -> Steady) -> bool {
        let until = self.dial_until.load(SeqCst);
        until == i64::MAX || now().as_millis() < until
    }

    /// Up to which version this node has seen the configuration.
    pub fn seen(&self) -> i64 {
        *self.seen_so_far()
    }

    /// What it saw under this epoch; if it joined again since, it has to look again.
    pub fn has_seen(&self, version: i64, epoch: i64) {
        let mut seen = self.seen_so_far();
        if self.epoch() == epoch {
            *seen = version;
        }
    }

    fn seen_so_far(&self) -> MutexGuard<'_, i64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave to do a piece of what one node does for all, if it is this one. The shard stays here until that is done.
    pub fn steward(self: &Arc<Self>, now: impl FnOnce() -> Steady) -> Option<Stewarding> {
        // Counted first: whoever gives the shard up says so before looking whether somebody is at work.
        self.stewarding.fetch_add(1, SeqCst);
        let at_work = Stewarding(self.clone());
        let is_steward = self.home(STEWARDS_SHARD) == Home::Here && self.may_dial(now);
        is_steward.then_some(at_work)
    }

    /// Whether something is under way in this shard that only the steward does.
    pub fn is_stewarding(&self, shard: u8) -> bool {
        shard == STEWARDS_SHARD && self.stewarding.load(SeqCst) > 0
    }
}

/// Held by the steward while it does something for all.
#[derive(Debug)]
pub struct Stewarding(Arc<Tenure>);

impl Drop for Stewarding {
    fn drop(&mut self) {
        self.0.stewarding.fetch_sub(1, SeqCst);
    }
}

/// The shard of an endpoint whose app has no limits of its own.
pub fn shard_of(endpoint: EndpointId) -> u8 {
    mixed(endpoint.as_i64())
}

/// The shard of all endpoints of an app that has: its limits hold for all of them together.
pub fn shard_of_app(app: AppId) -> u8 {
    mixed(app.as_i64())
}

/// Ids are made of a time, a slot and a count: every bit of them has its part in every bit of this. All nodes must agree on
/// it, so it never changes.
fn mixed(number: i64) -> u8 {
    let mut mixed = number as u64;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{id::Ids, time::Timestamp};
    use std::{collections::HashMap, time::Duration};

    fn at(ms: i64) -> Steady {
        Steady::from_millis(ms)
    }

    #[test]
    fn alone_everything_is_here_and_no_clock_is_asked() {
        let tenure = Arc::new(Tenure::alone());
        let no_clock = || panic!("a clock was asked");
        assert!(tenure.is_alone() && tenure.may_dial(no_clock) && tenure.steward(no_clock).is_some());
        assert_eq!(tenure.shards(Home::Here).count(), SHARDS);
    }

    #[test]
    fn who_has_not_joined_or_joins_again_owns_nothing_and_may_not_call_out() {
        let tenure = Tenure::default();
        assert!(!tenure.is_alone() && !tenure.may_dial(|| at(i64::MIN)));
        tenure.enter(7);
        tenure.set_home(3, Home::Here);
        tenure.may_dial_until(at(10));
        assert!(tenure.may_dial(|| at(9)) && !tenure.may_dial(|| at(10)), "the end is not in it");
        tenure.enter(8);
        assert_eq!((tenure.epoch(), tenure.home(3)), (8, Home::Elsewhere));
        assert!(!tenure.may_dial(|| at(9)));
    }

    #[test]
    fn only_the_steward_works_for_all_and_is_counted_while_it_does() {
        let tenure = Arc::new(Tenure::default());
        tenure.enter(7);
        tenure.may_dial_until(at(10));
        tenure.set_home(1, Home::Here);
        assert!(tenure.steward(|| at(1)).is_none());
        tenure.set_home(0, Home::Here);
        assert!(tenure.steward(|| at(10)).is_none(), "it may not call out any more");
        let at_work = tenure.steward(|| at(9)).unwrap();
        tenure.set_home(0, Home::Leaving);
        assert!(tenure.steward(|| at(9)).is_none(), "nothing is begun that would keep it");
        assert!(tenure.is_stewarding(0) && !tenure.is_stewarding(1));
        drop(at_work);
        assert!(!tenure.is_stewarding(0));
    }

    /// However they are made: one by one, many in a millisecond, by several nodes.
    #[test]
    fn endpoints_are_spread_evenly() {
        let now = Timestamp::from_millis(1_794_700_800_000);
        for (gap_ms, slots) in [(0, 1), (1, 1), (60_000, 1), (0, 8)] {
            let mut counts: HashMap<u8, usize> = HashMap::new();
            for slot in 0..slots {
                let ids = Ids::new(slot, 0);
                for step in 0..25_600 / u64::from(slots) {
                    let made_at = now.plus(Duration::from_millis(step * gap_ms));
                    *counts.entry(shard_of(EndpointId::from_i64(ids.take(made_at, 1)))).or_default() += 1;
                }
            }
            let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
            assert!(
                counts.len() == SHARDS && *least > 50 && *most < 150,
                "{gap_ms} {slots}: {least} to {most}"
            );
        }
    }
}

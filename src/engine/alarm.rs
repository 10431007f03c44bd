//! Who is to be looked at again, and when: one ordered set for all lanes that wait for a token, and for the gates. Nobody has
//! a timer of their own.

use crate::domain::{id::EndpointId, time::Timestamp};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sleeper {
    Gates,
    Lane(EndpointId),
}

#[derive(Debug, Default)]
pub(super) struct Alarm {
    set: Mutex<BTreeSet<(Timestamp, Sleeper)>>,
    /// Rings whoever sleeps until the first of them.
    pub(super) bell: Notify,
}

impl Alarm {
    pub(super) fn set(&self, at: Timestamp, sleeper: Sleeper) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = set.first().is_none_or(|(first, _)| at < *first);
        set.insert((at, sleeper));
        drop(set);
        if is_first {
            self.bell.notify_one();
        }
    }

    pub(super) fn first(&self) -> Option<Timestamp> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).first().map(|(at, _)| *at)
    }

    /// Removes one whose time has come.
    pub(super) fn take_due(&self, now: Timestamp) -> Option<Sleeper> {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.first().filter(|(at, _)| *at <= now)?;
        set.pop_first().map(|(_, sleeper)| sleeper)
    }
}

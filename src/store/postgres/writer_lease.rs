//! Writer lease: whether this node may start anything. Only while no other node can take over and its writer can write,
//! because a result could not be recorded otherwise.

use crate::{
    domain::cluster::{LEASE_MARGIN, NODE_LEASE},
    store::CommitWatch,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// How long after a heartbeat was sent other nodes must leave this node alone, with a margin for clocks that differ.
const WRITER_LEASE: Duration = NODE_LEASE.saturating_sub(LEASE_MARGIN);

/// State of the lease.
pub(super) struct WriterLease {
    watch: Arc<dyn CommitWatch>,
    /// End of the lease, by the `CommitWatch` clock.
    until_us: AtomicU64,
    is_writing: AtomicBool,
    /// Another node took over, or the database lost batches. This node has to join again.
    is_fenced: AtomicBool,
}

impl WriterLease {
    pub(super) fn new(watch: Arc<dyn CommitWatch>) -> Self {
        let until_us = AtomicU64::new(watch.started() + as_us(WRITER_LEASE));
        Self { watch, until_us, is_writing: AtomicBool::new(true), is_fenced: AtomicBool::new(false) }
    }

    pub(super) fn can_record(&self) -> bool {
        let is_leased = self.watch.started() < self.until_us.load(Relaxed);
        is_leased && self.is_writing.load(Relaxed) && !self.is_fenced.load(Relaxed)
    }

    /// Sets whether the last batch could be written.
    pub(super) fn set_writing(&self, it_does: bool) {
        self.is_writing.store(it_does, Relaxed);
    }

    pub(super) fn is_writing(&self) -> bool {
        self.is_writing.load(Relaxed)
    }

    /// Ends the lease: no more can be written under this epoch.
    pub(super) fn fence(&self) {
        self.is_fenced.store(true, Relaxed);
    }

    /// Resets the fence after joining, perhaps under another epoch. The next heartbeat decides whether the lease is valid.
    pub(super) fn joined(&self) {
        self.is_fenced.store(false, Relaxed);
    }

    /// Returns the reading of the `CommitWatch` clock.
    pub(super) fn now_us(&self) -> u64 {
        self.watch.started()
    }

    /// Renews the lease if the heartbeat sent at this time was answered; ends it if not.
    pub(super) fn heartbeat(&self, sent_us: u64, is_answered: bool) {
        self.until_us.store(if is_answered { sent_us + as_us(WRITER_LEASE) } else { 0 }, Relaxed);
    }
}

fn as_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

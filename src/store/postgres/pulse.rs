//! Whether this node may begin anything: only while it is certain that nobody else can take over and its writer can write,
//! because what comes of it could not be recorded otherwise.

use crate::store::CommitWatch;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// How long after a beat was sent others must leave this node alone, with something to spare for clocks that differ.
const LEASE: Duration = Duration::from_secs(9);

/// What is known of that now.
pub(super) struct Pulse {
    watch: Arc<dyn CommitWatch>,
    /// Until when, on the watch.
    until_us: AtomicU64,
    is_writing: AtomicBool,
    /// Another node took over, or the database is not what it was. It has to join again.
    is_fenced: AtomicBool,
}

impl Pulse {
    pub(super) fn new(watch: Arc<dyn CommitWatch>) -> Self {
        let until_us = AtomicU64::new(watch.started() + as_us(LEASE));
        Self { watch, until_us, is_writing: AtomicBool::new(true), is_fenced: AtomicBool::new(false) }
    }

    pub(super) fn can_record(&self) -> bool {
        let is_leased = self.watch.started() < self.until_us.load(Relaxed);
        is_leased && self.is_writing.load(Relaxed) && !self.is_fenced.load(Relaxed)
    }

    /// Whether the last batch could be written.
    pub(super) fn writes(&self, it_does: bool) {
        self.is_writing.store(it_does, Relaxed);
    }

    pub(super) fn is_writing(&self) -> bool {
        self.is_writing.load(Relaxed)
    }

    /// Nothing more can be written under this epoch.
    pub(super) fn fence(&self) {
        self.is_fenced.store(true, Relaxed);
    }

    /// It has a place, perhaps under another epoch. Whether it may begin anything is for the next beat to say.
    pub(super) fn joined(&self) {
        self.is_fenced.store(false, Relaxed);
    }

    /// What its watch shows.
    pub(super) fn now_us(&self) -> u64 {
        self.watch.started()
    }

    /// A beat that was sent then was answered, or was not.
    pub(super) fn beat(&self, sent_us: u64, is_answered: bool) {
        self.until_us.store(if is_answered { sent_us + as_us(LEASE) } else { 0 }, Relaxed);
    }
}

fn as_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

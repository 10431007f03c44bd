//! Says every second that this process lives, on a thread and a connection of its own, and knows for how long nobody else can
//! take over. While that is not certain, or the writer cannot write, nothing is to be begun that could not be recorded.

use super::{
    cluster::Epoch,
    session::{Server, Session},
};
use crate::store::{CommitWatch, sql::Result};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{Builder, Thread},
    time::Duration,
};

const EVERY: Duration = Duration::from_secs(1);
/// An answer that takes longer comes too late for the lease.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long after a beat was sent others must leave this process alone, with something to spare for clocks that differ.
const LEASE: Duration = Duration::from_secs(9);

/// Whether this process may begin anything.
pub(super) struct Pulse {
    watch: Arc<dyn CommitWatch>,
    /// Until when, on the watch.
    until_us: AtomicU64,
    is_writing: AtomicBool,
    /// Another process took over, or the database is not what it was. This is for good.
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

    pub(super) fn fence(&self) {
        self.is_fenced.store(true, Relaxed);
    }
}

fn as_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) struct Heart {
    stops: Arc<AtomicBool>,
    thread: Thread,
}

impl Heart {
    pub(super) fn start(server: Arc<Server>, epoch: Epoch, pulse: Arc<Pulse>) -> io::Result<Self> {
        let stops = Arc::<AtomicBool>::default();
        let told = stops.clone();
        let run = move || {
            let (mut session, mut was_well) = (None, true);
            while !told.load(Relaxed) {
                let sent_us = pulse.watch.started();
                let beat = beat(&server, &mut session, epoch);
                let is_news =
                    std::mem::replace(&mut was_well, matches!(beat, Ok(true))) && !told.load(Relaxed);
                let until_us = match beat {
                    Ok(true) => sent_us + as_us(LEASE),
                    Ok(false) => {
                        if is_news {
                            tracing::error!(
                                "another process took over from this one, which sends nothing more"
                            );
                        }
                        pulse.fence();
                        0
                    }
                    Err(error) => {
                        if is_news {
                            tracing::warn!(%error, "the database was not told that this process lives");
                        }
                        session = None;
                        0
                    }
                };
                pulse.until_us.store(until_us, Relaxed);
                std::thread::park_timeout(EVERY);
            }
        };
        let thread = Builder::new().name("heart".to_owned()).spawn(run)?;
        Ok(Self { stops, thread: thread.thread().clone() })
    }

    /// Waits for nothing: the server may have fallen silent.
    pub(super) fn stop(&self) {
        self.stops.store(true, Relaxed);
        self.thread.unpark();
    }
}

/// `false` if this process is counted among the dead.
fn beat(server: &Server, session: &mut Option<Session>, epoch: Epoch) -> Result<bool> {
    let session = match session {
        Some(session) => session,
        None => session.insert(Session::connect(server, PATIENCE)?),
    };
    let lives = format!(
        "UPDATE posthaste.nodes SET lease_until = clock_timestamp() + interval '10 s'
         WHERE epoch = {epoch} AND NOT dead RETURNING 1"
    );
    Ok(session.run(&lives)? == 1)
}

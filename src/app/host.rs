//! Host facilities: the limit of file handles, the host's addresses and name, a stopwatch.

use crate::{
    runtime::{Metrics, SystemClock},
    store::CommitWatch,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::{net::IpAddr, sync::Arc};

/// Handles besides deliveries in flight: clients, the store, spare ones.
const OTHER_FILE_HANDLES: u64 = 4096;

/// How many file handles so many permits could need.
pub fn file_handles_needed(permits: usize) -> u64 {
    permits as u64 * 2 + OTHER_FILE_HANDLES
}

/// Raises the limit of file handles to what the permits could need. Logs a warning if the host allows fewer.
pub(super) fn raise_file_limit(permits: usize) {
    let wanted = file_handles_needed(permits);
    let mut limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return;
    }
    let allowed = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    limit.current = Some(allowed);
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, current, wanted, "cannot raise the limit of open files");
    } else if allowed < wanted {
        tracing::warn!(allowed, wanted, "the limit of open files is low for so many deliveries in flight");
    }
}

/// Returns the addresses of this machine. An endpoint must not lead back to them, whatever their range.
pub(super) fn own_addresses() -> Vec<IpAddr> {
    match if_addrs::get_if_addrs() {
        Ok(interfaces) => interfaces.iter().map(if_addrs::Interface::ip).collect(),
        Err(error) => {
            tracing::warn!(%error, "cannot list this machine's own addresses");
            Vec::new()
        }
    }
}

/// Returns the host name; empty where the system gives none.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Times commits on the monotonic clock.
pub(super) struct CommitStopwatch(pub(super) Arc<Metrics>);

impl CommitWatch for CommitStopwatch {
    fn started(&self) -> u64 {
        u64::try_from(SystemClock.monotonic_us()).unwrap_or(0)
    }

    fn committed(&self, started: u64, commands: usize) {
        self.0.observe_commit(commands as u64, self.started().saturating_sub(started));
    }
}

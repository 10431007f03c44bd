//! Lease of a node: how long the other nodes of a store leave it alone after a heartbeat.

use std::time::Duration;

/// How long a lease lasts after the store executed a heartbeat, by the clock of the store.
pub const LEASE: Duration = Duration::from_secs(10);

/// Clocks drift, and a moment passes between the last reading of one and the first byte on the wire.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// How long a node uses its lease after it sent a heartbeat, by its own clock.
pub const LEASE_USED: Duration = LEASE.saturating_sub(LEASE_MARGIN);

//! The rules that all nodes of a cluster share: shards, leases, and the report of outages.

use super::id::{AppId, EndpointId};
use std::time::Duration;

/// The number of shards that endpoints are spread over. Each is owned by one node at a time.
pub const SHARD_COUNT: usize = 256;

/// A number below any configuration version: a node that has seen this reloads everything.
pub const NO_CONFIG_VERSION: i64 = -1;

/// How long a node's lease lasts after a heartbeat, by the clock of the store.
pub const NODE_LEASE: Duration = Duration::from_secs(10);

/// A node begins nothing in this last part of its lease: clocks drift, and a moment passes between the last reading of a clock
/// and the first byte on the wire.
pub const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// How long a node's own lease must not have lapsed before it takes over others: when an unreachable store comes back, every
/// node has that long to send a heartbeat.
pub const JOIN_GRACE: Duration = Duration::from_secs(3);

/// The outage report of one node, or of all nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutageReport {
    /// Outage-adjusted time: all time that has passed, except local outages.
    pub adjusted_time: Duration,
    /// Whether there is a local outage.
    pub is_local_outage: bool,
}

/// Returns the shard of an endpoint whose app has no limits of its own.
pub fn shard_of(endpoint: EndpointId) -> u8 {
    mix_id(endpoint.as_i64())
}

/// Returns the shard of all endpoints of an app with limits of its own, which hold for all of them together.
pub fn shard_of_app(app: AppId) -> u8 {
    mix_id(app.as_i64())
}

/// Mixes an id, made of a time, a slot and a count, so that every bit affects every bit of the result. All nodes must agree on
/// it, so it never changes.
fn mix_id(number: i64) -> u8 {
    let mut mixed = number as u64;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::IdSource, time::Timestamp};
    use std::collections::HashMap;

    /// Ids are made one by one, many in a millisecond, or by several nodes.
    #[test]
    fn endpoints_are_spread_evenly() {
        let now = Timestamp::from_millis(1_794_700_800_000);
        for (gap_ms, slots) in [(0, 1), (1, 1), (60_000, 1), (0, 8)] {
            let mut counts: HashMap<u8, usize> = HashMap::new();
            for slot in 0..slots {
                let mut ids = IdSource::new(slot, 0);
                for step in 0..25_600 / u64::from(slots) {
                    let made_at = now.plus(Duration::from_millis(step * gap_ms));
                    *counts.entry(shard_of(EndpointId::from_i64(ids.next_range(made_at, 1)))).or_default() +=
                        1;
                }
            }
            let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
            assert!(
                counts.len() == SHARD_COUNT && *least > 50 && *most < 150,
                "{gap_ms} {slots}: {least} to {most}"
            );
        }
    }
}

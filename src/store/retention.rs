//! Retention: where something is overdue, and the result of removing it.

use crate::domain::id::{DeliveryId, EndpointId};

/// A search among events in order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverdueSearch {
    /// Only ids larger than this are examined.
    pub after_id: i64,
    /// Only ids smaller than this are examined.
    pub to_id: i64,
    /// Most events to examine.
    pub most: u32,
}

/// Events with something to remove, as ranges of ids, first and last, in order.
pub type EventIdRanges = Vec<(i64, i64)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverdueEvents {
    /// Each small enough for one step.
    pub ranges: EventIdRanges,
    /// Every id up to this was examined.
    pub reached: i64,
    /// There are no more events beyond `reached`.
    pub is_last: bool,
}

/// Result of one removal step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpireResult {
    /// Deliveries that still waited and ended with their event, now recorded as ended.
    pub ended: Vec<(DeliveryId, EndpointId)>,
    /// Payloads removed from events that stay.
    pub payloads: u64,
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    /// Ranges left for another step.
    pub remaining: EventIdRanges,
}

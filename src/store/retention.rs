//! What the seams say about retention: where something is overdue, and what came of removing it.

use crate::domain::id::{DeliveryId, EndpointId};

/// A look at events in order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverdueSearch {
    /// Only larger ids than this are looked at,
    pub after_id: i64,
    /// and only smaller ones than this,
    pub to_id: i64,
    /// and at most so many.
    pub most: u32,
}

/// Events of which something is to go, as ranges of ids, first and last, in order.
pub type Ranges = Vec<(i64, i64)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Each small enough for one step.
    pub ranges: Ranges,
    /// Everything up to this id was looked at.
    pub reached: i64,
    /// There is nothing beyond.
    pub is_last: bool,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Deliveries that still waited and ended with their event, now on record.
    pub ended: Vec<(DeliveryId, EndpointId)>,
    /// Payloads whose events stay.
    pub payloads: u64,
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    /// What is left for another step.
    pub left: Ranges,
}

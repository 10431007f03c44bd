//! The ports between modules: permits, taken before an event is stored; the commit listener, called after the commit; and the
//! send gate, checked before every request.
//!
//! The store knows the first two and not the engine; the engine's endpoint queues implement them.

use super::{
    circuit_breaker::DelayReason,
    delivery::Delivery,
    endpoint::{Disabled, Endpoint},
    event::Event,
    id::{AppId, EndpointId},
    live_update::LiveUpdate,
    time::Timestamp,
};
use std::sync::Arc;

/// The source of delivery permits. Taking one never waits.
pub trait Permits: Send + Sync {
    /// Takes a permit for a delivery of `bytes` to this endpoint. Returns `None` if its queue may not send now, or if all
    /// permits or the queue's share of them are in use.
    fn take(&self, endpoint: EndpointId, bytes: usize) -> Option<Permit>;

    /// Takes a permit for a test, which is sent at once even to a disabled endpoint. Returns `None` if no permit is free, if
    /// the queue is full and has its extra manual deliveries, or if another node sends for the endpoint.
    fn take_for_test(&self, endpoint: EndpointId, bytes: usize) -> Option<Permit>;

    /// The endpoint's settings or state changed, or it was deleted. Updates its queue; the new state is applied to waiting
    /// deliveries in the background where the service has not done so.
    fn endpoint_changed(&self, endpoint: EndpointId);

    /// The app's settings changed. Updates the limits of its queues.
    fn app_changed(&self, _: AppId) {}

    /// Returns the reason why this delivery is not sent now, if there is one.
    fn delay_reason(&self, _: &Delivery, _: Timestamp) -> Option<DelayReason> {
        None
    }

    /// A replay was begun, resumed, paused or cancelled; the store has the details.
    fn replays_changed(&self);

    /// Whether another node sends to this endpoint. Its new deliveries then wait in the store.
    fn is_owned_elsewhere(&self, _: EndpointId) -> bool {
        false
    }

    /// Returns the number of free permits of this node.
    fn available(&self) -> usize {
        0
    }
}

/// The current endpoints.
pub trait EndpointLookup: Send + Sync {
    /// Returns `None` for a deleted endpoint.
    fn endpoint(&self, id: EndpointId) -> Option<Arc<Endpoint>>;
}

/// The send gate, checked before any request to a receiver.
pub trait SendGate: Send + Sync {
    /// Whether this node may begin a request now: no other node can have taken over its work.
    fn is_open(&self) -> bool;
}

/// The pool that a permit returns to.
pub trait PermitSource: Send + Sync {
    fn release(&self, bytes: usize);

    /// Adds the bytes of a permit that was taken before its delivery was known.
    fn add_bytes(&self, bytes: usize);
}

/// A permit for one delivery in flight. It is released on drop, which is when the result is committed.
pub struct Permit {
    source: Arc<dyn PermitSource>,
    bytes: usize,
    /// The writer epoch under which it was taken, if that matters.
    epoch: Option<i64>,
}

impl Permit {
    pub fn new(holder: Arc<dyn PermitSource>, bytes: usize) -> Self {
        Self { source: holder, bytes, epoch: None }
    }

    /// Makes a permit that is valid only under this epoch: a node that joins again starts without old permits.
    pub fn for_epoch(epoch: i64, holder: Arc<dyn PermitSource>, bytes: usize) -> Self {
        Self { source: holder, bytes, epoch: Some(epoch) }
    }

    /// Whether it may be used for a delivery that is leased under this epoch.
    pub fn is_valid_for(&self, epoch: i64) -> bool {
        self.epoch.is_none_or(|own| own == epoch)
    }

    /// Adds the bytes of its delivery, for a permit that was taken before they were known.
    pub fn add_bytes(&mut self, bytes: usize) {
        self.source.add_bytes(bytes);
        self.bytes += bytes;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.source.release(self.bytes);
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permit")
    }
}

/// A leased delivery with everything needed to send it, except the endpoint's current settings.
#[derive(Debug)]
pub struct LeasedDelivery {
    pub delivery: Delivery,
    pub event: Arc<Event>,
    /// When it became due.
    pub due: Timestamp,
    pub permit: Permit,
    /// The epoch of its lease. Its result is written only while the store has the same epoch.
    pub epoch: i64,
}

/// The commit listener: the delivery store calls it after a commit. No method may wait.
pub trait CommitListener: Send + Sync {
    /// These deliveries are in flight in the store, and only this node sends them.
    fn deliveries_leased(&self, leased: Vec<LeasedDelivery>);
    /// A delivery of this endpoint waits in the store until `due`. Only a hint: the store is authoritative.
    fn delivery_waiting(&self, endpoint: EndpointId, due: Timestamp);
    /// A manually requested delivery of this endpoint waits in the store until `due`. Default: the same as
    /// `delivery_waiting`.
    fn manual_waiting(&self, endpoint: EndpointId, due: Timestamp) {
        self.delivery_waiting(endpoint, due);
    }
    /// A result disabled the endpoint, because its receiver answered that it is gone or by a rule of its contract. `revision` is
    /// its new revision.
    fn endpoint_disabled(&self, endpoint: EndpointId, disabled: Disabled, revision: u32);
    /// An inspection waits in the store.
    fn inspection_waiting(&self);
    /// A notice waits in the store.
    fn notice_waiting(&self);
    /// Another node began or changed a replay; the store has the details.
    fn replay_waiting(&self) {}
    /// Another node changed apps, endpoints, keys or event types.
    fn configuration_changed(&self) {}
    /// Whether another node owns this endpoint's queue. The store then notifies that node as well.
    fn is_queue_remote(&self, _: EndpointId) -> bool {
        false
    }
    /// A live update for subscribers that no other call implies. No action is needed.
    fn live_update(&self, _: LiveUpdate) {}
}

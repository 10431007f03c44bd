//! Live updates: messages that an object has changed. They carry no content: a subscriber reads the new state itself.
//!
//! The store (`store/live_updates.rs`) publishes them through this port; the server of the live-update stream implements it.

use super::{
    delivery::{Delivery, DeliveryState},
    id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
    replay::{Replay, ReplayState},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveUpdate {
    pub app: AppId,
    pub kind: LiveUpdateKind,
}

/// The change, and the object it happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveUpdateKind {
    /// The event was accepted.
    Event(EventId),
    /// The delivery was created, or its state changed.
    Delivery(DeliveryUpdate),
    /// Some deliveries of the endpoint changed their state or their due time.
    Deliveries(EndpointId),
    /// An attempt of the delivery ended.
    Attempt(DeliveryUpdate),
    /// The endpoint was created, changed, enabled, disabled or deleted, or its health changed.
    Endpoint(EndpointId),
    /// The replay was created or made progress, or its state changed.
    Replay(ReplayId, ReplayState),
}

/// A delivery with its state when the live update was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryUpdate {
    pub delivery: DeliveryId,
    pub event: EventId,
    pub endpoint: EndpointId,
    pub state: DeliveryState,
}

impl LiveUpdate {
    pub const fn event(app: AppId, event: EventId) -> Self {
        Self { app, kind: LiveUpdateKind::Event(event) }
    }

    pub const fn endpoint(app: AppId, endpoint: EndpointId) -> Self {
        Self { app, kind: LiveUpdateKind::Endpoint(endpoint) }
    }

    pub const fn deliveries(app: AppId, endpoint: EndpointId) -> Self {
        Self { app, kind: LiveUpdateKind::Deliveries(endpoint) }
    }

    pub const fn delivery(delivery: &Delivery) -> Self {
        Self { app: delivery.app, kind: LiveUpdateKind::Delivery(DeliveryUpdate::of(delivery)) }
    }

    pub const fn attempt(delivery: &Delivery) -> Self {
        Self { app: delivery.app, kind: LiveUpdateKind::Attempt(DeliveryUpdate::of(delivery)) }
    }

    pub const fn replay(replay: &Replay) -> Self {
        Self { app: replay.app, kind: LiveUpdateKind::Replay(replay.id, replay.state) }
    }
}

impl DeliveryUpdate {
    const fn of(delivery: &Delivery) -> Self {
        let Delivery { id, event, endpoint, state, .. } = *delivery;
        Self { delivery: id, event, endpoint, state }
    }
}

/// The subscribers to live updates.
pub trait UpdateSink: Send + Sync {
    /// Whether there are subscribers. Checked before a live update is made, so that without subscribers it costs one atomic load.
    fn has_subscribers(&self) -> bool;

    /// Publishes a live update without waiting. A subscriber that is too slow misses it and is notified of the gap.
    fn publish(&self, update: LiveUpdate);
}

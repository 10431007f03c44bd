//! Live updates: messages that an object has changed. They carry no content: a subscriber reads the new state itself.
//!
//! The store (`store/told.rs`) publishes them through this port; the server of the live-update stream implements it.

use super::{
    delivery::{Delivery, DeliveryState},
    id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
    replay::{Replay, ReplayState},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    pub app: AppId,
    pub about: About,
}

/// The change, and the object it happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The event was accepted.
    Event(EventId),
    /// The delivery was created, or its state changed.
    Delivery(Moved),
    /// Some deliveries of the endpoint changed their state or their due time.
    Deliveries(EndpointId),
    /// An attempt of the delivery ended.
    Attempt(Moved),
    /// The endpoint was created, changed, enabled, disabled or deleted, or its health changed.
    Endpoint(EndpointId),
    /// The replay was created or made progress, or its state changed.
    Replay(ReplayId, ReplayState),
}

/// A delivery with its state when the live update was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub delivery: DeliveryId,
    pub event: EventId,
    pub endpoint: EndpointId,
    pub state: DeliveryState,
}

impl Hint {
    pub const fn event(app: AppId, event: EventId) -> Self {
        Self { app, about: About::Event(event) }
    }

    pub const fn endpoint(app: AppId, endpoint: EndpointId) -> Self {
        Self { app, about: About::Endpoint(endpoint) }
    }

    pub const fn deliveries(app: AppId, endpoint: EndpointId) -> Self {
        Self { app, about: About::Deliveries(endpoint) }
    }

    pub const fn delivery(delivery: &Delivery) -> Self {
        Self { app: delivery.app, about: About::Delivery(Moved::of(delivery)) }
    }

    pub const fn attempt(delivery: &Delivery) -> Self {
        Self { app: delivery.app, about: About::Attempt(Moved::of(delivery)) }
    }

    pub const fn replay(replay: &Replay) -> Self {
        Self { app: replay.app, about: About::Replay(replay.id, replay.state) }
    }
}

impl Moved {
    const fn of(delivery: &Delivery) -> Self {
        let Delivery { id, event, endpoint, state, .. } = *delivery;
        Self { delivery: id, event, endpoint, state }
    }
}

/// The subscribers to live updates.
pub trait Watchers: Send + Sync {
    /// Whether there are subscribers. Checked before a live update is made, so that without subscribers it costs one atomic load.
    fn any(&self) -> bool;

    /// Publishes a live update without waiting. A subscriber that is too slow misses it and is notified of the gap.
    fn tell(&self, hint: Hint);
}

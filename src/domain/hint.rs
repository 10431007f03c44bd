//! Hints: that something happened to something, for people who watch. They never say what is in it, and they are not the
//! truth: whoever gets one looks.
//!
//! The store's seams tell them (`store/told.rs`) through this port; whoever serves the watchers implements it.

use super::{
    delivery::{Delivery, State},
    id::{AppId, DeliveryId, EndpointId, EventId, ReplayId},
    replay::{Replay, ReplayState},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    pub app: AppId,
    pub about: About,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// It was accepted.
    Event(EventId),
    /// It was born, or came into another state.
    Delivery(Moved),
    /// Some that belong to it came into another state, or wait for another time.
    Deliveries(EndpointId),
    /// A request of it ended.
    Attempt(Moved),
    /// It was made, changed, switched or deleted, or its health is another.
    Endpoint(EndpointId),
    /// It was begun, came forward, or came into another state.
    Replay(ReplayId, ReplayState),
}

/// A delivery, and the state it was in when the hint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub delivery: DeliveryId,
    pub event: EventId,
    pub endpoint: EndpointId,
    pub state: State,
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

/// Whoever watches.
pub trait Watchers: Send + Sync {
    /// Whether there is anybody: one look at an atomic. Asked before a hint is made, so that it costs no more than that
    /// when there is nobody.
    fn any(&self) -> bool;

    /// Never waits; whoever is too slow misses it and is told so.
    fn tell(&self, hint: Hint);
}

//! Live-update streams. A small ring buffer of updates per watched app and one for all apps: a slow subscriber loses the oldest
//! updates and is notified, so memory stays bounded.

use super::{Caller, Error, Service};
use crate::domain::{
    app::App,
    id::{AppId, EndpointId},
    live_update::{DeliveryUpdate, LiveUpdate, LiveUpdateKind, UpdateSink},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{
    broadcast::{self, error::RecvError, error::TryRecvError},
    watch,
};

const STREAMS_MAX: usize = 512;
const STREAMS_PER_APP_MAX: usize = 32;
/// Streams that cover all apps.
const STREAMS_OVER_ALL_APPS_MAX: usize = 64;
/// Updates in a ring buffer; a subscriber further behind has lost some.
const BUFFERED_UPDATES_MAX: usize = 256;

/// All open live-update streams.
#[derive(Default)]
pub struct Streams {
    open: AtomicUsize,
    buffers: Mutex<UpdateBuffers>,
    /// Signals that another node wrote something, for which this node has no updates.
    other_nodes: watch::Sender<()>,
}

#[derive(Default)]
struct UpdateBuffers {
    /// By app; `None` is the buffer for all apps.
    by_app: HashMap<Option<AppId>, broadcast::Sender<LiveUpdate>>,
    is_closed: bool,
}

/// A subscription to live updates, open until it is dropped.
pub struct Subscription {
    app: Option<AppId>,
    updates: broadcast::Receiver<LiveUpdate>,
    other_nodes: watch::Receiver<()>,
    streams: Arc<Streams>,
}

/// Next item of a subscription.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// Updates in the order of publication.
    Updates(Vec<LiveUpdate>),
    /// Some updates were lost, or another node wrote something.
    Lagged,
    /// The stream ended: the node is stopping.
    Ended,
}

/// A live update with public names.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedUpdate {
    pub kind: &'static str,
    pub app: String,
    pub event: Option<String>,
    pub delivery: Option<String>,
    pub endpoint: Option<String>,
    pub replay: Option<String>,
    pub state: Option<&'static str>,
}

impl Streams {
    fn buffers(&self) -> MutexGuard<'_, UpdateBuffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every stream and refuses new ones.
    fn close(&self) {
        let mut rings = self.buffers();
        rings.is_closed = true;
        rings.by_app.clear();
    }

    fn subscribe(self: &Arc<Self>, app: Option<AppId>) -> Result<Subscription, Error> {
        let mut rings = self.buffers();
        if rings.is_closed {
            return Err(Error::Unavailable("This node is stopping.".to_owned()));
        }
        let most = if app.is_some() { STREAMS_PER_APP_MAX } else { STREAMS_OVER_ALL_APPS_MAX };
        let watching = rings.by_app.get(&app).map_or(0, broadcast::Sender::receiver_count);
        if watching >= most {
            let of_what = if app.is_some() { "of an app" } else { "over all apps" };
            return Err(Error::TooManyStreams(format!(
                "There are {most} streams {of_what} already; close one."
            )));
        }
        if self.open.load(Ordering::Relaxed) >= STREAMS_MAX {
            return Err(Error::TooManyStreams(format!(
                "There are {STREAMS_MAX} streams already; try again later."
            )));
        }
        let ring = rings.by_app.entry(app).or_insert_with(|| broadcast::channel(BUFFERED_UPDATES_MAX).0);
        let updates = ring.subscribe();
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Subscription { app, updates, other_nodes: self.other_nodes.subscribe(), streams: self.clone() })
    }

    /// Makes every stream report `Lagged`, because another node wrote something.
    pub(super) fn report_other_node(&self) {
        self.other_nodes.send_replace(());
    }
}

impl UpdateSink for Streams {
    fn has_subscribers(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    fn publish(&self, update: LiveUpdate) {
        if !self.has_subscribers() {
            return;
        }
        let rings = self.buffers();
        for ring in [Some(update.app), None].iter().filter_map(|app| rings.by_app.get(app)) {
            // The last subscriber may just have gone.
            let _ = ring.send(update);
        }
    }
}

impl Subscription {
    /// Waits for the next update and returns it with all that are already buffered.
    pub async fn next(&mut self) -> StreamItem {
        let first = tokio::select! {
            biased;
            first = self.updates.recv() => first,
            Ok(()) = self.other_nodes.changed() => return StreamItem::Lagged,
        };
        let mut seen = match first {
            Ok(update) => vec![update],
            Err(RecvError::Lagged(_)) => return StreamItem::Lagged,
            Err(RecvError::Closed) => return StreamItem::Ended,
        };
        loop {
            match self.updates.try_recv() {
                Ok(update) => seen.push(update),
                Err(TryRecvError::Lagged(_)) => return StreamItem::Lagged,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return StreamItem::Updates(seen),
            }
        }
    }

    pub fn app(&self) -> Option<AppId> {
        self.app
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Ordering::Relaxed);
        let mut rings = self.streams.buffers();
        // The receiver is dropped before counting: of two that leave together, the second sees none left.
        self.updates = broadcast::channel(1).1;
        if rings.by_app.get(&self.app).is_some_and(|ring| ring.receiver_count() == 0) {
            rings.by_app.remove(&self.app);
        }
    }
}

impl Service {
    /// Opens a stream of one app, or with an admin key of all apps.
    pub fn subscribe(&self, caller: Caller, app: Option<AppId>) -> Result<Subscription, Error> {
        if app.is_none() {
            Self::require_admin(caller)?;
        }
        self.streams.subscribe(app)
    }

    /// Whether the stream may continue: keys are revoked or expire, and apps are deleted.
    pub fn may_continue(&self, caller: Caller, watch: &Subscription) -> bool {
        self.is_still_authorized(caller, watch.app)
    }

    /// Ends every stream because the node is stopping.
    pub fn end_streams(&self) {
        self.streams.close();
    }

    pub(super) fn publish_update(&self, update: impl FnOnce() -> LiveUpdate) {
        if self.streams.has_subscribers() {
            self.streams.publish(update());
        }
    }

    /// Adds public names to an update; `None` if its app was deleted.
    pub fn name_update(&self, update: LiveUpdate) -> Option<NamedUpdate> {
        let app = self.config_cache.app_by_id(update.app)?.app();
        let named = NamedUpdate {
            kind: "",
            app: app.uid.clone(),
            event: None,
            delivery: None,
            endpoint: None,
            replay: None,
            state: None,
        };
        Some(match update.kind {
            LiveUpdateKind::Event(event) => {
                NamedUpdate { kind: "event", event: Some(event.with_prefix(app.id_prefix())), ..named }
            }
            LiveUpdateKind::Delivery(moved) => {
                self.name_delivery_update(moved, &app, NamedUpdate { kind: "delivery", ..named })
            }
            LiveUpdateKind::Attempt(moved) => {
                self.name_delivery_update(moved, &app, NamedUpdate { kind: "attempt", ..named })
            }
            LiveUpdateKind::Deliveries(endpoint) => {
                NamedUpdate { kind: "delivery", endpoint: Some(self.endpoint_uid(endpoint)), ..named }
            }
            LiveUpdateKind::Endpoint(endpoint) => {
                NamedUpdate { kind: "endpoint", endpoint: Some(self.endpoint_uid(endpoint)), ..named }
            }
            LiveUpdateKind::Replay(replay, state) => NamedUpdate {
                kind: "replay",
                replay: Some(replay.to_string()),
                state: Some(state.name()),
                ..named
            },
        })
    }

    fn name_delivery_update(&self, moved: DeliveryUpdate, app: &App, named: NamedUpdate) -> NamedUpdate {
        NamedUpdate {
            event: Some(moved.event.with_prefix(app.id_prefix())),
            delivery: Some(moved.delivery.to_string()),
            endpoint: Some(self.endpoint_uid(moved.endpoint)),
            state: Some(moved.state.name()),
            ..named
        }
    }

    /// Returns the endpoint's public id; for a deleted one its internal id, which lists also accept.
    fn endpoint_uid(&self, id: EndpointId) -> String {
        self.config_cache.endpoint(id).map_or_else(|| id.to_string(), |known| known.record.uid.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::EventId;

    const ONE: AppId = AppId::from_i64(1);
    const OTHER: AppId = AppId::from_i64(2);

    fn event(app: AppId, number: i64) -> LiveUpdate {
        LiveUpdate::event(app, EventId::from_i64(number))
    }

    fn streams() -> Arc<Streams> {
        Arc::default()
    }

    #[tokio::test]
    async fn a_stream_of_one_app_has_its_updates_and_one_of_all_apps_has_all_in_order() {
        let streams = streams();
        let (mut own, mut all) = (streams.subscribe(Some(ONE)).unwrap(), streams.subscribe(None).unwrap());
        for update in [event(OTHER, 1), event(ONE, 2), event(ONE, 3)] {
            streams.publish(update);
        }
        assert_eq!(own.next().await, StreamItem::Updates(vec![event(ONE, 2), event(ONE, 3)]));
        assert_eq!(
            all.next().await,
            StreamItem::Updates(vec![event(OTHER, 1), event(ONE, 2), event(ONE, 3)])
        );
    }

    #[tokio::test]
    async fn a_slow_subscriber_lags_and_continues_with_the_buffered_updates() {
        let streams = streams();
        let mut slow = streams.subscribe(Some(ONE)).unwrap();
        let published = BUFFERED_UPDATES_MAX as i64 + 50;
        (1..=published).for_each(|number| streams.publish(event(ONE, number)));
        assert_eq!(slow.next().await, StreamItem::Lagged);
        let StreamItem::Updates(rest) = slow.next().await else { panic!() };
        assert_eq!((rest.len(), rest.last()), (BUFFERED_UPDATES_MAX, Some(&event(ONE, published))));
    }

    #[tokio::test]
    async fn every_stream_lags_when_another_node_wrote_something() {
        let streams = streams();
        streams.report_other_node();
        let (mut own, mut all) = (streams.subscribe(Some(ONE)).unwrap(), streams.subscribe(None).unwrap());
        streams.publish(event(ONE, 1));
        assert_eq!(
            own.next().await,
            StreamItem::Updates(vec![event(ONE, 1)]),
            "an earlier change is not reported"
        );
        streams.report_other_node();
        assert_eq!(own.next().await, StreamItem::Lagged);
        assert_eq!(all.next().await, StreamItem::Updates(vec![event(ONE, 1)]));
        assert_eq!(all.next().await, StreamItem::Lagged);
    }

    #[test]
    fn a_buffer_exists_only_while_it_has_subscribers() {
        let streams = streams();
        assert!(!streams.has_subscribers());
        let (first, second) = (streams.subscribe(Some(ONE)).unwrap(), streams.subscribe(Some(ONE)).unwrap());
        assert!(streams.has_subscribers());
        drop(first);
        assert!(streams.has_subscribers() && streams.buffers().by_app.contains_key(&Some(ONE)));
        drop(second);
        assert!(!streams.has_subscribers() && streams.buffers().by_app.is_empty());
    }

    #[test]
    fn streams_are_limited_per_app_and_in_total_and_closing_one_allows_another() {
        let streams = streams();
        let mut open: Vec<Subscription> =
            (0..STREAMS_PER_APP_MAX).map(|_| streams.subscribe(Some(ONE)).unwrap()).collect();
        assert!(matches!(streams.subscribe(Some(ONE)), Err(Error::TooManyStreams(_))));
        open.pop();
        open.push(streams.subscribe(Some(ONE)).unwrap());
        for app in 2.. {
            match (0..STREAMS_PER_APP_MAX).try_for_each(|_| {
                open.push(streams.subscribe(Some(AppId::from_i64(app)))?);
                Ok::<(), Error>(())
            }) {
                Ok(()) => {}
                Err(Error::TooManyStreams(_)) => break,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(open.len(), STREAMS_MAX);
    }

    #[tokio::test]
    async fn a_stopping_node_ends_every_stream_and_refuses_new_ones() {
        let streams = streams();
        let mut watch = streams.subscribe(Some(ONE)).unwrap();
        streams.publish(event(ONE, 1));
        streams.close();
        assert_eq!(
            watch.next().await,
            StreamItem::Updates(vec![event(ONE, 1)]),
            "an earlier update is still delivered"
        );
        assert_eq!(watch.next().await, StreamItem::Ended);
        assert!(matches!(streams.subscribe(Some(ONE)), Err(Error::Unavailable(_))));
    }
}

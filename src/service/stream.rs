//! Streams of hints for people who watch. One small ring of hints for each app that is watched and one for everything: a
//! watcher who is too slow loses the oldest and is told so, and costs nobody memory.

use super::{Caller, Error, Service};
use crate::domain::{
    app::App,
    hint::{About, Hint, Moved, Watchers},
    id::{AppId, EndpointId},
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
/// Over all apps at once.
const STREAMS_EVERYWHERE_MAX: usize = 64;
/// Hints in a ring; whoever is further behind has missed some.
const RING: usize = 256;

/// Everybody who watches.
#[derive(Default)]
pub struct Streams {
    open: AtomicUsize,
    rings: Mutex<Rings>,
    /// Changes when another node did something, of which there are no hints here.
    others: watch::Sender<()>,
}

#[derive(Default)]
struct Rings {
    /// None: over all apps.
    by_app: HashMap<Option<AppId>, broadcast::Sender<Hint>>,
    is_closed: bool,
}

/// One who watches, until it is dropped.
pub struct Watch {
    app: Option<AppId>,
    hints: broadcast::Receiver<Hint>,
    others: watch::Receiver<()>,
    streams: Arc<Streams>,
}

/// What a watcher gets next.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// In the order in which they were told.
    Hints(Vec<Hint>),
    /// Some were missed, or are of another node.
    Lagged,
    /// There is no more: the node stops.
    Ended,
}

/// A hint with the names that callers know.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedHint {
    pub kind: &'static str,
    pub app: String,
    pub event: Option<String>,
    pub delivery: Option<String>,
    pub endpoint: Option<String>,
    pub replay: Option<String>,
    pub state: Option<&'static str>,
}

impl Streams {
    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every stream, and lets nobody watch any more.
    fn close(&self) {
        let mut rings = self.rings();
        rings.is_closed = true;
        rings.by_app.clear();
    }

    fn watch(self: &Arc<Self>, app: Option<AppId>) -> Result<Watch, Error> {
        let mut rings = self.rings();
        if rings.is_closed {
            return Err(Error::Unavailable("This node is stopping.".to_owned()));
        }
        let most = if app.is_some() { STREAMS_PER_APP_MAX } else { STREAMS_EVERYWHERE_MAX };
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
        let ring = rings.by_app.entry(app).or_insert_with(|| broadcast::channel(RING).0);
        let hints = ring.subscribe();
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Watch { app, hints, others: self.others.subscribe(), streams: self.clone() })
    }

    /// Everybody who watches has to look again.
    pub(super) fn tell_of_others(&self) {
        self.others.send_replace(());
    }
}

impl Watchers for Streams {
    fn any(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    fn tell(&self, hint: Hint) {
        if !self.any() {
            return;
        }
        let rings = self.rings();
        for ring in [Some(hint.app), None].iter().filter_map(|app| rings.by_app.get(app)) {
            // Whoever watched may just have gone.
            let _ = ring.send(hint);
        }
    }
}

impl Watch {
    /// The next hint with whatever else is there already.
    pub async fn next(&mut self) -> Seen {
        let first = tokio::select! {
            biased;
            first = self.hints.recv() => first,
            Ok(()) = self.others.changed() => return Seen::Lagged,
        };
        let mut seen = match first {
            Ok(hint) => vec![hint],
            Err(RecvError::Lagged(_)) => return Seen::Lagged,
            Err(RecvError::Closed) => return Seen::Ended,
        };
        loop {
            match self.hints.try_recv() {
                Ok(hint) => seen.push(hint),
                Err(TryRecvError::Lagged(_)) => return Seen::Lagged,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Seen::Hints(seen),
            }
        }
    }

    pub fn app(&self) -> Option<AppId> {
        self.app
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Ordering::Relaxed);
        let mut rings = self.streams.rings();
        // Gone before it is counted: of two that leave together the second finds nobody.
        self.hints = broadcast::channel(1).1;
        if rings.by_app.get(&self.app).is_some_and(|ring| ring.receiver_count() == 0) {
            rings.by_app.remove(&self.app);
        }
    }
}

impl Service {
    /// Watches one app, or with an admin key all of them.
    pub fn watch(&self, caller: Caller, app: Option<AppId>) -> Result<Watch, Error> {
        if app.is_none() {
            Self::must_be_admin(caller)?;
        }
        self.streams.watch(app)
    }

    /// Whether whoever watches still may: keys are revoked and expire, and apps are deleted.
    pub fn may_go_on(&self, caller: Caller, watch: &Watch) -> bool {
        self.is_still_let_in(caller, watch.app)
    }

    /// Ends every stream: the node stops.
    pub fn end_streams(&self) {
        self.streams.close();
    }

    pub(super) fn tell(&self, hint: impl FnOnce() -> Hint) {
        if self.streams.any() {
            self.streams.tell(hint());
        }
    }

    /// With its names; `None` if its app is gone.
    pub fn name_hint(&self, hint: Hint) -> Option<NamedHint> {
        let app = self.directory.app_by_id(hint.app)?.app();
        let named = NamedHint {
            kind: "",
            app: app.uid.clone(),
            event: None,
            delivery: None,
            endpoint: None,
            replay: None,
            state: None,
        };
        Some(match hint.about {
            About::Event(event) => {
                NamedHint { kind: "event", event: Some(event.with_prefix(app.id_prefix())), ..named }
            }
            About::Delivery(moved) => self.name_moved(moved, &app, NamedHint { kind: "delivery", ..named }),
            About::Attempt(moved) => self.name_moved(moved, &app, NamedHint { kind: "attempt", ..named }),
            About::Deliveries(endpoint) => {
                NamedHint { kind: "delivery", endpoint: Some(self.endpoint_uid(endpoint)), ..named }
            }
            About::Endpoint(endpoint) => {
                NamedHint { kind: "endpoint", endpoint: Some(self.endpoint_uid(endpoint)), ..named }
            }
            About::Replay(replay, state) => NamedHint {
                kind: "replay",
                replay: Some(replay.to_string()),
                state: Some(state.name()),
                ..named
            },
        })
    }

    fn name_moved(&self, moved: Moved, app: &App, named: NamedHint) -> NamedHint {
        NamedHint {
            event: Some(moved.event.with_prefix(app.id_prefix())),
            delivery: Some(moved.delivery.to_string()),
            endpoint: Some(self.endpoint_uid(moved.endpoint)),
            state: Some(moved.state.name()),
            ..named
        }
    }

    /// A deleted one by our own id for it, which lists understand too.
    fn endpoint_uid(&self, id: EndpointId) -> String {
        self.directory.endpoint(id).map_or_else(|| id.to_string(), |known| known.record.uid.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::EventId;

    const ONE: AppId = AppId::from_i64(1);
    const OTHER: AppId = AppId::from_i64(2);

    fn event(app: AppId, number: i64) -> Hint {
        Hint::event(app, EventId::from_i64(number))
    }

    fn streams() -> Arc<Streams> {
        Arc::default()
    }

    #[tokio::test]
    async fn a_watcher_sees_its_own_app_and_one_over_all_apps_sees_both_in_order() {
        let streams = streams();
        let (mut own, mut all) = (streams.watch(Some(ONE)).unwrap(), streams.watch(None).unwrap());
        for hint in [event(OTHER, 1), event(ONE, 2), event(ONE, 3)] {
            streams.tell(hint);
        }
        assert_eq!(own.next().await, Seen::Hints(vec![event(ONE, 2), event(ONE, 3)]));
        assert_eq!(all.next().await, Seen::Hints(vec![event(OTHER, 1), event(ONE, 2), event(ONE, 3)]));
    }

    #[tokio::test]
    async fn whoever_is_too_slow_is_told_so_and_then_goes_on_with_what_is_still_there() {
        let streams = streams();
        let mut slow = streams.watch(Some(ONE)).unwrap();
        let told = RING as i64 + 50;
        (1..=told).for_each(|number| streams.tell(event(ONE, number)));
        assert_eq!(slow.next().await, Seen::Lagged);
        let Seen::Hints(rest) = slow.next().await else { panic!() };
        assert_eq!((rest.len(), rest.last()), (RING, Some(&event(ONE, told))));
    }

    #[tokio::test]
    async fn whoever_watches_is_told_to_look_again_when_another_node_did_something() {
        let streams = streams();
        streams.tell_of_others();
        let (mut own, mut all) = (streams.watch(Some(ONE)).unwrap(), streams.watch(None).unwrap());
        streams.tell(event(ONE, 1));
        assert_eq!(own.next().await, Seen::Hints(vec![event(ONE, 1)]), "what was before is not told");
        streams.tell_of_others();
        assert_eq!(own.next().await, Seen::Lagged);
        assert_eq!(all.next().await, Seen::Hints(vec![event(ONE, 1)]));
        assert_eq!(all.next().await, Seen::Lagged);
    }

    #[test]
    fn nobody_watches_until_somebody_does_and_nothing_is_left_of_them() {
        let streams = streams();
        assert!(!streams.any());
        let (first, second) = (streams.watch(Some(ONE)).unwrap(), streams.watch(Some(ONE)).unwrap());
        assert!(streams.any());
        drop(first);
        assert!(streams.any() && streams.rings().by_app.contains_key(&Some(ONE)));
        drop(second);
        assert!(!streams.any() && streams.rings().by_app.is_empty());
    }

    #[test]
    fn streams_have_a_bound_for_each_app_and_for_all_and_places_come_back() {
        let streams = streams();
        let mut open: Vec<Watch> =
            (0..STREAMS_PER_APP_MAX).map(|_| streams.watch(Some(ONE)).unwrap()).collect();
        assert!(matches!(streams.watch(Some(ONE)), Err(Error::TooManyStreams(_))));
        open.pop();
        open.push(streams.watch(Some(ONE)).unwrap());
        for app in 2.. {
            match (0..STREAMS_PER_APP_MAX).try_for_each(|_| {
                open.push(streams.watch(Some(AppId::from_i64(app)))?);
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
    async fn a_node_that_stops_ends_every_stream_and_begins_none() {
        let streams = streams();
        let mut watch = streams.watch(Some(ONE)).unwrap();
        streams.tell(event(ONE, 1));
        streams.close();
        assert_eq!(watch.next().await, Seen::Hints(vec![event(ONE, 1)]), "what was told before is seen");
        assert_eq!(watch.next().await, Seen::Ended);
        assert!(matches!(streams.watch(Some(ONE)), Err(Error::Unavailable(_))));
    }
}

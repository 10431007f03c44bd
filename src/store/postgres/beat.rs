//! The heart of a node, on a thread and a connection of its own so that it waits for nothing else: says that the node lives,
//! rings for others, and hears them ring. Until the engine begins to say it, it says so by itself.

use super::{
    bell::Bell,
    cluster::Place,
    session::{Server, Session},
    sql::Transaction,
};
use crate::{
    domain::port::Handover,
    store::{
        Reply, StoreError,
        cluster::{Beat, View},
        sql::{Result, answered, nodes, params, store_error},
    },
};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    thread::Builder,
    time::Duration,
};
use tokio::{
    runtime::{self, Runtime},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::{Sleep, timeout},
};

const CHANNEL: &str = "posthaste";
const EVERY: Duration = Duration::from_secs(1);
/// An answer that takes longer comes too late for the lease.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two rings: what comes meanwhile goes with the next.
const RING_EVERY: Duration = Duration::from_millis(10);

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

enum Order {
    Beat(Beat, Answer<Option<View>>),
    View(Answer<View>),
    Ring(Bell),
}

/// Where to ring.
#[derive(Clone)]
pub(super) struct Ringer(UnboundedSender<Order>);

impl Ringer {
    pub(super) fn ring(&self, bell: Bell) {
        if !bell.is_silent() {
            // A heart that stopped rings nobody; others find it all the same.
            let _ = self.0.send(Order::Ring(bell));
        }
    }
}

/// It beats until nobody can order anything of it any more.
pub(super) struct Heart(Mutex<Option<UnboundedSender<Order>>>);

impl Heart {
    pub(super) fn start(
        server: Arc<Server>,
        place: Arc<Place>,
        handover: Arc<dyn Handover>,
    ) -> io::Result<(Self, Ringer)> {
        let (orders, taken) = unbounded_channel();
        let alone = runtime::Builder::new_current_thread().enable_time().build()?;
        let beating = Beating {
            server,
            place,
            handover,
            orders: taken,
            ear: None,
            alone,
            bell: Bell::default(),
            is_led: false,
            is_well: true,
        };
        Builder::new().name("heart".to_owned()).spawn(move || beating.run())?;
        Ok((Self(Mutex::new(Some(orders.clone()))), Ringer(orders)))
    }

    pub(super) fn beat(&self, beat: Beat) -> Reply<'static, Option<View>> {
        self.order(|answer| Order::Beat(beat, answer))
    }

    pub(super) fn view(&self) -> Reply<'static, View> {
        self.order(Order::View)
    }

    fn order<T: Send + 'static>(&self, order: impl FnOnce(Answer<T>) -> Order) -> Reply<'static, T> {
        let (answer, comes) = oneshot::channel();
        if let Some(orders) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = orders.send(order(answer));
        }
        answered(comes)
    }

    /// Waits for nothing: the server may have fallen silent.
    pub(super) fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A connection, and what comes on it.
struct Ear {
    session: Session,
    heard: UnboundedReceiver<String>,
    /// Until it may ring again.
    pause: Option<Pin<Box<Sleep>>>,
    /// Until it says by itself that the node lives.
    rest: Pin<Box<Sleep>>,
}

enum Next {
    /// `None`: there will be none any more.
    Order(Option<Order>),
    /// `None`: the connection broke.
    Heard(Option<String>),
    Paused,
    Rested,
}

struct Beating {
    server: Arc<Server>,
    place: Arc<Place>,
    handover: Arc<dyn Handover>,
    orders: UnboundedReceiver<Order>,
    /// `None` while there is no connection.
    ear: Option<Ear>,
    /// To wait on meanwhile.
    alone: Runtime,
    /// What is to be rung for.
    bell: Bell,
    /// The engine says that the node lives.
    is_led: bool,
    is_well: bool,
}

impl Beating {
    fn run(mut self) {
        let _ = self.beat(&Beat::default());
        loop {
            match self.next() {
                Next::Order(Some(order)) => self.follow(order),
                Next::Order(None) => return,
                Next::Heard(Some(words)) => self.hear(&words),
                Next::Heard(None) => self.ear = None,
                Next::Paused => self.ring(),
                Next::Rested => {
                    if let Err(error) = self.rest_again() {
                        tracing::debug!(%error, "the heart has no connection");
                    }
                    if !self.is_led {
                        let _ = self.beat(&Beat::default());
                    }
                }
            }
        }
    }

    fn ear(&mut self) -> Result<&mut Ear> {
        let ear = if let Some(ear) = self.ear.take().filter(|ear| !ear.session.is_closed()) {
            ear
        } else {
            let (heard, hears) = unbounded_channel();
            let session = Session::hearing(&self.server, PATIENCE, Some(heard))?;
            if !self.server.is_pooled() {
                session.run(&format!("LISTEN {CHANNEL}"))?;
            }
            let rest = session.timer(EVERY)?;
            Ear { session, heard: hears, pause: None, rest }
        };
        Ok(self.ear.insert(ear))
    }

    fn rest_again(&mut self) -> Result<()> {
        let ear = self.ear()?;
        ear.rest = ear.session.timer(EVERY)?;
        Ok(())
    }

    fn next(&mut self) -> Next {
        let Self { ear: Some(Ear { session, heard, pause, rest }), orders, .. } = self else {
            let Self { alone, orders, .. } = self;
            let order = alone.block_on(async { timeout(EVERY, orders.recv()).await });
            return order.map_or(Next::Rested, Next::Order);
        };
        let waited = session.drive(async {
            let is_pausing = pause.is_some();
            let paused = async {
                if let Some(pause) = pause {
                    pause.as_mut().await;
                }
            };
            tokio::select! {
                biased;
                order = orders.recv() => Next::Order(order),
                words = heard.recv() => Next::Heard(words),
                () = paused, if is_pausing => Next::Paused,
                () = rest.as_mut() => Next::Rested,
            }
        });
        waited.unwrap_or(Next::Heard(None))
    }

    fn follow(&mut self, order: Order) {
        match order {
            // Whoever asked has given up, and asked again since.
            Order::Beat(_, answer) if answer.is_closed() => {}
            Order::Beat(said, answer) => {
                self.is_led = true;
                let _ = answer.send(self.beat(&said));
            }
            Order::View(answer) => {
                let view = self.look(|tx| nodes::view(tx, tx.clock()?));
                let _ = answer.send(view.map_err(|error| store_error(&error)));
            }
            Order::Ring(bell) => {
                self.bell.add(bell);
                if self.ear.as_ref().is_none_or(|ear| ear.pause.is_none()) {
                    self.ring();
                }
            }
        }
    }

    fn beat(&mut self, beat: &Beat) -> Result<Option<View>, StoreError> {
        let (sent_us, epoch) = (self.place.pulse.now_us(), self.place.epoch());
        let view =
            if self.place.is_lost() { Ok(None) } else { self.look(|tx| nodes::beat(tx, beat, tx.clock()?)) };
        // Unless it joined again since.
        if epoch == self.place.epoch() {
            self.place.pulse.beat(sent_us, matches!(view, Ok(Some(_))));
            if matches!(view, Ok(None)) {
                self.place.pulse.fence();
            }
        }
        let was_well = std::mem::replace(&mut self.is_well, matches!(view, Ok(Some(_))));
        if was_well && !self.orders.is_closed() {
            match &view {
                Ok(Some(_)) => {}
                Ok(None) => tracing::error!("another node took over from this one, which has to join again"),
                Err(error) => tracing::warn!(%error, "the database was not told that this process lives"),
            }
        }
        view.map_err(|error| store_error(&error))
    }

    fn look<T>(&mut self, run: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let epoch = self.place.epoch();
        let found = self.ear().and_then(|ear| Transaction::run(&ear.session, epoch, run));
        if found.is_err() {
            // Another connection may do better.
            self.ear = None;
        }
        found
    }

    fn ring(&mut self) {
        let (bell, epoch) = (std::mem::take(&mut self.bell), self.place.epoch());
        let rung = self.ear().and_then(|ear| {
            ear.pause = None;
            if !bell.is_silent() {
                let words = bell.words(epoch);
                ear.session.query("SELECT CAST(pg_notify(?1, ?2) AS text)", params![CHANNEL, words])?;
                ear.pause = Some(ear.session.timer(RING_EVERY)?);
            }
            Ok(())
        });
        if let Err(error) = rung {
            tracing::debug!(%error, "nobody heard the bell");
        }
    }

    fn hear(&self, words: &str) {
        if let Some(bell) = Bell::heard(words, self.place.epoch()) {
            bell.tell(&*self.handover);
        }
    }
}

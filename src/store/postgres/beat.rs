//! The heart of a node, on a thread and a connection of its own so that it waits for nothing else: says that the node lives,
//! rings for others, and hears them ring.

use super::{bell::Bell, cluster::Place, session::Session, sql::Transaction};
use crate::{
    domain::port::Handover,
    store::{
        Reply, StoreError,
        cluster::{Beat, Node, View},
        sql::{Result, answered, nodes, params, store_error},
    },
};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    thread::{Builder, JoinHandle},
    time::Duration,
};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::{Sleep, sleep},
};
use tokio_postgres::Config;

const CHANNEL: &str = "posthaste";
/// Between two rings: what comes meanwhile goes with the next.
const RING_EVERY: Duration = Duration::from_millis(10);

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

enum Order {
    Beat(Beat, Answer<Option<View>>),
    Nodes(Answer<Vec<Node>>),
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

pub(super) struct Heart {
    /// `None` once it is to stop.
    orders: Mutex<Option<UnboundedSender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Heart {
    pub(super) fn start(
        config: Arc<Config>,
        place: Arc<Place>,
        handover: Arc<dyn Handover>,
    ) -> io::Result<(Self, Ringer)> {
        let (orders, taken) = unbounded_channel();
        let heart = Beating { config, place, handover, orders: taken, ear: None, bell: Bell::default() };
        let thread = Builder::new().name("heart".to_owned()).spawn(move || heart.run())?;
        let ringer = Ringer(orders.clone());
        Ok((Self { orders: Mutex::new(Some(orders)), thread: Mutex::new(Some(thread)) }, ringer))
    }

    pub(super) fn beat(&self, beat: Beat) -> Reply<'static, Option<View>> {
        self.order(|answer| Order::Beat(beat, answer))
    }

    pub(super) fn nodes(&self) -> Reply<'static, Vec<Node>> {
        self.order(Order::Nodes)
    }

    fn order<T: Send + 'static>(&self, order: impl FnOnce(Answer<T>) -> Order) -> Reply<'static, T> {
        let (answer, comes) = oneshot::channel();
        if let Some(orders) = &*self.orders.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = orders.send(order(answer));
        }
        answered(comes)
    }

    /// Once nobody else can ring any more.
    pub(super) fn stop(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the heart ended with a panic");
        }
    }
}

/// A connection, and what comes on it.
struct Ear {
    session: Session,
    heard: UnboundedReceiver<String>,
    /// Until it may ring again.
    pause: Option<Pin<Box<Sleep>>>,
}

enum Next {
    Order(Option<Order>),
    Heard(Option<String>),
    Paused,
}

struct Beating {
    config: Arc<Config>,
    place: Arc<Place>,
    handover: Arc<dyn Handover>,
    orders: UnboundedReceiver<Order>,
    /// `None` while there is no connection.
    ear: Option<Ear>,
    /// What is to be rung for.
    bell: Bell,
}

impl Beating {
    /// Until nobody can order anything any more.
    fn run(mut self) {
        loop {
            let next = match self.ear() {
                Ok(_) => self.wait(),
                Err(error) => {
                    tracing::debug!(%error, "the heart has no connection");
                    Ok(Next::Order(self.orders.blocking_recv()))
                }
            };
            match next {
                Ok(Next::Order(Some(order))) => self.follow(order),
                Ok(Next::Order(None)) => return,
                Ok(Next::Heard(Some(words))) => self.hear(&words),
                Ok(Next::Paused) => self.ring(),
                // It broke: the next order makes another one.
                Ok(Next::Heard(None)) | Err(_) => {
                    self.ear = None;
                    match self.orders.blocking_recv() {
                        Some(order) => self.follow(order),
                        None => return,
                    }
                }
            }
        }
    }

    fn ear(&mut self) -> Result<&mut Ear> {
        let ear = match self.ear.take().filter(|ear| !ear.session.is_closed()) {
            Some(ear) => ear,
            None => {
                let (heard, hears) = unbounded_channel();
                let session = Session::hearing(&self.config, Some(heard))?;
                session.run(&format!("LISTEN {CHANNEL}"))?;
                Ear { session, heard: hears, pause: None }
            }
        };
        Ok(self.ear.insert(ear))
    }

    fn wait(&mut self) -> Result<Next> {
        let Self { ear: Some(Ear { session, heard, pause }), orders, .. } = self else {
            return Ok(Next::Heard(None));
        };
        session.drive(async {
            let pausing = pause.is_some();
            let paused = async {
                if let Some(pause) = pause {
                    pause.as_mut().await;
                }
            };
            tokio::select! {
                biased;
                order = orders.recv() => Next::Order(order),
                words = heard.recv() => Next::Heard(words),
                () = paused, if pausing => Next::Paused,
            }
        })
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Beat(said, answer) => {
                let epoch = self.place.epoch();
                let view = if self.place.is_lost() {
                    Ok(None)
                } else {
                    self.run_on(epoch, |tx| nodes::beat(tx, &said, tx.clock()?))
                };
                let _ = answer.send(view);
            }
            Order::Nodes(answer) => {
                let _ = answer.send(self.run_on(0, |tx| nodes::all(tx, tx.clock()?)));
            }
            Order::Ring(bell) => {
                self.bell.add(bell);
                if self.ear.as_ref().is_none_or(|ear| ear.pause.is_none()) {
                    self.ring();
                }
            }
        }
    }

    fn run_on<T>(
        &mut self,
        epoch: i64,
        run: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T, StoreError> {
        let found = self.ear().and_then(|ear| Transaction::run(&ear.session, epoch, run));
        found.map_err(|error| store_error(&error))
    }

    fn ring(&mut self) {
        let (bell, epoch) = (std::mem::take(&mut self.bell), self.place.epoch());
        let rung = self.ear().and_then(|ear| {
            ear.pause = None;
            if !bell.is_silent() {
                let words = bell.words(epoch);
                ear.session.query("SELECT CAST(pg_notify(?1, ?2) AS text)", params![CHANNEL, words])?;
                ear.pause = Some(ear.session.drive(async { Box::pin(sleep(RING_EVERY)) })?);
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

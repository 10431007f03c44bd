//! Heartbeat of a node, on a thread and a connection of its own so that it waits for nothing else: renews the node's lease,
//! sends notifications to other nodes and receives theirs. Before the engine sends heartbeats, and while the node joins
//! again, it sends them by itself.
//!
//! No request waits for the answer to the one before, so that a distant database gets heartbeats as often as a near one.

use super::{
    heartbeat_sql,
    node::NodeHandle,
    notify::NotifyMessage,
    reply_guard::ReplyGuard,
    session::{Server, Session},
};
use crate::{
    domain::{node_lease::NodeLease, ports::CommitListener},
    store::{
        Reply,
        cluster::{ClusterView, Heartbeat},
        sql::{Result, answered, store_error},
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
use tokio_postgres::SimpleQueryMessage;

const CHANNEL: &str = "posthaste";
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A slower answer comes too late for the lease.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(8);
/// Between two notifications: what comes meanwhile goes with the next.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

enum HeartbeatCommand {
    Heartbeat(Heartbeat, ReplyGuard<Option<ClusterView>>),
    View(ReplyGuard<ClusterView>),
    Notify(NotifyMessage),
}

/// A request to the server.
enum HeartbeatRequest {
    /// The caller that waits for the answer, if there is one.
    Heartbeat(SentHeartbeat, Option<ReplyGuard<Option<ClusterView>>>),
    View(ReplyGuard<ClusterView>),
    /// A notification for other nodes.
    Ring,
    /// LISTEN for notifications.
    Listen,
}

/// State when a heartbeat was sent.
#[derive(Clone, Copy)]
struct SentHeartbeat {
    at_us: u64,
    epoch: i64,
    /// The last batch that had been confirmed.
    confirmed: i64,
}

type Answered = (HeartbeatRequest, Result<Vec<SimpleQueryMessage>>);

/// Sends notifications through the heartbeat thread.
#[derive(Clone)]
pub(super) struct NotifySender(UnboundedSender<HeartbeatCommand>);

impl NotifySender {
    pub(super) fn send(&self, bell: NotifyMessage) {
        if !bell.is_empty() {
            // After the thread has stopped no notification is sent; other nodes find the same in the database.
            let _ = self.0.send(HeartbeatCommand::Notify(bell));
        }
    }
}

/// Handle of the heartbeat thread, which runs until all senders of orders are gone.
pub(super) struct HeartbeatHandle(Mutex<Option<UnboundedSender<HeartbeatCommand>>>);

impl HeartbeatHandle {
    pub(super) fn start(
        server: Arc<Server>,
        place: Arc<NodeHandle>,
        handover: Arc<dyn CommitListener>,
    ) -> io::Result<(Self, NotifySender)> {
        let (orders, taken) = unbounded_channel();
        let alone = runtime::Builder::new_current_thread().enable_time().build()?;
        let beating = HeartbeatThread {
            server,
            node: place,
            handover,
            orders: taken,
            connection: None,
            alone,
            notification: NotifyMessage::default(),
            is_led_by_engine: false,
            was_answered: true,
        };
        Builder::new().name("heart".to_owned()).spawn(move || beating.run())?;
        Ok((Self(Mutex::new(Some(orders.clone()))), NotifySender(orders)))
    }

    pub(super) fn beat(&self, beat: Heartbeat) -> Reply<Option<ClusterView>> {
        self.order(|answer| HeartbeatCommand::Heartbeat(beat, answer))
    }

    pub(super) fn view(&self) -> Reply<ClusterView> {
        self.order(HeartbeatCommand::View)
    }

    fn order<T: Send + 'static>(&self, order: impl FnOnce(ReplyGuard<T>) -> HeartbeatCommand) -> Reply<T> {
        let (answer, comes) = oneshot::channel();
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(orders) => drop(orders.send(order(ReplyGuard::to(answer)))),
            None => drop(answer),
        }
        answered(comes)
    }

    /// Stops without waiting: the server may not answer.
    pub(super) fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The connection, and the channels of what arrives on it.
struct HeartbeatConnection {
    session: Session,
    heard: UnboundedReceiver<String>,
    answers: UnboundedReceiver<Answered>,
    to_answer: UnboundedSender<Answered>,
    /// A notification was sent and is not answered yet.
    is_notifying: bool,
    /// Until the next notification may be sent.
    pause: Option<Pin<Box<Sleep>>>,
    /// Until the thread sends a heartbeat by itself.
    heartbeat_timer: Pin<Box<Sleep>>,
}

impl HeartbeatConnection {
    fn new(server: &Server) -> Result<Self> {
        let (heard, hears) = unbounded_channel();
        let (to_answer, answers) = unbounded_channel();
        let session = Session::listen(server, HEARTBEAT_TIMEOUT, Some(heard))?;
        let rest = session.timer(HEARTBEAT_INTERVAL)?;
        let ear = Self {
            session,
            heard: hears,
            answers,
            to_answer,
            is_notifying: false,
            pause: None,
            heartbeat_timer: rest,
        };
        if !server.is_pooled() {
            ear.ask(HeartbeatRequest::Listen, format!("LISTEN {CHANNEL}"))?;
        }
        Ok(ear)
    }

    fn ask(&self, asked: HeartbeatRequest, sql: String) -> Result<()> {
        let to_answer = self.to_answer.clone();
        self.session.send(sql, move |answer| drop(to_answer.send((asked, answer))))
    }
}

enum HeartbeatInput {
    /// `None`: all senders are gone.
    Order(Option<HeartbeatCommand>),
    /// `None`: the connection broke.
    Heard(Option<String>),
    Answered(Answered),
    Paused,
    Rested,
}

struct HeartbeatThread {
    server: Arc<Server>,
    node: Arc<NodeHandle>,
    handover: Arc<dyn CommitListener>,
    orders: UnboundedReceiver<HeartbeatCommand>,
    /// `None` while there is no connection.
    connection: Option<HeartbeatConnection>,
    /// Runtime to wait on while there is no connection.
    alone: Runtime,
    /// Notification to be sent.
    notification: NotifyMessage,
    /// The engine sends the heartbeats.
    is_led_by_engine: bool,
    was_answered: bool,
}

impl HeartbeatThread {
    fn run(mut self) {
        self.beat_unled();
        loop {
            match self.next() {
                HeartbeatInput::Order(Some(order)) => self.follow(order),
                HeartbeatInput::Order(None) => return,
                HeartbeatInput::Heard(Some(words)) => self.hear(&words),
                HeartbeatInput::Heard(None) => self.drop_connection(),
                HeartbeatInput::Answered((asked, answer)) => self.be_answered(asked, answer),
                HeartbeatInput::Paused => self.ring(),
                HeartbeatInput::Rested => {
                    if let Err(error) = self.restart_timer() {
                        tracing::debug!(%error, "the heartbeat thread has no connection");
                    }
                    if !self.is_led_by_engine || self.node.is_joining() {
                        self.beat_unled();
                    }
                }
            }
        }
    }

    /// Sends a heartbeat for a node whose engine does not work yet: it gets no work.
    fn beat_unled(&mut self) {
        self.beat(&Heartbeat { config_version: NodeLease::NO_CONFIG_VERSION, ..Heartbeat::default() }, None);
    }

    fn ear(&mut self) -> Result<&mut HeartbeatConnection> {
        let ear = match self.connection.take().filter(|ear| !ear.session.is_closed()) {
            Some(ear) => ear,
            None => HeartbeatConnection::new(&self.server)?,
        };
        Ok(self.connection.insert(ear))
    }

    fn restart_timer(&mut self) -> Result<()> {
        let ear = self.ear()?;
        ear.heartbeat_timer = ear.session.timer(HEARTBEAT_INTERVAL)?;
        Ok(())
    }

    fn next(&mut self) -> HeartbeatInput {
        let Self {
            connection:
                Some(HeartbeatConnection { session, heard, answers, pause, heartbeat_timer: rest, .. }),
            orders,
            ..
        } = self
        else {
            let Self { alone, orders, .. } = self;
            let order = alone.block_on(async { timeout(HEARTBEAT_INTERVAL, orders.recv()).await });
            return order.map_or(HeartbeatInput::Rested, HeartbeatInput::Order);
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
                order = orders.recv() => HeartbeatInput::Order(order),
                // `answers` never ends, because `to_answer` is kept beside it.
                Some(answered) = answers.recv() => HeartbeatInput::Answered(answered),
                words = heard.recv() => HeartbeatInput::Heard(words),
                () = paused, if is_pausing => HeartbeatInput::Paused,
                () = rest.as_mut() => HeartbeatInput::Rested,
            }
        });
        waited.unwrap_or(HeartbeatInput::Heard(None))
    }

    fn follow(&mut self, order: HeartbeatCommand) {
        match order {
            HeartbeatCommand::Heartbeat(said, owed) => {
                self.is_led_by_engine = true;
                // Otherwise the caller has given up, and asked again since.
                if owed.is_waited_for() {
                    self.beat(&said, Some(owed));
                }
            }
            HeartbeatCommand::View(owed) => {
                let epoch = self.node.epoch();
                // If the request cannot be sent, the dropped reply guard answers with an error.
                let _ = self.ask(HeartbeatRequest::View(owed), heartbeat_sql::view_sql(epoch));
            }
            HeartbeatCommand::Notify(bell) => {
                self.notification.add(bell);
                if self.connection.as_ref().is_none_or(|ear| ear.pause.is_none() && !ear.is_notifying) {
                    self.ring();
                }
            }
        }
    }

    fn ask(&mut self, asked: HeartbeatRequest, sql: String) -> Result<()> {
        self.ear()?.ask(asked, sql)
    }

    fn beat(&mut self, beat: &Heartbeat, owed: Option<ReplyGuard<Option<ClusterView>>>) {
        let (at_us, epoch) = (self.node.lease.now_us(), self.node.epoch());
        let sent = SentHeartbeat { at_us, epoch, confirmed: self.node.confirmed(epoch) };
        if self.node.is_lost() {
            return self.heartbeat_done(sent, owed, Ok(None));
        }
        if let Err(error) = self.ear() {
            return self.heartbeat_done(sent, owed, Err(error));
        }
        let _ = self.ask(HeartbeatRequest::Heartbeat(sent, owed), heartbeat_sql::heartbeat_sql(epoch, beat));
    }

    fn be_answered(&mut self, asked: HeartbeatRequest, answer: Result<Vec<SimpleQueryMessage>>) {
        if answer.is_err() {
            self.drop_connection();
        }
        match asked {
            HeartbeatRequest::Heartbeat(sent, owed) => {
                let heard = answer.and_then(heartbeat_sql::read_heartbeat).map(|heard| {
                    let (stored, view) = heard?;
                    if stored < sent.confirmed {
                        self.node.mark_lost(sent.epoch);
                    }
                    (stored >= sent.confirmed).then_some(view)
                });
                self.heartbeat_done(sent, owed, heard);
            }
            HeartbeatRequest::View(owed) => {
                owed.send(answer.and_then(heartbeat_sql::read_view).map_err(|error| store_error(&error)));
            }
            HeartbeatRequest::Ring => {
                if let Err(error) = self.pause_after_notify() {
                    tracing::debug!(%error, "a notification could not be sent");
                }
            }
            HeartbeatRequest::Listen => {}
        }
    }

    /// Drops the connection, so that the next one may work; waiting callers get an error. The lease ends at once, until the
    /// fate of the sent heartbeats is known.
    fn drop_connection(&mut self) {
        self.connection = None;
        self.node.lease.heartbeat(0, false);
    }

    fn heartbeat_done(
        &mut self,
        sent: SentHeartbeat,
        owed: Option<ReplyGuard<Option<ClusterView>>>,
        view: Result<Option<ClusterView>>,
    ) {
        // Ignored if this node has joined again since.
        if sent.epoch == self.node.epoch() {
            self.node.lease.heartbeat(sent.at_us, matches!(view, Ok(Some(_))));
            if matches!(view, Ok(None)) {
                self.node.lease.fence();
            }
        }
        let was_well = std::mem::replace(&mut self.was_answered, matches!(view, Ok(Some(_))));
        if was_well && !self.orders.is_closed() {
            match &view {
                Ok(Some(_)) => {}
                // Already logged.
                Ok(None) if self.node.is_lost() => {}
                Ok(None) => tracing::error!("another node took over from this one, which has to join again"),
                Err(error) => tracing::warn!(%error, "a heartbeat could not be sent"),
            }
        }
        if let Some(owed) = owed {
            owed.send(view.map_err(|error| store_error(&error)));
        }
    }

    fn ring(&mut self) {
        let (bell, epoch) = (std::mem::take(&mut self.notification), self.node.epoch());
        let rung = self.ear().and_then(|ear| {
            ear.pause = None;
            if !bell.is_empty() {
                ear.is_notifying = true;
                // The text has only letters, digits and signs that need no escape.
                ear.ask(
                    HeartbeatRequest::Ring,
                    format!("SELECT pg_notify('{CHANNEL}', '{}')", bell.text(epoch)),
                )?;
            }
            Ok(())
        });
        if let Err(error) = rung {
            tracing::debug!(%error, "a notification could not be sent");
        }
    }

    fn pause_after_notify(&mut self) -> Result<()> {
        if let Some(ear) = &mut self.connection {
            ear.is_notifying = false;
            ear.pause = Some(ear.session.timer(NOTIFY_INTERVAL)?);
        }
        Ok(())
    }

    fn hear(&self, words: &str) {
        if let Some(bell) = NotifyMessage::parse(words, self.node.epoch()) {
            bell.publish(&*self.handover);
        }
    }
}

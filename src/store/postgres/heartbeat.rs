//! Heartbeat of a node, on a thread and a connection of its own so that it waits for nothing else: renews the node's lease,
//! sends notifications to other nodes and receives theirs. Before the engine sends heartbeats, and while the node joins
//! again, it sends them by itself.
//!
//! No request waits for the answer to the one before, so that a distant database gets heartbeats as often as a near one.

mod connection;

use connection::HeartbeatConnection;

use super::{
    heartbeat_sql,
    node::NodeHandle,
    notify::NotifyMessage,
    reply_guard::ReplyGuard,
    session::{Server, Session},
};
use crate::{
    domain::{cluster::NO_CONFIG_VERSION, ports::CommitListener},
    store::{
        Reply,
        cluster::{ClusterView, Heartbeat},
        sql::{Result, answered, store_error},
    },
};
use std::{
    io,
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
    time::timeout,
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
    pub(super) fn send(&self, message: NotifyMessage) {
        if !message.is_empty() {
            // After the thread has stopped no notification is sent; other nodes find the same in the database.
            let _ = self.0.send(HeartbeatCommand::Notify(message));
        }
    }
}

/// Handle of the heartbeat thread, which runs until all senders of orders are gone.
pub(super) struct HeartbeatHandle(Mutex<Option<UnboundedSender<HeartbeatCommand>>>);

impl HeartbeatHandle {
    pub(super) fn start(
        server: Arc<Server>,
        node: Arc<NodeHandle>,
        commit_listener: Arc<dyn CommitListener>,
    ) -> io::Result<(Self, NotifySender)> {
        let (orders, taken) = unbounded_channel();
        let alone = runtime::Builder::new_current_thread().enable_time().build()?;
        let beating = HeartbeatThread {
            server,
            node,
            commit_listener,
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

    pub(super) fn heartbeat(&self, heartbeat: Heartbeat) -> Reply<'static, Option<ClusterView>> {
        self.order(|answer| HeartbeatCommand::Heartbeat(heartbeat, answer))
    }

    pub(super) fn view(&self) -> Reply<'static, ClusterView> {
        self.order(HeartbeatCommand::View)
    }

    fn order<T: Send + 'static>(
        &self,
        order: impl FnOnce(ReplyGuard<T>) -> HeartbeatCommand,
    ) -> Reply<'static, T> {
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

enum HeartbeatInput {
    /// `None`: all senders are gone.
    Order(Option<HeartbeatCommand>),
    /// `None`: the connection broke.
    Notification(Option<String>),
    Answered(Answered),
    Paused,
    Rested,
}

struct HeartbeatThread {
    server: Arc<Server>,
    node: Arc<NodeHandle>,
    commit_listener: Arc<dyn CommitListener>,
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
                HeartbeatInput::Notification(Some(words)) => self.hear(&words),
                HeartbeatInput::Notification(None) => self.drop_connection(),
                HeartbeatInput::Answered((request, answer)) => self.be_answered(request, answer),
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
        self.heartbeat(&Heartbeat { config_version: NO_CONFIG_VERSION, ..Heartbeat::default() }, None);
    }

    fn connection(&mut self) -> Result<&mut HeartbeatConnection> {
        let connection = match self.connection.take().filter(|connection| !connection.session.is_closed()) {
            Some(connection) => connection,
            None => HeartbeatConnection::new(&self.server)?,
        };
        Ok(self.connection.insert(connection))
    }

    fn restart_timer(&mut self) -> Result<()> {
        let connection = self.connection()?;
        connection.heartbeat_timer = connection.session.timer(HEARTBEAT_INTERVAL)?;
        Ok(())
    }

    fn next(&mut self) -> HeartbeatInput {
        let Self {
            connection:
                Some(HeartbeatConnection { session, messages, answers, pause, heartbeat_timer: rest, .. }),
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
                words = messages.recv() => HeartbeatInput::Notification(words),
                () = paused, if is_pausing => HeartbeatInput::Paused,
                () = rest.as_mut() => HeartbeatInput::Rested,
            }
        });
        waited.unwrap_or(HeartbeatInput::Notification(None))
    }

    fn follow(&mut self, order: HeartbeatCommand) {
        match order {
            HeartbeatCommand::Heartbeat(said, reply) => {
                self.is_led_by_engine = true;
                // Otherwise the caller has given up, and asked again since.
                if reply.is_waited_for() {
                    self.heartbeat(&said, Some(reply));
                }
            }
            HeartbeatCommand::View(reply) => {
                let epoch = self.node.epoch();
                // If the request cannot be sent, the dropped reply guard answers with an error.
                let _ = self.ask(HeartbeatRequest::View(reply), heartbeat_sql::view_sql(epoch));
            }
            HeartbeatCommand::Notify(message) => {
                self.notification.add(message);
                if self
                    .connection
                    .as_ref()
                    .is_none_or(|connection| connection.pause.is_none() && !connection.is_notifying)
                {
                    self.ring();
                }
            }
        }
    }

    fn ask(&mut self, request: HeartbeatRequest, sql: String) -> Result<()> {
        self.connection()?.ask(request, sql)
    }

    fn heartbeat(&mut self, heartbeat: &Heartbeat, reply: Option<ReplyGuard<Option<ClusterView>>>) {
        let (at_us, epoch) = (self.node.lease.now_us(), self.node.epoch());
        let sent = SentHeartbeat { at_us, epoch, confirmed: self.node.confirmed(epoch) };
        if self.node.is_lost() {
            return self.heartbeat_done(sent, reply, Ok(None));
        }
        if let Err(error) = self.connection() {
            return self.heartbeat_done(sent, reply, Err(error));
        }
        let _ = self
            .ask(HeartbeatRequest::Heartbeat(sent, reply), heartbeat_sql::heartbeat_sql(epoch, heartbeat));
    }

    fn be_answered(&mut self, request: HeartbeatRequest, answer: Result<Vec<SimpleQueryMessage>>) {
        if answer.is_err() {
            self.drop_connection();
        }
        match request {
            HeartbeatRequest::Heartbeat(sent, reply) => {
                let messages = answer.and_then(heartbeat_sql::read_heartbeat).map(|messages| {
                    let (stored, view) = messages?;
                    if stored < sent.confirmed {
                        self.node.mark_lost(sent.epoch);
                    }
                    (stored >= sent.confirmed).then_some(view)
                });
                self.heartbeat_done(sent, reply, messages);
            }
            HeartbeatRequest::View(reply) => {
                reply.send(answer.and_then(heartbeat_sql::read_view).map_err(|error| store_error(&error)));
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
        reply: Option<ReplyGuard<Option<ClusterView>>>,
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
        if let Some(reply) = reply {
            reply.send(view.map_err(|error| store_error(&error)));
        }
    }

    fn ring(&mut self) {
        let (message, epoch) = (std::mem::take(&mut self.notification), self.node.epoch());
        let notified = self.connection().and_then(|connection| {
            connection.pause = None;
            if !message.is_empty() {
                connection.is_notifying = true;
                // The text has only letters, digits and signs that need no escape.
                connection.ask(
                    HeartbeatRequest::Ring,
                    format!("SELECT pg_notify('{CHANNEL}', '{}')", message.text(epoch)),
                )?;
            }
            Ok(())
        });
        if let Err(error) = notified {
            tracing::debug!(%error, "a notification could not be sent");
        }
    }

    fn pause_after_notify(&mut self) -> Result<()> {
        if let Some(connection) = &mut self.connection {
            connection.is_notifying = false;
            connection.pause = Some(connection.session.timer(NOTIFY_INTERVAL)?);
        }
        Ok(())
    }

    fn hear(&self, words: &str) {
        if let Some(message) = NotifyMessage::parse(words, self.node.epoch()) {
            message.publish(&*self.commit_listener);
        }
    }
}

//! The connection of the heartbeat thread: its requests, their answers, and the notifications that arrive on it.

use super::{
    Answered, CHANNEL, HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, HeartbeatRequest, Result, Server, Session,
};
use std::pin::Pin;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::Sleep,
};

/// The connection, and the channels of what arrives on it.
pub(super) struct HeartbeatConnection {
    pub(super) session: Session,
    pub(super) messages: UnboundedReceiver<String>,
    pub(super) answers: UnboundedReceiver<Answered>,
    to_answer: UnboundedSender<Answered>,
    /// A notification was sent and is not answered yet.
    pub(super) is_notifying: bool,
    /// Until the next notification may be sent.
    pub(super) pause: Option<Pin<Box<Sleep>>>,
    /// Until the thread sends a heartbeat by itself.
    pub(super) heartbeat_timer: Pin<Box<Sleep>>,
}

impl HeartbeatConnection {
    pub(super) fn new(server: &Server) -> Result<Self> {
        let (messages, received) = unbounded_channel();
        let (to_answer, answers) = unbounded_channel();
        let session = Session::listen(server, HEARTBEAT_TIMEOUT, Some(messages))?;
        let rest = session.timer(HEARTBEAT_INTERVAL)?;
        let connection = Self {
            session,
            messages: received,
            answers,
            to_answer,
            is_notifying: false,
            pause: None,
            heartbeat_timer: rest,
        };
        if !server.is_pooled() {
            connection.ask(HeartbeatRequest::Listen, format!("LISTEN {CHANNEL}"))?;
        }
        Ok(connection)
    }

    pub(super) fn ask(&self, request: HeartbeatRequest, sql: String) -> Result<()> {
        let to_answer = self.to_answer.clone();
        self.session.send(sql, move |answer| drop(to_answer.send((request, answer))))
    }
}

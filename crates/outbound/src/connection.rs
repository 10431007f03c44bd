//! An HTTP/1.1 connection: sends a request, reads its answer.
//!
//! A connection is polled only by the request that uses it. The library's connection future runs inside the request's
//! own task, so an exchange needs no second task and no wake-ups between two; an idle connection is just a value in
//! the pool, and is checked for being open when it is taken.

use super::{
    answer::is_framing_doubtful,
    http_request::{HttpRequest, Route},
    metered_stream::{AnswerMeter, MeteredStream, OptionalSendGate},
    progress::{AttemptPhase, AttemptProgress, micros},
    send_error::SendError,
    stream::TargetStream,
};
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use hyper_util::rt::TokioIo;
use model::outcome::OutcomeClass;
use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// Bounds the head of an answer, and each read.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Limit for 100 Continue, 103 Early Hints and the like before the final answer.
const INTERIM_ANSWERS_MAX: u32 = 10;

pub(super) struct HttpConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None once the library is done with the socket.
    driver: Option<http1::Connection<TokioIo<MeteredStream>, Full<Bytes>>>,
    meter: Arc<AnswerMeter>,
    route: Arc<Route>,
    /// Unknown where a proxy looks names up.
    peer: Option<SocketAddr>,
    is_reused: bool,
    idle_since: Instant,
}

/// Why an exchange brought no complete answer.
pub(super) enum ExchangeError {
    /// No byte was written: the request may go out on another connection.
    Unsent(Box<HttpRequest>),
    /// No byte was written, and none may be: the gate is closed.
    NotSent,
    Failed(SendError),
}

impl HttpConnection {
    pub(super) async fn open(
        stream: TargetStream,
        peer: Option<SocketAddr>,
        route: Arc<Route>,
        gate: OptionalSendGate,
    ) -> Result<Box<Self>, SendError> {
        let meter = Arc::new(AnswerMeter::default());
        let wire = TokioIo::new(MeteredStream::new(stream, Arc::clone(&meter), gate));
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .handshake(wire)
            .await
            .map_err(|error| SendError::exchange(&error))?;
        let driver = Some(driver);
        Ok(Box::new(Self {
            sender,
            driver,
            meter,
            route,
            peer,
            is_reused: false,
            idle_since: Instant::now(),
        }))
    }

    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    pub(super) fn idle_since(&self) -> Instant {
        self.idle_since
    }

    /// Marks the connection as idle since `now`.
    pub(super) fn mark_idle(&mut self, now: Instant) {
        self.is_reused = true;
        self.idle_since = now;
    }

    /// Sends a request and reads its answer into `progress`; true if the connection can be used again.
    pub(super) async fn exchange(
        &mut self,
        message: HttpRequest,
        progress: &mut AttemptProgress,
    ) -> Result<bool, ExchangeError> {
        progress.phase = AttemptPhase::Awaiting;
        progress.address = self.peer;
        self.meter.reset(self.is_reused);
        let (head, body) = self.read_head(message, progress).await?.into_parts();
        progress.phase = AttemptPhase::Reading;
        progress.answer.begin(head.status, &head.headers);
        let is_ended = self.read_body(body, progress).await.map_err(ExchangeError::Failed)?;
        Ok(is_ended && self.driver.is_some() && self.sender.is_ready() && !is_framing_doubtful(&head.headers))
    }

    async fn read_head(
        &mut self,
        mut message: HttpRequest,
        progress: &mut AttemptProgress,
    ) -> Result<Response<Incoming>, ExchangeError> {
        let began = if self.is_reused { progress.started() } else { Instant::now() };
        let meter = Arc::clone(&self.meter);
        hyper::ext::on_informational(&mut message, move |_| meter.note_interim_answer());
        let mut answer = pin!(self.sender.try_send_request(message));
        poll_fn(|cx| {
            self.drive(cx);
            let has_read = self.meter.has_read();
            if has_read && progress.timings.first_byte_us.is_none() {
                progress.timings.first_byte_us = Some(micros(began.elapsed()));
            }
            if self.meter.interim_answers() > INTERIM_ANSWERS_MAX {
                let fault = SendError::new(OutcomeClass::Connect, "the server sent too many interim answers");
                return Poll::Ready(Err(ExchangeError::Failed(fault)));
            }
            // The answer can only come out of the driver, so polling before the first byte is useless.
            if self.driver.is_some() && !has_read {
                return Poll::Pending;
            }
            Poll::Ready(ready!(answer.as_mut().poll(cx)).map_err(|error| self.exchange_error(error)))
        })
        .await
    }

    fn exchange_error(&self, mut error: TrySendError<HttpRequest>) -> ExchangeError {
        if self.meter.was_gate_closed() {
            return ExchangeError::NotSent;
        }
        if let Some(message) = error.take_message() {
            return ExchangeError::Unsent(Box::new(message));
        }
        if self.meter.is_exhausted() {
            return ExchangeError::Failed(SendError::new(
                OutcomeClass::Connect,
                "the head of the answer is too large",
            ));
        }
        let fault = SendError::exchange(&error.into_error());
        if self.is_reused && !self.meter.has_read() && fault.class == OutcomeClass::Connect {
            let words = "the kept-alive connection was closed before an answer came";
            return ExchangeError::Failed(SendError::new(OutcomeClass::StaleConnection, words));
        }
        ExchangeError::Failed(fault)
    }

    /// Reads the body. True if it came to its end, false if reading stopped early.
    async fn read_body(
        &mut self,
        mut body: Incoming,
        progress: &mut AttemptProgress,
    ) -> Result<bool, SendError> {
        while !body.is_end_stream() {
            match poll_fn(|cx| self.poll_frame(&mut body, cx)).await {
                Some(Ok(frame)) => {
                    if frame.data_ref().is_some_and(|data| !progress.answer.keep(data)) {
                        return Ok(false);
                    }
                }
                Some(Err(_)) if self.meter.is_exhausted() => return Ok(false),
                Some(Err(error)) => return Err(SendError::exchange(&error)),
                None => break,
            }
        }
        Ok(true)
    }

    fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        self.drive(cx);
        Pin::new(body).poll_frame(cx)
    }

    /// Polls the library's connection future. Its errors reach us through the answer or its body, but only once it is
    /// dropped.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.poll_without_shutdown(cx).is_ready()
        {
            self.driver = None;
        }
    }
}

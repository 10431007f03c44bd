//! The socket below the HTTP library, with a meter that the exchange reads.
//!
//! The meter limits how many bytes of one answer are read, whatever the library above would take, and makes sure that nothing
//! arrived on an idle connection before it is used again. The first byte of a request goes out here, so the send gate is
//! checked here.

use super::stream::{HasSocket, TargetStream};
use model::ports::SendGate;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Limit for a receiver's answer: head, body, chunk framing and interim answers together; exceeded by at most one
/// read.
const READ_BYTES_MAX: u32 = 160 * 1024;

/// Shared by a connection and its wire, which are always polled by the same task.
pub(super) struct AnswerMeter {
    read_bytes_max: u32,
    read_bytes: AtomicU32,
    interim_answers: AtomicU32,
    must_be_silent: AtomicBool,
    /// No byte of the request has been written.
    is_unsent: AtomicBool,
    was_gate_closed: AtomicBool,
}

impl Default for AnswerMeter {
    fn default() -> Self {
        Self::reading_at_most(READ_BYTES_MAX)
    }
}

impl AnswerMeter {
    pub(super) fn reading_at_most(read_bytes_max: u32) -> Self {
        Self {
            read_bytes_max,
            read_bytes: AtomicU32::new(0),
            interim_answers: AtomicU32::new(0),
            must_be_silent: AtomicBool::new(false),
            is_unsent: AtomicBool::new(true),
            was_gate_closed: AtomicBool::new(false),
        }
    }

    /// Resets the meter for a request. On a connection used before, the next read first makes sure that it is still
    /// silent.
    pub(super) fn reset(&self, is_reused: bool) {
        self.read_bytes.store(0, Relaxed);
        self.interim_answers.store(0, Relaxed);
        self.must_be_silent.store(is_reused, Relaxed);
        self.is_unsent.store(true, Relaxed);
    }

    /// Whether the send gate was closed before the first byte.
    pub(super) fn was_gate_closed(&self) -> bool {
        self.was_gate_closed.load(Relaxed)
    }

    /// Whether any byte of an answer has come since `reset`.
    pub(super) fn has_read(&self) -> bool {
        self.read_bytes.load(Relaxed) > 0
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.read_bytes.load(Relaxed) > self.read_bytes_max
    }

    pub(super) fn note_interim_answer(&self) {
        self.interim_answers.fetch_add(1, Relaxed);
    }

    pub(super) fn interim_answers(&self) -> u32 {
        self.interim_answers.load(Relaxed)
    }
}

pub(super) type OptionalSendGate = Option<Arc<dyn SendGate>>;

pub(super) struct MeteredStream {
    stream: TargetStream,
    meter: Arc<AnswerMeter>,
    gate: OptionalSendGate,
}

impl MeteredStream {
    pub(super) fn new(stream: TargetStream, meter: Arc<AnswerMeter>, gate: OptionalSendGate) -> Self {
        Self { stream, meter, gate }
    }

    /// Checks the send gate before the first byte of a request. A request that has begun may continue.
    fn check_gate(&self) -> io::Result<()> {
        if !self.meter.is_unsent.load(Relaxed) || self.gate.as_ref().is_none_or(|gate| gate.is_open()) {
            return Ok(());
        }
        self.meter.was_gate_closed.store(true, Relaxed);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the gate is closed"))
    }

    fn note_written(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(written)) if *written > 0) {
            self.meter.is_unsent.store(false, Relaxed);
        }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.meter.must_be_silent.load(Relaxed) {
            self.meter.must_be_silent.store(false, Relaxed);
            // A connection that the peer has closed, or on which it spoke unasked, must not get another request.
            if !self.stream.is_open_and_silent() {
                // No bytes read means closed: the library then gives the request back unsent.
                return Poll::Ready(Ok(()));
            }
        }
        if self.meter.is_exhausted() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answer is too large")));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = (buf.filled().len() - before) as u32;
        self.meter.read_bytes.fetch_add(read, Relaxed);
        polled
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.check_gate()?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, data);
        self.note_written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_gate()?;
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, data);
        self.note_written(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

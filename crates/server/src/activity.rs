//! The activity of a connection: whether it waits for a request, receives one or answers one, and since when.

use super::ConnectionState;
use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Between requests.
    Idle,
    /// Part of a request's head has arrived.
    Head,
    /// A request is being answered; its body has a deadline of its own.
    Busy,
}

/// Phase of a connection, and the second since which it lasts.
#[derive(Default)]
pub(super) struct ConnectionActivity(AtomicU64);

impl ConnectionActivity {
    pub(super) fn note(&self, phase: ConnectionPhase, second: u32) {
        self.0.store(u64::from(second) << 2 | phase as u64, Relaxed);
    }

    pub(super) fn read(&self) -> (ConnectionPhase, u32) {
        let noted = self.0.load(Relaxed);
        let phase = match noted & 3 {
            0 => ConnectionPhase::Idle,
            1 => ConnectionPhase::Head,
            _ => ConnectionPhase::Busy,
        };
        (phase, (noted >> 2) as u32)
    }
}

/// A TCP stream that notes when a request begins to arrive.
pub(super) struct ActivityStream {
    pub(super) stream: TcpStream,
    pub(super) state: ConnectionState,
}

impl AsyncRead for ActivityStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && self.state.activity.read().0 == ConnectionPhase::Idle {
            self.state.note(ConnectionPhase::Head);
        }
        read
    }
}

impl AsyncWrite for ActivityStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

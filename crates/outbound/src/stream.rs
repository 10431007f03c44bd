//! A byte stream, or TLS on top of one. A connection through a proxy may have TLS twice: to the proxy, and through it.

use rustix::{io::Errno, net::RecvFlags};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

pub(super) enum MaybeTls<S> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

/// A stream to the receiver, directly or through a proxy.
pub(super) type ProxiedStream = MaybeTls<TcpStream>;

/// A link, with TLS where the receiver's URL says so.
pub(super) type TargetStream = MaybeTls<ProxiedStream>;

/// A stream on top of a TCP socket.
pub(super) trait HasSocket {
    fn socket(&self) -> &TcpStream;

    /// Whether the peer has neither closed nor sent bytes. Asks the kernel, because the event loop may not know yet.
    fn is_open_and_silent(&self) -> bool {
        let mut byte = [0u8; 1];
        matches!(
            rustix::net::recv(self.socket(), &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT),
            Err(Errno::AGAIN)
        )
    }
}

impl HasSocket for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl<S: HasSocket> HasSocket for MaybeTls<S> {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream.socket(),
            Self::Tls(stream) => stream.get_ref().0.socket(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for MaybeTls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => match Pin::new(stream).poll_read(cx, buf) {
                // The peer closed without a TLS close_notify. The answer's framing decides whether it was complete,
                // as without TLS.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                polled => polled,
            },
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MaybeTls<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, data),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, data),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

//! The stream to a mail server: connected, and under TLS before credentials or mails are sent.
//!
//! TLS uses this program's own implementation and roots. Plain-text answers are not trusted once TLS begins: bytes
//! between the server's `220` and the handshake break the connection.

use crate::{resolve::Resolver, tls};
use lettre::transport::smtp::client::AsyncTokioStream;
use model::target_url::Host;
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// Limit of one answer in plain text.
const ANSWER_BYTES_MAX: usize = 4096;

trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> ByteStream for S {}

pub(super) struct MailStream {
    stream: Box<dyn ByteStream>,
    peer: io::Result<SocketAddr>,
    /// The greeting from before TLS. Read before the stream: a server greets once, and not again under TLS.
    greeting: Vec<u8>,
}

/// Connects to the first address that answers.
pub(super) async fn connect(resolver: &dyn Resolver, host: &Host, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<IpAddr> = match host {
        Host::Address(ip) => vec![*ip],
        Host::Name(name) => {
            resolver.resolve(name).await.map_err(|error| format!("the mail server {name}: {error}"))?
        }
    };
    let mut failed = "it has no address".to_owned();
    for ip in addresses {
        match TcpStream::connect((ip, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error.to_string(),
        }
    }
    Err(format!("cannot connect to the mail server on port {port}: {failed}"))
}

impl MailStream {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self { peer: stream.peer_addr(), stream: Box::new(stream), greeting: Vec::new() }
    }

    pub(super) async fn secured(
        stream: TcpStream,
        connector: &TlsConnector,
        host: &Host,
        greeting: Vec<u8>,
    ) -> Result<Self, String> {
        let peer = stream.peer_addr();
        let secured =
            tls::secure(connector, host, stream).await.map_err(|fault| fault.message.into_owned())?;
        Ok(Self { stream: secured, peer, greeting })
    }

    /// Asks for TLS in plain text. Fails if the server has none.
    pub(super) async fn start_tls(
        mut stream: TcpStream,
        connector: &TlsConnector,
        host: &Host,
    ) -> Result<Self, String> {
        let greeting = read_answer(&mut stream, "the greeting", b"220").await?;
        send_line(&mut stream, b"EHLO posthaste\r\n").await?;
        read_answer(&mut stream, "EHLO", b"250").await?;
        send_line(&mut stream, b"STARTTLS\r\n").await?;
        read_answer(&mut stream, "STARTTLS", b"220").await?;
        Self::secured(stream, connector, host, greeting).await
    }
}

async fn send_line(stream: &mut TcpStream, words: &[u8]) -> Result<(), String> {
    stream.write_all(words).await.map_err(|error| format!("the connection to the mail server broke: {error}"))
}

/// Reads one whole answer with this code, and no byte further.
async fn read_answer(stream: &mut TcpStream, to: &str, code: &[u8; 3]) -> Result<Vec<u8>, String> {
    let (mut all, mut line_start) = (Vec::new(), 0);
    loop {
        let byte = stream.read_u8().await;
        all.push(byte.map_err(|error| format!("no answer to {to}: {error}"))?);
        if all.len() > ANSWER_BYTES_MAX {
            return Err(format!("the mail server's answer to {to} is too long"));
        }
        if all.last() != Some(&b'\n') {
            continue;
        }
        let line = &all[line_start..];
        if line.get(3) == Some(&b'-') {
            line_start = all.len();
            continue;
        }
        if line.starts_with(code) {
            return Ok(all);
        }
        return Err(format!(
            "the mail server answered {to} with {}",
            String::from_utf8_lossy(line).trim_end()
        ));
    }
}

impl AsyncRead for MailStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.greeting.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let part = self.greeting.len().min(buffer.remaining());
        buffer.put_slice(&self.greeting[..part]);
        self.greeting.drain(..part);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MailStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl fmt::Debug for MailStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl AsyncTokioStream for MailStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.peer.as_ref().copied().map_err(|error| error.kind().into())
    }
}

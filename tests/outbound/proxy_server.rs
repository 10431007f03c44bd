//! Test proxies: CONNECT in plain text or inside TLS, and SOCKS5. They lead every tunnel to one receiver, whatever its
//! destination, and record the requests.

use crate::receiver::{ScriptedConnection, ScriptedReceiver};
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
};
use tokio_rustls::TlsAcceptor;

pub(crate) const USER: &str = "posthaste";
pub(crate) const PASSWORD: &str = "p@ss:word";
/// `posthaste:p@ss:word`
const BASIC: &str = "proxy-authorization: Basic cG9zdGhhc3RlOnBAc3M6d29yZA==\r\n";
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\nvia: 1.1 test\r\n\r\n";
const UNAUTHORIZED: &[u8] =
    b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm=\"x\"\r\n\r\nGo away.";

/// The requested destinations, in order.
pub(crate) type Requests = Arc<Mutex<Vec<String>>>;

pub(crate) struct TestProxy {
    pub(crate) receiver: ScriptedReceiver,
    requests: Requests,
}

impl TestProxy {
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// A CONNECT proxy, with the right credentials required, or without any.
    pub(crate) async fn http(to: SocketAddr, wants_credentials: bool) -> Self {
        Self::start(move |peer, requests| serve_connect(peer, to, wants_credentials, requests)).await
    }

    pub(crate) async fn https(to: SocketAddr, acceptor: TlsAcceptor) -> Self {
        Self::start(move |peer, requests| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(peer.stream).await {
                    serve_connect(ScriptedConnection::new(stream), to, true, requests).await;
                }
            }
        })
        .await
    }

    pub(crate) async fn socks5(to: SocketAddr, wants_credentials: bool) -> Self {
        Self::start(move |peer, requests| async move {
            let _ = serve_socks(peer.stream, Ok(to), wants_credentials, requests).await;
        })
        .await
    }

    /// Refuses every tunnel, with this reply.
    pub(crate) async fn socks5_refusing(reply: u8) -> Self {
        Self::start(move |peer, requests| async move {
            let _ = serve_socks(peer.stream, Err(reply), false, requests).await;
        })
        .await
    }

    async fn start<F, Fut>(serve: F) -> Self
    where
        F: Fn(ScriptedConnection<TcpStream>, Requests) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let requests = Requests::default();
        let noted = requests.clone();
        let receiver = ScriptedReceiver::start(move |_, peer| serve(peer, noted.clone())).await;
        Self { receiver, requests }
    }
}

async fn serve_connect<S: AsyncRead + AsyncWrite + Unpin>(
    mut peer: ScriptedConnection<S>,
    to: SocketAddr,
    wants_credentials: bool,
    requests: Requests,
) {
    let Some(head) = peer.request().await else { return };
    requests.lock().unwrap().push(head.lines().next().unwrap().to_owned());
    assert!(head.contains("\r\nhost: ") && !head.contains("content-"), "{head}");
    if head.contains(BASIC) != wants_credentials {
        peer.send(UNAUTHORIZED).await;
        return;
    }
    let mut onward = TcpStream::connect(to).await.unwrap();
    // In two pieces, as it may come.
    peer.send(&ESTABLISHED[..20]).await;
    tokio::task::yield_now().await;
    peer.send(&ESTABLISHED[20..]).await;
    let _ = copy_bidirectional(&mut peer.stream, &mut onward).await;
}

async fn serve_socks(
    mut stream: TcpStream,
    to: Result<SocketAddr, u8>,
    wants_credentials: bool,
    requests: Requests,
) -> std::io::Result<()> {
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await?;
    let method = if wants_credentials { 2 } else { 0 };
    if greeting != [5, 1, method] {
        return stream.write_all(&[5, 255]).await;
    }
    stream.write_all(&[5, method]).await?;
    if wants_credentials {
        assert_eq!(stream.read_u8().await?, 1);
        let (user, password) = (counted(&mut stream).await?, counted(&mut stream).await?);
        let is_right = user == USER && password == PASSWORD;
        stream.write_all(&[1, u8::from(!is_right)]).await?;
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    assert_eq!(request[..3], [5, 1, 0]);
    let host = match request[3] {
        1 => IpAddr::from(stream.read_u32().await?.to_be_bytes()).to_string(),
        4 => format!("[{}]", Ipv6Addr::from_bits(stream.read_u128().await?)),
        3 => counted(&mut stream).await?,
        other => panic!("address type {other}"),
    };
    let port = stream.read_u16().await?;
    requests.lock().unwrap().push(format!("{host}:{port}"));
    match to {
        Err(reply) => stream.write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0]).await,
        Ok(to) => {
            let mut onward = TcpStream::connect(to).await?;
            stream.write_all(&[5, 0, 0, 3, 5, b'p', b'r', b'o', b'x', b'y', 4, 56]).await?;
            copy_bidirectional(&mut stream, &mut onward).await.map(|_| ())
        }
    }
}

async fn counted(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

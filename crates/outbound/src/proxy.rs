//! Connects through the operator's proxy, and interprets failures to open a tunnel.
//!
//! Failures up to the moment when the proxy knows the destination are local; later answers about the receiver count as
//! the receiver's. The connection is always a tunnel, also for plain HTTP.

use super::{
    http_connect,
    progress::{AttemptPhase, AttemptProgress},
    resolve::Resolver,
    send_error::SendError,
    socks,
    stream::{HasSocket, MaybeTls, ProxiedStream},
    tls,
};
use model::{
    address_policy::CheckedAddress,
    outcome::OutcomeClass,
    proxy::{Proxy, ProxyKind},
    target_url::Host,
};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

/// A proxy that is not reached within this time is down, however long the attempt may last.
const PROXY_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for one of several addresses of the proxy.
const PROXY_ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the addresses of the proxy's name are cached.
const PROXY_ADDRESS_TTL: Duration = Duration::from_secs(10);

/// The destination of a connection.
pub(super) enum DialTarget<'a> {
    Address(CheckedAddress),
    /// For a proxy that looks names up itself.
    Name(&'a str, u16),
}

impl DialTarget<'_> {
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(checked) => Some(checked.address()),
            Self::Name(..) => None,
        }
    }
}

impl fmt::Display for DialTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(checked) => write!(f, "{}", checked.address()),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

pub(super) struct ProxyConnector {
    proxy: Proxy,
    resolves_names: bool,
    tls: TlsConnector,
    found: Mutex<Option<(Vec<IpAddr>, Instant)>>,
}

impl ProxyConnector {
    pub(super) fn new(proxy: Proxy, resolves_names: bool, tls: TlsConnector) -> Self {
        Self { proxy, resolves_names, tls, found: Mutex::default() }
    }

    /// Whether the proxy looks names up.
    pub(super) fn resolves_names(&self) -> bool {
        self.resolves_names
    }

    /// Opens a tunnel to `goal` through the proxy. No bytes were sent on it yet.
    pub(super) async fn tunnel(
        &self,
        resolver: &dyn Resolver,
        goal: &DialTarget<'_>,
        progress: &mut AttemptProgress,
    ) -> Result<ProxiedStream, SendError> {
        progress.phase = AttemptPhase::ReachingProxy;
        let greeted = timeout(PROXY_CONNECT_TIMEOUT, self.connect_to_proxy(resolver)).await;
        let mut link = greeted.unwrap_or_else(|_| Err(SendError::proxy("did not answer in time")))?;
        // From here on the receiver is waited for.
        progress.phase = AttemptPhase::Connecting;
        match self.proxy.kind {
            ProxyKind::Http | ProxyKind::Https => {
                http_connect::open_tunnel(&mut link, goal, self.proxy.credentials.as_ref()).await?;
            }
            ProxyKind::Socks5 => socks::open_tunnel(&mut link, goal).await?,
        }
        // A receiver does not speak first: bytes that are there already did not come from it.
        if matches!(&link, MaybeTls::Plain(_)) && !link.is_open_and_silent() {
            return Err(SendError::proxy("closed the tunnel, or sent more than its answer"));
        }
        Ok(link)
    }

    /// Connects to the proxy itself, up to the point where the destination is sent.
    async fn connect_to_proxy(&self, resolver: &dyn Resolver) -> Result<ProxiedStream, SendError> {
        let stream = self.connect_socket(resolver).await?;
        Ok(match self.proxy.kind {
            ProxyKind::Http => MaybeTls::Plain(stream),
            ProxyKind::Https => {
                let secured = tls::secure(&self.tls, &self.proxy.host, stream).await;
                MaybeTls::Tls(
                    secured.map_err(|fault| SendError::proxy(format!("fails in TLS: {}", fault.message)))?,
                )
            }
            ProxyKind::Socks5 => {
                let mut link = MaybeTls::Plain(stream);
                socks::negotiate(&mut link, self.proxy.credentials.as_ref()).await?;
                link
            }
        })
    }

    async fn connect_socket(&self, resolver: &dyn Resolver) -> Result<TcpStream, SendError> {
        let addresses = self.addresses(resolver).await?;
        let mut last = SendError::proxy("has no address");
        for (tried, ip) in addresses.iter().enumerate() {
            let connecting = TcpStream::connect((*ip, self.proxy.port));
            let connected = if tried + 1 == addresses.len() {
                connecting.await
            } else {
                let ended = timeout(PROXY_ADDRESS_TIMEOUT, connecting).await;
                ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            };
            match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = unreachable_proxy(&error),
            }
        }
        Err(last)
    }

    /// Returns the proxy's addresses. The operator chose them, so no address policy applies.
    async fn addresses(&self, resolver: &dyn Resolver) -> Result<Vec<IpAddr>, SendError> {
        let name = match &self.proxy.host {
            Host::Address(ip) => return Ok(vec![*ip]),
            Host::Name(name) => name,
        };
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((addresses, found_at)) = known
            && found_at.elapsed() < PROXY_ADDRESS_TTL
        {
            return Ok(addresses);
        }
        let found = resolver.resolve(name).await;
        let found = found.map_err(|error| SendError::proxy(format!("cannot be looked up: {error}")))?;
        let now = Instant::now();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some((found.clone(), now));
        Ok(found)
    }
}

fn unreachable_proxy(error: &io::Error) -> SendError {
    match SendError::io(error) {
        local @ SendError { class: OutcomeClass::Local, .. } => local,
        fault => SendError::proxy(format!("cannot be reached: {}", fault.message)),
    }
}

/// The error for a proxy that closed the connection in the middle of its answer.
pub(super) fn closed_early(error: &io::Error) -> SendError {
    match SendError::io(error) {
        local @ SendError { class: OutcomeClass::Local, .. } => local,
        _ => SendError::proxy("closed the connection instead of answering"),
    }
}

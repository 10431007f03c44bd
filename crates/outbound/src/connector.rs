//! Opens connections: looks the name up, checks every address, connects to exactly a checked one, verifies the peer's
//! TLS certificate.
//!
//! A single forbidden address among a name's answers refuses the whole attempt, and no connection is opened.
//! Otherwise the owner of a name could try out which of its addresses get through.

use super::{
    connection::HttpConnection,
    http_request::Route,
    metered_stream::OptionalSendGate,
    progress::{AttemptPhase, AttemptProgress, micros},
    proxy::{DialTarget, ProxyConnector},
    resolve::{ResolveError, Resolver},
    send_error::SendError,
    stream::{MaybeTls, ProxiedStream, TargetStream},
    tls::{self, EndpointConfigs},
};
use model::{
    address_policy::{AddressPolicy, CheckedAddress, ForbiddenAddress},
    outcome::OutcomeClass,
    target_url::{Host, TargetUrl},
};
use rustls::RootCertStore;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

const ADDRESSES_TRIED_MAX: usize = 3;

pub(super) struct Connector {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) tls: TlsConnector,
    /// The root certificates behind `tls`.
    pub(super) roots: Arc<RootCertStore>,
    pub(super) endpoint_configs: EndpointConfigs,
    /// With a proxy set, no other host is ever connected to.
    pub(super) proxy: Option<ProxyConnector>,
}

impl Connector {
    pub(super) async fn open(
        &self,
        policy: &AddressPolicy,
        route: Arc<Route>,
        deadline: Instant,
        progress: &mut AttemptProgress,
        gate: OptionalSendGate,
    ) -> Result<Box<HttpConnection>, SendError> {
        let (stream, peer) = self.open_stream(policy, &route, deadline, progress).await?;
        HttpConnection::open(stream, peer, route, gate).await
    }

    /// A stream to the target, secured where its scheme says so, and its address if that is known here.
    pub(super) async fn open_stream(
        &self,
        policy: &AddressPolicy,
        route: &Route,
        deadline: Instant,
        progress: &mut AttemptProgress,
    ) -> Result<(TargetStream, Option<SocketAddr>), SendError> {
        let target = &route.target;
        let goals = self.destinations(policy, target, progress).await?;
        let began = Instant::now();
        let link = self.connect(&goals, deadline, progress).await?;
        let peer = progress.address;
        progress.timings.connect_us = Some(micros(began.elapsed()));
        if !target.is_https() {
            return Ok((MaybeTls::Plain(link), peer));
        }
        let began = Instant::now();
        progress.phase = AttemptPhase::Securing;
        let own =
            route.tls.as_ref().map(|tls| self.endpoint_configs.connector(tls, &self.roots)).transpose()?;
        let secured = tls::secure(own.as_ref().unwrap_or(&self.tls), target.host(), link).await?;
        progress.timings.tls_us = Some(micros(began.elapsed()));
        Ok((MaybeTls::Tls(secured), peer))
    }

    /// Returns the destinations to try: checked addresses, or the name itself where the proxy looks it up.
    async fn destinations<'a>(
        &self,
        policy: &AddressPolicy,
        target: &'a TargetUrl,
        progress: &mut AttemptProgress,
    ) -> Result<Vec<DialTarget<'a>>, SendError> {
        if let Host::Name(name) = target.host()
            && self.proxy.as_ref().is_some_and(ProxyConnector::resolves_names)
        {
            return if policy.allows_name(name) {
                Ok(vec![DialTarget::Name(name, target.port())])
            } else {
                Err(ForbiddenAddress.into())
            };
        }
        let checked = self.check_addresses(policy, target, progress).await?;
        let usable = if self.proxy.is_some() { reject_own_addresses(checked)? } else { reachable(checked)? };
        Ok(usable.into_iter().map(DialTarget::Address).collect())
    }

    /// Returns all addresses of the target. Fails if the policy forbids any of them.
    async fn check_addresses(
        &self,
        policy: &AddressPolicy,
        target: &TargetUrl,
        progress: &mut AttemptProgress,
    ) -> Result<Vec<CheckedAddress>, SendError> {
        let port = target.port();
        let name = match target.host() {
            Host::Address(ip) => return Ok(vec![policy.check(SocketAddr::new(*ip, port))?]),
            Host::Name(name) if policy.allows_name(name) => name,
            Host::Name(_) => return Err(ForbiddenAddress.into()),
        };
        let began = Instant::now();
        progress.phase = AttemptPhase::Resolving;
        let found = self.resolver.resolve(name).await;
        progress.timings.dns_us = Some(micros(began.elapsed()));
        let found = match found {
            Ok(found) if found.is_empty() => Err(ResolveError::NotFound),
            found => found,
        };
        let found = found.map_err(|error| match error {
            ResolveError::NotFound | ResolveError::Broken => {
                SendError::new(OutcomeClass::Dns, error.to_string())
            }
            ResolveError::Unavailable => SendError::new(OutcomeClass::Local, error.to_string()),
        })?;
        found.into_iter().map(|ip| Ok(policy.check(SocketAddr::new(ip, port))?)).collect()
    }

    /// Tries a few goals one after the other; all but the last get only their share of the time that is left.
    async fn connect(
        &self,
        goals: &[DialTarget<'_>],
        deadline: Instant,
        progress: &mut AttemptProgress,
    ) -> Result<ProxiedStream, SendError> {
        let goals = &goals[..goals.len().min(ADDRESSES_TRIED_MAX)];
        let mut worst = None;
        for (tried, goal) in goals.iter().enumerate() {
            progress.address = goal.address();
            let left = (goals.len() - tried) as u32;
            let share = deadline.saturating_duration_since(Instant::now()) / left;
            let connecting = self.connect_to(goal, progress);
            let connected = if left == 1 {
                connecting.await
            } else {
                let ended = timeout(share, connecting).await;
                ended.unwrap_or_else(|_| Err(progress.address_timed_out()))
            };
            match connected {
                Ok(link) => return Ok(link),
                Err(fault) => worst = Some(more_telling(worst, fault)),
            }
        }
        Err(worst.unwrap_or_else(|| SendError::new(OutcomeClass::Dns, ResolveError::NotFound.to_string())))
    }

    async fn connect_to(
        &self,
        goal: &DialTarget<'_>,
        progress: &mut AttemptProgress,
    ) -> Result<ProxiedStream, SendError> {
        match (&self.proxy, goal) {
            (Some(gateway), goal) => gateway.tunnel(&*self.resolver, goal, progress).await,
            (None, DialTarget::Address(checked)) => {
                progress.phase = AttemptPhase::Connecting;
                let connected = TcpStream::connect(checked.address()).await;
                let connected = connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
                connected.map(MaybeTls::Plain).map_err(|error| SendError::io(&error))
            }
            // Names are destinations only where there is a proxy to give them to.
            (None, DialTarget::Name(..)) => Err(ForbiddenAddress.into()),
        }
    }
}

/// Returns the addresses that this machine has a route to. An address of this machine itself refuses all of them,
/// unless the operator listed it; the kernel knows the interfaces as they are now.
fn reachable(checked: Vec<CheckedAddress>) -> Result<Vec<CheckedAddress>, SendError> {
    let mut reachable = Vec::with_capacity(checked.len());
    let mut unreachable = None;
    for checked in checked {
        match is_own_address(checked) {
            Ok(true) => return Err(ForbiddenAddress.into()),
            Ok(false) => reachable.push(checked),
            Err(error) => unreachable = Some(SendError::no_route(&error)),
        }
    }
    match unreachable {
        Some(fault) if reachable.is_empty() => Err(fault),
        _ => Ok(reachable),
    }
}

/// Refuses all addresses if an unlisted one is this machine's own. No route is needed: only the proxy connects.
fn reject_own_addresses(checked: Vec<CheckedAddress>) -> Result<Vec<CheckedAddress>, SendError> {
    if checked.iter().any(|checked| is_own_address(*checked).unwrap_or(false)) {
        return Err(ForbiddenAddress.into());
    }
    Ok(checked)
}

fn is_own_address(checked: CheckedAddress) -> io::Result<bool> {
    let source = source_towards(checked.address())?;
    Ok(source == checked.address().ip() && !checked.is_listed())
}

/// Returns the local address that a packet to `address` would leave from. Sends nothing: connecting a datagram socket
/// only asks the kernel for a route.
fn source_towards(address: SocketAddr) -> io::Result<IpAddr> {
    let anywhere: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((anywhere, 0))?;
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip())
}

/// Keeps the more telling of two failures: an address on which the receiver does not answer outweighs a local
/// failure.
fn more_telling(known: Option<SendError>, new: SendError) -> SendError {
    match known {
        Some(known) if known.class != OutcomeClass::Local || new.class == OutcomeClass::Local => known,
        _ => new,
    }
}

//! Opening connections: look the name up, check every address, dial exactly a checked one, prove who answers.
//!
//! The one thing to know: one forbidden address among a name's answers refuses the whole attempt, and nothing is
//! dialled. Whoever controls a name must not be able to try out which of its addresses get through.

use super::{
    connection::Connection,
    fault::Fault,
    message::Route,
    progress::{Phase, Progress, micros},
    resolve::{Resolve, ResolveError},
    tls,
    wire::Stream,
};
use crate::domain::{
    address::{AddressPolicy, Refused, Vetted},
    outcome::Class,
    target::{Host, Target},
};
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

pub(super) struct Dialer {
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) tls: TlsConnector,
}

impl Dialer {
    pub(super) async fn dial(
        &self,
        policy: &AddressPolicy,
        route: Arc<Route>,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<Box<Connection>, Fault> {
        let (stream, peer) = self.reach(policy, &route.target, deadline, progress).await?;
        Connection::open(stream, peer, route).await
    }

    /// A stream to the target, secured where its scheme says so.
    pub(super) async fn reach(
        &self,
        policy: &AddressPolicy,
        target: &Target,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<(Stream, SocketAddr), Fault> {
        let vetted = self.vet(policy, target, progress).await?;
        let began = Instant::now();
        progress.phase = Phase::Connecting;
        let (stream, peer) = connect(&reachable(vetted)?, deadline, progress).await?;
        progress.timings.connect_us = Some(micros(began.elapsed()));
        if !target.is_https() {
            return Ok((Stream::Plain(stream), peer));
        }
        let began = Instant::now();
        progress.phase = Phase::Securing;
        let secured = tls::secure(&self.tls, target.host(), stream).await?;
        progress.timings.tls_us = Some(micros(began.elapsed()));
        Ok((Stream::Tls(Box::new(secured)), peer))
    }

    /// All addresses of the target, every one of them let through by the policy.
    async fn vet(
        &self,
        policy: &AddressPolicy,
        target: &Target,
        progress: &mut Progress,
    ) -> Result<Vec<Vetted>, Fault> {
        let port = target.port();
        let name = match target.host() {
            Host::Address(ip) => return Ok(vec![policy.check(SocketAddr::new(*ip, port))?]),
            Host::Name(name) if policy.allows_name(name) => name,
            Host::Name(_) => return Err(Refused.into()),
        };
        let began = Instant::now();
        progress.phase = Phase::Resolving;
        let found = self.resolver.resolve(name).await;
        progress.timings.dns_us = Some(micros(began.elapsed()));
        let found = match found {
            Ok(found) if found.is_empty() => Err(ResolveError::NotFound),
            found => found,
        };
        let found = found.map_err(|error| match error {
            ResolveError::NotFound | ResolveError::Broken => Fault::new(Class::Dns, error.to_string()),
            ResolveError::Unavailable => Fault::new(Class::Local, error.to_string()),
        })?;
        found.into_iter().map(|ip| Ok(policy.check(SocketAddr::new(ip, port))?)).collect()
    }
}

/// The addresses that this machine has a way to. An address of this machine itself refuses all of them, unless the
/// operator listed it; the kernel knows the interfaces as they are now.
fn reachable(vetted: Vec<Vetted>) -> Result<Vec<Vetted>, Fault> {
    let mut reachable = Vec::with_capacity(vetted.len());
    let mut unreachable = None;
    for vetted in vetted {
        match source_towards(vetted.address()) {
            Ok(source) if source == vetted.address().ip() && !vetted.is_listed() => {
                return Err(Refused.into());
            }
            Ok(_) => reachable.push(vetted),
            Err(error) => unreachable = Some(Fault::no_route(&error)),
        }
    }
    match unreachable {
        Some(fault) if reachable.is_empty() => Err(fault),
        _ => Ok(reachable),
    }
}

/// Which of our addresses a packet to `address` would leave from. Sends nothing: connecting a datagram socket only
/// asks the kernel for a route.
fn source_towards(address: SocketAddr) -> io::Result<IpAddr> {
    let anywhere: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((anywhere, 0))?;
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip())
}

/// Tries a few addresses one after the other; all but the last get only their share of the time that is left.
async fn connect(
    addresses: &[Vetted],
    deadline: Instant,
    progress: &mut Progress,
) -> Result<(TcpStream, SocketAddr), Fault> {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let mut worst = None;
    for (tried, vetted) in addresses.iter().enumerate() {
        let address = vetted.address();
        progress.address = Some(address);
        let left = (addresses.len() - tried) as u32;
        let connecting = TcpStream::connect(address);
        let connected = if left == 1 {
            connecting.await
        } else {
            let share = deadline.saturating_duration_since(Instant::now()) / left;
            timeout(share, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => worst = Some(worse(worst, Fault::io(&error))),
        }
    }
    Err(worst.unwrap_or_else(|| Fault::new(Class::Dns, ResolveError::NotFound.to_string())))
}

/// One address that the receiver does not answer on outweighs another that we had no means to try.
fn worse(known: Option<Fault>, new: Fault) -> Fault {
    match known {
        Some(known) if known.class != Class::Local || new.class == Class::Local => known,
        _ => new,
    }
}

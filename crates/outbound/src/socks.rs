//! SOCKS5 (RFC 1928, and RFC 1929 for user and password), the part that a client needs to open one tunnel.

use super::{
    proxy::{DialTarget, closed_early},
    send_error::SendError,
    stream::ProxiedStream,
};
use model::{outcome::OutcomeClass, proxy::ProxyCredentials};
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const DOMAIN_NAME: u8 = 3;
const IPV6: u8 = 4;

/// Negotiates authentication. Where credentials are set, a proxy that does not ask for them is refused.
pub(super) async fn negotiate(
    link: &mut ProxiedStream,
    credentials: Option<&ProxyCredentials>,
) -> Result<(), SendError> {
    let method = if credentials.is_some() { USER_AND_PASSWORD } else { NO_AUTHENTICATION };
    send_bytes(link, &[VERSION, 1, method]).await?;
    let [version, chosen] = receive_bytes(link).await?;
    if version != VERSION {
        return Err(SendError::proxy("does not speak SOCKS5"));
    }
    if chosen != method {
        return Err(SendError::proxy(match credentials {
            Some(_) => "does not take a user and password",
            None => "asks for credentials, and none are set",
        }));
    }
    let Some(ProxyCredentials { user, password }) = credentials else { return Ok(()) };
    let mut message = vec![1, user.len() as u8];
    message.extend_from_slice(user.as_bytes());
    message.push(password.len() as u8);
    message.extend_from_slice(password.as_bytes());
    send_bytes(link, &message).await?;
    let [_, status] = receive_bytes(link).await?;
    if status == 0 { Ok(()) } else { Err(SendError::proxy("does not accept our credentials")) }
}

/// Asks for a tunnel to `goal`.
pub(super) async fn open_tunnel(link: &mut ProxiedStream, goal: &DialTarget<'_>) -> Result<(), SendError> {
    let mut message = vec![VERSION, CONNECT, 0];
    let port = match goal {
        DialTarget::Address(checked) => {
            match checked.address().ip() {
                IpAddr::V4(ip) => {
                    message.push(IPV4);
                    message.extend_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    message.push(IPV6);
                    message.extend_from_slice(&ip.octets());
                }
            }
            checked.address().port()
        }
        DialTarget::Name(name, port) => {
            let length = u8::try_from(name.len());
            message.extend_from_slice(&[
                DOMAIN_NAME,
                length.map_err(|_| SendError::proxy("cannot be told so long a name"))?,
            ]);
            message.extend_from_slice(name.as_bytes());
            *port
        }
    };
    message.extend_from_slice(&port.to_be_bytes());
    send_bytes(link, &message).await?;
    let [version, reply, _, kind] = receive_bytes(link).await?;
    if version != VERSION {
        return Err(SendError::proxy("does not speak SOCKS5"));
    }
    check_reply(reply)?;
    // The address that the proxy itself used, which is not needed.
    match kind {
        IPV4 => drop(receive_bytes::<6>(link).await?),
        IPV6 => drop(receive_bytes::<18>(link).await?),
        DOMAIN_NAME => {
            let [length] = receive_bytes(link).await?;
            for _ in 0..usize::from(length) + 2 {
                receive_bytes::<1>(link).await?;
            }
        }
        _ => return Err(SendError::proxy("does not speak SOCKS5")),
    }
    Ok(())
}

fn check_reply(reply: u8) -> Result<(), SendError> {
    match reply {
        0 => Ok(()),
        2 => Err(SendError::new(OutcomeClass::AddressRefused, "the proxy does not allow the address")),
        3 => Err(SendError::new(OutcomeClass::Connect, "the proxy knows no way to the host's network")),
        4 | 6 => Err(SendError::new(OutcomeClass::Connect, "the proxy could not reach the host")),
        5 => Err(SendError::new(OutcomeClass::Connect, "connection refused, says the proxy")),
        _ => Err(SendError::proxy(format!("failed (SOCKS reply {reply})"))),
    }
}

async fn send_bytes(link: &mut ProxiedStream, message: &[u8]) -> Result<(), SendError> {
    link.write_all(message).await.map_err(|error| closed_early(&error))
}

async fn receive_bytes<const N: usize>(link: &mut ProxiedStream) -> Result<[u8; N], SendError> {
    let mut bytes = [0; N];
    link.read_exact(&mut bytes).await.map_err(|error| closed_early(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_proxys_replies_about_the_receiver_count_against_it() {
        let class = |reply| check_reply(reply).map_err(|fault| fault.class);
        assert_eq!(class(0), Ok(()));
        assert_eq!(class(2), Err(OutcomeClass::AddressRefused));
        for reply in 3..=6 {
            assert_eq!(class(reply), Err(OutcomeClass::Connect), "{reply}");
        }
        for reply in [1, 7, 8, 9, 255] {
            assert_eq!(class(reply), Err(OutcomeClass::Local), "{reply}");
        }
    }
}

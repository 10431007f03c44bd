//! The operator's outbound proxy, which every request to a receiver goes through. It is always shown without its credentials.

use super::target_url::{Host, is_host_name};
use std::{fmt, net::IpAddr};

/// Completes "give …".
pub const PROXY_FORM: &str = "http://host:port, https://host:port (TLS to the proxy) or socks5://host:port, with user:password@ before \
     the host if the proxy wants them (other characters than letters, digits and -._~ as %XX)";

/// The limit of SOCKS5.
const CREDENTIAL_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// CONNECT in plain text.
    Http,
    /// CONNECT inside TLS.
    Https,
    Socks5,
}

impl ProxyKind {
    const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct ProxyCredentials {
    pub user: String,
    pub password: String,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub kind: ProxyKind,
    /// A single-label name is allowed here: the operator knows what it means.
    pub host: Host,
    pub port: u16,
    pub credentials: Option<ProxyCredentials>,
}

impl Proxy {
    /// Reads `scheme://[user:password@]host:port`.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let kind = [ProxyKind::Http, ProxyKind::Https, ProxyKind::Socks5]
            .into_iter()
            .find(|kind| kind.scheme().eq_ignore_ascii_case(scheme))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, authority) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((given, authority)) => (Some(credentials(given)?), authority),
        };
        let (host, port) = authority.rsplit_once(':')?;
        let digits_only = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = digits_only.then(|| port.parse().ok())?.filter(|port| *port != 0)?;
        Some(Self { kind, host: read_host(host)?, port, credentials })
    }
}

/// Shows the address without credentials.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.kind.scheme();
        match &self.host {
            Host::Address(IpAddr::V6(ip)) => write!(f, "{scheme}://[{ip}]:{}", self.port),
            Host::Address(ip) => write!(f, "{scheme}://{ip}:{}", self.port),
            Host::Name(name) => write!(f, "{scheme}://{name}:{}", self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

fn read_host(text: &str) -> Option<Host> {
    if let Some(inside) = text.strip_prefix('[') {
        return Some(Host::Address(IpAddr::V6(inside.strip_suffix(']')?.parse().ok()?)));
    }
    if let Ok(ip) = text.parse() {
        return Some(Host::Address(IpAddr::V4(ip)));
    }
    // A name that ends in a number is a mistyped address.
    let ends_in_number = text.rsplit('.').next()?.bytes().all(|byte| byte.is_ascii_digit());
    (is_host_name(text) && !ends_in_number).then(|| Host::Name(text.to_ascii_lowercase()))
}

fn credentials(text: &str) -> Option<ProxyCredentials> {
    let (user, password) = text.split_once(':')?;
    let (user, password) = (decoded(user)?, decoded(password)?);
    let fits = |text: &str| text.len() <= CREDENTIAL_BYTES_MAX && !text.chars().any(char::is_control);
    // The proxy would read the text after a colon as the password.
    let is_usable = !user.is_empty() && !user.contains(':') && fits(&user) && fits(&password);
    is_usable.then_some(ProxyCredentials { user, password })
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (nibble(rest.next()?)? << 4) | nibble(rest.next()?)?,
            b'/' | b'?' | b'#' | b'@' => return None,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_with_its_credentials_and_shown_without() {
        for (text, shown, credentials) in [
            ("http://proxy:3128", "http://proxy:3128", None),
            ("HTTPS://Proxy.Example:443/", "https://proxy.example:443", None),
            ("socks5://u:p%40ss%3A@10.0.0.1:1080", "socks5://10.0.0.1:1080", Some(("u", "p@ss:"))),
            ("http://u:@[::1]:80", "http://[::1]:80", Some(("u", ""))),
        ] {
            let proxy = Proxy::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(proxy.to_string(), shown);
            assert_eq!(format!("{proxy:?}"), format!("Proxy({shown})"));
            let read = proxy.credentials.as_ref().map(|c| (c.user.as_str(), c.password.as_str()));
            assert_eq!(read, credentials);
        }
    }

    #[test]
    fn ambiguous_proxy_urls_are_refused() {
        for text in [
            "",
            "proxy:3128",
            "ftp://proxy:1",
            "socks4://proxy:1",
            "http://proxy",
            "http://proxy:",
            "http://proxy:0",
            "http://proxy:65536",
            "http://proxy:+80",
            "http://:80",
            "http://user@proxy:80",
            "http://:pw@proxy:80",
            "http://a:b%@proxy:80",
            "http://a:%zz@proxy:80",
            "http://a:b%0a@proxy:80",
            "http://a%3Ab:c@proxy:80",
            "http://a:b@c@proxy:80",
            "http://proxy:80/path",
            "http://1.2.3:80",
            "http://[::1:80",
            "http://pro xy:80",
        ] {
            assert_eq!(Proxy::parse(text), None, "{text}");
        }
        assert_eq!(Proxy::parse(&format!("socks5://{}:x@proxy:80", "u".repeat(256))), None);
    }
}

//! The target URL of a request, parsed once by one parser and kept in its canonical spelling.
//!
//! The canonical text is stored, shown and dialled. Anything that the URL standard would silently repair
//! (tabs, backslashes, missing slashes, empty user names) is refused, so that no two parsers can disagree.

use super::address_policy::{AddressPolicy, ForbiddenAddress};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use url::{Position, Url};

pub const URL_BYTES_MAX: usize = 2048;
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A checked http or https URL. Cheap to clone.
#[derive(Clone)]
pub struct TargetUrl(Arc<UrlParts>);

struct UrlParts {
    url: String,
    is_https: bool,
    host: Host,
    port: u16,
    authority: String,
    path_starts_at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Address(IpAddr),
    /// Lower case, in its ASCII form, without a trailing dot.
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetUrlError {
    #[error("a URL may have at most {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("the URL must start with https:// or http:// and a host")]
    Scheme,
    #[error("the URL must not hold blanks, control characters or backslashes")]
    Characters,
    #[error("the URL must not hold a user name or password; use a header instead")]
    UserInfo,
    #[error("the URL must not hold a fragment (#)")]
    Fragment,
    #[error("the port must be between 1 and 65535")]
    Port,
    #[error("the host is not a valid host name or address")]
    Host,
    #[error("the host name must have at least two labels, as in hooks.example.com")]
    SingleLabel,
    #[error(transparent)]
    Forbidden(#[from] ForbiddenAddress),
}

impl TargetUrl {
    /// Parses a URL that a user gave. Refuses addresses that `policy` forbids, in any spelling, and names that
    /// mean something only locally. Names are looked up, and their addresses checked, when they are dialled.
    pub fn parse(text: &str, policy: &AddressPolicy) -> Result<Self, TargetUrlError> {
        let target = Self::from_stored(text)?;
        match target.host() {
            Host::Address(ip) => drop(policy.check(SocketAddr::new(*ip, target.port()))?),
            Host::Name(name) if policy.allows_name(name) => {}
            Host::Name(_) => return Err(TargetUrlError::SingleLabel),
        }
        Ok(target)
    }

    /// Parses a stored URL. The policy is not checked here, as it may have changed since; it is checked at every
    /// attempt.
    pub fn from_stored(text: &str) -> Result<Self, TargetUrlError> {
        check_spelling(text)?;
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::InvalidPort => TargetUrlError::Port,
            _ => TargetUrlError::Host,
        })?;
        let host = match url.host() {
            Some(url::Host::Ipv4(ip)) => Host::Address(ip.into()),
            Some(url::Host::Ipv6(ip)) => Host::Address(ip.into()),
            Some(url::Host::Domain(name)) if is_host_name(name) => Host::Name(name.to_owned()),
            _ => return Err(TargetUrlError::Host),
        };
        let port = url.port_or_known_default().filter(|&port| port != 0).ok_or(TargetUrlError::Port)?;
        let authority = url[Position::BeforeHost..Position::AfterPort].to_owned();
        let path_starts_at = url[..Position::BeforePath].len();
        let is_https = url.scheme() == "https";
        let url = String::from(url);
        if url.len() > URL_BYTES_MAX {
            return Err(TargetUrlError::TooLong);
        }
        Ok(Self(Arc::new(UrlParts { url, is_https, host, port, authority, path_starts_at })))
    }

    /// Returns the canonical URL.
    pub fn as_str(&self) -> &str {
        &self.0.url
    }

    pub fn is_https(&self) -> bool {
        self.0.is_https
    }

    pub fn host(&self) -> &Host {
        &self.0.host
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Returns the value of the `host` header: without the port if it is the scheme's default.
    pub fn authority(&self) -> &str {
        &self.0.authority
    }

    /// Returns the target of the request line; never empty.
    pub fn path_and_query(&self) -> &str {
        &self.0.url[self.0.path_starts_at..]
    }
}

impl PartialEq for TargetUrl {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.url == other.0.url
    }
}

impl Eq for TargetUrl {}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.as_str())
    }
}

/// Refuses, in the text as given, what the URL standard would silently repair, and the parts that a target may not have.
fn check_spelling(text: &str) -> Result<(), TargetUrlError> {
    if text.len() > URL_BYTES_MAX {
        return Err(TargetUrlError::TooLong);
    }
    if text.chars().any(|c| c == '\\' || c.is_control() || c.is_whitespace()) {
        return Err(TargetUrlError::Characters);
    }
    if text.contains('#') {
        return Err(TargetUrlError::Fragment);
    }
    let (scheme, rest) = text.split_once("://").ok_or(TargetUrlError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(TargetUrlError::Scheme);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    match authority {
        "" => Err(TargetUrlError::Scheme),
        _ if authority.contains('@') => Err(TargetUrlError::UserInfo),
        // This also excludes the zone of an IPv6 address, which names an interface of this machine.
        _ if authority.contains('%') => Err(TargetUrlError::Host),
        _ if authority.ends_with(':') => Err(TargetUrlError::Port),
        _ => Ok(()),
    }
}

/// Whether a name has labels of 1 to 63 letters, digits, hyphens and underscores: no trailing dot, no empty label.
pub(super) fn is_host_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.split('.').all(|label| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        })
}

#[cfg(test)]
mod tests;

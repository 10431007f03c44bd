//! Where a database is and how it is to be reached, as the operator writes it. What it holds of secrets is never shown.

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr, time::Duration};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use url::form_urlencoded;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may leave what was sent unconfirmed before the connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How far the server is trusted to be the one that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Plain,
    /// Encrypted, if the server can; whoever it is.
    IfOffered,
    /// Encrypted; whoever it is.
    Encrypted,
    /// Encrypted, and it has a certificate for its name, by the public authorities or by those of this file.
    Verified(Option<PathBuf>),
}

#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) config: Config,
    pub(super) security: Security,
    /// Connections are lent for a transaction at a time, so nothing may stay with one.
    pub(super) is_pooled: bool,
}

impl Address {
    /// `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut ours = Ours::default();
        let mut theirs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if !ours.take(pair)? {
                theirs.push(pair);
            }
        }
        let mut config = Config::from_str(&format!("postgres://{place}?{}", theirs.join("&"))).ok()?;
        let is_complete = config.get_user().is_some() && config.get_dbname().is_some();
        if !is_complete || config.get_hosts().is_empty() {
            return None;
        }
        let security = ours.security(config.get_hosts())?;
        config.ssl_mode(match security {
            Security::Plain => SslMode::Disable,
            Security::IfOffered => SslMode::Prefer,
            Security::Encrypted | Security::Verified(_) => SslMode::Require,
        });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        if config.get_application_name().is_none() {
            config.application_name("posthaste");
        }
        Some(Self { config, security, is_pooled: ours.is_pooled })
    }
}

/// Without who logs in.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.config.get_ports();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => write!(f, "{separator}{name}:{port}")?,
                Host::Unix(folder) => write!(f, "{separator}{}:{port}", folder.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// What is not for the client library, which knows it not or in another way.
#[derive(Default)]
struct Ours {
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
    is_pooled: bool,
}

impl Ours {
    /// Whether it is one of these; `None` if it is and its value is not allowed.
    fn take(&mut self, pair: &str) -> Option<bool> {
        // A plus is a plus here.
        let pair = pair.replace('+', "%2B");
        let (name, value) = form_urlencoded::parse(pair.as_bytes()).next()?;
        match &*name {
            "sslmode" => self.sslmode = Some(value.into_owned()),
            "sslrootcert" if !value.is_empty() => self.sslrootcert = Some(PathBuf::from(&*value)),
            "pooler" => self.is_pooled = value.parse().ok()?,
            _ => return Some(false),
        }
        Some(true)
    }

    /// Nothing is encrypted on a socket of this machine, which has no need of it. Elsewhere the server has to prove who it is,
    /// unless something else is asked for.
    fn security(&self, hosts: &[Host]) -> Option<Security> {
        let is_socket = |host: &Host| matches!(host, Host::Unix(_));
        let is_here = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            }
        };
        let asked = match self.sslmode.as_deref() {
            Some("disable") => Security::Plain,
            Some("prefer") => Security::IfOffered,
            Some("require") => Security::Encrypted,
            Some("verify-full") => Security::Verified(self.sslrootcert.clone()),
            Some(_) => return None,
            None if hosts.iter().all(is_here) && self.sslrootcert.is_none() => Security::IfOffered,
            None => Security::Verified(self.sslrootcert.clone()),
        };
        let is_in_vain = self.sslrootcert.is_some() && !matches!(asked, Security::Verified(_));
        match asked {
            _ if is_in_vain => None,
            _ if hosts.iter().all(is_socket) => Some(Security::Plain),
            asked => Some(asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(text: &str) -> Option<Security> {
        Address::parse(text).map(|address| address.security)
    }

    #[test]
    fn a_server_elsewhere_has_to_prove_who_it_is_unless_something_else_is_asked_for() {
        let verified = |path: Option<&str>| Some(Security::Verified(path.map(PathBuf::from)));
        for (query, expected) in [
            ("", verified(None)),
            ("?sslmode=verify-full", verified(None)),
            ("?sslrootcert=/a%20b%2Bc.pem", verified(Some("/a b+c.pem"))),
            ("?sslmode=require", Some(Security::Encrypted)),
            ("?sslmode=prefer&pooler=true", Some(Security::IfOffered)),
            ("?sslmode=disable", Some(Security::Plain)),
            ("?sslmode=verify-ca", None),
            ("?sslmode=", None),
            ("?sslmode=require&sslrootcert=/a.pem", None),
        ] {
            assert_eq!(security(&format!("postgres://me:pw@db.example.com/ph{query}")), expected, "{query}");
        }
        for here in ["127.0.0.1", "localhost:5433", "[::1]"] {
            assert_eq!(security(&format!("postgresql://me@{here}/ph")), Some(Security::IfOffered));
        }
        assert_eq!(security("postgres:///ph?host=/run/pg&user=me&sslmode=require"), Some(Security::Plain));
    }

    #[test]
    fn what_is_missing_or_unknown_makes_it_no_address() {
        for bad in [
            "",
            "postgres://",
            "postgres://me@/ph",
            "postgres://me@db",
            "postgres://db/ph",
            "postgres://me@db:port/ph",
            "postgres://me@db/ph?pooler=yes",
            "postgres://me@db/ph?colour=red",
            "mysql://me@db/ph",
            "host=db user=me dbname=ph",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_shown_of_it_has_no_password() {
        let address =
            Address::parse("postgres://me:hunter2@a.example.com:1,b.example.com:2/ph?pooler=true").unwrap();
        assert!(address.is_pooled);
        assert_eq!(address.to_string(), "a.example.com:1,b.example.com:2/ph");
        assert!(!format!("{address:?}").contains("hunter2"));
    }
}

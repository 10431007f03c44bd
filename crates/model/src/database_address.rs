//! Database address: where a database is and how to connect, as the operator writes it. Its secrets are never shown.

mod driver_part;

use driver_part::{DatabaseHost, DriverPart};
use std::{fmt, net::IpAddr, path::PathBuf};
use url::form_urlencoded;

/// Parameters after the `?` that the client library knows, beside those parsed here.
const CLIENT_PARAMETERS: [(&str, &str); 18] = [
    ("user", "text"),
    ("password", "text"),
    ("dbname", "text"),
    ("host", "names, addresses or folders of sockets, separated by commas"),
    ("hostaddr", "IP addresses separated by commas"),
    ("port", "numbers up to 65535, separated by commas"),
    ("options", "text"),
    ("application_name", "text"),
    ("connect_timeout", SECONDS),
    ("tcp_user_timeout", SECONDS),
    ("keepalives", "0 or 1"),
    ("keepalives_idle", SECONDS),
    ("keepalives_interval", SECONDS),
    ("keepalives_retries", "a number"),
    ("sslnegotiation", "postgres or direct"),
    ("channel_binding", "disable, prefer or require"),
    ("target_session_attrs", "any, read-write or read-only"),
    ("load_balance_hosts", "disable or random"),
];
const OWN_PARAMETERS: [&str; 3] = ["sslmode", "sslrootcert", "pooler"];
const SECONDS: &str = "a number of seconds";
/// Parameters that only libpq knows. Only published names are ever repeated: any other text may be a piece of a password.
const LIBPQ_ONLY: [&str; 24] = [
    "client_encoding",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "keepalives_count",
    "krbsrvname",
    "max_protocol_version",
    "min_protocol_version",
    "passfile",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslpassword",
];

/// Reason that a text is not an address. Repeats no part of it that could be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseAddressError {
    #[error("it does not begin with postgres://")]
    NotOne,
    #[error(
        "what stands before the ? must be user:password@host:5432/name; in a password : / ? # @ and % are written %3A %2F %3F %23 \
         %40 and %25"
    )]
    Place,
    #[error("{0} is missing; an address is postgres://user:password@host:5432/name")]
    Missing(&'static str),
    #[error("{name} must be {allowed}")]
    Value { name: &'static str, allowed: &'static str },
    #[error("{0} cannot be given; what can is {list}", list = every_parameter())]
    Unknown(&'static str),
    #[error("parameter {index} behind the ? is none that can be given; the nearest is {nearest}")]
    Mistyped { index: usize, nearest: &'static str },
    #[error("sslrootcert is for sslmode=verify-full, and nothing would be verified")]
    InVain,
}

fn every_parameter() -> String {
    OWN_PARAMETERS.into_iter().chain(CLIENT_PARAMETERS.map(|(name, _)| name)).collect::<Vec<_>>().join(", ")
}

/// How the server's identity is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    Plain,
    /// Encrypted, if the server can; its certificate is not checked.
    IfOffered,
    /// Encrypted; its certificate is not checked.
    Encrypted,
    /// Encrypted, and its certificate is checked for its name, by the public authorities or by those of this file.
    Verified(Option<PathBuf>),
}

#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress {
    /// The part that the driver reads, with the login.
    driver_text: String,
    hosts: Vec<DatabaseHost>,
    ports: Vec<u16>,
    database: String,
    pub security: Security,
    /// A pooler lends connections for a transaction at a time, so no state may stay with one.
    pub is_pooled: bool,
}

impl DatabaseAddress {
    /// Parses an address, as the setting `store` is written.
    pub fn parse(text: &str) -> Result<Self, DatabaseAddressError> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let rest = rest.ok_or(DatabaseAddressError::NotOne)?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut ours = OwnParameters::default();
        let mut theirs = Vec::new();
        for (at, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            if !ours.take(pair)? {
                require_known_parameter(pair, at + 1)?;
                theirs.push(pair);
            }
        }
        let driver_text = format!("{authority}?{}", theirs.join("&"));
        let read = DriverPart::read(&driver_text).ok_or(DatabaseAddressError::Place)?;
        let database = must_be_complete(&read)?;
        let DriverPart { hosts, ports, .. } = read;
        let security = ours.security(&hosts)?;
        Ok(Self { driver_text, hosts, ports, database, security, is_pooled: ours.is_pooled })
    }

    /// Returns the address as the driver reads it, with the login and without the parameters that it does not know.
    pub fn for_driver(&self) -> String {
        format!("postgres://{}", self.driver_text)
    }
}

/// Checks that nothing is missing, and returns the name of the database.
fn must_be_complete(read: &DriverPart) -> Result<String, DatabaseAddressError> {
    // A password with a @ in it ends there, and the rest of it would be shown as the host.
    if read.hosts.iter().any(|host| matches!(host, DatabaseHost::Name(name) if name.contains('@'))) {
        return Err(DatabaseAddressError::Place);
    }
    if read.hosts.is_empty() {
        return Err(DatabaseAddressError::Missing("the host"));
    }
    if !read.has_user {
        return Err(DatabaseAddressError::Missing("the user"));
    }
    read.database.clone().ok_or(DatabaseAddressError::Missing("the name of the database"))
}

/// Checks that the client library knows the parameter and accepts its value.
fn require_known_parameter(pair: &str, index: usize) -> Result<(), DatabaseAddressError> {
    let given = pair.split_once('=').map_or(pair, |(name, _)| name);
    if let Some((name, allowed)) = CLIENT_PARAMETERS.into_iter().find(|(name, _)| *name == given) {
        let is_taken = pair.contains('=') && DriverPart::read(&format!("?{pair}")).is_some();
        return if is_taken { Ok(()) } else { Err(DatabaseAddressError::Value { name, allowed }) };
    }
    if let Some(name) = LIBPQ_ONLY.into_iter().find(|name| *name == given) {
        return Err(DatabaseAddressError::Unknown(name));
    }
    // The rest of a password that has a ? in it.
    if given.contains('@') {
        return Err(DatabaseAddressError::Place);
    }
    let known = OWN_PARAMETERS.into_iter().chain(CLIENT_PARAMETERS.map(|(name, _)| name));
    let nearness = |name: &&str| strsim::jaro_winkler(name, given);
    let nearest = known.max_by(|a, b| nearness(a).total_cmp(&nearness(b))).unwrap_or_default();
    Err(DatabaseAddressError::Mistyped { index, nearest })
}

/// Shows hosts and database, without the login.
impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, host) in self.hosts.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let port = self.ports.get(at).or(self.ports.first()).copied().unwrap_or(5432);
            match host {
                DatabaseHost::Name(name) => write!(f, "{separator}{name}:{port}")?,
                DatabaseHost::Socket(folder) => write!(f, "{separator}{}:{port}", folder.display())?,
            }
        }
        write!(f, "/{}", self.database)
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// Parameters parsed here, because the client library does not know them or treats them differently.
#[derive(Default)]
struct OwnParameters {
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
    is_pooled: bool,
}

impl OwnParameters {
    /// Stores the parameter; returns whether it is one of these.
    fn take(&mut self, pair: &str) -> Result<bool, DatabaseAddressError> {
        // A plus is a plus here.
        let pair = pair.replace('+', "%2B");
        let Some((name, value)) = form_urlencoded::parse(pair.as_bytes()).next() else { return Ok(false) };
        let wrong = |name, allowed| DatabaseAddressError::Value { name, allowed };
        match &*name {
            "sslmode" => self.sslmode = Some(value.into_owned()),
            "sslrootcert" if value.is_empty() => {
                return Err(wrong("sslrootcert", "the path of a PEM file"));
            }
            "sslrootcert" => self.sslrootcert = Some(PathBuf::from(&*value)),
            "pooler" => self.is_pooled = value.parse().map_err(|_| wrong("pooler", "true or false"))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the security of the connection. A socket of this machine needs no encryption. Elsewhere the server has to
    /// prove its identity, unless the address says otherwise.
    fn security(&self, hosts: &[DatabaseHost]) -> Result<Security, DatabaseAddressError> {
        let is_socket = |host: &DatabaseHost| matches!(host, DatabaseHost::Socket(_));
        let is_here = |host: &DatabaseHost| match host {
            DatabaseHost::Socket(_) => true,
            DatabaseHost::Name(name) => {
                name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            }
        };
        let mode = match self.sslmode.as_deref() {
            Some("disable") => Security::Plain,
            Some("prefer") => Security::IfOffered,
            Some("require") => Security::Encrypted,
            Some("verify-full") => Security::Verified(self.sslrootcert.clone()),
            Some(_) => {
                let allowed = "disable, prefer, require or verify-full";
                return Err(DatabaseAddressError::Value { name: "sslmode", allowed });
            }
            None if hosts.iter().all(is_here) && self.sslrootcert.is_none() => Security::IfOffered,
            None => Security::Verified(self.sslrootcert.clone()),
        };
        if self.sslrootcert.is_some() && !matches!(mode, Security::Verified(_)) {
            return Err(DatabaseAddressError::InVain);
        }
        Ok(if hosts.iter().all(is_socket) { Security::Plain } else { mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(text: &str) -> Option<Security> {
        DatabaseAddress::parse(text).ok().map(|address| address.security)
    }

    #[test]
    fn a_remote_server_has_to_prove_its_identity_unless_the_address_says_otherwise() {
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
    fn an_error_names_the_missing_or_wrong_part_and_repeats_no_password() {
        let authority = "user:password@host:5432/name";
        for (bad, said) in [
            ("hunter2", "postgres://"),
            ("mysql://me:hunter2@db/ph", "postgres://"),
            ("host=db user=me password=hunter2 dbname=ph", "postgres://"),
            ("postgres://", "the host is missing"),
            ("postgres://me:hunter2@/ph", "the host is missing"),
            ("postgres://me:hunter2@db", "the name of the database is missing"),
            ("postgres://db/ph?password=hunter2", "the user is missing"),
            ("postgres://me:hunter2@db:port/ph", authority),
            // Passwords that are not escaped as required.
            ("postgres://me:p@hunter2@db/ph", "@ and % are written"),
            ("postgres://me:p?hunter2@db/ph", "@ and % are written"),
            ("postgres://me:1?hunter2&user=me@db/ph", "parameter 1 behind the ?"),
            ("postgres://me@db/ph?password=a&hunter2", "parameter 2 behind the ?"),
            ("postgres://me:hunter2@db/ph?pooler=yes", "pooler must be true or false"),
            (
                "postgres://me:hunter2@db/ph?sslmode=verify-ca",
                "sslmode must be disable, prefer, require or verify-full",
            ),
            ("postgres://me:hunter2@db/ph?sslmode=hunter2", "sslmode must be"),
            ("postgres://me:hunter2@db/ph?sslrootcert=", "sslrootcert must be the path of a PEM file"),
            (
                "postgres://me:hunter2@db/ph?sslmode=require&sslrootcert=/a.pem",
                "sslrootcert is for sslmode=verify-full",
            ),
            (
                "postgres://me:hunter2@db/ph?sslcert=/hunter2",
                "sslcert cannot be given; what can is sslmode, sslrootcert",
            ),
            ("postgres://me:hunter2@db/ph?passfile=/a", "passfile cannot be given"),
            ("postgres://me:hunter2@db/ph?sslmod=require", "the nearest is sslmode"),
            ("postgres://me:hunter2@db/ph?connect_timeout=2s", "connect_timeout must be a number of seconds"),
            ("postgres://me@db/ph?password", "password must be text"),
        ] {
            let error = DatabaseAddress::parse(bad).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hunter2"), "{bad}: {error}");
        }
    }

    #[test]
    fn every_allowed_parameter_is_accepted_and_no_other() {
        for (name, _) in CLIENT_PARAMETERS {
            let takes =
                |value: &&str| DatabaseAddress::parse(&format!("postgres://me@db/ph?{name}={value}")).is_ok();
            let one = ["1", "::1", "postgres", "prefer", "any", "random"].into_iter().find(takes);
            assert!(one.is_some(), "{name}");
        }
        for name in LIBPQ_ONLY {
            let refused = DatabaseAddress::parse(&format!("postgres://me@db/ph?{name}=1"));
            assert_eq!(refused, Err(DatabaseAddressError::Unknown(name)));
        }
    }

    #[test]
    fn the_displayed_address_has_no_password() {
        let address =
            DatabaseAddress::parse("postgres://me:hunter2@a.example.com:1,b.example.com:2/ph?pooler=true")
                .unwrap();
        assert!(address.is_pooled);
        assert_eq!(address.to_string(), "a.example.com:1,b.example.com:2/ph");
        assert!(!format!("{address:?}").contains("hunter2"));
    }
}

//! The driver's configuration for a database address.

use super::PostgresOpenError;
use crate::domain::database_address::{DatabaseAddress, Security};
use std::{str::FromStr, time::Duration};
use tokio_postgres::{Config, config::SslMode};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may leave sent bytes unacknowledged before the connection counts as broken.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn driver_config(address: &DatabaseAddress) -> Result<Config, PostgresOpenError> {
    // An error of the driver may repeat a part of a password.
    let unread = |_| PostgresOpenError::Unreachable("the driver cannot read its address".to_owned());
    let mut config = Config::from_str(&address.for_driver()).map_err(unread)?;
    config.ssl_mode(match address.security {
        Security::Plain => SslMode::Disable,
        Security::IfOffered => SslMode::Prefer,
        Security::Encrypted | Security::Verified(_) => SslMode::Require,
    });
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("posthaste");
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_postgres::config::Host;

    /// Hosts, ports and database as the address shows them.
    fn shown(config: &Config) -> String {
        let (hosts, ports) = (config.get_hosts().iter().enumerate(), config.get_ports());
        let hosts = hosts.map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(folder) => format!("{}:{port}", folder.display()),
            }
        });
        format!("{}/{}", hosts.collect::<Vec<_>>().join(","), config.get_dbname().unwrap_or_default())
    }

    const PIECES: [&str; 46] = [
        "me",
        ":",
        "pw",
        "@",
        "db",
        ",",
        "[::1]",
        "[",
        "]",
        "/",
        "ph",
        "?",
        "&",
        "=",
        "%2F",
        "%2C",
        "%FF",
        "%",
        "5432",
        "70000",
        "-1",
        "0",
        "1",
        "host",
        "hostaddr",
        "port",
        "user",
        "password",
        "dbname",
        "options",
        "connect_timeout",
        "keepalives",
        "keepalives_idle",
        "keepalives_retries",
        "sslnegotiation",
        "channel_binding",
        "target_session_attrs",
        "load_balance_hosts",
        "direct",
        "require",
        "any",
        "random",
        "127.0.0.1",
        "tcp_user_timeout",
        "application_name",
        "#",
    ];

    /// Whether the address is accepted. The driver must then read it as it is shown.
    fn is_accepted_by_both(text: &str) -> bool {
        let Ok(address) = DatabaseAddress::parse(text) else { return false };
        let config = driver_config(&address).unwrap();
        assert_eq!(shown(&config), address.to_string(), "{text}");
        assert!(config.get_user().is_some());
        true
    }

    proptest! {
        #[test]
        fn the_driver_reads_every_accepted_address_as_it_is_shown(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..16),
            query in prop::collection::vec(
                (prop::sample::select(PIECES.to_vec()), prop::sample::select(PIECES.to_vec())), 0..3),
        ) {
            let text = pieces.concat();
            is_accepted_by_both(&format!("postgres://{text}"));
            let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            is_accepted_by_both(&format!("postgres://me@db,[::1]:1/ph?{}", query.join("&")));
        }

        /// A parameter that the driver accepts is one that an address may have.
        #[test]
        fn every_parameter_of_the_driver_is_accepted_with_every_value_that_it_takes(
            name in prop::sample::select(PIECES.to_vec()), value in prop::sample::select(PIECES.to_vec()),
        ) {
            let text = format!("postgres://me@db/ph?{name}={value}");
            let plain = !format!("{name}{value}").contains(['&', '=', '@', '?', '#']);
            if plain && !name.is_empty() && Config::from_str(&text).is_ok() {
                prop_assert!(is_accepted_by_both(&text), "{}", text);
            }
        }
    }
}

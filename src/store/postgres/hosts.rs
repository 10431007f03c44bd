//! The hosts of a database address; connects to one that answers.

use super::{
    session::timed_out,
    tls::{DatabaseTlsConnector, Encrypted},
};
use crate::store::sql::{Error, Result};
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use tokio::{task::JoinSet, time::timeout};
use tokio_postgres::{
    Client, Config, Socket,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
};

/// How long a host may be silent before the next one is tried as well.
const NEXT_HOST_AFTER: Duration = Duration::from_secs(1);

type Connection = tokio_postgres::Connection<Socket, Encrypted>;

pub(super) struct Hosts {
    each: Vec<Config>,
    /// Index of the last host connected to; tried first where only one host can be the right one.
    last: AtomicUsize,
}

impl Hosts {
    /// Splits the address into single hosts, in their order; keeps it whole where the client library is to choose at random.
    pub(super) fn of(config: &Config) -> Self {
        Self { each: each_of(config), last: AtomicUsize::new(0) }
    }

    /// Connects to the first host that answers. A machine that is gone sends no error: after a moment the next host is tried
    /// too.
    pub(super) async fn connect(&self, tls: &DatabaseTlsConnector) -> Result<(Client, Connection)> {
        let mut tried = JoinSet::new();
        let first = self.last.load(Relaxed);
        let mut hosts = (0..self.each.len()).map(|at| (first + at) % self.each.len());
        let mut failed = None;
        loop {
            let next = hosts.next();
            if let Some(at) = next {
                let (config, tls) = (self.each[at].clone(), tls.clone());
                tried.spawn(async move { (at, config.connect(tls).await) });
            }
            let ended = match next {
                Some(_) if hosts.len() > 0 => timeout(NEXT_HOST_AFTER, tried.join_next()).await,
                _ => Ok(tried.join_next().await),
            };
            match ended {
                Ok(Some(Ok((at, Ok(connected))))) => {
                    if self.each[at].get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
                        self.last.store(at, Relaxed);
                    }
                    return Ok(connected);
                }
                Ok(Some(Ok((_, Err(error))))) => failed = failed.or(Some(error)),
                Ok(None) => return Err(failed.map_or_else(timed_out, Error::Postgres)),
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    }
}

fn each_of(all: &Config) -> Vec<Config> {
    if all.get_load_balance_hosts() == LoadBalanceHosts::Random {
        return vec![all.clone()];
    }
    let ports = all.get_ports();
    let alone = |(at, host): (usize, &Host)| {
        let mut config = without_hosts(all);
        match host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(folder) => config.host_path(folder),
        };
        if let Some(address) = all.get_hostaddrs().get(at) {
            config.hostaddr(*address);
        }
        if let Some(port) = ports.get(at).or(ports.first()) {
            config.port(*port);
        }
        config
    };
    all.get_hosts().iter().enumerate().map(alone).collect()
}

fn without_hosts(from: &Config) -> Config {
    let mut config = Config::new();
    config
        .ssl_mode(from.get_ssl_mode())
        .ssl_negotiation(from.get_ssl_negotiation())
        .keepalives(from.get_keepalives())
        .keepalives_idle(from.get_keepalives_idle())
        .target_session_attrs(from.get_target_session_attrs())
        .channel_binding(from.get_channel_binding());
    from.get_user().map(|user| config.user(user));
    from.get_password().map(|password| config.password(password));
    from.get_dbname().map(|name| config.dbname(name));
    from.get_options().map(|options| config.options(options));
    from.get_application_name().map(|name| config.application_name(name));
    from.get_connect_timeout().map(|time| config.connect_timeout(*time));
    from.get_tcp_user_timeout().map(|time| config.tcp_user_timeout(*time));
    from.get_keepalives_interval().map(|time| config.keepalives_interval(time));
    from.get_keepalives_retries().map(|count| config.keepalives_retries(count));
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::database_address::DatabaseAddress, store::postgres::driver_config::driver_config};

    fn config(address: &str) -> Config {
        driver_config(&DatabaseAddress::parse(address).unwrap()).unwrap()
    }

    #[test]
    fn each_single_host_keeps_all_parameters() {
        let rest = "options=-c%20a%3D1&application_name=x&connect_timeout=3&tcp_user_timeout=4&keepalives=0&keepalives_idle=5\
             &keepalives_interval=6&keepalives_retries=7&sslnegotiation=direct&channel_binding=require\
             &target_session_attrs=read-write&sslmode=require";
        let parse = |hosts: &str| config(&format!("postgres://me:secret@{hosts}/ph?{rest}"));
        let both = parse("a.example.com:1,b.example.com:2");
        assert_eq!(each_of(&both), [parse("a.example.com:1"), parse("b.example.com:2")]);
        let sockets = each_of(&config("postgres:///ph?user=me&host=/a&host=/b&port=7"));
        let alone = |folder| config(&format!("postgres:///ph?user=me&host={folder}&port=7"));
        assert_eq!(sockets, ["/a", "/b"].map(alone));
        let by_chance = config("postgres://me@a,b/ph?load_balance_hosts=random");
        assert_eq!(each_of(&by_chance).len(), 1);
    }
}

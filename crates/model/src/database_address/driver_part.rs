//! The part of a database address that the driver reads, in the syntax of the driver. Reading it here finds what is wrong with
//! it without the driver; a test of the store holds both to the same result.

use percent_encoding::percent_decode_str;
use std::{borrow::Cow, ffi::OsStr, net::IpAddr, os::unix::ffi::OsStrExt, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DatabaseHost {
    /// A name or an address.
    Name(String),
    /// The folder of a socket.
    Socket(PathBuf),
}

#[derive(Default)]
pub(super) struct DriverPart {
    pub(super) hosts: Vec<DatabaseHost>,
    pub(super) ports: Vec<u16>,
    pub(super) has_user: bool,
    pub(super) database: Option<String>,
}

impl DriverPart {
    /// Reads `user:password@host:port/name?parameters`. Returns `None` if the driver would refuse it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut read = Self::default();
        let mut rest = text;
        if let Some((login, after)) = text.split_once('@') {
            let user = login.split_once(':').map_or(login, |(user, _)| user);
            decode(user)?;
            (read.has_user, rest) = (true, after);
        }
        let (hosts, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if !hosts.is_empty() {
            hosts.split(',').try_for_each(|chunk| read.add_host_and_port(chunk))?;
        }
        rest = after;
        if let Some(path) = rest.strip_prefix('/') {
            let (name, after) = path.split_at(path.find('?').unwrap_or(path.len()));
            if !name.is_empty() {
                read.database = Some(decode(name)?.into_owned());
            }
            rest = after;
        }
        let mut parameters = rest.strip_prefix('?').unwrap_or_default();
        while !parameters.is_empty() {
            let (name, after) = parameters.split_once('=')?;
            let (value, after) = after.split_once('&').unwrap_or((after, ""));
            read.add_parameter(&decode(name)?, value)?;
            parameters = after;
        }
        Some(read)
    }

    fn add_host_and_port(&mut self, chunk: &str) -> Option<()> {
        let (host, port) = match chunk.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']')?;
                match after.strip_prefix(':') {
                    None if !after.is_empty() => return None,
                    port => (host, port),
                }
            }
            None => chunk.split_once(':').map_or((chunk, None), |(host, port)| (host, Some(port))),
        };
        self.add_host(host)?;
        self.add_ports(&decode(port.unwrap_or("5432"))?)
    }

    fn add_host(&mut self, text: &str) -> Option<()> {
        let decoded: Cow<'_, [u8]> = percent_decode_str(text).into();
        self.hosts.push(if decoded.first() == Some(&b'/') {
            DatabaseHost::Socket(OsStr::from_bytes(&decoded).into())
        } else {
            DatabaseHost::Name(str::from_utf8(&decoded).ok()?.to_owned())
        });
        Some(())
    }

    fn add_ports(&mut self, list: &str) -> Option<()> {
        for port in list.split(',') {
            self.ports.push(if port.is_empty() { 5432 } else { port.parse().ok()? });
        }
        Some(())
    }

    fn add_parameter(&mut self, name: &str, value: &str) -> Option<()> {
        if name == "host" {
            return self.add_host(value);
        }
        let value = decode(value)?;
        let is_valid = match name {
            "user" => {
                self.has_user = true;
                true
            }
            "dbname" => {
                self.database = Some(value.into_owned());
                true
            }
            "password" | "options" | "application_name" => true,
            "hostaddr" => value.split(',').all(|address| address.parse::<IpAddr>().is_ok()),
            "port" => return self.add_ports(&value),
            "connect_timeout" | "tcp_user_timeout" | "keepalives_idle" | "keepalives_interval" => {
                value.parse::<i64>().is_ok()
            }
            "keepalives" => value.parse::<u64>().is_ok(),
            "keepalives_retries" => value.parse::<u32>().is_ok(),
            "sslnegotiation" => ["postgres", "direct"].contains(&&*value),
            "channel_binding" => ["disable", "prefer", "require"].contains(&&*value),
            "target_session_attrs" => ["any", "read-write", "read-only"].contains(&&*value),
            "load_balance_hosts" => ["disable", "random"].contains(&&*value),
            _ => false,
        };
        is_valid.then_some(())
    }
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

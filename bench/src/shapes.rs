//! The table of shapes: what is sent, how fast, and beside what.

use crate::{
    load::Load,
    messages::{Behaviour, Pace, TargetEndpoint},
    server::StoreKind,
};
use anyhow::{Context, Result, bail};
use std::time::Duration;

const POSTGRES: &str = "postgres";
/// Lets caches, connections and the store's files grow before anything is measured.
pub const WARM_UP_EVENTS: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A load, several times on one server.
    Load(LoadKind),
    /// A load beside events that were put into the store before; then a kill and a restart.
    Beside {
        waiting: usize,
        endpoints: usize,
    },
    /// Healthy endpoints without and with one that hangs, of another app.
    Noisy,
    /// `kill -9` in the middle, and a restart.
    Crash,
    /// A single node, then two, on one database.
    Nodes,
    Retention,
    Replay,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadKind {
    Senders(usize),
    Keyed { apps: usize, senders: usize },
    FanOut { endpoints: usize, senders: usize },
    PerSecond(f64),
}

pub struct ShapeRow {
    pub name: &'static str,
    pub kind: Kind,
    /// Not measured unless it is named.
    pub by_name_only: bool,
    pub about: &'static str,
}

const fn row(name: &'static str, kind: Kind, about: &'static str) -> ShapeRow {
    ShapeRow { name, kind, by_name_only: false, about }
}

pub const ROWS: &[ShapeRow] = &[
    row("one-32", Kind::Load(LoadKind::Senders(32)), "one endpoint, 32 senders"),
    row("one-256", Kind::Load(LoadKind::Senders(256)), "one endpoint, 256 senders"),
    row(
        "keyed-200",
        Kind::Load(LoadKind::Keyed { apps: 200, senders: 64 }),
        "200 apps with an endpoint each, random idempotency keys, 64 senders",
    ),
    row(
        "fanout-5",
        Kind::Load(LoadKind::FanOut { endpoints: 5, senders: 32 }),
        "each event to 5 endpoints, 32 senders; half as many events",
    ),
    row(
        "latency",
        Kind::Load(LoadKind::PerSecond(200.0)),
        "200 events a second for 20 seconds, whatever the answers take",
    ),
    row(
        "noisy",
        Kind::Noisy,
        "50 events a second, alone and beside as many for an endpoint of another app that hangs",
    ),
    row("crash", Kind::Crash, "kill -9 in the middle of 20,000 events, and a restart"),
    row(
        "waiting-0",
        Kind::Beside { waiting: 0, endpoints: 0 },
        "one endpoint, 64 senders; then kill -9 and a restart",
    ),
    row(
        "waiting-100k",
        Kind::Beside { waiting: 100_000, endpoints: 0 },
        "the same beside 100,000 waiting deliveries",
    ),
    row(
        "waiting-1m",
        Kind::Beside { waiting: 1_000_000, endpoints: 0 },
        "the same beside 1,000,000 waiting deliveries",
    ),
    row("endpoints-1", Kind::Beside { waiting: 0, endpoints: 0 }, "the same as waiting-0"),
    row(
        "endpoints-10k",
        Kind::Beside { waiting: 0, endpoints: 9_999 },
        "the same beside 9,999 other endpoints",
    ),
    row(
        "nodes",
        Kind::Nodes,
        "one node and two on one PostgreSQL, with a receiver that answers after 50 ms, in turn",
    ),
    ShapeRow {
        name: "retention",
        kind: Kind::Retention,
        by_name_only: true,
        about: "ten minutes: events kept for a minute, so that as many go as come, and for a month, in turn",
    },
    ShapeRow {
        name: "replay",
        kind: Kind::Replay,
        by_name_only: true,
        about: "three minutes: fresh events alone and beside a replay of 100 a second, in turn",
    },
];

/// Of a shape that is not in the table.
const ABOUT_BESIDE: &str = "the same as waiting-0 beside so many waiting deliveries or other endpoints";

/// Also measured on PostgreSQL when no shape is named.
const ALSO_ON_POSTGRES: &[&str] = &["one-32", "keyed-200", "fanout-5", "latency"];

#[derive(Clone, Debug)]
pub struct Shape {
    /// As it was named, with `@postgres`.
    pub name: String,
    pub kind: Kind,
    pub store: StoreKind,
    pub about: &'static str,
}

impl Shape {
    pub fn named(name: &str) -> Result<Self> {
        let (plain, store) = match name.split_once('@') {
            None => (name, StoreKind::Sqlite),
            Some((plain, POSTGRES)) => (plain, StoreKind::Postgres),
            Some((_, other)) => bail!("there is no store {other}; write @{POSTGRES} or nothing"),
        };
        let row = ROWS.iter().find(|row| row.name == plain).map(|row| (row.kind, row.about));
        let (kind, about) = row.or_else(|| Some((beside(plain)?, ABOUT_BESIDE))).with_context(|| {
            let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            format!("there is no shape {plain}; there are {}", names.join(" "))
        })?;
        if store == StoreKind::Postgres && matches!(kind, Kind::Nodes | Kind::Retention | Kind::Replay) {
            bail!("{plain} has no variant on another store");
        }
        Ok(Self { name: name.to_owned(), kind, store, about })
    }

    /// Returns the named shapes. Without names, all but those that run by name only.
    pub fn all_named(names: &[String]) -> Result<Vec<Self>> {
        if !names.is_empty() {
            return names.iter().map(|name| Self::named(name)).collect();
        }
        let plain = ROWS
            .iter()
            .filter(|row| !row.by_name_only && row.kind != Kind::Nodes)
            .map(|row| row.name.to_owned());
        let on_postgres = ALSO_ON_POSTGRES.iter().map(|name| format!("{name}@{POSTGRES}"));
        plain.chain(on_postgres).chain(["nodes".to_owned()]).map(|name| Self::named(&name)).collect()
    }

    /// The load of one run, with so many events instead of its own if that is given. None: it is not a matter of one load.
    pub fn load(&self, events: Option<usize>) -> Option<Load> {
        let many = events.unwrap_or(40_000);
        Some(match self.kind {
            Kind::Load(LoadKind::Senders(senders)) => Load::plain(many, Pace::Senders(senders)),
            Kind::Load(LoadKind::Keyed { apps, senders }) => {
                Load::plain(many, Pace::Senders(senders)).with_apps(apps).keyed()
            }
            Kind::Load(LoadKind::FanOut { endpoints, senders }) => {
                Load::plain(events.unwrap_or(20_000), Pace::Senders(senders)).with_endpoints(endpoints)
            }
            Kind::Load(LoadKind::PerSecond(rate)) => {
                Load::plain(events.unwrap_or((rate * 20.0) as usize), Pace::PerSecond(rate))
            }
            Kind::Beside { .. } => Load::plain(many, Pace::Senders(64)),
            Kind::Crash => Load::plain(events.unwrap_or(20_000), Pace::Senders(32)),
            Kind::Noisy | Kind::Nodes | Kind::Retention | Kind::Replay => return None,
        })
    }

    /// Runs on one server, if not so many as given. A pace that is fixed needs no repetition.
    pub fn runs_of(&self, given: Option<usize>) -> usize {
        given.unwrap_or(match self.kind {
            Kind::Load(LoadKind::PerSecond(_)) => 1,
            Kind::Load(_) | Kind::Beside { .. } => 3,
            _ => 1,
        })
    }

    /// How long a silence makes what is missing a loss.
    pub fn settle(&self) -> Duration {
        Duration::from_secs(match self.kind {
            Kind::Crash => 30,
            Kind::Noisy => 15,
            _ => 60,
        })
    }

    /// Whether it has deliveries per CPU-second that two programs can be compared by.
    pub fn is_comparable(&self) -> bool {
        matches!(self.kind, Kind::Load(_) | Kind::Beside { .. })
    }
}

/// `waiting-N` and `endpoints-N` for every N, which may end with `k` or `m`.
fn beside(name: &str) -> Option<Kind> {
    let (kind, number) = name.split_once('-')?;
    let (digits, unit) = match number.split_at_checked(number.len().checked_sub(1)?)? {
        (digits, "k") => (digits, 1000),
        (digits, "m") => (digits, 1_000_000),
        _ => (number, 1),
    };
    let number = digits.parse::<usize>().ok()?.checked_mul(unit)?;
    match kind {
        "waiting" => Some(Kind::Beside { waiting: number, endpoints: 0 }),
        // Its own endpoint counts as well.
        "endpoints" => Some(Kind::Beside { waiting: 0, endpoints: number.checked_sub(1)? }),
        _ => None,
    }
}

/// The healthy half of the noisy shape, and both halves.
pub fn noisy_loads(events: Option<usize>) -> [Load; 2] {
    const RATE: f64 = 50.0;
    const SECONDS: f64 = 40.0;
    let events = events.unwrap_or((RATE * SECONDS) as usize);
    let alone = Load::plain(events, Pace::PerSecond(RATE));
    let mut beside = Load::plain(events * 2, Pace::PerSecond(RATE * 2.0));
    beside.endpoints.push(TargetEndpoint::of(1, Behaviour::Hang));
    [alone, beside]
}

pub fn warm_up(events: usize) -> Load {
    Load::plain(events, Pace::Senders(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shapes_are_named_once_and_found_by_their_names() {
        for row in ROWS {
            assert_eq!(ROWS.iter().filter(|other| other.name == row.name).count(), 1);
            assert_eq!(Shape::named(row.name).unwrap().kind, row.kind);
        }
        assert!(Shape::named("two-32").unwrap_err().to_string().contains("one-32 one-256"));
        assert!(Shape::named("one-32@oracle").is_err());
        assert!(Shape::named("nodes@postgres").is_err());
    }

    #[test]
    fn without_a_name_the_long_ones_are_left_out_and_postgres_is_in() {
        let names: Vec<String> = Shape::all_named(&[]).unwrap().into_iter().map(|shape| shape.name).collect();
        assert!(names.contains(&"one-32@postgres".to_owned()) && names.contains(&"waiting-1m".to_owned()));
        assert!(!names.contains(&"replay".to_owned()));
        assert_eq!(names.last().unwrap(), "nodes");
    }

    #[test]
    fn a_backlog_may_have_any_size() {
        for row in ROWS.iter().filter(|row| matches!(row.kind, Kind::Beside { .. })) {
            assert_eq!(beside(row.name), Some(row.kind), "{}", row.name);
        }
        let waiting = |waiting| Some(Kind::Beside { waiting, endpoints: 0 });
        assert_eq!((beside("waiting-20k"), beside("waiting-7")), (waiting(20_000), waiting(7)));
        for none in ["waiting", "waiting-", "waiting-k", "waiting-1x", "waiting-é", "endpoints-0", "one-32"]
        {
            assert_eq!(beside(none), None, "{none}");
        }
        assert_eq!(Shape::named("waiting-2m@postgres").unwrap().store, StoreKind::Postgres);
    }

    #[test]
    fn a_load_has_the_endpoints_of_its_shape() {
        let load = |name| Shape::named(name).unwrap().load(None).unwrap();
        assert_eq!((load("keyed-200").endpoints.len(), load("keyed-200").is_keyed), (200, true));
        assert_eq!((load("fanout-5").endpoints.len(), load("fanout-5").events), (5, 20_000));
        assert_eq!((load("latency").events, load("latency").pace), (4000, Pace::PerSecond(200.0)));
        assert!(Shape::named("nodes").unwrap().load(None).is_none());
        assert_eq!(noisy_loads(None)[1].events, 4000);
    }
}

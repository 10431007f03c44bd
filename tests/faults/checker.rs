//! Joins the producers' events, the receiver's requests and the store's rows into one line of figures.
//!
//! Every experiment uses this checker; `control.rs` shows that it finds losses.

use crate::{
    harness::{ReceivedWebhook, database::TestDatabaseServer},
    producer::PublishLog,
};
use rusqlite::{Connection, OpenFlags};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::Path,
};

const DELIVERED: i64 = 4;
const CLASS_UNKNOWN: i64 = 9;

/// A delivery as it is stored.
pub(crate) struct StoredDelivery {
    event: String,
    pub(crate) endpoint: String,
    state: i64,
    attempts: usize,
    unknown: usize,
}

impl StoredDelivery {
    /// Parses a line of `psql`.
    fn read(line: &str) -> Self {
        let [event, endpoint, state, attempts, unknown] =
            line.split('|').collect::<Vec<_>>().try_into().unwrap();
        Self {
            event: event.to_owned(),
            endpoint: endpoint.to_owned(),
            state: state.parse().unwrap(),
            attempts: attempts.parse().unwrap(),
            unknown: unknown.parse().unwrap(),
        }
    }
}

/// Reads a copy of a store that no process uses, so that reading changes nothing.
pub(crate) fn dump(store: &Path) -> Vec<StoredDelivery> {
    let copy = tempfile::tempdir().unwrap();
    copy_store(store, &copy.path().join("copy.db"));
    let connection = Connection::open(copy.path().join("copy.db")).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "the store is damaged");
    let mut statement = connection
        .prepare(
            "SELECT e.external_id, p.uid, d.state,
                    (SELECT count(*) FROM attempts a WHERE a.delivery = d.id),
                    (SELECT count(*) FROM attempts a WHERE a.delivery = d.id AND a.class = ?1)
             FROM deliveries d JOIN events e ON e.id = d.event JOIN endpoints p ON p.id = d.endpoint",
        )
        .unwrap();
    let rows = statement.query_map([CLASS_UNKNOWN], |row| {
        Ok(StoredDelivery {
            event: row.get(0)?,
            endpoint: row.get(1)?,
            state: row.get(2)?,
            attempts: row.get::<_, i64>(3)? as usize,
            unknown: row.get::<_, i64>(4)? as usize,
        })
    });
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

/// Reads the deliveries of a database, also while nodes use it.
pub(crate) fn dump_database(server: &TestDatabaseServer) -> Vec<StoredDelivery> {
    let rows = server.run(
        "postgres",
        "SELECT e.external_id, p.uid, d.state, count(a.delivery), count(a.delivery) FILTER (WHERE a.class = 9)
         FROM posthaste.deliveries d JOIN posthaste.events e ON e.id = d.event
         JOIN posthaste.endpoints p ON p.id = d.endpoint LEFT JOIN posthaste.attempts a ON a.delivery = d.id
         GROUP BY d.id, e.external_id, p.uid, d.state",
    );
    rows.unwrap().lines().map(StoredDelivery::read).collect()
}

/// Copies a store: its file and its write-ahead log.
pub(crate) fn copy_store(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let with_suffix = |path: &Path| format!("{}{suffix}", path.display());
        if Path::new(&with_suffix(from)).exists() {
            std::fs::copy(with_suffix(from), with_suffix(to)).unwrap();
        }
    }
}

/// Counts the deliveries that a dead process left in flight. Cannot write, and leaves the file and its log as the
/// kill did.
pub(crate) fn count_in_flight(store: &Path) -> usize {
    let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = "SELECT count(*) FROM deliveries WHERE queue = 0";
    connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() as usize
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryFigures {
    pub(crate) accepted: usize,
    pub(crate) deliveries: usize,
    /// Accepted, but neither received nor ended with a reason.
    pub(crate) lost: usize,
    /// Received or stored, but never published.
    pub(crate) phantom: usize,
    /// Answered 2xx more than once.
    pub(crate) duplicates: usize,
    /// Duplicates for which no attempt of unknown outcome accounts.
    pub(crate) unexplained: usize,
    /// Requests received without an attempt in the history.
    pub(crate) unrecorded: usize,
    /// Attempts of unknown outcome.
    pub(crate) unknown: usize,
    /// Not ended after the end of the experiment.
    pub(crate) stuck: usize,
    /// Ids that returned a different event the second time.
    pub(crate) changed: usize,
}

impl DeliveryFigures {
    /// Computes the figures. `receipts` came to paths that are named like the endpoints.
    pub(crate) fn of(sent: &PublishLog, receipts: &[ReceivedWebhook], rows: &[StoredDelivery]) -> Self {
        let mut got: HashMap<(&str, &str), (usize, usize)> = HashMap::new();
        for receipt in receipts {
            let (all, good) = got.entry((receipt.id(), receipt.path.trim_start_matches('/'))).or_default();
            *all += 1;
            *good += usize::from(receipt.answered.is_some_and(|status| status < 300));
        }
        let stored: HashMap<(&str, &str), &StoredDelivery> =
            rows.iter().map(|row| ((row.event.as_str(), row.endpoint.as_str()), row)).collect();
        let promised: HashSet<(&str, &str)> = sent
            .accepted
            .iter()
            .flat_map(|(id, deliveries)| {
                let endpoints = deliveries.as_array().unwrap().iter();
                endpoints.map(|delivery| (id.as_str(), delivery["endpoint_id"].as_str().unwrap()))
            })
            .collect();
        let has_ended_badly = |row: &&StoredDelivery| row.state > DELIVERED;
        let is_lost = |key: &&(&str, &str)| {
            got.get(*key).is_none_or(|(_, good)| *good == 0) && !stored.get(*key).is_some_and(has_ended_badly)
        };
        let mut figures = Self {
            accepted: sent.accepted.len(),
            deliveries: promised.len(),
            lost: promised.iter().filter(is_lost).count(),
            stuck: rows.iter().filter(|row| row.state < DELIVERED).count(),
            unknown: rows.iter().map(|row| row.unknown).sum(),
            changed: sent.changed.len(),
            ..Self::default()
        };
        let known = |id: &str| sent.tried.contains(id);
        figures.phantom = got.keys().filter(|(id, _)| !known(id)).count()
            + rows.iter().filter(|row| !known(&row.event)).count();
        for (key, (all, good)) in &got {
            let (attempts, unknown) = stored.get(key).map_or((0, 0), |row| (row.attempts, row.unknown));
            let more = good.saturating_sub(1);
            figures.duplicates += more;
            figures.unexplained += more.saturating_sub(unknown);
            figures.unrecorded += all.saturating_sub(attempts);
        }
        figures
    }

    /// Asserts that no delivery is lost, invented or stuck, that every request is in the history, and every duplicate
    /// explained.
    #[track_caller]
    pub(crate) fn assert_faultless(&self) {
        let Self { lost, phantom, unexplained, unrecorded, stuck, changed, .. } = *self;
        assert_eq!([lost, phantom, unexplained, unrecorded, stuck, changed], [0; 6], "{self}");
        assert!(self.deliveries > 0, "an experiment without load shows nothing");
    }
}

impl fmt::Display for DeliveryFigures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, deliveries, lost, phantom, duplicates, .. } = self;
        let Self { unexplained, unrecorded, unknown, stuck, changed, .. } = self;
        write!(
            out,
            "accepted={accepted} deliveries={deliveries} lost={lost} phantom={phantom} dup={duplicates} "
        )?;
        write!(
            out,
            "unexplained={unexplained} unrecorded={unrecorded} unknown={unknown} stuck={stuck} changed={changed}"
        )
    }
}

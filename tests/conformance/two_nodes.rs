//! Two nodes on one database: a fixture and another node. Tests end leases themselves, so that none is waited for.
//! The cases also run on a file in memory, as the simulation of several nodes uses it.

use crate::{
    fixture::{Backend, Fixture, NOW},
    postgres::Database,
    recorder::RecordingListener,
};
use posthaste::{
    domain::{ports::LeasedDelivery, time::Timestamp},
    store::{
        CommitObservers, Store,
        cluster::{ClusterView, Heartbeat},
        deliveries::{Accepted, NewEvent},
        sqlite::{QueueLimits, SharedFile, SimNode},
    },
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio_postgres::{Client, NoTls};

pub(crate) struct TwoNodes {
    pub(crate) fixture: Fixture,
    /// The epoch of the fixture's node.
    pub(crate) epoch: i64,
    pub(crate) other: Node,
    pub(crate) shared: SharedStore,
}

/// The store that both nodes share.
#[derive(Clone)]
pub(crate) enum SharedStore {
    Database(Arc<Database>),
    File(Arc<SharedFile>),
}

impl SharedStore {
    pub(crate) fn database() -> Self {
        Self::Database(Arc::new(Database::new()))
    }

    pub(crate) fn file() -> Self {
        // A server's clock runs by itself; this one stands still.
        Self::File(SharedFile::new(Arc::new(|| Timestamp::from_millis(1_800_000_000_000))).unwrap())
    }

    /// Runs a statement directly on the database.
    pub(crate) fn run(&self, sql: &str) -> String {
        match self {
            Self::Database(database) => database.run(&format!("SET search_path = posthaste; {sql}")),
            Self::File(file) if sql.starts_with("SELECT") => {
                file.connection().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().to_string()
            }
            Self::File(file) => file.connection().execute(sql, []).unwrap().to_string(),
        }
    }

    /// Returns these columns of a table, a line for each row.
    pub(crate) fn rows(&self, columns: &str, table: &str) -> String {
        let texts: Vec<_> =
            columns.split(", ").map(|column| format!("coalesce(CAST({column} AS text), '-')")).collect();
        let sql = format!("SELECT {} FROM {table} ORDER BY 1", texts.join(" || ' ' || "));
        match self {
            Self::Database(_) => self.run(&sql),
            Self::File(file) => {
                let connection = file.connection();
                let mut statement = connection.prepare(&sql).unwrap();
                let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
                rows.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
            }
        }
    }

    pub(crate) fn the_database(&self) -> &Database {
        match self {
            Self::Database(database) => database,
            Self::File(_) => panic!("only a server can do that"),
        }
    }
}

impl Backend for SharedStore {
    fn open(&self, observers: CommitObservers, events_max: usize, bytes_max: usize) -> Store {
        match self {
            Self::Database(database) => database.open(observers, events_max, bytes_max),
            Self::File(file) => {
                let limits = QueueLimits { events_max, bytes_max };
                SimNode::start(file, observers, limits).unwrap()
            }
        }
    }
}

pub(crate) struct Node {
    pub(crate) store: Store,
    pub(crate) recorder: Arc<RecordingListener>,
    pub(crate) epoch: i64,
}

impl Node {
    pub(crate) async fn beside(fixture: &Fixture) -> Self {
        let recorder = Arc::new(RecordingListener::default());
        let store = fixture.open_beside(&recorder);
        let epoch = store.join(NOW).await.unwrap().epoch;
        let node = Self { store, recorder, epoch };
        // From now on the node sends heartbeats only when the test does.
        node.view().await;
        node
    }

    pub(crate) async fn quiet(&self) {
        self.store.flush().await.unwrap();
        self.store.flush().await.unwrap();
    }

    pub(crate) async fn view(&self) -> ClusterView {
        self.store.heartbeat(Heartbeat::default()).await.unwrap().expect("a node that lives")
    }

    pub(crate) async fn accept(&self, new: NewEvent) -> Accepted {
        self.store.accept(vec![new]).await.unwrap().remove(0)
    }

    /// Accepts an event and returns the one delivery leased for it.
    pub(crate) async fn accept_leased(&self, new: NewEvent) -> LeasedDelivery {
        assert_eq!(self.accept(new).await, Accepted::New);
        self.quiet().await;
        self.recorder.take_leased().remove(0)
    }
}

/// Runs one case.
pub(crate) fn perform<F: Future<Output = ()>>(shared: SharedStore, case: impl FnOnce(TwoNodes) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new(Box::new(shared.clone())).await;
        let epoch = fixture.store().join(NOW).await.unwrap().epoch;
        fixture.store().heartbeat(Heartbeat::default()).await.unwrap();
        let other = Node::beside(&fixture).await;
        let played = case(TwoNodes { fixture, epoch, other, shared });
        tokio::time::timeout(Duration::from_mins(1), played).await.expect("a store that never answers");
    });
}

impl TwoNodes {
    /// Ends the lease of the other node.
    pub(crate) fn end_lease(&self) {
        self.set("lease_until = 0", self.other.epoch);
    }

    /// Makes the fixture's node old enough to declare others dead.
    pub(crate) fn age_node(&self) {
        self.set("lease_unbroken_since = 0", self.epoch);
    }

    pub(crate) fn set(&self, what: &str, epoch: i64) {
        self.shared.run(&format!("UPDATE nodes SET {what} WHERE epoch = {epoch}"));
    }

    /// Has the fixture's node take over the other; returns the number of deliveries.
    pub(crate) async fn take_over(&self) -> Option<usize> {
        self.fixture.store().take_over(self.other.epoch, NOW).await.unwrap()
    }

    pub(crate) async fn view(&self) -> ClusterView {
        self.fixture.store().heartbeat(Heartbeat::default()).await.unwrap().expect("a node that lives")
    }

    /// Blocks every transaction that does this from now on, such as `INSERT ON events`, until `release`.
    pub(crate) async fn hold(&self, what: &str) -> BlockedTrigger {
        self.shared.run(&format!(
            "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END';
             CREATE TRIGGER hold AFTER {what} FOR EACH ROW EXECUTE FUNCTION hold()"
        ));
        let client = self.client().await;
        client.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
        BlockedTrigger(client)
    }

    /// Opens another connection to the database.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.shared.the_database().address(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Waits until this many transactions wait for others.
    pub(crate) async fn until_waiting(&self, count: i64) {
        BlockedTrigger(self.client().await).until_waiting(count).await;
    }
}

pub(crate) struct BlockedTrigger(Client);

impl BlockedTrigger {
    /// Waits until this many transactions wait for others.
    pub(crate) async fn until_waiting(&self, count: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        wait_until("transactions wait", async || {
            self.0.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= count
        })
        .await;
    }

    pub(crate) async fn release(&self) {
        self.0.batch_execute("SELECT pg_advisory_unlock(7)").await.unwrap();
    }
}

pub(crate) async fn wait_until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..4000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

/// Makes a test of each case, on this shared store.
macro_rules! play {
    ($shared:ident: $($case:ident,)+) => {
        mod $shared {
            $(#[test]
            fn $case() {
                crate::two_nodes::perform(crate::two_nodes::SharedStore::$shared(), super::$case);
            })+
        }
    };
}

pub(crate) use play;

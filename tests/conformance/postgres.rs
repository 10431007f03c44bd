//! The suite on PostgreSQL, and tests of PostgreSQL alone: which node may write, and which databases are refused.
//! All tests share one throw-away server; each has its own database.

use crate::{
    database::{TestDatabaseServer, address},
    database_proxy::DatabaseProxy,
    fixture::{Backend, Fixture, after, draft},
    pooler::Pooler,
    recorder::RecordingListener,
    sqlite::{NoWatch, block_on},
};
use posthaste::{
    domain::{
        database_address::DatabaseAddress,
        id::{AppId, EndpointId, EventId},
        ordering::OrderingKey,
        ports::{CommitListener, SendGate},
        time::Timestamp,
    },
    engine::NodeSendGate,
    runtime::{NodeLease, SystemClock},
    store::{
        ClusterStore, DeliveryStore, QueryStore, Store, StoreError,
        cluster::Heartbeat,
        deliveries::{Accepted, LeaseRequest},
        postgres::{PostgresOpenError, PostgresStore, QueueLimits},
    },
};
use std::{
    net::TcpListener,
    os::unix::{fs::symlink, net::UnixStream},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

static SERVER: LazyLock<TestDatabaseServer> = LazyLock::new(|| {
    let server = TestDatabaseServer::start();
    server.run("postgres", "CREATE DATABASE template_of_all").unwrap();
    drop(open(&server.address("template_of_all")).unwrap());
    server
});

/// A database for one test.
pub(crate) struct Database(String);

impl Database {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", MADE.fetch_add(1, Ordering::Relaxed));
        SERVER.run("postgres", &format!("CREATE DATABASE {name} TEMPLATE template_of_all")).unwrap();
        Self(name)
    }

    /// A database with what this dump holds.
    pub(crate) fn restored(dump: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("restored_{}", MADE.fetch_add(1, Ordering::Relaxed));
        SERVER.run("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0")).unwrap();
        SERVER.load(&name, dump);
        Self(name)
    }

    pub(crate) fn new_place() -> Box<dyn Backend> {
        Box::new(Self::new())
    }

    pub(crate) fn address(&self) -> String {
        SERVER.address(&self.0)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Returns a wire to it, and the address at its other end.
    pub(crate) fn wired(&self) -> (DatabaseProxy, String) {
        let wire = DatabaseProxy::new(&SERVER.folder);
        let address = address(&wire.folder(), &self.0);
        (wire, address)
    }

    /// Connects to the server's socket.
    pub(crate) fn socket() -> UnixStream {
        UnixStream::connect(format!("{}/.s.PGSQL.5432", SERVER.folder)).unwrap()
    }

    fn open(&self) -> Result<PostgresStore, PostgresOpenError> {
        open(&self.address())
    }

    pub(crate) fn run(&self, sql: &str) -> String {
        SERVER.run(&self.0, sql).unwrap()
    }

    /// Ends all connections and takes no new ones.
    pub(crate) fn go_away(&self) {
        let others = format!("FROM pg_stat_activity WHERE datname = '{}'", self.0);
        let end = format!(
            "ALTER DATABASE {} ALLOW_CONNECTIONS false; SELECT pg_terminate_backend(pid) {others}",
            self.0
        );
        SERVER.run("postgres", &end).unwrap();
        while SERVER.run("postgres", &format!("SELECT count(*) {others}")).unwrap() != "0" {
            std::thread::yield_now();
        }
    }

    pub(crate) fn come_back(&self) {
        SERVER.run("postgres", &format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.0)).unwrap();
    }

    /// Returns a fingerprint of its tables, its migrations and its number of nodes.
    fn contents(&self) -> String {
        self.run(
            "SELECT string_agg(c.oid || ' ' || c.relname || ' ' || c.xmin, E'\n' ORDER BY c.oid) FROM pg_class c
                 WHERE c.relnamespace = 'posthaste'::regnamespace;
             SELECT string_agg(number || ' ' || xmin, ' ' ORDER BY number) FROM posthaste.migrations;
             SELECT count(*) FROM posthaste.nodes",
        )
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // An error here must not hide the failure of a test.
        let _ = SERVER.run("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.0));
    }
}

impl Backend for Database {
    fn open(
        &self,
        commit_listener: Arc<dyn CommitListener>,
        events_max: usize,
        bytes_max: usize,
    ) -> Arc<dyn Store> {
        let limits = QueueLimits { events_max, bytes_max };
        let address = DatabaseAddress::parse(&SERVER.address(&self.0)).unwrap();
        Arc::new(
            PostgresStore::open(&address, commit_listener, Arc::new(NoWatch), limits, Duration::ZERO)
                .unwrap(),
        )
    }
}

/// A pooler in front of that server, which lends connections for a transaction at a time.
static POOLER: LazyLock<Pooler> = LazyLock::new(|| Pooler::start_for(&SERVER.folder));

/// A database behind the pooler, where no state stays with a connection.
pub(crate) struct Pooled(Database);

impl Pooled {
    pub(crate) fn new_place() -> Box<dyn Backend> {
        Box::new(Self(Database::new()))
    }
}

impl Backend for Pooled {
    fn open(
        &self,
        commit_listener: Arc<dyn CommitListener>,
        events_max: usize,
        bytes_max: usize,
    ) -> Arc<dyn Store> {
        let limits = QueueLimits { events_max, bytes_max };
        let address = DatabaseAddress::parse(&POOLER.address(&self.0.0)).unwrap();
        Arc::new(
            PostgresStore::open(&address, commit_listener, Arc::new(NoWatch), limits, Duration::ZERO)
                .unwrap(),
        )
    }
}

pub(crate) fn open(address: &str) -> Result<PostgresStore, PostgresOpenError> {
    let limits = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };
    let address = DatabaseAddress::parse(address).unwrap();
    PostgresStore::open(
        &address,
        Arc::new(RecordingListener::default()),
        Arc::new(NoWatch),
        limits,
        Duration::ZERO,
    )
}

/// Opens a store over this wire, on which only the test's publishes are committed from now on: after a first explicit heartbeat
/// the store sends none by itself.
fn open_quietly(wire: &DatabaseProxy, database: &Database) -> PostgresStore {
    let store = open(&address(&wire.folder(), &database.0)).unwrap();
    block_on(store.heartbeat(Heartbeat::default())).unwrap();
    store
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain: {what}");
}

fn open_error(result: Result<PostgresStore, PostgresOpenError>) -> PostgresOpenError {
    match result {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// Publishes an event with this id to one endpoint.
fn publish(store: &PostgresStore, id: i64) -> Result<Vec<Accepted>, StoreError> {
    block_on(store.accept(vec![draft(AppId::from_i64(1), &[EndpointId::from_i64(2)], id)]))
}

#[test]
fn a_store_that_was_taken_over_closes_the_send_gate() {
    let database = Database::new();
    let store = Arc::new(database.open().unwrap());
    // The node counts as alone here, so only the store can close the gate: it must, as no result could be recorded.
    let (node_state, clock) = (Arc::new(NodeLease::single_node()), Arc::new(SystemClock));
    let gate = NodeSendGate { node_state, clock, delivery_store: store.clone() };
    assert!(store.can_record() && gate.is_open());
    database.run("UPDATE posthaste.nodes SET dead = 1");
    wait_until("it notices", || !store.can_record());
    assert!(!gate.is_open());
}

#[test]
fn a_commit_before_a_takeover_is_not_reported_as_lost() {
    let database = Database::new();
    let wire = DatabaseProxy::new(&SERVER.folder);
    let first = Arc::new(open_quietly(&wire, &database));
    publish(&first, 3).unwrap();
    wire.lose_the_next_answer_to_a_batch();
    wire.stay_cut();
    let publishing = thread::spawn({
        let first = first.clone();
        move || publish(&first, 10)
    });
    let stored = "SELECT count(*) FROM posthaste.events";
    wait_until("both are stored", || database.run(stored) == "2");
    let error = publishing.join().unwrap().unwrap_err();
    assert!(
        matches!(error, StoreError::Unavailable(_)),
        "the call fails while the database is away: {error}"
    );
    let dead = database.run("UPDATE posthaste.nodes SET lease_until = 0 RETURNING epoch").parse().unwrap();
    let second = database.open().unwrap();
    database.run("UPDATE posthaste.nodes SET lease_unbroken_since = 0");
    assert_eq!(block_on(second.take_over(dead, Timestamp::from_millis(0))).unwrap(), Some(0));
    wire.reconnect();
    wait_until(
        "it knows that it was taken over",
        || matches!(publish(&first, 20), Err(StoreError::Unavailable(why)) if why.contains("took over")),
    );
    assert!(!first.can_record());
    publish(&second, 30).unwrap();
    assert_eq!(database.run(stored), "3");
}

#[test]
fn a_server_without_room_for_another_connection_answers_again_later() {
    let database = Database::new();
    let name = &database.0;
    database.run(&format!(
        "CREATE ROLE narrow_{name} LOGIN CONNECTION LIMIT 2; GRANT ALL ON DATABASE {name} TO narrow_{name};
         GRANT ALL ON SCHEMA posthaste TO narrow_{name}; GRANT ALL ON ALL TABLES IN SCHEMA posthaste TO narrow_{name};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA posthaste TO narrow_{name}"
    ));
    let store = open(&database.address().replace("user=posthaste", &format!("user=narrow_{name}"))).unwrap();
    publish(&store, 3).unwrap();
    let connected = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = 'narrow_{name}'");
    wait_until("there is no room for more", || database.run(&connected) == "2");
    let find = || block_on(store.find_event(AppId::from_i64(1), String::new(), Some(EventId::from_i64(3))));
    assert!(matches!(find(), Err(StoreError::Unavailable(_))));
    publish(&store, 10).unwrap();
    database.run(&format!("ALTER ROLE narrow_{name} CONNECTION LIMIT 10"));
    assert!(find().unwrap().is_some());
}

/// Simulates a frozen server, or a machine that is gone: it accepts connections and never answers.
#[test]
fn a_silent_host_does_not_prevent_trying_the_next() {
    let database = Database::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let store = open(&format!(
        "postgres:///{}?user=posthaste&target_session_attrs=read-write&host=127.0.0.1&port={}&host={}&port=5432",
        database.name(),
        silent.local_addr().unwrap().port(),
        SERVER.folder
    ));
    publish(&store.unwrap(), 3).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_database_that_lost_confirmed_commits_is_not_written_to() {
    let database = Database::new();
    let store = database.open().unwrap();
    publish(&store, 3).unwrap();
    database.run("UPDATE posthaste.writer_batches SET batch = batch - 1 WHERE writer = 0");
    let error = publish(&store, 10).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("lost")), "{error}");
    assert_eq!(database.run("SELECT count(*) FROM posthaste.events"), "1");
    assert!(block_on(store.heartbeat(Heartbeat::default())).unwrap().is_none() && !store.can_record());
    let joined = block_on(store.join(Timestamp::from_millis(0))).unwrap();
    block_on(store.heartbeat(Heartbeat::default())).unwrap().expect("it lives");
    wait_until("it goes on", || store.can_record());
    let next = (i64::from(joined.slot) << 16) + 20;
    publish(&store, next).unwrap();
    let stored = database.run("SELECT string_agg(id::text, ' ' ORDER BY id) FROM posthaste.events");
    assert_eq!(stored, format!("3 {next}"));
}

#[test]
fn a_broken_connection_is_replaced_without_errors() {
    let database = Database::new();
    let store = database.open().unwrap();
    for id in [3, 10, 20] {
        publish(&store, id).unwrap();
        assert!(
            block_on(store.find_event(AppId::from_i64(1), String::new(), Some(EventId::from_i64(id))))
                .unwrap()
                .is_some()
        );
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()";
        assert!(database.run(cut).parse::<u32>().unwrap() >= 2, "the writer's and a reader's");
    }
    assert_eq!(database.run("SELECT count(*) FROM posthaste.events"), "3");
}

#[test]
fn a_batch_whose_connection_broke_at_its_commit_is_written_again() {
    let database = Database::new();
    database.run(
        "CREATE SEQUENCE posthaste.commits;
         CREATE FUNCTION posthaste.break_once() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF nextval(''posthaste.commits'') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER break_once AFTER INSERT ON posthaste.events DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION posthaste.break_once()",
    );
    let store = database.open().unwrap();
    assert!(matches!(publish(&store, 3).unwrap()[..], [Accepted::New]));
    assert_eq!(database.run("SELECT last_value FROM posthaste.commits"), "2", "it broke");
    assert_eq!(database.run("SELECT count(*) FROM posthaste.events"), "1");
    // Two batches were counted when it was not found, so the broken commit would come too late from then on.
    assert_eq!(database.run("SELECT max(batch) FROM posthaste.writer_batches"), "3");
}

#[test]
fn a_commit_whose_answer_was_lost_is_not_repeated() {
    let database = Database::new();
    let wire = DatabaseProxy::new(&SERVER.folder);
    let store = open_quietly(&wire, &database);
    publish(&store, 3).unwrap();
    for (number, has_place) in [(1, false), (2, true)] {
        wire.lose_the_next_answer_to_a_batch();
        let mut new = draft(AppId::from_i64(1), &[EndpointId::from_i64(2)], 10 * number);
        // An ordered delivery needs a look-up of its group, which takes more than one statement.
        new.deliveries[0].delivery.ordering_key = has_place.then_some(OrderingKey::from_i64(7));
        assert!(matches!(block_on(store.accept(vec![new])).unwrap()[..], [Accepted::New]));
        assert!(wire.has_lost_it());
    }
    publish(&store, 40).unwrap();
    assert_eq!(database.run("SELECT count(*) FROM posthaste.events"), "4");
    assert_eq!(database.run("SELECT max(batch) FROM posthaste.writer_batches"), "4");
}

/// A database behind a wire.
struct Wired(Database, Arc<DatabaseProxy>);

impl Backend for Wired {
    fn open(
        &self,
        commit_listener: Arc<dyn CommitListener>,
        events_max: usize,
        bytes_max: usize,
    ) -> Arc<dyn Store> {
        let limits = QueueLimits { events_max, bytes_max };
        let address = DatabaseAddress::parse(&address(&self.1.folder(), &self.0.0)).unwrap();
        Arc::new(
            PostgresStore::open(&address, commit_listener, Arc::new(NoWatch), limits, Duration::ZERO)
                .unwrap(),
        )
    }
}

#[test]
fn a_refill_reads_only_the_bodies_that_it_keeps() {
    let wire = Arc::new(DatabaseProxy::new(&SERVER.folder));
    block_on(async {
        let mut fixture = Fixture::new(Box::new(Wired(Database::new(), wire.clone()))).await;
        for _ in 0..20 {
            let mut new = fixture.one_event();
            Arc::get_mut(&mut new.event).unwrap().data = vec![b'1'; 100_000].into();
            fixture.publish(new).await;
        }
        let before = wire.answered_bytes();
        let request = LeaseRequest { bytes_max: 250_000, ..fixture.refill_request(fixture.endpoint, 20) };
        fixture.store().lease_due(vec![request], after(1)).await.unwrap();
        fixture.wait_until_idle().await;
        assert_eq!(fixture.recorder.take_leased().len(), 2);
        let read = wire.answered_bytes() - before;
        assert!((200_000..300_000).contains(&read), "{read}");
    });
}

#[test]
fn the_size_of_the_tables_is_reported() {
    let database = Database::new();
    let store = database.open().unwrap();
    let before = block_on(store.usage()).unwrap();
    (0..100).for_each(|n| drop(publish(&store, 3 + 10 * n).unwrap()));
    let usage = block_on(store.usage()).unwrap();
    assert!(usage.used_bytes > before.used_bytes && usage.disk_free_bytes.is_none(), "{before:?} {usage:?}");
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let database = Database::new();
    let future =
        "INSERT INTO posthaste.migrations (number, oldest, checksum) VALUES (999, 3, ''), (1000, 1000, '')";
    database.run(future);
    let before = database.contents();
    let error = open_error(database.open());
    assert_eq!(database.contents(), before, "not a row, nor a table");
    assert!(matches!(error, PostgresOpenError::TooNew { found: 1000 }), "{error}");
    database.run(
        "DELETE FROM posthaste.migrations WHERE number > 900; UPDATE posthaste.migrations SET checksum = ''",
    );
    let error = open_error(database.open());
    assert!(matches!(error, PostgresOpenError::Foreign(1)), "{error}");
}

#[test]
fn a_database_that_could_lose_confirmed_commits_is_refused() {
    let database = Database::new();
    database.run(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.0));
    let error = open_error(database.open());
    assert!(matches!(error, PostgresOpenError::Unsafe { setting: "synchronous_commit", .. }), "{error}");
}

#[test]
fn an_unreachable_server_is_waited_for_and_a_refusing_one_is_not() {
    let database = Database::new();
    let error = open_error(open(&SERVER.address("nobody_made_this")));
    assert!(
        matches!(&error, PostgresOpenError::Unreachable(why) if why.contains("does not exist")),
        "{error}"
    );
    let folder = TempDir::new().unwrap();
    let there = folder.path().join("there");
    let later = address(&there.display().to_string(), &database.0);
    let opening = thread::spawn(move || open(&later).map(drop));
    thread::sleep(Duration::from_millis(100));
    assert!(!opening.is_finished());
    symlink(&SERVER.folder, &there).unwrap();
    opening.join().unwrap().unwrap();
}

#[test]
fn missing_privileges_are_named() {
    let database = Database::new();
    let role = format!("poor_{}", database.0);
    database.run(&format!("DROP SCHEMA posthaste CASCADE; CREATE ROLE {role} LOGIN"));
    let error = open_error(open(&database.address().replace("user=posthaste", &format!("user={role}"))));
    assert!(
        matches!(&error, PostgresOpenError::NotPrepared(why) if why.contains("permission denied")),
        "{error}"
    );
}

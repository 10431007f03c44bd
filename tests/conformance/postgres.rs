//! The store on PostgreSQL joins the suite; besides, what is true of it alone: who may write, and which databases are refused.
//! One throw-away server for all of its tests, and a database for each.

use crate::{
    recorder::Recorder,
    sqlite::{NoWatch, block_on},
    stage::{Backend, Store, draft},
    wire::Wire,
};
use posthaste::{
    domain::{
        id::{AppId, EndpointId, EventId},
        port::Handover,
        time::Timestamp,
    },
    store::{
        Browse, Cluster, Ledger, StoreError,
        cluster::Beat,
        ledger::Accepted,
        postgres::{OpenError, PostgresStore, QueueLimits},
    },
};
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

impl Store for PostgresStore {
    fn close(&self) {
        PostgresStore::close(self);
    }
}

/// Makes a server in a folder of its own, says where, and removes both when whoever started it is gone, however that ended. It
/// listens on a socket in the folder and nowhere else.
const SERVE: &str = r#"
trap '' INT TERM HUP
folder=$(mktemp -d "${TMPDIR:-/tmp}/posthaste-postgres.XXXXXX") || exit 1
"$1/initdb" -D "$folder/data" -A trust -U posthaste --no-locale -E UTF8 --no-sync >"$folder/log" 2>&1 &&
"$1/pg_ctl" -D "$folder/data" -l "$folder/log" -w -o "-c listen_addresses= -c unix_socket_directories=$folder" start >>"$folder/log" 2>&1 &&
echo "$folder" || { cat "$folder/log" >&2; rm -rf "$folder"; exit 1; }
read -r _
"$1/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1
rm -rf "$folder"
"#;

struct Server {
    folder: String,
    programs: PathBuf,
    /// Its input closes with this process.
    _child: Child,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let server = Server::start();
    server.run("postgres", "CREATE DATABASE template_of_all").unwrap();
    drop(open(&server.address("template_of_all")).unwrap());
    server
});

impl Server {
    fn start() -> Self {
        let programs = programs();
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout.starts_with(b"0\n");
        let mut command = if is_root {
            // The server refuses to run as root.
            let mut command = Command::new("runuser");
            command.args(["-u", "nobody", "--"]);
            command.arg("sh");
            command
        } else {
            Command::new("sh")
        };
        command.args(["-c", SERVE, "sh"]).arg(&programs).current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut folder = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut folder).unwrap();
        assert!(!folder.is_empty(), "the server did not start");
        Self { folder: folder.trim().to_owned(), programs, _child: child }
    }

    fn address(&self, database: &str) -> String {
        format!("host={} user=posthaste dbname={database}", self.folder)
    }

    /// Runs a statement beside the store.
    fn run(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-h", &self.folder, "-U", "posthaste", "-d", database, "-XAtqc", sql]);
        let output = psql.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let said = || format!("{sql}: {}", text(&output.stderr));
        output.status.success().then(|| text(&output.stdout)).ok_or_else(said)
    }
}

/// Where the newest PostgreSQL of this machine is.
fn programs() -> PathBuf {
    let versions =
        std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL's server: apt install postgresql");
    let newest = versions
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    newest.expect("PostgreSQL's server: apt install postgresql").join("bin")
}

/// A database of its own.
pub(crate) struct Database(String);

impl Database {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", MADE.fetch_add(1, Ordering::Relaxed));
        SERVER.run("postgres", &format!("CREATE DATABASE {name} TEMPLATE template_of_all")).unwrap();
        Self(name)
    }

    pub(crate) fn new_place() -> Box<dyn Backend> {
        Box::new(Self::new())
    }

    fn open(&self) -> Result<PostgresStore, OpenError> {
        open(&SERVER.address(&self.0))
    }

    pub(crate) fn run(&self, sql: &str) -> String {
        SERVER.run(&self.0, sql).unwrap()
    }

    pub(crate) fn address(&self) -> String {
        SERVER.address(&self.0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Where a test failed already, that is what there is to say.
        let _ = SERVER.run("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.0));
    }
}

impl Backend for Arc<Database> {
    fn open(&self, handover: Arc<dyn Handover>, events_max: usize, bytes_max: usize) -> Arc<dyn Store> {
        Backend::open(&**self, handover, events_max, bytes_max)
    }
}

impl Backend for Database {
    fn open(&self, handover: Arc<dyn Handover>, events_max: usize, bytes_max: usize) -> Arc<dyn Store> {
        let limits = QueueLimits { events_max, bytes_max };
        let address = SERVER.address(&self.0);
        Arc::new(PostgresStore::open(&address, handover, Arc::new(NoWatch), limits, Duration::ZERO).unwrap())
    }
}

fn open(address: &str) -> Result<PostgresStore, OpenError> {
    let limits = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };
    PostgresStore::open(address, Arc::new(Recorder::default()), Arc::new(NoWatch), limits, Duration::ZERO)
}

fn refusal(result: Result<PostgresStore, OpenError>) -> OpenError {
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
fn a_database_that_lost_what_it_confirmed_is_not_written_to() {
    let database = Database::new();
    let store = database.open().unwrap();
    publish(&store, 3).unwrap();
    database.run("UPDATE posthaste.ledger SET batch = batch - 1 WHERE writer = 0");
    let error = publish(&store, 10).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("lost")), "{error}");
    assert_eq!(database.run("SELECT count(*) FROM posthaste.events"), "1");
    assert!(block_on(store.beat(Beat::default())).unwrap().is_none(), "it has to join again");
    block_on(store.join(Timestamp::from_millis(0))).unwrap();
    publish(&store, 20).unwrap();
    assert_eq!(database.run("SELECT string_agg(id::text, ' ' ORDER BY id) FROM posthaste.events"), "3 20");
}

#[test]
fn a_connection_that_broke_is_made_again_and_nobody_notices() {
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
        assert_eq!(database.run(cut), "3", "the writer's, the heart's and a reader's");
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
}

#[test]
fn a_commit_whose_answer_was_lost_is_not_repeated() {
    let database = Database::new();
    let wire = Wire::new(&SERVER.folder);
    let store = open(&format!("host={} user=posthaste dbname={}", wire.folder(), database.0)).unwrap();
    publish(&store, 3).unwrap();
    wire.lose_the_next_answer_to_a_commit();
    assert!(matches!(publish(&store, 10).unwrap()[..], [Accepted::New]));
    assert!(wire.has_lost_it());
    publish(&store, 20).unwrap();
    assert_eq!(database.run("SELECT count(*) FROM posthaste.events"), "3");
    assert_eq!(database.run("SELECT batch FROM posthaste.ledger WHERE writer = 0"), "3");
}

#[test]
fn how_large_the_tables_are_is_known() {
    let database = Database::new();
    let store = database.open().unwrap();
    let before = block_on(store.usage()).unwrap();
    (0..100).for_each(|n| drop(publish(&store, 3 + 10 * n).unwrap()));
    let usage = block_on(store.usage()).unwrap();
    assert!(usage.used_bytes > before.used_bytes && usage.disk_free_bytes.is_none(), "{before:?} {usage:?}");
}

#[test]
fn a_database_that_a_newer_version_prepared_is_left_alone() {
    let database = Database::new();
    database.run("INSERT INTO posthaste.migrations (number, checksum) VALUES (1000, '')");
    let error = refusal(database.open());
    assert!(matches!(error, OpenError::TooNew { found: 1000 }), "{error}");
    database.run(
        "DELETE FROM posthaste.migrations WHERE number = 1000; UPDATE posthaste.migrations SET checksum = ''",
    );
    let error = refusal(database.open());
    assert!(matches!(error, OpenError::Foreign(1)), "{error}");
}

#[test]
fn a_database_that_could_lose_what_it_confirmed_is_refused() {
    let database = Database::new();
    database.run(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.0));
    let error = refusal(database.open());
    assert!(matches!(error, OpenError::Unsafe { setting: "synchronous_commit", .. }), "{error}");
}

#[test]
fn what_is_no_address_or_answers_nothing_is_said() {
    let error = refusal(open("nonsense"));
    assert!(matches!(error, OpenError::Address(_)), "{error}");
    let error = refusal(open("host=/nowhere user=a dbname=b"));
    assert!(matches!(error, OpenError::Unreachable(_)), "{error}");
}

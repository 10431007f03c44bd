//! Nodes that migrate a database, concurrently, beside other users of the schema, and killed in the middle; and nodes of two versions on
//! one database. The next version's migrations are made here by hand.

use crate::harness::{NodeFolder, TestReceiver, database::TestDatabaseServer, wait_until};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_mins(1);

struct VersionsFixture {
    server: Arc<TestDatabaseServer>,
    home: NodeFolder,
    receiver: TestReceiver,
}

impl VersionsFixture {
    async fn new() -> Self {
        let server = Arc::new(TestDatabaseServer::start());
        let mut home = NodeFolder::new();
        home.set("STORE", &server.address("postgres"));
        Self { server, home, receiver: TestReceiver::start().await }
    }

    fn run(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap()
    }

    async fn shows(&self, what: &str, sql: &str, expected: &str) {
        wait_until(what, WAIT_LIMIT, async || self.run(sql) == expected).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_during_the_migration_leaves_no_trace_and_one_of_many_nodes_migrates() {
    let database = VersionsFixture::new().await;
    database.run("CREATE SCHEMA posthaste");
    // Another transaction creates a table of the same name and stays open: it blocks the first step in the middle.
    let server = database.server.clone();
    let in_the_way = tokio::task::spawn_blocking(move || {
        server.run("postgres", "BEGIN; CREATE TABLE posthaste.replays (id bigint); SELECT pg_sleep(600)")
    });
    let sleeps = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    database.shows("somebody is in the way", &format!("SELECT count(*) {sleeps}"), "1").await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'posthaste' AND wait_event_type = 'Lock'";
    let mut killed = database.home.spawn(&[], &["serve"]);
    database.shows("it is in the middle", waits, "1").await;
    killed.kill().await;
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'posthaste'";
    database.shows("the server has noticed", left, "0").await;
    assert_eq!(database.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'posthaste'"), "0");

    let mut nodes: Vec<_> = (0..3).map(|_| database.home.spawn(&[], &["serve"])).collect();
    let tried_again =
        async || nodes.iter().any(|node| node.log().contains("others use the tables to be migrated"));
    wait_until("one gives way, and tries again", WAIT_LIMIT, tried_again).await;
    database.run(&format!("SELECT pg_terminate_backend(pid) {sleeps}"));
    in_the_way.await.unwrap().unwrap_err();
    for node in &nodes {
        wait_until("it is ready", WAIT_LIMIT, async || node.log().contains("posthaste is ready")).await;
    }
    let steps = nodes.iter().map(|node| node.log().matches("the database was migrated").count());
    assert_eq!(steps.sum::<usize>(), 5, "each of five steps was taken once");
    assert_eq!(database.run("SELECT string_agg(number::text, ' ') FROM posthaste.migrations"), "1 2 3 4 5");
    assert_eq!(database.run("SELECT count(*) FROM posthaste.nodes WHERE schema_known = 5 AND dead = 0"), "3");
    for node in &mut nodes {
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_run_and_start_beside_the_next_version_if_that_only_added_columns_and_tables() {
    let database = VersionsFixture::new().await;
    let mut running = database.home.start().await;
    running.client.make_app("a").await;
    let retries = json!({ "overrides": { "retry": { "waits": ["10ms"], "jitter": "none" } } });
    running.client.make_endpoint("a", "hook", &database.receiver.url("/hook"), retries).await;
    let publish = async |node: &crate::harness::TestNode, id: &str| {
        node.client.publish("a", &json!({ "id": id, "type": "t", "data": 1 })).await;
        let is_there = async || database.receiver.receipts().iter().any(|receipt| receipt.id() == id);
        wait_until("it is delivered", WAIT_LIMIT, is_there).await;
    };
    publish(&running, "before").await;

    // Added columns need a default, because this version does not write them.
    let tables = database.run(
        "SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace
             AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migrations'",
    );
    assert!(tables.contains("nodes") && tables.contains("deliveries_open"), "{tables}");
    for table in tables.split(' ') {
        database.run(&format!("ALTER TABLE posthaste.{table} ADD COLUMN colour text NOT NULL DEFAULT 'red'"));
    }
    database.run("CREATE TABLE posthaste.paint (id bigint)");
    database
        .run("INSERT INTO posthaste.migrations (number, oldest, checksum) VALUES (6, 5, sha256('paint'))");
    publish(&running, "beside").await;
    running.client.make_endpoint("a", "late", &database.receiver.url("/late"), json!({})).await;
    let mut started = database.home.start().await;
    assert!(started.log().contains("beside which this one can work"), "{}", started.log());
    publish(&started, "after").await;
    publish(&running, "last").await;
    assert_eq!(running.stop().await, Some(0), "{}", running.log());
    let mut check = database.home.spawn(&[], &["check"]);
    check.exited().await;
    assert!(check.log().contains("is up to date"), "{}", check.log());

    // The next version but one removes a thing that this one needs. No node of this version may be left by then.
    assert_eq!(started.stop().await, Some(0), "{}", started.log());
    database.run(
        "INSERT INTO posthaste.migrations (number, oldest, checksum) VALUES (7, 7, sha256('no colour'))",
    );
    let mut refused = database.home.spawn(&[], &["serve"]);
    assert_eq!(refused.exited().await.code(), Some(1));
    let said = refused.log();
    assert!(said.contains("prepared by a newer Posthaste (migration 7, this one knows 5)"), "{said}");
    assert_eq!(database.run("SELECT count(*) FROM posthaste.nodes"), "0");
}

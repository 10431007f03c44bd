//! Tests of a single node on a PostgreSQL server, with faults of both: kills, restarts, outages, a connection that is cut or
//! slow. The control shows that the checker would see the losses of a server that does not flush.

mod starting;

use crate::{
    checker::{DeliveryFigures, dump_database},
    harness::{
        Behaviour, NodeFolder, TestClient, TestNode, TestReceiver,
        database::{NO_BACKGROUND_WRITES, TestDatabaseServer, address},
        database_proxy::{DatabaseProxy, WriterBatch},
        report, wait_for, wait_until,
    },
    producer::Producers,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const WAIT_LIMIT: Duration = Duration::from_mins(1);
pub(crate) const RECOVERY_LIMIT: Duration = Duration::from_secs(5);
const ENDPOINTS: [&str; 3] = ["one", "two", "shaky"];

/// A database server, a node on it, producers and a receiver.
pub(crate) struct DatabaseFixture {
    pub(crate) server: TestDatabaseServer,
    pub(crate) home: NodeFolder,
    pub(crate) receiver: TestReceiver,
    pub(crate) producers: Producers,
}

impl DatabaseFixture {
    pub(crate) async fn new(options: &str) -> Self {
        let server = TestDatabaseServer::with_options(options);
        let mut home = NodeFolder::new();
        home.set("STORE", &server.address("postgres"));
        let receiver = TestReceiver::start().await;
        receiver.behave("/shaky", Behaviour::FailEvery(5));
        Self { server, home, receiver, producers: Producers::default() }
    }

    /// Starts the node for the first time.
    pub(crate) async fn start(&self) -> TestNode {
        let node = self.home.start().await;
        node.client.make_app("a").await;
        let waits = ["50ms", "100ms", "200ms", "400ms", "800ms", "1s", "1s", "1s", "1s"];
        let overrides = json!({ "overrides": { "retry": { "waits": waits, "jitter": "none" } } });
        for endpoint in ENDPOINTS {
            let url = self.receiver.url(&format!("/{endpoint}"));
            node.client.make_endpoint("a", endpoint, &url, overrides.clone()).await;
        }
        self.producers.follow(&node.client);
        node
    }

    pub(crate) fn run(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap()
    }

    pub(crate) async fn some_are_accepted(&self) {
        let before = self.producers.sent().accepted.len();
        let more = async || self.producers.sent().accepted.len() > before + 50;
        wait_until("some are accepted", WAIT_LIMIT, more).await;
    }

    /// Returns the time from now until an event is accepted again.
    pub(crate) async fn time_to_recover(&self) -> Duration {
        let (begun, before) = (Instant::now(), self.producers.sent().accepted.len());
        wait_until("it accepts again", WAIT_LIMIT, async || self.producers.sent().accepted.len() > before)
            .await;
        begun.elapsed()
    }

    pub(crate) async fn finish(&self, node: &mut TestNode) -> DeliveryFigures {
        all_have_ended(node).await;
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
        self.figures()
    }

    fn figures(&self) -> DeliveryFigures {
        DeliveryFigures::of(&self.producers.sent(), &self.receiver.receipts(), &dump_database(&self.server))
    }
}

pub(crate) async fn all_have_ended(node: &TestNode) {
    wait_until("every delivery has ended", WAIT_LIMIT, async || {
        node.client.list("/v1/apps/a/deliveries?status=pending,retrying,in_flight").await.is_empty()
    })
    .await;
}

/// Whether the node is alive but not ready because of its store, and refuses events with a Retry-After.
pub(crate) async fn reports_outage(client: &TestClient) -> bool {
    let ready = client.get("/readyz").await;
    let refused = client.try_publish("a", &json!({ "type": "t", "data": 1 })).await.unwrap();
    client.get("/livez").await.status == 200
        && ready.status == 503
        && ready.json()["reasons"][0]["code"] == "store"
        && refused.status == 503
        && refused.json()["code"] == "unavailable"
        && refused.header("retry-after").parse::<u32>().is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_a_node_on_a_database_lose_nothing_and_repeat_only_what_was_in_flight() {
    let database = DatabaseFixture::new("").await;
    let mut node = database.start().await;
    let running = database.producers.start(4, Duration::from_millis(8));
    let (mut interrupted, mut slowest) = (0, Duration::ZERO);
    for _ in 0..8 {
        database.some_are_accepted().await;
        node.kill().await;
        // Its open transactions are committed or rolled back before the next node joins.
        node = database.home.start().await;
        let unknown = database.run("SELECT count(*) FROM posthaste.attempts WHERE class = 9");
        interrupted = unknown.parse().unwrap();
        database.producers.follow(&node.client);
        slowest = slowest.max(node.ready_after);
    }
    database.producers.finish(running).await;
    let figures = database.finish(&mut node).await;
    report(format_args!("one node, kill -9: {figures} slowest_start={slowest:?}"));
    figures.assert_faultless();
    assert_eq!(figures.unknown, interrupted, "none but at a start");
    assert!(interrupted > 0, "no kill met anything in flight");
    assert!(slowest < RECOVERY_LIMIT, "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_the_database_lose_nothing_and_repeat_nothing() {
    let database = DatabaseFixture::new("").await;
    let mut node = database.start().await;
    let running = database.producers.start(4, Duration::from_millis(8));
    let mut slowest = Duration::ZERO;
    for _ in 0..4 {
        database.some_are_accepted().await;
        database.server.crash();
        database.server.start_again();
        slowest = slowest.max(database.time_to_recover().await);
    }
    database.producers.finish(running).await;
    let figures = database.finish(&mut node).await;
    let refused = database.producers.sent().refused.clone();
    report(format_args!(
        "one node, restart -m immediate: {figures} slowest_return={slowest:?} refused={refused:?}"
    ));
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert!(slowest < RECOVERY_LIMIT, "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_unreachable_no_event_is_accepted_and_no_request_is_sent() {
    let database = DatabaseFixture::new("").await;
    let mut node = database.start().await;
    // Many of its deliveries wait in memory to be sent.
    let paced = json!({ "rate_limit": { "per_second": 10, "burst": 1 } });
    node.client.make_endpoint("a", "paced", &database.receiver.url("/paced"), paced).await;
    let running = database.producers.start(4, Duration::from_millis(8));
    database.some_are_accepted().await;
    database.some_are_accepted().await;
    database.server.crash();
    let gone_at = Instant::now();
    wait_until("publishing is refused", WAIT_LIMIT, async || {
        database.producers.sent().refused.contains_key(&503)
    })
    .await;
    assert!(reports_outage(&node.client).await);
    // Requests that were in flight when the database stopped.
    let in_flight = async || database.receiver.receipts().iter().all(|receipt| receipt.answered.is_some());
    wait_until("nothing is in flight", WAIT_LIMIT, in_flight).await;
    tokio::time::sleep(Duration::from_secs(2).saturating_sub(gone_at.elapsed())).await;
    let sent_so_far = database.receiver.receipts().len();
    tokio::time::sleep(Duration::from_secs(20).saturating_sub(gone_at.elapsed())).await;
    assert_eq!(
        database.receiver.receipts().len(),
        sent_so_far,
        "a request was sent whose result could not be recorded"
    );
    assert!(reports_outage(&node.client).await);
    database.server.start_again();
    let back = database.time_to_recover().await;
    database.producers.finish(running).await;
    let sent = database.producers.sent().refused.clone();
    let log = node.log();
    let figures = database.finish(&mut node).await;
    let lines = log.lines().count();
    report(format_args!(
        "one node, 20 s of absence: {figures} back={back:?} refused={sent:?} lines_of_log={lines}"
    ));
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert_eq!(sent.keys().collect::<Vec<_>>(), [&503], "nothing but 503 was said");
    assert!(back < RECOVERY_LIMIT, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_answers_are_lost_are_neither_repeated_nor_lost() {
    let mut database = DatabaseFixture::new("").await;
    let wire = DatabaseProxy::new(&database.server.folder);
    database.home.set("STORE", &address(&wire.folder(), "postgres"));
    let mut node = database.start().await;
    let running = database.producers.start(4, Duration::from_millis(8));
    let mut lost = Vec::new();
    for _ in 0..20 {
        database.some_are_accepted().await;
        wire.lose_the_next_answer_to_a_batch();
        lost.push(wait_for("it is lost", WAIT_LIMIT, async || wire.lost_batch()).await);
    }
    // And with the server out of reach for a while after it.
    wire.stay_cut();
    wire.lose_the_next_answer_to_a_batch();
    let last = wait_for("it is lost", WAIT_LIMIT, async || wire.lost_batch()).await;
    lost.push(last);
    wait_until("publishing is refused", WAIT_LIMIT, async || {
        database.producers.sent().refused.contains_key(&503)
    })
    .await;
    let is_another =
        |one: &WriterBatch, next: &WriterBatch| one.epoch == next.epoch && one.number < next.number;
    assert!(lost.is_sorted_by(is_another), "each time it was a batch of the writer: {lost:?}");
    let counted = database.run("SELECT epoch, batch FROM posthaste.writer_batches WHERE writer = 0");
    assert_eq!(counted, format!("{}|{}", last.epoch, last.number), "that was done, and nothing since");
    wire.reconnect();
    let back = database.time_to_recover().await;
    database.producers.finish(running).await;
    let figures = database.finish(&mut node).await;
    report(format_args!("one node, cut after COMMIT: {figures} back={back:?}"));
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert!(back < RECOVERY_LIMIT, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_connection_makes_the_node_slow_but_loses_nothing() {
    let mut database = DatabaseFixture::new("").await;
    let wire = DatabaseProxy::new(&database.server.folder);
    database.home.set("STORE", &address(&wire.folder(), "postgres"));
    let mut node = database.start().await;
    database.producers.publish("before").await;
    wire.delay(Duration::from_secs(2));
    let running = database.producers.start(1, Duration::from_millis(8));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(node.client.get("/livez").await.status, 200);
    wire.delay(Duration::ZERO);
    let back = database.time_to_recover().await;
    database.producers.finish(running).await;
    let figures = database.finish(&mut node).await;
    report(format_args!("one node, 2 s more for every answer: {figures} back={back:?}"));
    figures.assert_faultless();
    assert!(back < RECOVERY_LIMIT, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_round_trip_takes_two_seconds_a_node_keeps_its_lease_and_loses_nothing() {
    let mut database = DatabaseFixture::new("").await;
    let wire = DatabaseProxy::new(&database.server.folder);
    database.home.set("STORE", &address(&wire.folder(), "postgres"));
    let mut node = database.start().await;
    database.producers.publish("near").await;
    let has_come = |id: &str| {
        let receipts = database.receiver.receipts();
        ENDPOINTS.iter().all(|endpoint| {
            let path = format!("/{endpoint}");
            receipts.iter().any(|one| one.path == path && String::from_utf8_lossy(&one.body).contains(id))
        })
    };
    wait_until("what was near has come", WAIT_LIMIT, async || has_come("near")).await;
    let epoch = database.run("SELECT epoch FROM posthaste.nodes");
    let left = "SELECT min(lease_until) - CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) FROM posthaste.nodes";
    wire.delay(Duration::from_secs(2));
    let event = json!({ "id": "far", "type": "thing.happened", "data": { "about": "far" } });
    let (client, begun) = (node.client.clone(), Instant::now());
    // As a producer does: again under the same id, until it is accepted.
    let publishing = tokio::spawn(async move {
        // It may have been stored by an earlier try that was answered 503.
        while !client.try_publish("a", &event).await.is_ok_and(|answer| [200, 202].contains(&answer.status)) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let mut least = i64::MAX;
    while begun.elapsed() < Duration::from_secs(30) {
        least = least.min(database.run(left).parse().unwrap());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    report(format_args!("one node, 2 s for a round trip: least of its lease {least} ms"));
    assert_eq!(database.run("SELECT epoch FROM posthaste.nodes"), epoch, "no node took over");
    assert!(least > 5_000, "{least}");
    assert!(!node.log().contains("nothing is sent until it does"), "{}", node.log());
    wire.delay(Duration::ZERO);
    wait_until("what was far has come", WAIT_LIMIT, async || has_come("far")).await;
    tokio::time::timeout(WAIT_LIMIT, publishing).await.expect("published, or known to be").unwrap();
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_of_the_restarts_a_server_that_does_not_flush_loses_what_it_confirmed() {
    let database = DatabaseFixture::new(NO_BACKGROUND_WRITES).await;
    let mut node = database.start().await;
    // After the node checked the settings, which it would have refused.
    database.server.stop_flushing();
    let running = database.producers.start(4, Duration::from_millis(8));
    database.some_are_accepted().await;
    database.server.crash();
    database.server.start_again();
    let no_promise = "synchronous_commit = off";
    wait_until("the node has seen what it would write to", WAIT_LIMIT, async || {
        node.log().contains(no_promise)
    })
    .await;
    assert_eq!(node.client.get("/readyz").await.status, 503, "it promises nothing more");
    let refused = database.home.spawn(&[], &["serve"]).exited().await;
    assert_eq!(refused.code(), Some(1), "and no node starts there");
    database.server.flush_again();
    let lost = "it lost some that it had confirmed";
    wait_until("the node says so", WAIT_LIMIT, async || node.log().contains(lost)).await;
    node.kill().await;
    let mut node = database.home.start().await;
    database.producers.follow(&node.client);
    database.producers.finish(running).await;
    let figures = database.finish(&mut node).await;
    report(format_args!("control: one node, restart -m immediate: {figures}"));
    assert!(figures.lost + figures.changed + figures.unrecorded > 0, "{figures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_for_its_database_and_refuses_one_that_breaks_its_promise() {
    let mut database = DatabaseFixture::new("-c fsync=off").await;
    let mut node = database.home.spawn(&[], &["serve"]);
    assert_eq!(node.exited().await.code(), Some(1));
    assert!(node.log().contains("fsync = off"), "{}", node.log());

    let secret = "hunter2";
    database.server = TestDatabaseServer::start();
    let address = format!("{}&password={secret}", database.server.address("nobody_made_this"));
    database.home.set("STORE", &address);
    let mut node = database.home.spawn(&[], &["serve"]);
    assert_eq!(node.exited().await.code(), Some(1));
    assert!(node.log().contains("does not exist") && !node.log().contains(secret), "{}", node.log());

    database.home.set("STORE", &database.server.address("postgres"));
    database.home.unset("ENCRYPTION_KEY");
    let mut node = database.home.spawn(&[], &["serve"]);
    assert_eq!(node.exited().await.code(), Some(1));
    assert!(node.log().contains("encryption_key: must be set"), "{}", node.log());

    database.home.set("ENCRYPTION_KEY", crate::harness::ENCRYPTION_KEY);
    database.server.crash();
    let mut node = database.home.spawn(&[], &["serve"]);
    wait_until("it waits", WAIT_LIMIT, async || node.log().contains("cannot be reached")).await;
    assert_eq!(node.stop().await, Some(0), "a waiting node can be stopped");
    let mut node = database.home.spawn(&[], &["serve"]);
    wait_until("it waits", WAIT_LIMIT, async || node.log().contains("cannot be reached")).await;
    database.server.start_again();
    wait_until("it is ready", WAIT_LIMIT, async || node.log().contains("posthaste is ready")).await;
    assert_eq!(node.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_for_a_store_file_are_refused_for_a_database() {
    let database = DatabaseFixture::new("").await;
    let copy = database.home.folder().join("copy.db").display().to_string();
    for (args, instead) in [
        (["backup", copy.as_str()].as_slice(), "pg_dump"),
        (&["restore", &copy], "pg_restore"),
        (&["dev"], "use serve"),
    ] {
        let mut command = database.home.spawn(&[], args);
        assert_eq!(command.exited().await.code(), Some(1), "{args:?}");
        let said = command.log();
        assert!(said.contains("is for a store in a file") && said.contains(instead), "{said}");
    }
    let mut check = database.home.spawn(&[], &["check"]);
    check.exited().await;
    assert!(check.log().contains("is prepared at the first start"), "{}", check.log());
}

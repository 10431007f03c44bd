//! Three nodes, each with a proxy of its own to the database server, producers that publish to all of them in turn, and a receiver.

use super::verdict::{ENDPOINT_LIMITS, FaultOutcome, TAKEN_OVER_WITHIN, Violations};
use crate::{
    checker::{DeliveryFigures, dump_database},
    harness::{
        Behaviour, NodeFolder, TestClient, TestNode, TestReceiver,
        database::{TestDatabaseServer, address},
        database_proxy::DatabaseProxy,
        wait_for, wait_until,
    },
    producer::Producers,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};

pub(super) const WAIT_LIMIT: Duration = Duration::from_mins(1);
/// A delivery that has not ended by then, after publishing stopped, is stuck.
const SETTLED_WITHIN: Duration = Duration::from_secs(40);
/// Pause between queries, each of which starts a process.
const QUERY_INTERVAL: Duration = Duration::from_millis(150);
/// Options with which the server can tell when a row was committed.
pub(super) const OPTIONS: &str = "-c track_commit_timestamp=on";

/// Producers of each of two kinds.
const PRODUCERS: usize = 3;
/// Events of this type have no ordering group, so that a node may write many of them as one statement.
pub(super) const PLAIN: &str = "thing.plain";
const PRODUCER_PAUSE: Duration = Duration::from_millis(100);
/// Events per burst for the endpoint with a rate, and the pause until the next.
const BURST_EVENTS: usize = 24;
const BURST_INTERVAL: Duration = Duration::from_millis(2500);

pub(super) struct TestMember {
    pub(super) home: NodeFolder,
    pub(super) node: TestNode,
}

impl TestMember {
    async fn start(number: usize, store: &str) -> Self {
        let mut home = NodeFolder::new();
        home.set("STORE", &format!("{store}&application_name=node-{number}"));
        let node = home.start().await;
        Self { home, node }
    }
}

pub(super) struct ClusterFixture {
    pub(super) server: Arc<TestDatabaseServer>,
    pub(super) receiver: TestReceiver,
    pub(super) producers: Producers,
    /// A database proxy for each node, unless the fixture was made without.
    pub(super) wires: Vec<DatabaseProxy>,
    pub(super) members: Vec<TestMember>,
    /// The figures at the end of the last fault.
    before: DeliveryFigures,
}

/// Returns the shards of a node from `GET /v1/system`.
pub(super) fn shards_of(system: &Value, epoch: i64) -> Option<u64> {
    let nodes = system["nodes"].as_array().unwrap();
    let epoch = json!(epoch.to_string());
    nodes.iter().find(|node| node["epoch"] == epoch)?["shards"].as_u64()
}

impl ClusterFixture {
    /// Starts the fixture with options for the server.
    pub(super) async fn set(options: &str) -> Self {
        let server = TestDatabaseServer::with_options(&format!("{OPTIONS} {options}"));
        let wires = [(); 3].map(|()| DatabaseProxy::new(&server.folder));
        let stores = wires.each_ref().map(|wire| address(&wire.folder(), "postgres"));
        Self::on(Arc::new(server), stores, Vec::from(wires)).await
    }

    /// Starts a node for each of these addresses of the server. The server knows each node's connections by its
    /// number.
    pub(super) async fn on(
        server: Arc<TestDatabaseServer>,
        stores: [String; 3],
        wires: Vec<DatabaseProxy>,
    ) -> Self {
        // Concurrently: one of them prepares the database, the others wait for it.
        let [one, two, three] = &stores;
        let started =
            tokio::join!(TestMember::start(0, one), TestMember::start(1, two), TestMember::start(2, three));
        let members = vec![started.0, started.1, started.2];
        let producers = Producers::with_timing(Duration::from_secs(1), Duration::from_millis(200));
        let receiver = TestReceiver::start().await;
        let fixture =
            Self { server, receiver, producers, wires, members, before: DeliveryFigures::default() };
        fixture.create_endpoints().await;
        fixture.follow_all();
        fixture
    }

    /// Creates an endpoint that all nodes send to, one that fails now and then, and one of each kind that only one
    /// node may send to.
    async fn create_endpoints(&self) {
        let client = self.client(0);
        client.make_app("a").await;
        let waits = ["50ms", "100ms", "200ms", "400ms", "800ms", "1s", "1s", "1s", "1s"];
        let retry = json!({ "retry": { "waits": waits, "jitter": "none" } });
        let (slow, narrow) = (Duration::from_millis(200), Duration::from_millis(15));
        for (id, behaviour, more) in [
            ("shared", Behaviour::Slow(slow), json!({})),
            ("shaky", Behaviour::FailEvery(5), json!({})),
            ("ordered", Behaviour::FailEvery(9), json!({ "ordered": "key" })),
            ("narrow", Behaviour::Slow(narrow), json!({ "max_in_flight": ENDPOINT_LIMITS.in_flight })),
            (
                "paced",
                Behaviour::Ok,
                json!({ "rate_limit": { "per_second": ENDPOINT_LIMITS.per_second, "burst": ENDPOINT_LIMITS.burst } }),
            ),
        ] {
            let path = format!("/{id}");
            self.receiver.behave(&path, behaviour);
            let types: &[&str] = match id {
                "paced" => &["thing.paced"],
                "ordered" => &["thing.happened"],
                _ => &["thing.happened", PLAIN],
            };
            let mut endpoint = json!({ "event_types": types, "overrides": retry });
            endpoint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            client.make_endpoint("a", id, &self.receiver.url(&path), endpoint).await;
        }
        for member in 0..self.members.len() {
            let client = self.client(member);
            let knows = async || client.get("/v1/apps/a/endpoints/paced").await.status == 200;
            wait_until("every node knows the endpoints", WAIT_LIMIT, knows).await;
        }
    }

    pub(super) fn client(&self, member: usize) -> TestClient {
        self.members[member].node.client.clone()
    }

    /// Publishes to all nodes from now on.
    pub(super) fn follow_all(&self) {
        self.producers.follow_all((0..self.members.len()).map(|member| self.client(member)).collect());
    }

    /// Starts a node again whose process is gone, and publishes to it too.
    pub(super) async fn start_again(&mut self, member: usize) {
        let member = &mut self.members[member];
        member.node = member.home.start().await;
        self.follow_all();
    }

    /// Starts publishing. Returns when some events were accepted.
    pub(super) async fn load(&self) -> JoinSet<()> {
        let mut running = self.producers.start(PRODUCERS, PRODUCER_PAUSE);
        let plain = self.producers.start_as(PLAIN, PRODUCERS, PRODUCER_PAUSE);
        running.spawn(async move { drop(plain.join_all().await) });
        let (producers, begun) = (self.producers.clone(), self.producers.sent().tried.len());
        running.spawn(async move {
            let mut sequence = 0;
            while !producers.is_over() {
                let mut at_once = JoinSet::new();
                for _ in 0..BURST_EVENTS {
                    let (producers, id) = (producers.clone(), format!("paced{begun}-{sequence}"));
                    at_once.spawn(async move { producers.publish_as(&id, "thing.paced").await });
                    sequence += 1;
                }
                at_once.join_all().await;
                tokio::time::sleep(BURST_INTERVAL).await;
            }
        });
        self.some_are_accepted(60).await;
        running
    }

    pub(super) async fn some_are_accepted(&self, some: usize) {
        let enough = self.producers.sent().accepted.len() + some;
        let more = async || self.producers.sent().accepted.len() >= enough;
        wait_until("some are accepted", WAIT_LIMIT, more).await;
    }

    pub(super) async fn query(&self, sql: &str) -> String {
        query(&self.server, sql).await
    }

    /// Prints the nodes' warnings and the deliveries that have not ended, to find the reason of a failure.
    pub(super) fn show_troubles(&self) {
        for (number, member) in self.members.iter().enumerate() {
            let log = member.node.log();
            let troubles = log.lines().filter(|line| !line.contains("INFO") && !line.contains("\"info\""));
            println!("node {number}: {:#?}", troubles.collect::<Vec<_>>());
        }
        let open =
            "SELECT l, n FROM posthaste.deliveries_open l LEFT JOIN posthaste.nodes n ON n.epoch = -l.queue";
        println!("{}", self.server.run("postgres", open).unwrap());
    }

    /// Runs a blocking operation of the server.
    pub(super) async fn run_on_server(&self, what: fn(&TestDatabaseServer)) {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || what(&server)).await.unwrap();
    }

    pub(super) async fn count(&self, rows: &str) -> usize {
        self.query(&format!("SELECT count(*) FROM posthaste.{rows}")).await.parse().unwrap()
    }

    /// Sends SIGSTOP at a moment without a running transaction of the node.
    pub(super) async fn freeze_at_rest(&self, member: usize) {
        let busy = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'node-{member}' AND state <> 'idle'"
        );
        let node = &self.members[member].node;
        wait_until("it freezes at rest", WAIT_LIMIT, async || {
            node.freeze();
            let is_at_rest = self.query(&busy).await == "0";
            if !is_at_rest {
                node.thaw();
            }
            is_at_rest
        })
        .await;
    }

    pub(super) async fn epoch(&self, member: usize) -> i64 {
        let pid = self.members[member].node.pid();
        let sql = format!("SELECT epoch FROM posthaste.nodes WHERE pid = {pid} AND dead = 0");
        wait_for("the node has joined", WAIT_LIMIT, async || self.query(&sql).await.parse().ok()).await
    }

    /// Counts the deliveries in flight on all nodes.
    pub(super) async fn in_flight(&self) -> usize {
        self.count("deliveries_open WHERE queue < 0").await
    }

    pub(super) async fn in_flight_on(&self, epoch: i64) -> usize {
        self.count(&format!("deliveries_open WHERE queue = -{epoch}")).await
    }

    /// Returns the node that sends to this endpoint, which only one may send to.
    pub(super) async fn owner_of(&self, endpoint: &str) -> usize {
        let sql = format!(
            "SELECT n.pid FROM posthaste.deliveries_open l JOIN posthaste.nodes n ON n.epoch = -l.queue
             JOIN posthaste.endpoints p ON p.id = l.endpoint WHERE p.uid = '{endpoint}' LIMIT 1"
        );
        wait_for("a node has a delivery of it in flight", WAIT_LIMIT, async || {
            let pid = self.query(&sql).await;
            self.members.iter().position(|member| member.node.pid().to_string() == pid)
        })
        .await
    }

    /// Waits until the others have taken this node over, and returns the time since `begun`. Waits a little longer
    /// than they may take.
    pub(super) async fn taken_over(&self, epoch: i64, by: usize, begun: Instant) -> Duration {
        let client = self.client(by);
        while begun.elapsed() < TAKEN_OVER_WITHIN + Duration::from_secs(2) {
            let system = client.get("/v1/system").await.expect(200);
            if shards_of(&system, epoch).is_none() {
                break;
            }
            tokio::time::sleep(QUERY_INTERVAL).await;
        }
        begun.elapsed()
    }

    /// Waits until every node accepts events, and returns how long that took.
    pub(super) async fn all_are_back(&self) -> Duration {
        let begun = Instant::now();
        for member in 0..self.members.len() {
            let client = self.client(member);
            wait_until("a node takes events", WAIT_LIMIT, async || {
                let event = json!({ "type": "thing.else", "data": 1 });
                client.try_publish("a", &event).await.is_ok_and(|answer| answer.status == 202)
            })
            .await;
        }
        begun.elapsed()
    }

    /// Waits until the nodes share the shards evenly, and returns how long that took.
    pub(super) async fn is_shared_evenly(&self, among: &[usize]) -> Duration {
        let begun = Instant::now();
        let fair = 256_u64.div_ceil(among.len() as u64);
        wait_until("every node has its part", WAIT_LIMIT, async || {
            let system = self.client(among[0]).get("/v1/system").await.expect(200);
            let nodes = system["nodes"].as_array().unwrap();
            let parts: Vec<u64> = nodes.iter().filter_map(|node| node["shards"].as_u64()).collect();
            let is_so = parts.len() == among.len()
                && parts.iter().sum::<u64>() == 256
                && parts.iter().all(|part| *part <= fair);
            if !is_so {
                tokio::time::sleep(QUERY_INTERVAL).await;
            }
            is_so
        })
        .await;
        begun.elapsed()
    }

    /// Ends the load, waits for its deliveries, and returns the verdict.
    pub(super) async fn verdict(&mut self, fault: &'static str, load: JoinSet<()>) -> FaultOutcome {
        self.producers.finish(load).await;
        let begun = Instant::now();
        while begun.elapsed() < SETTLED_WITHIN && self.count("deliveries_open WHERE state < 4").await > 0 {
            tokio::time::sleep(QUERY_INTERVAL).await;
        }
        let applied = begun.elapsed();
        let rows = dump_database(&self.server);
        let figures = DeliveryFigures::of(&self.producers.sent(), &self.receiver.receipts(), &rows);
        let totals = Violations::of(&self.receiver, &self.server);
        let mut verdict = FaultOutcome::new(fault, &self.before, &figures, totals, applied);
        if !self.wires.is_empty() {
            // The server numbers the statements of a transaction; in one with several statements the first writes no
            // event.
            verdict.single_statement_events = Some(self.count("events WHERE cmin = '0'").await);
        }
        self.before = figures;
        verdict
    }
}

async fn query(server: &Arc<TestDatabaseServer>, sql: &str) -> String {
    let (server, sql) = (server.clone(), sql.to_owned());
    tokio::task::spawn_blocking(move || server.run("postgres", &sql).unwrap()).await.unwrap()
}

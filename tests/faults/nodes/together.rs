//! Three nodes behave as one: changes at one node are known to all, each shows the state of all, an event published to all exists
//! once, a replay runs once, and nodes that join or leave get and release their shards.

use super::fixture::{ClusterFixture, WAIT_LIMIT};
use crate::harness::{ADMIN_KEY, Behaviour, TestClient, report, wait_for, wait_until};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};

const KNOWN_WITHIN: Duration = Duration::from_secs(1);
const LIVE_UPDATE_LIMIT: Duration = Duration::from_secs(10);
const EVENTS: usize = 40;
/// Duration of each request to the endpoint with a backlog.
const SLOW_REQUEST: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_behave_as_one_to_a_client_of_any_of_them() {
    let mut fixture = ClusterFixture::set("").await;
    every_node_shows_all(&fixture).await;
    let slowest = changes_are_known_to_all(&fixture).await;
    report(format_args!("three nodes, the slowest change was known to all after {slowest:?}"));
    assert!(slowest < KNOWN_WITHIN, "{slowest:?}");
    a_frozen_node_lags(&fixture).await;
    changes_at_one_node_reach_clients_of_another(&fixture).await;
    overdue_deliveries_are_shown_by_all(&fixture).await;
    one_id_is_one_event(&fixture).await;
    a_replay_runs_once(&fixture).await;
    a_leaving_node_releases_its_deliveries(&mut fixture).await;
}

async fn every_node_shows_all(fixture: &ClusterFixture) {
    fixture.is_shared_evenly(&[0, 1, 2]).await;
    for member in 0..3 {
        let (own, client) = (fixture.epoch(member).await.to_string(), fixture.client(member));
        let system = wait_for("all have seen the same configuration", WAIT_LIMIT, async || {
            let system = client.get("/v1/system").await.expect(200);
            system["nodes"].as_array().unwrap().iter().all(|node| node["lag"] == 0).then_some(system)
        })
        .await;
        let nodes = system["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 3, "{system:#}");
        let this: Vec<&Value> = nodes.iter().filter(|node| node["this"] == true).collect();
        assert!(this.len() == 1 && this[0]["epoch"] == own, "{system:#}");
        for node in nodes {
            assert!(node["lease_ms"].as_u64().unwrap() > 5000, "{node:#}");
            assert!(node["free_hands"].as_u64().unwrap() > 0, "{node:#}");
        }
    }
}

/// Waits until all of these nodes know a change, and returns how long that took.
async fn known(clients: &[TestClient], is_known: impl AsyncFn(&TestClient) -> bool) -> Duration {
    let begun = Instant::now();
    for client in clients {
        wait_until("another node knows", WAIT_LIMIT, async || is_known(client).await).await;
    }
    begun.elapsed()
}

/// Creates, changes and removes an endpoint, creates and revokes a key, each at another node. Returns the slowest time until
/// all nodes know.
async fn changes_are_known_to_all(fixture: &ClusterFixture) -> Duration {
    let clients: Vec<TestClient> = (0..3).map(|member| fixture.client(member)).collect();
    let none = json!({ "event_types": ["nothing.of_this"] });
    let mut slowest = Duration::ZERO;
    for round in 0..5 {
        let at = |number: usize| &clients[(round + number) % 3];
        let id = format!("late-{round}");
        let path = format!("/v1/apps/a/endpoints/{id}");
        let status = async |client: &TestClient| client.get(&path).await.status;
        at(0).make_endpoint("a", &id, &fixture.receiver.url("/late"), none.clone()).await;
        slowest = slowest.max(known(&clients, async |client| status(client).await == 200).await);
        at(1).patch(&path, &json!({ "event_types": ["something.else"] })).await.expect(200);
        let is_changed =
            async |client: &TestClient| client.get(&path).await.json()["event_types"][0] == "something.else";
        slowest = slowest.max(known(&clients, is_changed).await);
        let key = at(2).post("/v1/keys", &json!({ "scope": "app", "app_id": "a" })).await.expect(201);
        let text = key["key"].as_str().unwrap();
        let with_key: Vec<TestClient> = clients.iter().map(|client| client.with_key(text)).collect();
        slowest = slowest.max(known(&with_key, async |client| status(client).await == 200).await);
        at(0).delete(&format!("/v1/keys/{}", key["id"].as_str().unwrap())).await.expect(204);
        slowest = slowest.max(known(&with_key, async |client| status(client).await == 401).await);
        at(1).delete(&path).await.expect(204);
        slowest = slowest.max(known(&clients, async |client| status(client).await == 404).await);
    }
    slowest
}

/// A frozen node misses the others' changes, which shows as its lag, and catches up soon after it continues.
async fn a_frozen_node_lags(fixture: &ClusterFixture) {
    let (still, path) = (2, "/v1/apps/a/endpoints/shared");
    let (changes, looks) = (fixture.client(0), fixture.client(1));
    let epoch = fixture.epoch(still).await;
    let none = wait_for("all have seen everything", WAIT_LIMIT, async || {
        let lags = lags(&looks).await;
        (lags.len() == 3 && lags.values().all(|lag| *lag == 0)).then_some(lags)
    })
    .await;
    fixture.freeze_at_rest(still).await;
    // However long this takes, no node takes over from it.
    let later = format!("UPDATE posthaste.nodes SET lease_until = lease_until + 60000 WHERE epoch = {epoch}");
    fixture.query(&later).await;
    for description in ["one", "two"] {
        changes.patch(path, &json!({ "description": description })).await.expect(200);
    }
    let mut two = none.clone();
    two.insert(epoch.to_string(), 2);
    wait_until("one has missed two changes", WAIT_LIMIT, async || lags(&looks).await == two).await;
    fixture.members[still].node.thaw();
    wait_until("it has caught up", WAIT_LIMIT, async || lags(&looks).await == none).await;
    assert_eq!(fixture.client(still).get(path).await.expect(200)["description"], "two");
}

/// Returns the lag of each node in changes, by its epoch, as this node shows it.
async fn lags(client: &TestClient) -> HashMap<String, i64> {
    let system = client.get("/v1/system").await.expect(200);
    let nodes = system["nodes"].as_array().unwrap().iter();
    nodes.map(|node| (node["epoch"].as_str().unwrap().to_owned(), node["lag"].as_i64().unwrap())).collect()
}

/// A client that watches at one node gets a live update when another node accepted an event.
async fn changes_at_one_node_reach_clients_of_another(fixture: &ClusterFixture) {
    let mut watching = EventStreamClient::open(&fixture.client(0), "/v1/apps/a/stream").await;
    let begun = Instant::now();
    fixture.client(1).publish("a", &json!({ "type": "nothing.of_this", "data": 1 })).await;
    watching.wait_for_text("event: lagged").await;
    let delay = begun.elapsed();
    report(format_args!("three nodes, told at another one after {delay:?}"));
    assert!(delay < LIVE_UPDATE_LIMIT, "{delay:?}");
}

/// A client of the event stream.
struct EventStreamClient(TcpStream);

impl EventStreamClient {
    async fn open(client: &TestClient, path: &str) -> Self {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN_KEY}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut tail = Self(stream);
        tail.wait_for_text("\n:\n\n").await;
        tail
    }

    async fn wait_for_text(&mut self, words: &str) {
        let mut delay = Vec::new();
        wait_until("the live update comes", WAIT_LIMIT, async || {
            let read = timeout(WAIT_LIMIT, self.0.read_buf(&mut delay)).await.unwrap();
            assert!(read.unwrap() > 0, "it ended");
            String::from_utf8_lossy(&delay).contains(words)
        })
        .await;
    }
}

/// An endpoint that takes one request at a time, slowly: only its shard's owner sends to it, and every node shows the
/// oldest overdue delivery.
async fn overdue_deliveries_are_shown_by_all(fixture: &ClusterFixture) {
    let clients: Vec<TestClient> = (0..3).map(|member| fixture.client(member)).collect();
    fixture.receiver.behave("/behind", Behaviour::Slow(SLOW_REQUEST));
    let one_by_one = json!({ "event_types": ["thing.slow"], "max_in_flight": 1 });
    clients[0].make_endpoint("a", "behind", &fixture.receiver.url("/behind"), one_by_one).await;
    let path = "/v1/apps/a/endpoints/behind";
    known(&clients, async |client| client.get(path).await.status == 200).await;
    for n in 0..EVENTS {
        clients[n % 3].publish("a", &json!({ "type": "thing.slow", "data": n })).await;
    }
    wait_until("one is on its way", WAIT_LIMIT, async || fixture.receiver.open_at("/behind") == 1).await;
    let named = |one: &Value, due: &str, id: &str| {
        ["endpoint_id", due, id].map(|field| one[field].as_str().unwrap_or_default().to_owned())
    };
    wait_until("every node names what waits longest", WAIT_LIMIT, async || {
        let waiting = clients[0].list("/v1/apps/a/deliveries?status=pending&endpoint_id=behind").await;
        let first = waiting.iter().map(|one| named(one, "next_attempt_at", "id")).min();
        let shown = overdue(&clients).await;
        first.is_some_and(|first| shown.iter().all(|one| named(one, "due_at", "delivery_id") == first))
    })
    .await;
    fixture.receiver.behave("/behind", Behaviour::Ok);
    let is_none = async || overdue(&clients).await.iter().all(Value::is_null);
    wait_until("none is overdue", WAIT_LIMIT, is_none).await;
}

/// Returns the oldest overdue delivery as each of these nodes shows it.
async fn overdue(clients: &[TestClient]) -> Vec<Value> {
    let mut shown = Vec::new();
    for client in clients {
        shown.push(client.get("/v1/system").await.expect(200)["oldest_overdue"].clone());
    }
    shown
}

/// Publishes the same id at all nodes at the same moment.
async fn one_id_is_one_event(fixture: &ClusterFixture) {
    for n in 0..EVENTS {
        let event = json!({ "id": format!("same-{n}"), "key": "same", "type": "thing.happened", "data": n });
        let mut publishing = JoinSet::new();
        for member in 0..3 {
            let (client, event) = (fixture.client(member), event.clone());
            publishing.spawn(async move { client.try_publish("a", &event).await.unwrap() });
        }
        let answers = publishing.join_all().await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 202], "{answers:?}");
        let deliveries = answers.iter().map(|answer| answer.json()["deliveries"].clone());
        assert_eq!(deliveries.collect::<HashSet<_>>().len(), 1, "{answers:?}");
    }
    let stored = fixture.count("events WHERE external_id LIKE 'same-%'").await;
    assert_eq!(stored, EVENTS);
    let received = async || fixture.receiver.receipts_at("/narrow").len() == EVENTS;
    wait_until("each is received once", WAIT_LIMIT, received).await;
}

async fn a_replay_runs_once(fixture: &ClusterFixture) {
    let pending = async || fixture.count("deliveries_open WHERE state < 4").await == 0;
    wait_until("everything is delivered", WAIT_LIMIT, pending).await;
    let body = json!({ "endpoint_id": "narrow", "status": ["delivered"], "per_second": 1000 });
    let replay = fixture.client(2).post("/v1/apps/a/replays", &body).await.expect(201);
    let path = format!("/v1/apps/a/replays/{}", replay["id"].as_str().unwrap());
    for member in 0..3 {
        let client = fixture.client(member);
        let done = wait_for("the replay is finished", WAIT_LIMIT, async || {
            let replay = client.get(&path).await.expect(200);
            (replay["state"] == "finished").then_some(replay)
        });
        assert_eq!(done.await["replayed"], EVENTS);
    }
    wait_until("everything is delivered", WAIT_LIMIT, pending).await;
    let mut times: HashMap<String, usize> = HashMap::new();
    for receipt in fixture.receiver.receipts_at("/narrow") {
        *times.entry(receipt.id().to_owned()).or_default() += 1;
    }
    assert!(times.len() == EVENTS && times.values().all(|times| *times == 2), "{times:?}");
}

/// A node leaves with only waiting deliveries: all of them are sent once, by others, and have no attempt of the node
/// that left.
async fn a_leaving_node_releases_its_deliveries(fixture: &mut ClusterFixture) {
    for n in 0..EVENTS {
        let event = json!({ "id": format!("turn-{n}"), "key": "turn", "type": "thing.paced", "data": n });
        fixture.client(n % 3).publish("a", &event).await;
    }
    let leaves = fixture.owner_of("paced").await;
    let epoch = fixture.epoch(leaves).await;
    let had = fixture.in_flight_on(epoch).await;
    assert_eq!(fixture.members[leaves].node.stop().await, Some(0));
    assert_eq!(fixture.in_flight_on(epoch).await, 0);
    let left = EVENTS - fixture.receiver.receipts_at("/paced").len();
    println!("a node that had {had} left when {left} were still to be sent");
    assert!(left > 0, "it left nothing to be sent");
    let others = [(leaves + 1) % 3, (leaves + 2) % 3];
    let taken = fixture.is_shared_evenly(&others).await;
    let received = async || fixture.receiver.receipts_at("/paced").len() >= EVENTS;
    wait_until("all are received", WAIT_LIMIT, received).await;
    let pending = async || fixture.count("deliveries_open WHERE state < 4").await == 0;
    wait_until("everything is delivered", WAIT_LIMIT, pending).await;
    let unknown = fixture.count("attempts WHERE class = 9").await;
    report(format_args!("three nodes, the shards of one that left were taken after {taken:?}"));
    assert_eq!((fixture.receiver.receipts_at("/paced").len(), unknown), (EVENTS, 0));
}

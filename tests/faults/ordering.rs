//! Order over many keys, through kills and a receiver that fails at first: in each ordering group no event arrives
//! before its predecessor was accepted, no event is lost, and no group stands still.

use crate::{
    checker::count_in_flight,
    harness::{Behaviour, NodeFolder, ReceivedWebhook, TestClient, TestNode, TestReceiver, wait_until},
};
use http::Method;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

const BATCH: usize = 1000;
const BEFORE_ANOTHER_TRY: Duration = Duration::from_millis(10);
/// Each event numbered so is refused when it arrives for the first time: about one in this many.
const FAILS_ONE_IN: usize = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_over_ten_thousand_keys_through_kills_and_failures() {
    let load =
        Load { keys: 10_000, rounds: 3, whole: 600, kills: 10, settled_within: Duration::from_mins(2) };
    keep_order(load, 20_261_116).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a million ordered events with a hundred kills take about ten minutes"]
async fn order_is_kept_over_a_million_events_through_kills_and_failures() {
    let seed = fastrand::Rng::new().u64(..);
    let load = Load {
        keys: 10_000,
        rounds: 100,
        whole: 10_000,
        kills: 100,
        settled_within: Duration::from_hours(1),
    };
    keep_order(load, seed).await;
}

#[derive(Clone, Copy)]
struct Load {
    keys: usize,
    /// Events of each key.
    rounds: usize,
    /// Events of the endpoint that is ordered as a whole.
    whole: usize,
    kills: usize,
    settled_within: Duration,
}

async fn keep_order(load: Load, seed: u64) {
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (home, receiver, book) = (NodeFolder::new(), TestReceiver::start().await, Arc::new(Mutex::default()));
    for path in ["/keyed", "/whole"] {
        receiver.behave(path, recording_behaviour(book.clone()));
    }
    let mut node = home.start().await;
    set_up(&node, &receiver).await;
    let current_node = CurrentNode::default();
    current_node.follow(&node.client);
    let publishing = tokio::spawn(publish_all(current_node.clone(), load));
    let mut interrupted = 0;
    for _ in 0..load.kills {
        tokio::time::sleep(Duration::from_millis(random.u64(100..1500))).await;
        node.kill().await;
        interrupted += count_in_flight(&home.store());
        node = home.start().await;
        current_node.follow(&node.client);
    }
    publishing.await.unwrap();
    let events = load.keys * load.rounds + load.whole;
    wait_until("every event was accepted", load.settled_within, async || lock(&book).taken.len() == events)
        .await;
    assert_eq!(node.stop().await, Some(0));

    let stored = StoredCounts::read(&home.store());
    let book = lock(&book);
    let duplicates: usize = book.taken.values().map(|times| times - 1).sum();
    println!(
        "events={events} kills={} requests={} refused={} dup={duplicates} in_flight_at_kills={interrupted} {stored:?}",
        load.kills, book.requests, book.refused
    );
    assert!(book.inversions.is_empty(), "{:?}", book.inversions);
    let expected =
        StoredCounts { deliveries: events, delivered: events, in_ordering_group: 0, unknown: interrupted };
    assert_eq!(stored, expected, "nothing lost, nothing stuck");
    assert!(duplicates <= interrupted, "only what was in flight at a kill comes twice");
    assert!(
        interrupted > 0 && book.refused > events / FAILS_ONE_IN / 2,
        "too little happened to show anything"
    );
}

async fn set_up(node: &TestNode, receiver: &TestReceiver) {
    node.client.make_app("a").await;
    let overrides = json!({ "retry": { "waits": vec!["50ms"; 20], "jitter": "none" } });
    for (id, ordered, types) in [("keyed", "key", "order.*"), ("whole", "endpoint", "audit.*")] {
        let more = json!({ "ordered": ordered, "event_types": [types], "overrides": overrides });
        let made = node.client.make_endpoint("a", id, &receiver.url(&format!("/{id}")), more).await;
        assert_eq!((&made["ordered"], &made["on_dead"]), (&json!(ordered), &json!("block")));
    }
}

/// Requests of the receiver, by ordering group.
#[derive(Default)]
struct ArrivalLog {
    requests: usize,
    refused: usize,
    /// The newest event of each ordering group that has arrived.
    newest: HashMap<String, usize>,
    /// How often each event was accepted.
    taken: HashMap<String, usize>,
    inversions: Vec<String>,
}

fn lock(book: &Mutex<ArrivalLog>) -> MutexGuard<'_, ArrivalLog> {
    book.lock().unwrap()
}

fn recording_behaviour(book: Arc<Mutex<ArrivalLog>>) -> Behaviour {
    Behaviour::Decide(Arc::new(move |receipt: &ReceivedWebhook| Some(lock(&book).record(receipt.id()))))
}

impl ArrivalLog {
    /// Checks that the event before this one was accepted, and that no later one has arrived, not even to be refused.
    fn record(&mut self, id: &str) -> u16 {
        let (line, number) = id.rsplit_once('-').unwrap();
        let number: usize = number.parse().unwrap();
        let is_taken = |number: usize| self.taken.contains_key(&format!("{line}-{number}"));
        let newest = self.newest.get(line).copied().unwrap_or_default();
        if number < newest || (number > 0 && !is_taken(number - 1)) {
            self.inversions.push(format!("{id} when {newest} was the newest"));
        }
        let is_new = self.newest.insert(line.to_owned(), number.max(newest)) != Some(number);
        self.requests += 1;
        let is_refused = is_new && (line.len() + number + self.requests).is_multiple_of(FAILS_ONE_IN);
        if is_refused {
            self.refused += 1;
            return 500;
        }
        *self.taken.entry(id.to_owned()).or_default() += 1;
        200
    }
}

/// The node to publish to.
#[derive(Clone, Default)]
struct CurrentNode(Arc<Mutex<Option<TestClient>>>);

impl CurrentNode {
    fn follow(&self, client: &TestClient) {
        *self.0.lock().unwrap() = Some(client.clone());
    }

    /// Publishes again and again until every event is known to be accepted.
    async fn publish(&self, events: &[Value]) {
        let body = json!({ "events": events }).to_string();
        loop {
            let client = self.0.lock().unwrap().clone().unwrap();
            let answer = client.send(Method::POST, "/v1/apps/a/events/batch", &[], body.clone()).await;
            if let Ok(answer) = answer
                && answer.status == 200
                && answer.json()["data"].as_array().unwrap().iter().all(is_accepted)
            {
                return;
            }
            tokio::time::sleep(BEFORE_ANOTHER_TRY).await;
        }
    }
}

fn is_accepted(answer: &Value) -> bool {
    matches!(answer["status"].as_u64(), Some(200 | 202))
}

/// Publishes batch after batch: no two events of an ordering group are published at the same time.
async fn publish_all(current_node: CurrentNode, load: Load) {
    let audits: Vec<Value> = (0..load.whole).map(|n| event("audit.written", "whole", n, &json!(n))).collect();
    let mut audits = audits.chunks(load.whole.div_ceil(load.rounds));
    for round in 0..load.rounds {
        if let Some(audits) = audits.next() {
            current_node.publish(audits).await;
        }
        for first in (0..load.keys).step_by(BATCH) {
            let keys = first..(first + BATCH).min(load.keys);
            let line =
                |key: usize| event("order.changed", &format!("keyed-{key}"), round, &json!({ "key": key }));
            current_node.publish(&keys.map(line).collect::<Vec<_>>()).await;
        }
    }
}

fn event(event_type: &str, line: &str, number: usize, data: &Value) -> Value {
    json!({ "id": format!("{line}-{number}"), "type": event_type, "key": line, "data": data })
}

/// The contents of the store of a stopped process.
#[derive(Debug, PartialEq, Eq)]
struct StoredCounts {
    deliveries: usize,
    delivered: usize,
    /// Deliveries still in an ordering group.
    in_ordering_group: usize,
    /// Attempts of unknown outcome.
    unknown: usize,
}

impl StoredCounts {
    fn read(store: &Path) -> Self {
        let store = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let count = |rows: &str| {
            let sql = format!("SELECT count(*) FROM {rows}");
            store.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap() as usize
        };
        Self {
            deliveries: count("deliveries"),
            delivered: count("deliveries WHERE state = 4"),
            in_ordering_group: count("deliveries WHERE ordering_key IS NOT NULL"),
            unknown: count("attempts WHERE class = 9"),
        }
    }
}

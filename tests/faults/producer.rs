//! Producers that publish under their own ids until stopped, and retry an id until it is accepted: after an unknown
//! outcome they publish again under the same id, on the current node, or with several nodes on the next one.

use crate::harness::{TestAnswer, TestClient};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const PUBLISH_RETRY_PAUSE: Duration = Duration::from_millis(10);
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// The producers' records: the ids they tried, and the answers.
#[derive(Default)]
pub(crate) struct PublishLog {
    pub(crate) tried: HashSet<String>,
    /// The answer's `deliveries` for each id.
    pub(crate) accepted: HashMap<String, Value>,
    /// Ids that were answered with another event than before.
    pub(crate) changed: Vec<String>,
    /// How often an outcome was unknown.
    pub(crate) unknown: usize,
    /// Refusals, by status.
    pub(crate) refused: HashMap<u16, usize>,
}

#[derive(Clone)]
pub(crate) struct Producers {
    sent: Arc<Mutex<PublishLog>>,
    nodes: Arc<Mutex<Vec<TestClient>>>,
    /// Counts tries, which go to one node after the other.
    tries: Arc<AtomicUsize>,
    rounds: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    patience: Duration,
    before_another_try: Duration,
}

impl Default for Producers {
    fn default() -> Self {
        Self::with_timing(PUBLISH_TIMEOUT, PUBLISH_RETRY_PAUSE)
    }
}

impl Producers {
    /// Makes producers that wait this long for an answer, and this long before they try again.
    pub(crate) fn with_timing(patience: Duration, before_another_try: Duration) -> Self {
        Self {
            sent: Arc::default(),
            nodes: Arc::default(),
            tries: Arc::default(),
            rounds: Arc::default(),
            is_over: Arc::default(),
            patience,
            before_another_try,
        }
    }

    /// Sets the node to publish to.
    pub(crate) fn follow(&self, client: &TestClient) {
        self.follow_all(vec![client.clone()]);
    }

    /// Sets the nodes to publish to, in turn.
    pub(crate) fn follow_all(&self, clients: Vec<TestClient>) {
        *self.nodes.lock().unwrap() = clients;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self) -> MutexGuard<'_, PublishLog> {
        self.sent.lock().unwrap()
    }

    /// Starts `count` producers, each with `pause` between its events. Each has an ordering group of its own: ids that end
    /// in a number, published one after the other under one key.
    pub(crate) fn start(&self, count: usize, pause: Duration) -> JoinSet<()> {
        self.start_as("thing.happened", count, pause)
    }

    pub(crate) fn start_as(&self, event_type: &'static str, count: usize, pause: Duration) -> JoinSet<()> {
        self.is_over.store(false, Ordering::Relaxed);
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let mut running = JoinSet::new();
        for number in 0..count {
            let producer = self.clone();
            running.spawn(async move {
                let mut sequence = 0;
                while !producer.is_over() {
                    let id = |sequence: usize| format!("run{round}-{number}-{sequence}");
                    producer.publish_as(&id(sequence), event_type).await;
                    // Now and then an id that was accepted long ago: the same event must be returned.
                    if sequence % 10 == 9 {
                        producer.publish_as(&id(sequence / 2), event_type).await;
                    }
                    sequence += 1;
                    tokio::time::sleep(pause).await;
                }
            });
        }
        running
    }

    /// Lets every producer finish its current id, and waits for them.
    pub(crate) async fn finish(&self, running: JoinSet<()>) {
        self.is_over.store(true, Ordering::Relaxed);
        running.join_all().await;
    }

    /// Tries until the event is accepted.
    pub(crate) async fn publish(&self, id: &str) {
        self.publish_as(id, "thing.happened").await;
    }

    pub(crate) async fn publish_as(&self, id: &str, event_type: &str) {
        let event = self.event(id, event_type);
        loop {
            let client = self.next_node();
            let answered = tokio::time::timeout(self.patience, client.try_publish("a", &event)).await;
            if self.sent().note(id, answered.unwrap_or_else(|late| Err(late.into()))) {
                return;
            }
            tokio::time::sleep(self.before_another_try).await;
        }
    }

    /// Makes an event and records its id as tried.
    pub(crate) fn event(&self, id: &str, event_type: &str) -> Value {
        self.sent().tried.insert(id.to_owned());
        let line = id.rsplit_once('-').map_or(id, |(line, _)| line);
        let data = json!({ "about": id, "filler": "x".repeat(200) });
        json!({ "id": id, "type": event_type, "key": line, "data": data })
    }

    fn next_node(&self) -> TestClient {
        let nodes = self.nodes.lock().unwrap();
        nodes[self.tries.fetch_add(1, Ordering::Relaxed) % nodes.len()].clone()
    }
}

impl PublishLog {
    /// Records an answer. Returns whether the event is accepted.
    pub(crate) fn note(&mut self, id: &str, answered: io::Result<TestAnswer>) -> bool {
        let answer = match answered {
            Ok(answer) if answer.status == 202 || answer.status == 200 => answer,
            Ok(answer) => {
                *self.refused.entry(answer.status).or_default() += 1;
                return false;
            }
            Err(_) => {
                self.unknown += 1;
                return false;
            }
        };
        let event = answer.json();
        assert_eq!(event["id"], id);
        let deliveries = event["deliveries"].clone();
        let before = self.accepted.insert(id.to_owned(), deliveries.clone());
        // 202 twice for one id would be two events.
        if before.is_some_and(|before| before != deliveries || answer.status == 202) {
            self.changed.push(id.to_owned());
        }
        true
    }
}

//! Producers that publish under their own ids until told to stop, and never give an id up: an unknown outcome is tried
//! again under the same id, on whatever node runs by then.

use crate::harness::{Answer, Client};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const BEFORE_ANOTHER_TRY: Duration = Duration::from_millis(10);

/// What producers know: which ids they tried, and what was answered 2xx.
#[derive(Default)]
pub(crate) struct Sent {
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

#[derive(Clone, Default)]
pub(crate) struct Producers {
    sent: Arc<Mutex<Sent>>,
    node: Arc<Mutex<Option<Client>>>,
    is_over: Arc<AtomicBool>,
}

impl Producers {
    /// Where to publish from now on.
    pub(crate) fn follow(&self, client: &Client) {
        *self.node.lock().unwrap() = Some(client.clone());
    }

    pub(crate) fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap()
    }

    /// Starts so many producers, each with `pause` between its events.
    pub(crate) fn start(&self, count: usize, pause: Duration) -> JoinSet<()> {
        let mut running = JoinSet::new();
        for number in 0..count {
            let producer = self.clone();
            running.spawn(async move {
                let mut sequence = 0;
                while !producer.is_over.load(Ordering::Relaxed) {
                    let id = format!("run-{number}-{sequence}");
                    producer.publish(&id).await;
                    // Now and then an id that is long settled: the same event must come back.
                    if sequence % 10 == 9 {
                        producer.publish(&format!("run-{number}-{}", sequence / 2)).await;
                    }
                    sequence += 1;
                    tokio::time::sleep(pause).await;
                }
            });
        }
        running
    }

    /// Lets every producer settle the id it is at, and waits for them.
    pub(crate) async fn finish(&self, running: JoinSet<()>) {
        self.is_over.store(true, Ordering::Relaxed);
        running.join_all().await;
    }

    /// Tries until the event is accepted.
    pub(crate) async fn publish(&self, id: &str) {
        self.sent().tried.insert(id.to_owned());
        let event =
            json!({ "id": id, "type": "thing.happened", "data": { "about": id, "filler": "x".repeat(200) } });
        loop {
            let node = self.node.lock().unwrap().clone();
            let Some(client) = node else { continue };
            let answered = client.try_publish("a", &event).await;
            if self.sent().note(id, answered) {
                return;
            }
            tokio::time::sleep(BEFORE_ANOTHER_TRY).await;
        }
    }
}

impl Sent {
    /// Whether the event is accepted.
    fn note(&mut self, id: &str, answered: io::Result<Answer>) -> bool {
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

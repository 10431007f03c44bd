//! A receiver whose paths each behave as a test configures, and a log of all requests that reached it.

use super::receiver_connection::ReceiverConnection;
use bytes::Bytes;
use std::{
    collections::HashMap,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::Instant,
};

/// How a path answers each request, after having read all of it.
#[derive(Clone)]
pub(crate) enum Behaviour {
    Ok,
    Status(u16),
    /// The first requests for each event get this status, the next ones 200.
    FailFirst {
        times: usize,
        status: u16,
    },
    /// Each n-th request gets 500.
    FailEvery(usize),
    Slow(Duration),
    /// Sends nothing until the sender closes the connection.
    Hang,
    /// A good head, then a byte of the body now and then, for ever.
    Drip(Duration),
    Reset,
    /// These bytes as they are; then the connection is closed.
    Bytes(Bytes),
    /// The script handles the connection.
    Script(ConnectionScript),
    /// Calls a function with the request, and answers with the status it returns.
    Decide(AnswerFn),
}

pub(crate) type ConnectionScript = fn(ReceiverConnection) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns the status of the answer; with `None` the connection stays silent until the sender closes it.
pub(crate) type AnswerFn = Arc<dyn Fn(&ReceivedWebhook) -> Option<u16> + Send + Sync>;

/// A request that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedWebhook {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Bytes,
    pub(crate) at: Instant,
    /// The status that was sent back in full.
    pub(crate) answered: Option<u16>,
}

impl ReceivedWebhook {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The id of the event under the contract `standard`.
    pub(crate) fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

/// Cheap to clone; clones share the log.
#[derive(Clone)]
pub(crate) struct TestReceiver {
    pub(crate) address: SocketAddr,
    bodies: Arc<Mutex<ReceiverLog>>,
}

#[derive(Default)]
struct ReceiverLog {
    behaviours: HashMap<String, Behaviour>,
    receipts: Vec<ReceivedWebhook>,
    /// How often each event came, by path and id.
    seen: HashMap<(String, String), usize>,
    requests: HashMap<String, usize>,
    connections: usize,
    /// Requests being answered now, and their maximum so far, by path.
    open: HashMap<String, (usize, usize)>,
}

impl TestReceiver {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    pub(crate) async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self { address, bodies: Arc::default() };
        let serving = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.lock().connections += 1;
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the behaviour of a path from the next request on; `Ok` by default.
    pub(crate) fn behave(&self, path: &str, behaviour: Behaviour) {
        self.lock().behaviours.insert(path.to_owned(), behaviour);
    }

    pub(crate) fn receipts(&self) -> Vec<ReceivedWebhook> {
        self.lock().receipts.clone()
    }

    pub(crate) fn receipts_at(&self, path: &str) -> Vec<ReceivedWebhook> {
        self.lock().receipts.iter().filter(|receipt| receipt.path == path).cloned().collect()
    }

    pub(crate) fn count_at(&self, path: &str) -> usize {
        self.lock().requests.get(path).copied().unwrap_or_default()
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.lock().connections
    }

    /// How many requests have no answer yet.
    pub(crate) fn open_at(&self, path: &str) -> usize {
        self.lock().open.get(path).copied().unwrap_or_default().0
    }

    /// The maximum of requests without an answer at one time.
    pub(crate) fn open_most_at(&self, path: &str) -> usize {
        self.lock().open.get(path).copied().unwrap_or_default().1
    }

    fn lock(&self) -> MutexGuard<'_, ReceiverLog> {
        self.bodies.lock().unwrap()
    }

    async fn serve(self, stream: TcpStream) {
        let mut peer = ReceiverConnection::new(stream);
        while let Some(receipt) = peer.request().await {
            let open = OpenRequest::new(&self, &receipt.path);
            let (number, plan) = self.record(&receipt);
            let status = match plan {
                AnswerPlan::Answer(status) => status,
                AnswerPlan::After(by) => {
                    tokio::time::sleep(by).await;
                    200
                }
                AnswerPlan::Odd(behaviour) => return misbehave(peer, behaviour).await,
            };
            // Not after the answer: its receiver may send the next request on another connection before this task
            // runs again.
            drop(open);
            if !peer.answer(status).await {
                return;
            }
            self.lock().receipts[number].answered = Some(status);
        }
    }

    /// Records the request, and returns its number and how to answer it.
    fn record(&self, receipt: &ReceivedWebhook) -> (usize, AnswerPlan) {
        let mut bodies = self.lock();
        let path = receipt.path.clone();
        let id = receipt.id().to_owned();
        bodies.receipts.push(receipt.clone());
        let number = bodies.receipts.len() - 1;
        let seen = *bodies.seen.entry((path.clone(), id)).and_modify(|seen| *seen += 1).or_insert(1);
        let request = *bodies.requests.entry(path.clone()).and_modify(|count| *count += 1).or_insert(1);
        let plan = match bodies.behaviours.get(&path).cloned().unwrap_or(Behaviour::Ok) {
            Behaviour::Ok => AnswerPlan::Answer(200),
            Behaviour::Status(status) => AnswerPlan::Answer(status),
            Behaviour::FailFirst { times, status } => {
                AnswerPlan::Answer(if seen <= times { status } else { 200 })
            }
            Behaviour::FailEvery(every) => {
                AnswerPlan::Answer(if request.is_multiple_of(every) { 500 } else { 200 })
            }
            Behaviour::Slow(by) => AnswerPlan::After(by),
            Behaviour::Decide(evaluate) => {
                evaluate(receipt).map_or(AnswerPlan::Odd(Behaviour::Hang), AnswerPlan::Answer)
            }
            other => AnswerPlan::Odd(other),
        };
        (number, plan)
    }
}

enum AnswerPlan {
    Answer(u16),
    After(Duration),
    Odd(Behaviour),
}

async fn misbehave(mut peer: ReceiverConnection, behaviour: Behaviour) {
    match behaviour {
        Behaviour::Hang => peer.hang().await,
        Behaviour::Drip(every) => {
            let mut alive = peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
            while alive {
                tokio::time::sleep(every).await;
                alive = peer.send(b".").await;
            }
        }
        Behaviour::Reset => peer.reset(),
        Behaviour::Bytes(bytes) => {
            peer.send(&bytes).await;
        }
        Behaviour::Script(script) => script(peer).await,
        Behaviour::Ok
        | Behaviour::Status(_)
        | Behaviour::FailFirst { .. }
        | Behaviour::FailEvery(_)
        | Behaviour::Slow(_)
        | Behaviour::Decide(_) => unreachable!("these answer"),
    }
}

/// Counts a request in while it is being answered.
struct OpenRequest<'a> {
    receiver: &'a TestReceiver,
    path: String,
}

impl<'a> OpenRequest<'a> {
    fn new(receiver: &'a TestReceiver, path: &str) -> Self {
        let mut bodies = receiver.lock();
        let (now, most) = bodies.open.entry(path.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Self { receiver, path: path.to_owned() }
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if let Some((now, _)) = self.receiver.lock().open.get_mut(&self.path) {
            *now -= 1;
        }
    }
}

//! The send gate: while it is closed no byte of a request goes out, on any connection and however late it closed.

use crate::receiver::{ENDPOINT, OK, ScriptedReceiver, client, request};
use posthaste::{
    domain::ports::SendGate,
    outbound::{GateClosed, HttpClient, HttpSender, OutboundRequest},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::mpsc;

/// A gate that is open for the first `open_for` checks, and counts them.
struct CountingGate {
    open_for: AtomicUsize,
    checks: AtomicUsize,
}

impl CountingGate {
    fn open_for(looks: usize) -> Arc<Self> {
        Arc::new(Self { open_for: AtomicUsize::new(looks), checks: AtomicUsize::new(0) })
    }

    fn checks(&self) -> usize {
        self.checks.load(SeqCst)
    }
}

impl SendGate for CountingGate {
    fn is_open(&self) -> bool {
        self.checks.fetch_add(1, SeqCst) < self.open_for.load(SeqCst)
    }
}

/// Starts a receiver that answers, records all bytes, and signals when a connection is closed.
async fn listening() -> (ScriptedReceiver, Arc<Mutex<Vec<u8>>>, mpsc::UnboundedReceiver<()>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let (hung_up, ends) = mpsc::unbounded_channel();
    let notes = received.clone();
    let receiver = ScriptedReceiver::start(move |_, mut peer| {
        let (notes, hung_up) = (notes.clone(), hung_up.clone());
        async move {
            while let Some(request) = peer.request().await {
                notes.lock().unwrap().extend(request.bytes());
                peer.send(OK).await;
            }
            notes.lock().unwrap().extend(peer.unread());
            hung_up.send(()).unwrap();
        }
    })
    .await;
    (receiver, received, ends)
}

fn behind(gate: &Arc<CountingGate>) -> HttpClient {
    client().with_gate(gate.clone())
}

#[tokio::test]
async fn behind_a_closed_gate_no_connection_is_opened() {
    let (receiver, _, _ends) = listening().await;
    let gate = CountingGate::open_for(0);
    assert_eq!(behind(&gate).post(request(&receiver.url())).await, Err(GateClosed));
    assert_eq!(behind(&gate).get(request(&receiver.url())).await, Err(GateClosed));
    assert_eq!(receiver.accepted(), 0);
}

#[tokio::test]
async fn no_byte_goes_out_if_the_gate_closes_between_connecting_and_the_first_byte() {
    let (receiver, received, mut ends) = listening().await;
    let gate = CountingGate::open_for(1);
    assert_eq!(behind(&gate).post(request(&receiver.url())).await, Err(GateClosed));
    ends.recv().await.unwrap();
    assert_eq!((receiver.accepted(), received.lock().unwrap().len()), (1, 0), "connected, and nothing said");
}

#[tokio::test]
async fn a_kept_alive_connection_does_not_bypass_the_gate() {
    let (receiver, received, mut ends) = listening().await;
    let gate = CountingGate::open_for(usize::MAX);
    let client = behind(&gate);
    assert_eq!(client.post(request(&receiver.url())).await.unwrap().status, Some(200));
    let said = received.lock().unwrap().len();
    // Open when the request begins, and closed when its first byte is to go out.
    gate.open_for.store(gate.checks() + 1, SeqCst);
    assert_eq!(client.post(request(&receiver.url())).await, Err(GateClosed));
    ends.recv().await.unwrap();
    assert_eq!((receiver.accepted(), received.lock().unwrap().len()), (1, said));
    // The connection is gone, and the gate opens again.
    gate.open_for.store(usize::MAX, SeqCst);
    assert_eq!(client.post(request(&receiver.url())).await.unwrap().status, Some(200));
    assert_eq!(receiver.accepted(), 2);
}

#[tokio::test]
async fn a_request_that_has_begun_may_end_after_the_gate_closes() {
    let (receiver, received, _ends) = listening().await;
    let gate = CountingGate::open_for(2);
    // More than a socket takes at once: the rest of it is written after the gate has closed.
    let body = vec![b'x'; 4 << 20].into();
    let outcome = behind(&gate)
        .post(OutboundRequest { endpoint_id: ENDPOINT, body, ..request(&receiver.url()) })
        .await
        .unwrap();
    assert_eq!(outcome.status, Some(200), "{outcome:?}");
    assert!(received.lock().unwrap().len() > 4 << 20);
    assert_eq!(gate.checks(), 2, "asked before connecting and before the first byte");
}

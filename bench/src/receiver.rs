//! The receiver process: an HTTP server that notes each webhook's first arrival and verifies its signature.

use crate::{
    arrivals::{Round, Seen},
    clock,
    messages::{Behaviour, Listening, ReceiverOrder, ReceiverPlan},
    orders, payload,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    convert::Infallible,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::net::{TcpListener, TcpStream};

/// Longer than any sender's deadline.
const HANG: Duration = Duration::from_mins(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Says on which free port it listens, then serves orders until the input ends.
pub fn serve(threads: usize) -> Result<()> {
    orders::runtime(threads)?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
        let port = listener.local_addr()?.port();
        let receiver = Arc::new(Receiver::new()?);
        tokio::spawn(accept(listener, receiver.clone()));
        let mut orders = orders::read();
        orders::answer(&Listening { port })?;
        while let Some(order) = orders.recv().await {
            match order? {
                ReceiverOrder::Begin(plan) => {
                    receiver.begin(&plan)?;
                    orders::answer(&())?;
                }
                ReceiverOrder::Count => {
                    let mut counts = receiver.round().counts();
                    counts.connections = receiver.connections.load(Relaxed);
                    orders::answer(&counts)?;
                }
                ReceiverOrder::Arrivals => orders::answer(&receiver.round().arrivals())?,
                ReceiverOrder::Cpu => orders::answer(&clock::own_cpu_seconds())?,
            }
        }
        Ok(())
    })
}

struct Receiver {
    round: RwLock<Arc<Round>>,
    /// Since the present transfer began.
    connections: AtomicU64,
}

async fn accept(listener: TcpListener, receiver: Arc<Receiver>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                receiver.connections.fetch_add(1, Relaxed);
                tokio::spawn(receiver.clone().serve_connection(stream));
            }
            // Out of file handles, most likely: the ones in use come back.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

impl Receiver {
    fn new() -> Result<Self> {
        let nothing = ReceiverPlan { transfer: String::new(), events: 0, endpoints: vec![], signature: None };
        Ok(Self { round: RwLock::new(Arc::new(Round::new(&nothing)?)), connections: AtomicU64::new(0) })
    }

    fn begin(&self, plan: &ReceiverPlan) -> Result<()> {
        *self.round.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Round::new(plan)?);
        self.connections.store(0, Relaxed);
        Ok(())
    }

    fn round(&self) -> Arc<Round> {
        self.round.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        // A stream that the other side has already closed has no options to set, and is noticed when it is read.
        drop(stream.set_nodelay(true));
        let service = service_fn(|request| self.handle(request));
        drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let round = self.round();
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return Ok(answer(StatusCode::BAD_REQUEST));
        };
        let seen = round.note(head.uri.path(), payload::event_number(&body), &head.headers, &body);
        match seen {
            Seen::Stray | Seen::At(Behaviour::Accept) => {}
            Seen::Bad => return Ok(answer(StatusCode::BAD_REQUEST)),
            Seen::At(Behaviour::AcceptAfter(millis)) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
            Seen::At(Behaviour::Hang) => tokio::time::sleep(HANG).await,
        }
        Ok(answer(StatusCode::OK))
    }
}

fn answer(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

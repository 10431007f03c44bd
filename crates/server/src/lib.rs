//! The HTTP listener: limits the number of connections, closes slow ones, and finishes requests before the process stops.
//!
//! One sweep a second over all connections finds slow and silent clients. The hot path only notes its connection's phase; it
//! sets no timer and reads no clock.

mod activity;

use activity::{ActivityStream, ConnectionActivity, ConnectionPhase};
use http::{Method, Request, Response};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::TokioIo;
use std::{
    collections::HashMap,
    convert::Infallible,
    error::Error,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::{AbortHandle, JoinHandle, JoinSet},
};

/// Limits for the number of connections and for slow clients.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    pub connections_max: usize,
    /// From the first byte of a request's head to its last.
    pub head_timeout: Duration,
    /// Between requests.
    pub idle_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let (head_within, idle_within) = (Duration::from_secs(10), Duration::from_secs(75));
        Self { connections_max: 10_000, head_timeout: head_within, idle_timeout: idle_within }
    }
}

const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 64 * 1024;
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a failed accept, usually caused by a lack of file handles: long enough not to spin, short enough not to matter.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A service that answers every request, such as a router.
pub trait HttpService: Clone + Send + 'static {
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;
    type Answer: Future<Output = Answer<Self>> + Send + 'static;

    fn answer(&mut self, request: Request<Incoming>) -> Self::Answer;
}

type Answer<S> = Result<Response<<S as HttpService>::Body>, Infallible>;

impl<S, B> HttpService for S
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Body = B;
    type Answer = S::Future;

    fn answer(&mut self, request: Request<Incoming>) -> S::Future {
        self.call(request)
    }
}

/// Serves until the graceful stop, then finishes open requests. Returns when they are done, or at the forced stop.
pub async fn serve(
    listeners: Vec<TcpListener>,
    service: impl HttpService,
    limits: ServerLimits,
    soft: impl Future<Output = ()>,
    hard: impl Future<Output = ()>,
) {
    let (stopping, stop) = watch::channel(false);
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let open = Arc::new(OpenConnections::default());
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept_connections(
            listener,
            service.clone(),
            room.clone(),
            open.clone(),
            StopSignal(stop.clone()),
        ));
    }
    let sweeping = tokio::spawn(sweep(open.clone(), limits));
    let finished = async {
        soft.await;
        stopping.send_replace(true);
        while accepting.join_next().await.is_some() {}
        // All permits are free again: every connection is closed.
        let _ = room.acquire_many(limits.connections_max as u32).await;
    };
    tokio::select! {
        () = finished => {}
        () = hard => open.entries().values().for_each(|(_, task)| task.abort()),
    }
    sweeping.abort();
}

/// Signals that no new connections or requests are accepted.
#[derive(Clone)]
struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    async fn requested(&mut self) {
        // If the sender is gone, the server is gone too.
        let _ = self.0.wait_for(|stopping| *stopping).await;
    }
}

async fn accept_connections(
    listener: TcpListener,
    service: impl HttpService,
    room: Arc<Semaphore>,
    open: Arc<OpenConnections>,
    mut stop: StopSignal,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.requested() => return,
            accepted = async {
                let permit = room.clone().acquire_owned().await;
                listener.accept().await.map(|(stream, _)| (permit, stream))
            } => accepted,
        };
        match accepted {
            Ok((permit, stream)) => {
                let activity = Arc::new(ConnectionActivity::default());
                let number = open.next.fetch_add(1, Relaxed);
                let (ended, stop) = (ConnectionGuard { open: open.clone(), number }, stop.clone());
                let state = ConnectionState { activity: activity.clone(), open: open.clone() };
                let connection = ServerConnection { service: service.clone(), state };
                let mut known = open.entries();
                let task = tokio::spawn(async move {
                    let _permit = permit;
                    let _ended = ended;
                    connection.run(stream, stop).await;
                });
                known.insert(number, (activity, task.abort_handle()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_ERROR_PAUSE).await;
            }
        }
    }
}

/// Closes the connections of clients that are too slow or too silent.
async fn sweep(open: Arc<OpenConnections>, limits: ServerLimits) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    let seconds = |within: Duration| u32::try_from(within.as_secs()).unwrap_or(u32::MAX);
    let (head_s, idle_s) = (seconds(limits.head_timeout), seconds(limits.idle_timeout));
    loop {
        ticks.tick().await;
        let now = open.second.fetch_add(1, Relaxed) + 1;
        for (activity, task) in open.entries().values() {
            let (phase, since) = activity.read();
            let waited = now.saturating_sub(since);
            let is_over = match phase {
                ConnectionPhase::Idle => waited > idle_s,
                ConnectionPhase::Head => waited > head_s,
                ConnectionPhase::Busy => false,
            };
            if is_over {
                task.abort();
            }
        }
    }
}

/// All open connections, and the current second of the sweep.
#[derive(Default)]
struct OpenConnections {
    next: AtomicU64,
    second: AtomicU32,
    entries: Mutex<HashMap<u64, (Arc<ConnectionActivity>, AbortHandle)>>,
}

impl OpenConnections {
    fn entries(&self) -> MutexGuard<'_, HashMap<u64, (Arc<ConnectionActivity>, AbortHandle)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a connection from the open ones when it ends.
struct ConnectionGuard {
    open: Arc<OpenConnections>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.open.entries().remove(&self.number);
    }
}

#[derive(Clone)]
struct ConnectionState {
    activity: Arc<ConnectionActivity>,
    open: Arc<OpenConnections>,
}

impl ConnectionState {
    fn note(&self, phase: ConnectionPhase) {
        self.activity.note(phase, self.open.second.load(Relaxed));
    }
}

struct ServerConnection<S> {
    service: S,
    state: ConnectionState,
}

impl<S: HttpService> ServerConnection<S> {
    async fn run(self, stream: TcpStream, mut stop: StopSignal) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection could not be set up");
        }
        self.state.note(ConnectionPhase::Idle);
        let io = TokioIo::new(ActivityStream { stream, state: self.state.clone() });
        let mut http = http1::Builder::new();
        http.max_headers(HEADERS_MAX).max_buf_size(HEAD_BYTES_MAX);
        let mut serving = std::pin::pin!(http.serve_connection(io, self));
        let ended = tokio::select! {
            biased;
            ended = serving.as_mut() => ended,
            () = stop.requested() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            // A client that breaks off is no error of the server.
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

impl<S: HttpService> Service<Request<Incoming>> for ServerConnection<S> {
    type Response = Response<S::Body>;
    type Error = Infallible;
    type Future = ResponseFuture<S>;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture<S> {
        self.state.note(ConnectionPhase::Busy);
        let is_to_be_finished = must_complete(&request);
        let answer = Box::pin(self.service.clone().answer(request));
        let answer = if is_to_be_finished {
            ResponseTask::Spawned(tokio::spawn(answer))
        } else {
            ResponseTask::Inline(answer)
        };
        ResponseFuture { answer, state: self.state.clone() }
    }
}

/// Whether the request must complete even if the client hangs up: memory is changed after the commit and must not fall behind
/// it. Publishing changes no such memory, and is too frequent for a task of its own.
fn must_complete(request: &Request<Incoming>) -> bool {
    let path = request.uri().path();
    match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST => !(path.ends_with("/events") || path.ends_with("/events/batch")),
        _ => true,
    }
}

/// Marks an answer whose body lasts as long as the client reads. Its connection is never idle and is closed afterwards.
#[derive(Clone, Copy)]
pub struct StreamingResponse;

/// A request being answered; notes the end of the answer.
struct ResponseFuture<S: HttpService> {
    answer: ResponseTask<S>,
    state: ConnectionState,
}

enum ResponseTask<S: HttpService> {
    /// Dropped with the connection.
    Inline(Pin<Box<S::Answer>>),
    /// Runs to its end, independently of the connection.
    Spawned(JoinHandle<Answer<S>>),
}

impl<S: HttpService> Future for ResponseTask<S> {
    type Output = Answer<S>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Inline(answer) => answer.as_mut().poll(context),
            Self::Spawned(task) => match std::task::ready!(Pin::new(task).poll(context)) {
                Ok(answer) => Poll::Ready(answer),
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down; there is no answer any more.
                    Err(_) => Poll::Pending,
                },
            },
        }
    }
}

impl<S: HttpService> Future for ResponseFuture<S> {
    type Output = Answer<S>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = Pin::new(&mut self.answer).poll(context);
        if let Poll::Ready(Ok(answer)) = &answered {
            let goes_on = answer.extensions().get::<StreamingResponse>().is_some();
            self.state.note(if goes_on { ConnectionPhase::Busy } else { ConnectionPhase::Idle });
        }
        answered
    }
}

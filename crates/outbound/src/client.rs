//! The HTTP client for receivers: reuses a connection of the endpoint queue or opens one, and returns the outcome.

use super::{
    GateClosed, HttpSender, OutboundRequest, SendFuture,
    connection::{ExchangeError, HttpConnection},
    connector::Connector,
    http_request::{HttpRequest, Route},
    metered_stream::OptionalSendGate,
    pool::ConnectionPool,
    progress::AttemptProgress,
    proxy::ProxyConnector,
    resolve::Resolver,
    send_error::SendError,
    tls::{self, EndpointConfigs, TlsError},
};
use http::Method;
use model::{
    address_policy::AddressPolicy,
    outcome::{Outcome, OutcomeClass},
    ports::SendGate,
    proxy::Proxy,
};
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Upper limit of an attempt's timeout, whatever the request asks for.
const TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Options that the operator sets.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub policy: AddressPolicy,
    /// Certificate authorities to trust besides the public ones, in PEM.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// The proxy for all requests; without one they go out directly.
    pub proxy: Option<Proxy>,
    /// The proxy looks names up; the addresses are then not checked here.
    pub proxy_resolves: bool,
    /// Sent with every request; an endpoint's and a contract's header of the same name win.
    pub source_headers: Vec<(String, String)>,
    pub idle_per_queue_max: usize,
    /// Over all endpoint queues. Each idle connection holds a file handle and about 16 KiB.
    pub idle_max: usize,
    /// How long a connection may stay idle. Shorter than the usual limit of receivers (60 s and more), so that they
    /// seldom close it just when it is used.
    pub idle_for_max: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            policy: AddressPolicy::default(),
            extra_ca_pem: None,
            proxy: None,
            proxy_resolves: false,
            source_headers: Vec::new(),
            idle_per_queue_max: 64,
            idle_max: 1024,
            idle_for_max: Duration::from_secs(45),
        }
    }
}

/// Speaks HTTP/1.1 to receivers. Uses only the configured proxy, follows no redirect, repeats no request.
pub struct HttpClient {
    policy: RwLock<Arc<AddressPolicy>>,
    dialer: Connector,
    pool: ConnectionPool,
    source_headers: Vec<(String, String)>,
    /// Without a gate every request may go out.
    gate: OptionalSendGate,
}

/// Why an attempt brought no complete answer.
enum AttemptError {
    NotSent,
    Failed(SendError),
}

impl From<SendError> for AttemptError {
    fn from(fault: SendError) -> Self {
        Self::Failed(fault)
    }
}

impl HttpClient {
    pub fn new(options: ClientOptions, resolver: Arc<dyn Resolver>) -> Result<Self, TlsError> {
        let roots = tls::roots(options.extra_ca_pem.as_deref())?;
        let tls = tls::connector(roots.clone())?;
        let gateway =
            options.proxy.map(|proxy| ProxyConnector::new(proxy, options.proxy_resolves, tls.clone()));
        Ok(Self {
            policy: RwLock::new(Arc::new(options.policy)),
            dialer: Connector {
                resolver,
                tls,
                roots,
                endpoint_configs: EndpointConfigs::default(),
                proxy: gateway,
            },
            source_headers: options.source_headers,
            pool: ConnectionPool::new(options.idle_per_queue_max, options.idle_max, options.idle_for_max),
            gate: None,
        })
    }

    /// Sets the send gate: while it is closed no request goes out.
    #[must_use]
    pub fn with_gate(self, gate: Arc<dyn SendGate>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Replaces the address policy, also for connections that are open already.
    pub fn set_policy(&self, policy: AddressPolicy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// How many connections are idle.
    pub fn idle(&self) -> usize {
        self.pool.idle()
    }

    async fn send(&self, method: Method, mut request: OutboundRequest) -> Result<Outcome, GateClosed> {
        let timeout = request.timeout.min(TIMEOUT_MAX);
        let started = Instant::now();
        let mut progress = AttemptProgress::new(started);
        let attempt = self.attempt(&method, &mut request, started + timeout, &mut progress);
        let ended = timeout_at(started + timeout, attempt).await;
        match ended.unwrap_or_else(|_| Err(progress.timed_out(timeout).into())) {
            Ok(()) => Ok(progress.outcome(Ok(()))),
            Err(AttemptError::Failed(fault)) => Ok(progress.outcome(Err(fault))),
            Err(AttemptError::NotSent) => Err(GateClosed),
        }
    }

    /// Fails if the gate is closed. The stream checks again before the first byte, because connecting takes time.
    fn check_gate(&self) -> Result<(), AttemptError> {
        if self.gate.as_ref().is_none_or(|gate| gate.is_open()) { Ok(()) } else { Err(AttemptError::NotSent) }
    }

    async fn attempt(
        &self,
        method: &Method,
        request: &mut OutboundRequest,
        deadline: Instant,
        progress: &mut AttemptProgress,
    ) -> Result<(), AttemptError> {
        self.check_gate()?;
        if request.https_only && !request.target.is_https() {
            return Err(SendError::new(OutcomeClass::AddressRefused, "https required").into());
        }
        let mut unsent = None;
        while let Some(connection) = self.take_idle(request, progress.started()) {
            let message = match unsent.take() {
                Some(message) => message,
                None => connection.route().render(method, request, &self.source_headers)?,
            };
            match self.exchange(request, connection, message, progress).await {
                Ok(()) => return Ok(()),
                // Closed while it was idle, and nothing was written to it: no attempt was made yet.
                Err(ExchangeError::Unsent(message)) => unsent = Some(*message),
                Err(ExchangeError::NotSent) => return Err(AttemptError::NotSent),
                Err(ExchangeError::Failed(fault)) => return Err(fault.into()),
            }
        }
        // Boxed: connecting is rare and its future large, while this one is made for every request.
        let connection = Box::pin(self.connect(request, deadline, progress)).await?;
        let message = match unsent {
            Some(message) => message,
            None => connection.route().render(method, request, &self.source_headers)?,
        };
        self.exchange(request, connection, message, progress).await.map_err(|lost| match lost {
            ExchangeError::NotSent => AttemptError::NotSent,
            ExchangeError::Failed(fault) => fault.into(),
            ExchangeError::Unsent(_) => {
                SendError::new(OutcomeClass::Connect, "the server closed the connection at once").into()
            }
        })
    }

    async fn exchange(
        &self,
        request: &OutboundRequest,
        mut connection: Box<HttpConnection>,
        message: HttpRequest,
        progress: &mut AttemptProgress,
    ) -> Result<(), ExchangeError> {
        let is_kept = *message.method() == Method::POST;
        if connection.exchange(message, progress).await? && is_kept {
            self.pool.put(request.endpoint_id, connection, Instant::now());
        }
        Ok(())
    }

    /// Takes an idle connection whose address the current policy allows.
    fn take_idle(&self, request: &OutboundRequest, now: Instant) -> Option<Box<HttpConnection>> {
        if request.fresh {
            return None;
        }
        let policy = self.policy();
        loop {
            let connection =
                self.pool.take(request.endpoint_id, &request.target, request.tls.as_deref(), now)?;
            if connection.peer().is_none_or(|peer| policy.check(peer).is_ok()) {
                return Some(connection);
            }
        }
    }

    async fn connect(
        &self,
        request: &OutboundRequest,
        deadline: Instant,
        progress: &mut AttemptProgress,
    ) -> Result<Box<HttpConnection>, SendError> {
        let route = Arc::new(Route::new(request.target.clone(), request.tls.clone())?);
        self.dialer.open(&self.policy(), route, deadline, progress, self.gate.clone()).await
    }

    fn policy(&self) -> Arc<AddressPolicy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpSender for HttpClient {
    fn post(&self, request: OutboundRequest) -> SendFuture<'_> {
        Box::pin(self.send(Method::POST, request))
    }

    fn get(&self, request: OutboundRequest) -> SendFuture<'_> {
        // On a connection of its own: idle ones of this queue lead to the endpoint's URL, and a request for another URL
        // would close them.
        Box::pin(self.send(Method::GET, OutboundRequest { fresh: true, ..request }))
    }

    fn sweep(&self) -> Option<Instant> {
        self.pool.sweep(Instant::now())
    }
}
